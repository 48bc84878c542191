//! An elastic run once more: its event log says which world made which versions, and each of these worlds is a run of
//! its own that goes on from the last version of the one before. So the model is the same, byte for byte.

use super::durable::Wanted;
use super::launcher;
use super::say;
use super::{Options, TimeLimits};
use rejoin_agent::durable::{file, identity, resume, LocalFolder};
use rejoin_agent::event_log::{self, Record, What};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::{Lineage, Rank, Version};
use rejoin_agent::transport::JobId;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Versions that one world made, up to where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct World {
    from: Version,
    ranks: u32,
}

/// The worlds of a run, the first one from version 0 on.
fn worlds(records: &[Record]) -> Result<Vec<World>, String> {
    let events = || {
        records.iter().filter_map(|record| match &record.what {
            What::Event(event) => Some(event),
            What::Launcher(_) => None,
        })
    };
    // All are waited for before the first one begins.
    let first = events().find_map(|event| match event {
        Event::VersionEntered { version, .. } => Some(*version),
        _ => None,
    });
    let first = first.ok_or("no rank has begun in it; expected the log of a run that has trained")?;
    if first.0 > 0 {
        return Err(format!(
            "it begins at version {first}, with a durable checkpoint that isn't in it; expected the log of a run from \
             its beginning"
        ));
    }
    let before = events().take_while(|event| !matches!(event, Event::VersionEntered { .. }));
    let joined: BTreeSet<Rank> = before
        .filter_map(|event| match event {
            Event::RankJoined { rank, .. } => Some(*rank),
            _ => None,
        })
        .collect();
    let mut ranks = joined.len() as u32;
    let mut worlds = vec![World { from: first, ranks }];
    let mut newest = Lineage(0);
    for event in events() {
        match event {
            Event::Resized { world, .. } => ranks = *world,
            // A tracker that was ended in the middle of a resize may not have told of it; the next one sees the world.
            Event::ViewMade { alive, vacant, .. } => ranks = (alive.len() + vacant.len()) as u32,
            Event::VersionEntered { lineage, .. } if *lineage <= newest => {}
            // Whatever was made from this version on is made again. Of a tracker that was ended in the middle the ranks
            // may be the first to tell.
            Event::RolledBack { lineage, version, .. } | Event::VersionEntered { lineage, version, .. } => {
                newest = *lineage;
                worlds.retain(|world| world.from < *version);
                if worlds.last().is_none_or(|last| last.ranks != ranks) {
                    worlds.push(World { from: *version, ranks });
                }
            }
            _ => {}
        }
    }
    Ok(worlds)
}

/// Runs the program in each of the worlds that a log tells of, one after the other, and says the exit status.
///
/// # Errors
/// `BadArgument` for a log that isn't of such a run, or of another program; what kept a run from being started.
pub fn again(options: &Options, log: &Path) -> Result<u8, Error> {
    let bad = |text: String| Error::new(Code::BadArgument, format!("--worlds {}: {text}", log.display()));
    let worlds = event_log::read(log).and_then(|records| worlds(&records)).map_err(bad)?;
    let began = Instant::now();
    let handed_over = Folder::new()?;
    for (at, world) in worlds.iter().enumerate() {
        let next = worlds.get(at + 1).map(|next| next.from);
        let until = next.map_or("its end".into(), |next| format!("version {next}"));
        say(&format!("from version {} to {until} in a world of {}, as in {}", world.from, world.ranks, log.display()));
        let status = launcher::run(&Options {
            world: world.ranks,
            durable: Some(Wanted {
                folder: handed_over.0.clone(),
                // The version that is handed over, and no other one.
                every: next.and_then(|next| NonZeroU32::new(next.0)).unwrap_or(NonZeroU32::MAX),
                name: Some(NAME.into()),
                resume: at > 0,
            }),
            until: next,
            limits: TimeLimits {
                timeout: options.limits.timeout.map(|limit| limit.saturating_sub(began.elapsed())),
                ..options.limits.clone()
            },
            events: options.events.clone().filter(|_| next.is_none()),
            ..options.clone()
        })?;
        if status != 0 {
            return Ok(status);
        }
        let folder = LocalFolder(handed_over.0.clone());
        if let Some(text) = worlds.get(at + 1).map(|next| wrong(&folder, next)).transpose()?.flatten() {
            return Err(bad(text));
        }
    }
    Ok(0)
}

/// Why the next world can't go on from what the one before it has left; `None` if it can. It never begins anew: that
/// would be another model.
///
/// # Errors
/// `Io` when it can't be read.
fn wrong(folder: &LocalFolder, next: &World) -> Result<Option<String>, Error> {
    let (version, ranks) = (next.from, next.ranks);
    let left = file::list(folder, identity(NAME))?;
    let mut left = left.iter().map(|found| &found.checkpoint).filter(|left| left.version == version).peekable();
    if left.peek().is_none() {
        return Ok(Some(format!(
            "the program has ended before version {version}, from which on the log has another world; expected the \
             program of that run, with its arguments"
        )));
    }
    // Of such a version some files may be missing: the world before was ended when the first one was written. And which
    // rank was given which of them the log doesn't say.
    if left.any(|left| left.has_own || left.owner.is_some()) {
        return Ok(Some(format!(
            "at version {version} each rank has a model of its own, which can't be handed to a world of {ranks} ranks: \
             the log doesn't say which rank has had whose. Expected a program whose ranks all have the same model"
        )));
    }
    let newest = resume::newest(folder, identity(NAME), Some(ranks), resume::Look::Whole)?;
    Ok(newest.is_none_or(|newest| newest.checkpoint.version != version).then(|| {
        format!(
            "the checkpoint of version {version} in {folder}, which the world before has made, was changed or cut \
             since; expected it as it was written. See what else writes there, and begin anew"
        )
    }))
}

