//! The thread that writes durable checkpoints.

use super::file::{self, Found};
use super::resume::is_whole;
use super::{mark, CheckpointFile, Durable};
use crate::control::{Command, Shared};
use crate::store::Kept;
use crossbeam::channel::{unbounded, Sender};
use parking_lot::{Condvar, Mutex};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Checkpoint, Lineage, MemberId, Version};
use rejoin_transport::JobId;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many whole versions stay in the folder.
const KEPT: usize = 2;

/// A file that has not grown for so long, and isn't finished, is one whose writer was killed.
const CUT_SHORT: Duration = Duration::from_secs(3600);

/// How long a rank waits for a write that is under way: a file system that hangs must not hang the training.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Writes one checkpoint after the other. Dropping it ends its thread once all are written.
pub(crate) struct Writer {
    every: u32,
    jobs: Sender<(MemberId, Kept, u32)>,
    under_way: Arc<(Mutex<UnderWay>, Condvar)>,
}

#[derive(Default)]
struct UnderWay {
    /// How many are queued or being written.
    count: u32,
    /// One of them has taken too long, and is not waited for any more.
    is_stuck: bool,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// `Io` when it can't be started.
    pub(crate) fn start(durable: Durable, job: JobId, identity: JobId, shared: Arc<Shared>) -> Result<Writer, Error> {
        let (jobs, queue) = unbounded::<(MemberId, Kept, u32)>();
        let under_way = Arc::new((Mutex::new(UnderWay::default()), Condvar::new()));
        let (counter, every) = (under_way.clone(), durable.every);
        std::thread::Builder::new()
            .name("rejoin-durable".into())
            .spawn(move || {
                for (member, kept, world) in queue {
                    write(&durable, job, identity, &shared, member, kept, world);
                    let mut under_way = counter.0.lock();
                    (under_way.count, under_way.is_stuck) = (under_way.count - 1, false);
                    drop(under_way);
                    counter.1.notify_all();
                }
            })
            .map_err(|cause| Error::new(Code::Io, format!("the durable writer's thread can't be started: {cause}")))?;
        Ok(Writer { every, jobs, under_way })
    }

    /// Whether checkpoints of this version are written.
    pub(crate) fn wants(&self, version: Version) -> bool {
        version.0.is_multiple_of(self.every)
    }

    /// Queues a checkpoint; the store may forget it before its turn comes. When older ones are
    /// still being written, it waits for them: a disk that is slower than the training would
    /// otherwise fill the memory.
    ///
    /// # Errors
    /// `TimedOut` when they take longer than [`WRITE_TIMEOUT`]: it isn't written, nor are those that
    /// follow before one of them is through, and none of these waits again.
    pub(crate) fn write(&self, member: MemberId, kept: Kept, world: u32) -> Result<(), Error> {
        let checkpoint = kept.checkpoint();
        let has_two = checkpoint.has_own || checkpoint.owner.is_some();
        let own = if has_two { 2 } else { 1 };
        let deadline = Instant::now() + WRITE_TIMEOUT;
        let (under_way, changed) = &*self.under_way;
        let mut under_way = under_way.lock();
        while under_way.count >= own {
            if under_way.is_stuck || changed.wait_until(&mut under_way, deadline).timed_out() {
                under_way.is_stuck = true;
                let seconds = WRITE_TIMEOUT.as_secs();
                let text = format!("the write of the one before it has taken longer than {seconds} s");
                return Err(Error::new(Code::TimedOut, text));
            }
        }
        under_way.count += 1;
        // The thread takes from the queue as long as this end is there.
        let _ = self.jobs.send((member, kept, world));
        Ok(())
    }

    /// Waits until all is written; false when it takes longer.
    pub(crate) fn is_idle_within(&self, at_most: Duration) -> bool {
        let deadline = Instant::now() + at_most;
        let (under_way, changed) = &*self.under_way;
        let mut under_way = under_way.lock();
        while under_way.count > 0 {
            if changed.wait_until(&mut under_way, deadline).timed_out() {
                return under_way.count == 0;
            }
        }
        true
    }
}

/// Whose the files are by now: a tracker's mark says it, where there is one. The ranks of a job whose tracker was ended
/// go on for a lease; one of the same name that was resumed meanwhile has begun with what they would remove.
///
/// # Errors
/// `BadState` when they are another job's.
fn check_owner(durable: &Durable, job: JobId, identity: JobId) -> Result<(), Error> {
    let (own, mark) = (job.to_string(), mark(identity));
    let mut number = vec![0; own.len()];
    if durable.folder.read(&mark, 0, &mut number).is_err() || number == own.as_bytes() {
        return Ok(());
    }
    let text = format!(
        "job {} has these checkpoints now ({}/{mark}): it was resumed while the tracker of this one was away",
        String::from_utf8_lossy(&number),
        durable.folder
    );
    Err(Error::new(Code::BadState, text))
}

