//! A checkpoint that takes its time over a slow link: no rank is lost for it. The kernel paces what holders send.

mod world;

use bytes::Bytes;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::{Attempt, Lineage, MemberId, Rank, Version};
use rejoin_agent::{checkpoint, Joined};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};
use world::*;

/// Bytes in a second of a line of 100 Mbit/s.
const LINE: u64 = 12_500_000;

/// `make test-long` says REJOIN_TIMES=10: then it is 1 GB, which takes 80 s.
fn model_bytes() -> usize {
    if std::env::var("REJOIN_TIMES").is_ok() {
        1_000_000_000
    } else {
        20_000_000
    }
}

/// This process's socket that listens at an address.
fn listener(address: SocketAddr) -> RawFd {
    let open =
        std::fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_it = |socket: &RawFd| {
        let mut name =
            libc::sockaddr_in { sin_family: 0, sin_port: 0, sin_addr: libc::in_addr { s_addr: 0 }, sin_zero: [0; 8] };
        let mut length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        let (mut listens, mut size) = (0i32, size_of::<i32>() as libc::socklen_t);
        // SAFETY: both calls write at most as many bytes as the size says; a descriptor
        // that is no socket is refused.
        let found = unsafe {
            libc::getsockname(*socket, (&raw mut name).cast(), &raw mut length) == 0
                && libc::getsockopt(
                    *socket,
                    libc::SOL_SOCKET,
                    libc::SO_ACCEPTCONN,
                    (&raw mut listens).cast(),
                    &raw mut size,
                ) == 0
        };
        found && listens == 1 && name.sin_port.to_be() == address.port()
    };
    open.into_iter().find(is_it).expect("the agent listens")
}

/// What is accepted there sends at most so many bytes in a second.
fn pace(address: SocketAddr, bytes: u64) {
    let size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the value lives as long as the call, and its size is given.
    let status = unsafe {
        libc::setsockopt(listener(address), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, (&raw const bytes).cast(), size)
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_checkpoint_over_a_line_of_100_mbits_costs_its_time_and_nobody() {
    // Before there is a job that would wait for its ranks.
    let model = Bytes::from((0..model_bytes()).map(|place| (place * 7 + place / 256) as u8).collect::<Vec<u8>>());
    let world = World::new(3);
    let processes: Vec<Process> = (0..3).map(|rank| world.process(&rank.to_string())).collect();
    let (length, limit) = (model.len(), Duration::from_secs(20 + 2 * model.len() as u64 / LINE));
    let taken = checkpoint(Lineage(0), Version(1), 1, &model, false);
    together(3, |rank| {
        let process = &processes[rank as usize];
        let (member, lineage, _, _) = process.join(rank, 0);
        process.enter(member, lineage, 0, &[]);
        process.take(member, taken, model.clone());
    });
    for rank in (0..3).map(Rank) {
        let entered = |event: &Event| {
            matches!(event, Event::VersionEntered { rank: who, version: Version(1),
            .. } if *who == rank)
        };
        world.event("all are in version 1", entered);
    }
    // Two holders bring half of it each, over one line.
    processes[..2].iter().for_each(|holder| pace(holder.agent.address(), LINE / 2));
    processes[2].agent.end();
    world.event("rank 2 is lost", |event| matches!(event, Event::RankLost { rank: Rank(2), .. }));

    let began = Instant::now();
    let newcomer = world.process("3");
    let joined = newcomer.agent.join(Rank(2), Attempt { stage: 0, task: 1 }, "terms".into(), limit);
    let Ok(Joined::Start { start, bytes, .. }) = joined else { panic!("it could not start: {joined:?}") };
    let took = began.elapsed();
    assert!(bytes.is_some_and(|bytes| bytes == model), "it has the model");
    let least = Duration::from_secs(length as u64 / LINE) / 2;
    assert!(took > least, "the line was not slow: {took:?}");
    let member = MemberId { rank: Rank(2), incarnation: start.incarnation };
    assert_eq!(member.incarnation.number, 1);
    newcomer.plane.linked(2, 1, 0, 0);
    newcomer.plane.linked(2, 1, 1, 0);
    world.event("rank 2 has its checkpoint", |event| matches!(event, Event::Restored { .. }));
    let seen = world.seen.lock();
    let lost = seen.iter().filter(|event| matches!(event, Event::RankLost { .. })).count();
    assert_eq!(lost, 1, "{seen:#?}");
    println!("{length} bytes came in {took:?}");
}
