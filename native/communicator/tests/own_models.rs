//! Each rank's own model: how many others hold it, on which hosts, what is survived so, and what is
//! said where it isn't.

use crate::ranks;

use parking_lot::{Condvar, Mutex};
use ranks::{attempt, limits, Ranks, LIMIT};
use rejoin_agent::durable::Durable;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::Rank;
use rejoin_agent::AgentConfig;
use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::{Communicator, Process, Settings};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The version in which ranks die, and the last one.
const DEATH: u32 = 3;
const LAST: u32 = 5;

/// Where so many threads wait for each other, at most as long as a step of a test may take.
struct Meeting {
    missing: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    fn of(count: usize) -> Self {
        Meeting { missing: Mutex::new(count), changed: Condvar::new() }
    }

    fn wait(&self) {
        let mut missing = self.missing.lock();
        *missing -= 1;
        self.changed.notify_all();
        let deadline = Instant::now() + LIMIT;
        while *missing > 0 {
            assert!(!self.changed.wait_until(&mut missing, deadline).timed_out(), "{missing} threads never came");
        }
    }
}

/// So much larger is what rank 1 has of its own where it has to be on its way for a while.
const LARGE: u32 = 10_000;

/// What only this rank has at a version: of another length at each rank.
fn own_model(rank: u32, version: u32, times: u32) -> Vec<u8> {
    let some: Vec<u8> = (0..1000 * (rank + 1)).map(|at| (at * 7 + rank * 31 + version * 131) as u8).collect();
    some.repeat(if rank == 1 { times as usize } else { 1 })
}

fn copied(world: u32, own_copies: u32) -> Ranks {
    let mut ranks = Ranks::new(world, 1);
    ranks.settings = Settings { own_copies, ..Settings::default() };
    ranks
}

/// A rank's process, on the host that it is said to be on.
fn process(ranks: &Ranks, rank: u32, task: u32, host: &str) -> Process {
    let config = AgentConfig { host: host.into(), ..ranks.config(&format!("{rank}-{task}")) };
    Process::start_with(config, ranks.settings.clone()).unwrap()
}

/// To the version after the present one. In the one in which ranks die all meet first, unless this rank has done so.
fn step(rank: &mut Communicator, has_met: bool, times: u32) -> Result<(), Error> {
    let (next, world) = (rank.version().0 + 1, rank.world());
    if next == DEATH + 1 && !has_met {
        rank.barrier()?;
    }
    let mut sum = [1u32];
    rank.allreduce(&mut sum, Reduction::Sum)?;
    assert_eq!(sum, [world]);
    rank.checkpoint_with_own(&next.to_le_bytes(), &own_model(rank.rank().0, next, times)).map(drop)
}

/// A rank that comes back has what it had in the version that it starts at.
fn begins(rank: &mut Communicator, times: u32) -> Result<(), Error> {
    let (version, model) = rank.load()?;
    assert_eq!(model.as_deref(), Some(&version.0.to_le_bytes()[..]));
    let expected = own_model(rank.rank().0, version.0, times);
    assert!(rank.load_own()?.as_deref() == Some(&expected[..]), "{rank:?} has another own model");
    Ok(())
}

