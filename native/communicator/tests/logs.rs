//! Results that don't fit into memory: they lie on disk, come from there when a rank comes back,
//! and end the job with a clear error where there is no room for them.

use crate::ranks;

use ranks::{limits, value, values, Ranks};
use rejoin_agent::logs::LogLimits;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_communicator::collectives::{Element, Reduction};
use rejoin_communicator::{Communicator, Folding, Input, Options, Process, Settings};
use std::sync::{Barrier, Mutex, OnceLock};

/// Elements of a result: 100 KB.
const COUNT: usize = 12_500;
const RESULT: u64 = 8 * COUNT as u64;
/// Results of one version: many times what fits into memory.
const CALLS: u32 = 40;
const MEMORY: u64 = 5 * RESULT;
/// What may wait to be used again: beside full logs, and at all.
const BESIDE: u64 = MEMORY / 4;
const IDLE: u64 = MEMORY / 2;

fn with(logs: LogLimits, world: u32, together: usize) -> Ranks {
    let mut ranks = Ranks::new(world, together);
    ranks.settings = Settings { logs, ..Settings::default() };
    ranks
}

fn small_memory() -> LogLimits {
    LogLimits { memory_bytes: MEMORY, ..LogLimits::default() }
}

/// One call of many; its result is checked. Whether it had to be run.
fn call(rank: &mut Communicator, number: u32) -> Result<bool, Error> {
    let (own, world, salt) = (rank.rank().0, rank.world(), f64::from(number + 1));
    let mut has_run = false;
    let mut sum = vec![0.0; COUNT];
    let mut fill = |bytes: &mut [u8]| {
        has_run = true;
        for (place, value) in bytemuck::cast_slice_mut::<u8, f64>(bytes).iter_mut().zip(values(own, COUNT)) {
            *place = value * salt;
        }
        Ok(())
    };
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut sum);
    let folding = Folding::known(Element::F64, Reduction::Sum)?;
    let result = rank.allreduce_bytes(Input::OnDemand(bytes, &mut fill), &folding, &Options::default())?;
    bytes.copy_from_slice(&result);
    let expected = |at: usize| (0..world).map(|rank| value(rank, at) * salt).sum::<f64>();
    assert!((0..COUNT).all(|at| sum[at] == expected(at)), "call {number} at rank {own}");
    Ok(has_run)
}

#[test]
fn a_rank_that_comes_back_is_given_results_that_lie_on_disk_and_keeps_to_its_own_memory() {
    let ranks = with(small_memory(), 3, 1);
    let within = |process: &Process, who: &str| {
        let usage = process.usage();
        assert!(usage.log_bytes_peak < MEMORY + BESIDE + 2 * RESULT, "{who}: {usage:?}");
        assert!(usage.spilled_bytes > u64::from(CALLS) * RESULT / 2, "{who}: {usage:?}");
    };
    std::thread::scope(|scope| {
        for own in 0..3 {
            let (ranks, within) = (&ranks, &within);
            scope.spawn(move || {
                let mut process = ranks.process(&own.to_string());
                let mut rank = ranks::join(&process, own, 0, limits());
                for number in 0..CALLS {
                    assert!(call(&mut rank, number).unwrap(), "no rank has died yet");
                }
                // A rank that has come here has the last result: otherwise it would have to be computed again.
                rank.barrier().unwrap();
                if own == 2 {
                    process.agent().end();
                    drop(rank);
                    process = ranks.process("2 again");
                    rank = ranks::join(&process, own, 1, limits());
                    for number in 0..CALLS {
                        assert!(!call(&mut rank, number).unwrap(), "call {number} was recorded");
                    }
                    rank.barrier().unwrap();
                }
                for number in CALLS..CALLS + 3 {
                    call(&mut rank, number).unwrap();
                }
                within(&process, &format!("rank {own}"));
                rank.finish(b"").unwrap();
            });
        }
    });
}

#[test]
fn memory_and_disk_are_free_again_when_nobody_needs_the_results() {
    for together in [1, 3] {
        let ranks = with(small_memory(), 3, together);
        let processes: Vec<Process> = (0..3).step_by(together).map(|first| ranks.process(&first.to_string())).collect();
        std::thread::scope(|scope| {
            for own in 0..3 {
                let process = &processes[own / together];
                scope.spawn(move || {
                    let mut rank = ranks::join(process, own as u32, 0, limits());
                    for number in 0..CALLS {
                        call(&mut rank, number).unwrap();
                    }
                    assert!(process.usage().spilled_bytes > 0);
                    for version in 0.. {
                        assert!(version < 100_000, "never free again: {:?}", process.usage());
                        let mut most = [process.usage().spilled_bytes];
                        rank.allreduce(&mut most, Reduction::Max).unwrap();
                        rank.checkpoint(b"model").unwrap();
                        if most == [0] {
                            break;
                        }
                    }
                    let usage = process.usage();
                    assert!(usage.log_bytes < RESULT && usage.idle_bytes <= IDLE, "{usage:?}");
                    assert!(usage.idle_bytes >= RESULT, "a dropped result's memory is used again: {usage:?}");
                    rank.finish(b"model").unwrap();
                });
            }
        });
    }
}

