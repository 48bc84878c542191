//! Segments in real shared memory: ranks in threads, each of which sees the others' segments as another process would.

use rejoin_collectives::shared::{first_step, Segments, Shape, SharedCall, SharedMachine};
use rejoin_collectives::{reference, Element, Order, Reducer, Reduction, WorldRank};
use rejoin_transport::shm::{Group, PeerSegment, Segment, SegmentAddress};
use rejoin_transport::Backoff;
use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Runs the calls, one after the other, at one rank.
fn run(group: &mut Group, me: WorldRank, generation: u64, calls: &[(SharedCall, Vec<Vec<u8>>)]) -> Vec<Vec<u8>> {
    let reducer = Reducer::new(Reduction::Sum, Element::F32).unwrap();
    let mut base = first_step(generation);
    let run = |(index, (call, inputs)): (usize, &(SharedCall, Vec<Vec<u8>>))| {
        let shape = Shape::new(me, call.clone(), 4, group.slot_bytes(), false).unwrap();
        let mut result = vec![0; shape.result_bytes()];
        let mut machine = SharedMachine::new(shape, [index as u8; 64], base);
        let mut backoff = Backoff::default();
        while !machine.advance(group, &inputs[me.rank], &mut result, &reducer).unwrap() {
            if backoff.pause(Backoff::spins(me.world)) {
                continue;
            }
            if let Some((peer, step)) = machine.waits_for(group) {
                group.sleep(peer, step, Duration::from_secs(1));
            }
        }
        base = machine.last_step();
        result
    };
    calls.iter().enumerate().map(run).collect()
}

/// Calls of all sizes, with inputs that differ by rank and call.
fn calls(world: usize) -> Vec<(SharedCall, Vec<Vec<u8>>)> {
    let inputs = |count: usize, call: usize| -> Vec<Vec<u8>> {
        let value = |rank: usize, place: usize| ((rank * 31 + call * 7 + place * 3) % 1001) as f32 * 0.37;
        (0..world).map(|rank| (0..count).flat_map(|place| value(rank, place).to_ne_bytes()).collect()).collect()
    };
    let counts = [1, 2, 700, 1, 5000, 0, 60_000, 3, 1025, 20_000, 1];
    let call = |(call, count): (usize, usize)| match call % 3 {
        0 => (SharedCall::Allreduce { count, order: Order::Rank }, inputs(count, call)),
        1 => (SharedCall::Allreduce { count, order: Order::Ring }, inputs(count, call)),
        _ => (SharedCall::Allgather { part_bytes: vec![4 * count; world] }, inputs(count, call)),
    };
    counts.into_iter().cycle().take(120).enumerate().map(call).collect()
}

#[test]
fn ranks_that_share_memory_get_the_reference_in_one_attempt_after_the_other() {
    let reducer = Reducer::new(Reduction::Sum, Element::F32).unwrap();
    for world in [2, 3, 5] {
        let calls = calls(world);
        let own: Vec<Arc<Segment>> = (0..world).map(|_| Arc::new(Segment::new(16 << 10).unwrap())).collect();
        // Every second one is seen as another process sees it.
        let seen: Vec<PeerSegment> = own
            .iter()
            .enumerate()
            .map(|(rank, own)| match rank % 2 {
                0 => PeerSegment::open(&own.segment_address()).unwrap(),
                _ => PeerSegment::Here(own.clone()),
            })
            .collect();
        for generation in 1..4 {
            let results: Vec<Vec<Vec<u8>>> = thread::scope(|scope| {
                let rank = |rank: usize| {
                    let (own, seen, calls) = (own[rank].clone(), seen.clone(), &calls);
                    scope.spawn(move || {
                        let mut group = Group::enter(rank, own, seen, generation);
                        run(&mut group, WorldRank::new(rank, world), generation, calls)
                    })
                };
                let ranks: Vec<_> = (0..world).map(rank).collect();
                ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
            });
            for (index, (call, inputs)) in calls.iter().enumerate() {
                let expected = match call {
                    SharedCall::Allreduce { order, .. } => reference::allreduce(inputs, &reducer, *order).unwrap(),
                    _ => reference::allgather(inputs),
                };
                for (rank, results) in results.iter().enumerate() {
                    assert!(results[index] == expected, "call {index} ({call:?}) at rank {rank} of {world}");
                }
            }
        }
    }
}