/// Ranks that take checkpoints with models of their own. The processes of some vanish, one right
/// after the other in this order, and only then each of their ranks is started again, in a new one.
/// (A rank that outlived a holder of its own model would have another copy made: so whose model is
/// to be lost goes first.) They do so when all `is_ready`. One more may go when those that came back are about to
/// fetch what they start from, and is started again, too. How it ended for each rank.
fn outcomes_when(
    ranks: &Ranks,
    host: fn(u32) -> &'static str,
    dying: &[u32],
    later: Option<u32>,
    is_ready: impl Fn() -> bool + Sync,
) -> Vec<Result<(), Error>> {
    let (there, gone) = (&Meeting::of(ranks.world as usize), &Meeting::of(dying.len()));
    let processes = &Mutex::new(BTreeMap::new());
    let (is_ready, late) = (&is_ready, &Mutex::new(None));
    let times = if later.is_some() { LARGE } else { 1 };
    let live = |own: u32| -> Result<(), Error> {
        let mut at = process(ranks, own, 0, host(own));
        let mut rank = at.join(Rank(own), attempt(0), "", limits())?.expect("the job isn't over");
        rank.load()?;
        (0..DEATH).try_for_each(|_| step(&mut rank, false, times))?;
        rank.barrier()?;
        processes.lock().insert(own, at.clone());
        if later == Some(own) {
            *late.lock() = Some(at.clone());
        }
        there.wait();
        if dying.contains(&own) {
            if own == dying[0] {
                let deadline = Instant::now() + LIMIT;
                while !is_ready() {
                    assert!(Instant::now() < deadline, "it was never ready");
                    std::thread::sleep(Duration::from_millis(5));
                }
                let processes = std::mem::take(&mut *processes.lock());
                dying.iter().for_each(|rank| processes[rank].agent().end());
            }
            gone.wait();
            drop(rank);
            at = process(ranks, own, 1, host(own));
            rank = at.join(Rank(own), attempt(1), "", limits())?.expect("the job isn't over");
            begins(&mut rank, times)?;
        }
        let mut has_met = !dying.contains(&own);
        // A rank that is sent back may be anywhere, and begins where the others do.
        loop {
            let ended = (rank.version().0..LAST)
                .try_for_each(|_| step(&mut rank, has_met, times))
                .and_then(|()| rank.end(b"model"));
            match ended {
                Err(error) if error.code == Code::RolledBack => {
                    rank = rank.join_again()?.expect("the job isn't over");
                    begins(&mut rank, times)?;
                    has_met = false;
                }
                Err(_) if later == Some(own) && late.lock().is_none() => {
                    drop(rank);
                    at = process(ranks, own, 1, host(own));
                    rank = at.join(Rank(own), attempt(1), "", limits())?.expect("the job isn't over");
                    begins(&mut rank, times)?;
                    has_met = false;
                }
                ended => return ended,
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks.world).map(|own| scope.spawn(move || live(own))).collect();
        if later.is_some() {
            let back: Vec<Rank> = dying.iter().copied().map(Rank).collect();
            ranks.event("they are to start again", |event| match event {
                Event::PlanMade { newcomers, .. } => *newcomers == back,
                _ => false,
            });
            late.lock().take().expect("its process is there").agent().end();
        }
        threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
    })
}

fn outcomes(ranks: &Ranks, host: fn(u32) -> &'static str, dying: &[u32]) -> Vec<Result<(), Error>> {
    outcomes_when(ranks, host, dying, None, || true)
}

fn one_host(_: u32) -> &'static str {
    "host"
}

fn survive(ranks: &Ranks, host: fn(u32) -> &'static str, dying: &[u32]) {
    for (rank, outcome) in outcomes(ranks, host, dying).into_iter().enumerate() {
        assert_eq!(outcome, Ok(()), "rank {rank}, when {dying:?} died");
    }
}

/// At every rank the job ends with an error that says whose own model is lost, and what to do.
fn lose(ranks: &Ranks, host: fn(u32) -> &'static str, dying: &[u32], lost: u32) {
    for (rank, outcome) in outcomes(ranks, host, dying).into_iter().enumerate() {
        let error = outcome.expect_err("an own model is lost");
        assert_eq!(error.code, Code::Unrecoverable, "rank {rank}: {error}");
        let lost = format!("the own model of rank {lost} as of version {DEATH} is lost");
        for text in [&lost[..], "own_copies", "--own-copies", "durable checkpoints"] {
            assert!(error.message.contains(text), "rank {rank}: {error}");
        }
    }
}

#[test]
fn with_one_copy_ranks_die_whose_neighbours_live() {
    survive(&copied(5, 1), one_host, &[1, 3]);
}

#[test]
fn with_one_copy_a_rank_that_dies_with_its_neighbour_ends_the_job_with_an_error_that_names_it() {
    lose(&copied(5, 1), one_host, &[1, 2], 1);
}

#[test]
fn three_neighbours_that_die_at_once_are_survived_with_three_copies_and_not_with_two() {
    survive(&copied(5, 3), one_host, &[1, 2, 3]);
    lose(&copied(5, 2), one_host, &[1, 2, 3], 1);
}

