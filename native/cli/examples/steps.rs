//! A program for the tests of `rejoin run` on the agent's own API: it joins, takes checkpoints, reports its end.
//!
//! Arguments: how many versions (default 5), of how many bytes a checkpoint is (default 1000), and
//! of how many rank 0's result (default 10). It moves no bytes between ranks, so ranks go on
//! without each other. Prints where it started and the digest it ended with.
#![allow(missing_docs)]

use bytes::Bytes;
use rejoin_agent::protocol::error::Error;
use rejoin_agent::protocol::ids::{MemberId, Rank, Version};
use rejoin_agent::{checkpoint, digest, Agent, Joined, Planes, Taken};
use rejoin_communicator::launched::Launched;
use std::time::Duration;

/// Version `version` of the model, which every rank computes alike.
fn model(version: u32, length: usize) -> Bytes {
    (0..length).map(|i| (i as u32 ^ version.wrapping_mul(2_654_435_761)) as u8).collect()
}

/// Nothing that carries bytes has to enter the version.
fn entered(entered: &mut dyn FnMut()) -> Result<(), Error> {
    entered();
    Ok(())
}

fn train() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (versions, length, result) = (number(5) as u32, number(1000), number(10));
    let launched = Launched::from_environment()?;
    let agent = Agent::start(launched.agent, Planes::default())?;
    let limit = Duration::from_secs(60);
    let (start, world, bytes) = match agent.join(launched.rank, launched.attempt, "steps".into(), limit)? {
        Joined::Start { start, world, bytes } => (start, world, bytes),
        Joined::Over { digest } => {
            println!("digest {digest:032x} (the job was over)");
            return Ok(());
        }
    };
    let member = MemberId { rank: launched.rank, incarnation: start.incarnation };
    println!("starts at version {} as incarnation {}", start.version, start.incarnation);
    if let Some(bytes) = bytes {
        assert_eq!(bytes, model(start.version.0, length), "the checkpoint is the one that was taken");
    }
    for version in start.version.0..=versions {
        let bytes = if version == 0 { Bytes::new() } else { model(version, length) };
        let taken = checkpoint(start.lineage, Version(version), version, &bytes, version == versions);
        agent.take(member, Taken::new(taken, world, bytes), entered)?;
        if let Some(error) = agent.failure(member) {
            return Err(error);
        }
    }
    let result = (launched.rank == Rank(0)).then(|| Bytes::from(vec![0; result]));
    let ended = agent.finish(member, versions, digest(&model(versions, length)), result, limit)?;
    println!("digest {ended:032x}");
    Ok(())
}

fn main() {
    if let Err(error) = train() {
        eprintln!("failed: {error}");
        std::process::exit(9);
    }
}