#[test]
fn what_was_published_in_an_earlier_attempt_counts_no_more() {
    let own: Vec<Arc<Segment>> = (0..2).map(|_| Arc::new(Segment::new(4096).unwrap())).collect();
    let seen: Vec<PeerSegment> = own.iter().cloned().map(PeerSegment::Here).collect();
    let mut ahead = Group::enter(0, own[0].clone(), seen.clone(), 2);
    let behind = Group::enter(1, own[1].clone(), seen, 1);
    assert_eq!(behind.published(0), first_step(2));
    let shape = Shape::new(WorldRank::new(0, 2), SharedCall::Barrier, 1, 4096, false).unwrap();
    let mut machine = SharedMachine::new(shape, [1; 64], first_step(2));
    let reducer = Reducer::new(Reduction::Sum, Element::U8).unwrap();
    assert_eq!(machine.advance(&mut ahead, &[], &mut [], &reducer), Ok(false));
    assert_eq!(machine.awaited(&ahead), [1]);
}

#[test]
fn a_segment_stays_readable_when_its_owner_has_gone() {
    let own = Arc::new(Segment::new(4096).unwrap());
    let seen = PeerSegment::open(&own.segment_address()).unwrap();
    let mut group = Group::enter(0, own.clone(), vec![PeerSegment::Here(own)], 1);
    group.own_slot(first_step(1) + 1)[..5].copy_from_slice(b"hello");
    group.publish(first_step(1) + 1);
    drop(group);
    let reader = Group::enter(1, Arc::new(Segment::new(4096).unwrap()), vec![seen.clone(), seen], 1);
    assert_eq!(&reader.slot(0, first_step(1) + 1)[..5], b"hello");
}

#[test]
fn an_segment_address_to_something_else_is_refused_with_the_reason() {
    let own = Segment::new(4096).unwrap();
    let segment_address = own.segment_address();
    let text = |change: &dyn Fn(&mut rejoin_transport::shm::SegmentAddress)| {
        let mut changed = segment_address;
        change(&mut changed);
        PeerSegment::open(&changed).unwrap_err().to_string()
    };
    assert!(text(&|segment_address| segment_address.nonce ^= 1).contains("another segment"));
    assert!(text(&|segment_address| segment_address.slot_bytes = 8192).contains("bytes"));
    assert!(text(&|segment_address| segment_address.slot_bytes = 0).contains("whole pages"));
    assert!(text(&|segment_address| segment_address.slot_bytes = u64::MAX).contains("bytes"));
    assert!(text(&|segment_address| segment_address.descriptor = 9999).contains("No such file"));
    assert!(text(&|segment_address| segment_address.process = 0).contains("No such file"));
    let plain = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(
        text(&|segment_address| segment_address.descriptor = std::os::fd::AsRawFd::as_raw_fd(&plain)).contains("seal")
    );
}

#[test]
fn an_segment_address_to_a_pipe_that_nobody_writes_to_is_refused_and_not_waited_for() {
    use rustix::fs::{mknodat, FileType, Mode, CWD};
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::env::temp_dir().join(format!("rejoin-pipe-{}", std::process::id()));
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut segment_address = Segment::new(4096).unwrap().segment_address();
    segment_address.descriptor = std::os::fd::AsRawFd::as_raw_fd(&reader);
    assert!(PeerSegment::open(&segment_address).unwrap_err().to_string().contains("seal"));
}

#[test]
fn nobody_can_shorten_a_segment_or_open_it_for_writing() {
    let own = Segment::new(4096).unwrap();
    let path = format!("/proc/self/fd/{}", own.segment_address().descriptor);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    assert!(file.set_len(0).is_err(), "it could be shortened under its readers");
    assert!(std::io::Write::write(&mut &file, b"x").is_err(), "it could be written by others");
}

#[test]
fn an_segment_address_to_something_else_is_refused_and_never_waited_for() {
    // As it happens when another process has the number of the one that is meant: a named pipe without a writer.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let own = Segment::new(4096).unwrap();
    let segment_address = SegmentAddress { descriptor: reader.as_raw_fd(), ..own.segment_address() };
    let (reported, answer) = std::sync::mpsc::channel();
    thread::spawn(move || reported.send(PeerSegment::open(&segment_address).map(drop)));
    let seen = answer.recv_timeout(Duration::from_secs(20)).expect("opening it hangs");
    assert!(seen.unwrap_err().to_string().contains("no such segment here"));
}