#[test]
fn more_copies_than_there_are_others_are_as_many_as_there_are() {
    survive(&copied(3, 9), one_host, &[0, 1]);
}

/// Four ranks with one copy of each one's own model and with durable checkpoints, and whether the second one is there.
fn durable(ranks: &mut Ranks) -> (tempfile::TempDir, impl Fn() -> bool + Sync) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_path_buf();
    ranks.settings = Settings { own_copies: 1, ..Settings::default() };
    ranks.settings.durable = Some(Durable::at(path.display().to_string(), 2));
    // The common model, and each rank's own.
    let is_durable = move || {
        let files = std::fs::read_dir(&path).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("-0000000002") && name.ends_with(".checkpoint")).count() == 5
    };
    (folder, is_durable)
}

#[test]
fn survivors_that_are_sent_back_join_again_in_their_process_and_go_on_from_what_is_durable() {
    let mut ranks = Ranks::new(4, 1);
    let (_folder, is_durable) = durable(&mut ranks);
    let outcomes = outcomes_when(&ranks, one_host, &[1, 2], None, is_durable);
    assert_eq!(outcomes, [Ok(()), Ok(()), Ok(()), Ok(())]);
    let seen = format!("{:?}", ranks.event("all went back", |event| matches!(event, Event::RolledBack { .. })));
    assert!(seen.contains("version: Version(2)") && seen.contains("own model of rank 1"), "{seen}");
}

/// Rank 1 dies, and asks rank 2, the only one that has it, for its own model; that one dies, too, as it is on its way.
#[test]
fn a_rank_that_is_sent_back_while_it_waits_for_its_start_waits_on_and_starts_where_the_others_do() {
    let mut ranks = Ranks::new(4, 1);
    let (_folder, is_durable) = durable(&mut ranks);
    let outcomes = outcomes_when(&ranks, one_host, &[1], Some(2), is_durable);
    assert_eq!(outcomes, [Ok(()), Ok(()), Ok(()), Ok(())]);
    let seen = format!("{:?}", ranks.event("all went back", |event| matches!(event, Event::RolledBack { .. })));
    assert!(seen.contains("version: Version(2)") && seen.contains("own model of rank 1"), "{seen}");
}

fn three_hosts(rank: u32) -> &'static str {
    ["near", "near", "far", "far", "third", "third"][rank as usize]
}

#[test]
fn two_hosts_of_three_that_vanish_at_once_are_survived_with_two_copies() {
    survive(&copied(6, 2), three_hosts, &[0, 1, 2, 3]);
}

#[test]
fn one_copy_lies_on_another_host_though_a_neighbour_is_on_the_same_one() {
    survive(&copied(6, 1), three_hosts, &[2, 3]);
    lose(&copied(6, 1), one_host, &[2, 3], 2);
}

#[test]
fn a_rank_that_wants_another_number_of_copies_is_refused_with_both_numbers() {
    let ranks = copied(2, 1);
    let first = process(&ranks, 0, 0, "host");
    let other = Settings { own_copies: 3, ..Settings::default() };
    let second = Process::start_with(ranks.config("1"), other).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| first.join(Rank(0), attempt(0), "a program", limits()));
        ranks.event("rank 0 has its slot", |event| format!("{event:?}").contains("RankJoined"));
        let refused = second.join(Rank(1), attempt(0), "a program", limits()).unwrap_err();
        assert_eq!(refused.code, Code::Incompatible);
        for text in ["own_copies 1; a program", "own_copies 3; a program"] {
            assert!(refused.message.contains(text), "{refused}");
        }
        first.agent().end();
        assert!(waits.join().expect("a thread panicked").is_err());
    });
}

#[test]
fn no_copies_at_all_are_refused_with_the_reason() {
    let ranks = copied(1, 0);
    let error = Process::start_with(ranks.config("0"), ranks.settings.clone()).map(drop).unwrap_err();
    assert_eq!(error.code, Code::BadArgument);
    assert!(error.message.contains("lost with its rank's process"), "{error}");
}