/// What the logs of a process take, wherever it lies: one copy of each result and a few that were
/// written while another rank was not done.
fn has_one_copy(process: &Process, who: &str) {
    let usage = process.usage();
    let kept = usage.log_bytes + usage.spilled_bytes;
    let one_copy = u64::from(CALLS) * RESULT;
    assert!((one_copy..one_copy + 8 * RESULT).contains(&kept), "{who}: {usage:?}");
}

#[test]
fn ranks_of_one_process_keep_one_copy_of_what_all_of_them_get() {
    for shares_memory in [true, false] {
        let ranks = with(small_memory(), 3, 3).sharing_memory(shares_memory);
        let process = ranks.process("0");
        std::thread::scope(|scope| {
            for own in 0..3 {
                let process = &process;
                scope.spawn(move || {
                    let mut rank = ranks::join(process, own, 0, limits());
                    for number in 0..CALLS {
                        call(&mut rank, number).unwrap();
                    }
                    // Then all are done, and none begins another one before all have looked.
                    rank.barrier().unwrap();
                    has_one_copy(process, &format!("rank {own}"));
                    rank.barrier().unwrap();
                    rank.finish(b"").unwrap();
                });
            }
        });
    }
}

#[test]
fn ranks_of_a_process_that_comes_back_are_given_one_copy_together() {
    let ranks = with(LogLimits::default(), 3, 1);
    let second = Mutex::new(Some(ranks.process("1 and 2")));
    let (all_have_called, third) = (Barrier::new(2), OnceLock::new());
    std::thread::scope(|scope| {
        let (ranks, second, all_have_called, third) = (&ranks, &second, &all_have_called, &third);
        scope.spawn(move || {
            let mut rank = ranks::join(&ranks.process("0"), 0, 0, limits());
            for number in 0..CALLS {
                call(&mut rank, number).unwrap();
            }
            for _ in 0..3 {
                rank.barrier().unwrap();
            }
            rank.finish(b"").unwrap();
        });
        for own in 1..3 {
            scope.spawn(move || {
                let process = second.lock().unwrap().clone().expect("it is there until both have called");
                let mut rank = ranks::join(&process, own, 0, limits());
                for number in 0..CALLS {
                    call(&mut rank, number).unwrap();
                }
                // Now rank 0 has all results.
                rank.barrier().unwrap();
                drop(process);
                if all_have_called.wait().is_leader() {
                    second.lock().unwrap().take().expect("once").agent().end();
                }
                drop(rank);
                let process: &Process = third.get_or_init(|| ranks.process("1 and 2 again"));
                let mut rank = ranks::join(process, own, 1, limits());
                for number in 0..CALLS {
                    assert!(!call(&mut rank, number).unwrap(), "call {number} was recorded");
                }
                rank.barrier().unwrap();
                rank.barrier().unwrap();
                has_one_copy(process, &format!("rank {own}"));
                rank.barrier().unwrap();
                rank.finish(b"").unwrap();
            });
        }
    });
}

#[test]
fn ranks_of_one_process_go_on_where_memory_for_logs_is_shorter_than_one_result() {
    let logs = LogLimits { memory_bytes: RESULT / 2, ..LogLimits::default() };
    for round in 0..12 {
        let ranks = with(logs.clone(), 4, 4).sharing_memory(round % 2 == 0);
        let errors = ranks.all(|mut rank| {
            let error = (0..CALLS).find_map(|number| call(&mut rank, number).err());
            error.or_else(|| rank.finish(b"").err())
        });
        assert_eq!(errors, vec![None; 4]);
    }
}

#[test]
fn without_a_place_on_disk_the_job_ends_with_an_error_that_names_the_settings() {
    let no_folder = LogLimits { folder: "/nonexistent/folder".into(), ..small_memory() };
    for logs in [LogLimits { disk_bytes: 0, ..small_memory() }, no_folder] {
        let ranks = with(logs, 3, 1);
        let errors = ranks.all(|mut rank| (0..CALLS).find_map(|number| call(&mut rank, number).err()));
        for error in errors {
            let error = error.expect("there is no room for so many results");
            assert_eq!(error.code, Code::OutOfSpace, "{error}");
            assert!(error.message.contains("--log-memory") && error.message.contains("log_memory"), "{error}");
        }
    }
}

#[test]
fn calls_that_are_too_many_for_their_overhead_alone_end_the_job_with_an_error_too() {
    let ranks = with(LogLimits { memory_bytes: 50_000, ..LogLimits::default() }, 2, 1);
    let errors = ranks.all(|mut rank| (0..1000).find_map(|_| rank.allreduce(&mut [1.0], Reduction::Sum).err()));
    for error in errors {
        let error = error.expect("a thousand small calls take more");
        assert_eq!(error.code, Code::OutOfSpace, "{error}");
        assert!(error.message.contains("checkpoints more often"), "{error}");
    }
}