/// Of the job whose checkpoint is handed over.
const NAME: &str = "worlds";

/// Where checkpoints are handed over; gone when the run is over.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Error> {
        Ok(Folder(std::env::temp_dir().join(format!("rejoin-worlds-{}", JobId::random()?))))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It isn't there if nothing was begun.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_agent::protocol::ids::{Attempt, Generation, Incarnation, Task};

    fn record(what: What) -> Record {
        Record { micros: 0, rank: None, incarnation: None, generation: None, version: None, seqno: None, what }
    }

    fn joined(rank: u32) -> Record {
        record(What::Event(Event::RankJoined {
            rank: Rank(rank),
            incarnation: Incarnation::nth(0),
            index: Task(rank),
            attempt: Attempt { stage: 0, task: 0 },
            executor: String::new(),
            vacant_millis: 0,
        }))
    }

    fn entered(version: u32) -> Record {
        entered_of(0, version)
    }

    fn entered_of(lineage: u32, version: u32) -> Record {
        let (rank, incarnation, lineage) = (Rank(0), Incarnation::nth(0), Lineage(lineage));
        record(What::Event(Event::VersionEntered { rank, incarnation, lineage, version: Version(version), round: 0 }))
    }

    fn resized(world: u32) -> Record {
        record(What::Event(Event::Resized { ranks: vec![], world, reason: String::new() }))
    }

    fn viewed(world: u32) -> Record {
        let (generation, alive, vacant) = (Generation { epoch: 2, number: 1 }, vec![Rank(0)], (1..world).map(Rank));
        record(What::Event(Event::ViewMade { generation, alive, vacant: vacant.collect(), reason: String::new() }))
    }

    /// Of a lineage that [`of`] numbers.
    fn back(version: u32) -> Record {
        let (lineage, version) = (Lineage(0), Version(version));
        record(What::Event(Event::RolledBack { lineage, version, reason: String::new() }))
    }

    /// From which version on there were how many ranks, in a run that began with four.
    fn of(records: &[Record]) -> Vec<(u32, u32)> {
        let began = [joined(0), joined(1), joined(3), joined(2), joined(1), entered(0), joined(4)];
        let mut records = [&began, records].concat();
        let rolled_back = records.iter_mut().filter_map(|record| match &mut record.what {
            What::Event(Event::RolledBack { lineage, .. }) => Some(lineage),
            _ => None,
        });
        rolled_back.zip(1..).for_each(|(lineage, number)| *lineage = Lineage(number));
        worlds(&records).unwrap().iter().map(|world| (world.from.0, world.ranks)).collect()
    }

    #[test]
    fn a_world_lasts_until_the_version_at_which_the_next_one_begins() {
        assert_eq!(of(&[entered(9)]), [(0, 4)]);
        assert_eq!(of(&[resized(3), back(5), entered(5), resized(6), back(8)]), [(0, 4), (5, 3), (8, 6)]);
        // A death during the change, before any rank had begun: another world takes the place of that one.
        assert_eq!(of(&[resized(6), back(5), resized(5), back(5)]), [(0, 4), (5, 5)]);
    }

    #[test]
    fn a_world_of_which_a_tracker_that_was_ended_did_not_tell_is_known_by_the_next_ones_views_and_the_ranks() {
        assert_eq!(of(&[viewed(3), back(5)]), [(0, 4), (5, 3)]);
        assert_eq!(of(&[resized(3), entered_of(1, 5), viewed(3), entered_of(1, 6)]), [(0, 4), (5, 3)]);
        assert_eq!(of(&[viewed(3), entered_of(1, 5), entered(7), entered_of(1, 6)]), [(0, 4), (5, 3)]);
    }

    #[test]
    fn a_job_that_goes_on_from_a_durable_version_may_have_a_lineage_that_its_log_has_had_before() {
        let again = |lineage| {
            let (lineage, version) = (Lineage(lineage), Version(5));
            record(What::Event(Event::RolledBack { lineage, version, reason: String::new() }))
        };
        let first = [joined(0), joined(1), entered(0), entered_of(3, 8)];
        for lineage in [2, 3] {
            let worlds = worlds(&[&first[..], &[resized(1), again(lineage)]].concat()).unwrap();
            assert_eq!(worlds.iter().map(|world| (world.from.0, world.ranks)).collect::<Vec<_>>(), [(0, 2), (5, 1)]);
        }
    }

    #[test]
    fn what_a_rollback_goes_behind_is_made_by_the_world_of_that_time() {
        assert_eq!(of(&[resized(3), back(5), back(2), entered(2)]), [(0, 4), (2, 3)]);
        assert_eq!(of(&[back(0)]), [(0, 4)]);
        assert_eq!(of(&[resized(2), back(0)]), [(0, 2)]);
        assert_eq!(of(&[resized(2), back(3), resized(4), back(3)]), [(0, 4)]);
    }

    #[test]
    fn a_log_without_its_beginning_is_refused() {
        assert!(worlds(&[joined(0)]).unwrap_err().contains("no rank has begun"));
        assert!(worlds(&[joined(0), entered(7)]).unwrap_err().contains("begins at version 7"));
    }
}
