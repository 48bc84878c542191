//! What one rank does when algorithms are compared.

use super::judge::Sample;
use super::kind::Kind;
use crate::floor::FloorRanks;
use crate::samples::Allreduce as _;
use rejoin_collectives::{Element, Reducer, Reduction, Schedule, WorldRank};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// An algorithm whose time is so many times the fastest one's is not measured any further.
const LEFT_BEHIND: f64 = 3.0;

/// Most calls of a sample.
const MOST_CALLS: f64 = 1000.0;

/// What each rank is given.
#[derive(Clone, Serialize, Deserialize)]
pub struct Turns {
    pub(super) rounds: usize,
    pub(super) budget_ms: f64,
    pub(super) collectives: Vec<String>,
}

/// One rank's part. Rank 0 prints a line for each sample.
pub fn compare(
    me: WorldRank,
    hosts: &[usize],
    sizes: &[usize],
    turns: &Turns,
    ranks: &mut FloorRanks,
) -> Result<(), String> {
    let reducer = Reducer::new(Reduction::Sum, Element::F32).map_err(|error| error.to_string())?;
    let wanted = |kind: &Kind| turns.collectives.is_empty() || turns.collectives.iter().any(|name| name == kind.name());
    for kind in Kind::ALL.into_iter().filter(wanted) {
        let sizes = if kind == Kind::Barrier { &[0][..] } else { sizes };
        for &bytes in sizes {
            let algorithms = kind.algorithms(hosts);
            let mut last = vec![0.0; algorithms.len()];
            for round in 0..=turns.rounds {
                let fastest = last.iter().copied().fold(f64::INFINITY, f64::min);
                for (index, algorithm) in algorithms.iter().enumerate() {
                    // All ranks have the same times, so all leave out the same. One sample counts for each in any case.
                    if round > 1 && last[index] > LEFT_BEHIND * fastest {
                        continue;
                    }
                    let schedules = kind.schedules(me, hosts, bytes, algorithm)?;
                    let calls = turns.budget_ms * 1e3 / turns.rounds as f64 / last[index];
                    let turns = (calls.clamp(1.0, MOST_CALLS) / schedules.len() as f64).ceil() as usize;
                    // The first round wakes the links up, and says how long a call takes.
                    let turns = if round == 0 { 1 } else { turns };
                    last[index] = sample(kind, me, &schedules, turns, &reducer, ranks)?;
                    if round > 0 && me.rank == 0 {
                        let sample = Sample {
                            collective: kind.name().into(),
                            algorithm: algorithm.clone(),
                            world: me.world,
                            bytes,
                            round,
                            micros: last[index],
                        };
                        println!("{}", serde_json::to_string(&sample).map_err(|error| error.to_string())?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// The slowest rank's microseconds for one call.
fn sample(
    kind: Kind,
    me: WorldRank,
    schedules: &[Schedule],
    turns: usize,
    reducer: &Reducer<'_>,
    ranks: &mut FloorRanks,
) -> Result<f64, String> {
    let longest = schedules.iter().map(Schedule::input_bytes).max().unwrap_or(0);
    let input = vec![(me.rank + 1) as f32; longest / size_of::<f32>()];
    let input: &[u8] = bytemuck::cast_slice(&input);
    ranks.max(&mut [0.0])?;
    let start = Instant::now();
    for _ in 0..turns {
        for schedule in schedules {
            ranks.run(schedule, &input[..schedule.input_bytes()], reducer)?;
        }
    }
    let calls = turns * schedules.len();
    let mut micros = [start.elapsed().as_secs_f64() * 1e6 / calls as f64];
    ranks.max(&mut micros)?;
    let root = schedules.len() - 1;
    if let Some(schedule) = schedules.last() {
        let result = ranks.run(schedule, &input[..schedule.input_bytes()], reducer)?;
        check(kind, me, root, result)?;
    }
    Ok(micros[0])
}

fn check(kind: Kind, me: WorldRank, root: usize, result: &[u8]) -> Result<(), String> {
    let part = (result.len() / me.world).max(1);
    for (place, bytes) in result.chunks_exact(size_of::<f32>()).enumerate() {
        let value: f32 = bytemuck::pod_read_unaligned(bytes);
        let expected = kind.expected(me.world, root, place * size_of::<f32>() / part);
        if value != expected {
            return Err(format!("rank {}: element {place} of {} is {value}, not {expected}", me.rank, kind.name()));
        }
    }
    Ok(())
}