fn write(durable: &Durable, job: JobId, identity: JobId, shared: &Shared, member: MemberId, kept: Kept, world: u32) {
    let MemberId { rank, incarnation } = member;
    let began = Instant::now();
    let version = kept.checkpoint().version;
    let written = shared.store.make_kept(kept).and_then(|(made, bytes)| {
        check_owner(durable, job, identity)?;
        let name = file::write(&*durable.folder, identity, &made, world, &bytes)?;
        Ok((made, CheckpointFile { folder: durable.folder.clone(), name }))
    });
    match written {
        Ok((made, place)) => {
            shared.store.is_durable(made, place);
            shared.command(Command::Durable(made));
            let millis = began.elapsed().as_millis() as u64;
            let event = Event::DurableWritten { rank, incarnation, version, bytes: made.length, millis };
            shared.command(Command::Event(event));
            if let Some((lineage, version)) = tidy(durable, identity, world) {
                shared.store.tidied(lineage, version);
                shared.command(Command::Tidied { lineage, version });
            }
        }
        Err(error) => {
            log::error!("{} durable checkpoint {version}: {}", shared.prefix_of(rank), error.message);
            let reason = match error.code {
                Code::BadState => format!("{}. Nothing is written", error.message),
                _ => format!(
                    "{}. Training goes on; the last whole checkpoint in {} stays. Make room there, or the job can't be \
                     restored to a newer one should all processes die",
                    error.message, durable.folder
                ),
            };
            shared.command(Command::Event(Event::DurableFailed { rank, incarnation, version, reason }));
        }
    }
}

/// Removes what writes that were cut short have left, and what is older than the newest whole
/// versions; the oldest of these, where there are so many. Another process may do the same at the
/// same time.
fn tidy(durable: &Durable, job: JobId, world: u32) -> Option<(Lineage, Version)> {
    // Nothing depends on it, and the next version tries again.
    let _ = durable.folder.remove_unfinished(&job.to_string(), CUT_SHORT);
    let found = file::list(&*durable.folder, job).ok()?;
    let there: BTreeSet<_> = found.iter().map(|found| found.checkpoint.name()).collect();
    let is_there = |checkpoint: &Checkpoint| Ok::<bool, Infallible>(there.contains(&checkpoint.name()));
    let took = |found: &Found| if found.world == 0 { world } else { found.world };
    let is_whole = |found: &&Found| matches!(is_whole(&found.checkpoint, took(found), is_there), Ok(true));
    let whole: Vec<_> = found.iter().filter(is_whole).map(|found| &found.checkpoint).collect();
    let oldest_kept = whole.iter().rev().nth(KEPT - 1).map(|kept| (kept.lineage, kept.version))?;
    for Found { checkpoint, name, .. } in &found {
        if (checkpoint.lineage, checkpoint.version) < oldest_kept {
            // It may be gone already.
            let _ = durable.folder.remove(name);
        }
    }
    Some(oldest_kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn nothing_is_written_where_the_mark_of_a_tracker_names_another_job() {
        let folder = tempfile::tempdir().unwrap();
        let (job, identity) = (JobId([7; 16]), JobId([9; 16]));
        let durable = Durable::at(folder.path(), 1);
        let is_ours = || check_owner(&durable, job, identity);
        is_ours().expect("no tracker has left a mark");
        let path = folder.path().join(mark(identity));
        std::fs::write(&path, job.to_string()).unwrap();
        is_ours().expect("it is this job's");
        std::fs::write(&path, JobId([8; 16]).to_string()).unwrap();
        let error = is_ours().unwrap_err();
        assert!(error.code == Code::BadState && error.message.contains(&JobId([8; 16]).to_string()), "{error}");
    }

    #[test]
    fn what_a_write_of_this_job_has_left_that_was_cut_short_long_ago_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (job, other) = (JobId([7; 16]), JobId([8; 16]));
        let names = [(job, "a", 7200), (job, "b", 60), (other, "a", 7200)];
        let names = names.map(|(job, random, age)| (format!("{job}-000000-0000000003.unfinished-{random}"), age));
        let names = [&names[..], &[(format!("{job}-notes"), 7200)]].concat();
        for (name, age) in &names {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(*age)).unwrap();
        }
        tidy(&Durable::at(folder.path(), 1), job, 2);
        let left: Vec<bool> = names.iter().map(|(name, _)| folder.path().join(name).exists()).collect();
        assert_eq!(left, [false, true, true, true]);
    }
}
