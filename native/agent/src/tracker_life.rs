//! A tracker that may die: the join file is all that one life of it leaves to the next.

use crate::join_file::{DurablePlace, JobSecret, JoinFile};
use crate::{TrackerServer, TrackerServerConfig};
use rejoin_protocol::error::{Code, Error};
use rejoin_transport::{JobId, PortRange, Secret};
use std::fmt;
use std::fs::{File, Metadata, TryLockError};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is the same in all lives of a job's tracker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTerms {
    /// The job's name.
    pub name: String,
    /// Number of ranks.
    pub world: u32,
    /// The most ranks that there may be; `None`: their number is fixed.
    pub max: Option<u32>,
    /// What ranks send each other is encrypted.
    pub encrypt: bool,
    /// Where all ranks write durable checkpoints.
    pub durable: Option<DurablePlace>,
    /// The file of the job's secret; `None`: the job makes its own, which stands in the join file.
    pub secret_file: Option<PathBuf>,
}

impl fmt::Display for JobTerms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let JobTerms { name, world, max, encrypt, durable, secret_file } = self;
        write!(formatter, "job {name} with {world} ranks")?;
        if let Some(max) = max {
            write!(formatter, " (at most {max})")?;
        }
        if *encrypt {
            write!(formatter, ", encrypted")?;
        }
        match durable {
            Some(DurablePlace { folder, every, .. }) if every.get() > 1 => {
                write!(formatter, " and every {every}th checkpoint in {}", folder.display())?;
            }
            Some(DurablePlace { folder, .. }) => write!(formatter, " and every checkpoint in {}", folder.display())?,
            None => {}
        }
        match secret_file {
            Some(file) => write!(formatter, " and the secret in {}", file.display()),
            None => Ok(()),
        }
    }
}

/// So long another tracker is waited for that is about to write the same join file.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// One life of a job's tracker.
pub struct TrackerLife {
    /// What the join file says of it; where it listens is known once it is served.
    pub join: JoinFile,
    /// The job's.
    pub secret: Secret,
    path: PathBuf,
    /// Where the life before it has listened.
    former: Option<SocketAddr>,
    /// Until the file says of this life: of two that begin at the same time the second one reads what the first one has
    /// written, and is the life after it.
    begins: Option<Beginning>,
}

/// A locked file beside the join file, gone with this.
struct Beginning {
    lock: PathBuf,
    _held: File,
}

impl Beginning {
    /// Keeps other trackers from beginning on this join file; those of other jobs have others, maybe in the same
    /// folder. `None` where the file system has no such locks.
    fn alone(path: &Path) -> Result<Option<Beginning>, Error> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        let until = Instant::now() + BEGINS_WITHIN;
        loop {
            // What is wrong with the folder is said when the join file is read or written.
            let options = File::options().write(true).create(true).truncate(false).mode(0o600).open(&lock);
            let Ok(file) = options else { return Ok(None) };
            match file.try_lock() {
                Ok(()) if is_at(&file, &lock) => return Ok(Some(Beginning { lock, _held: file })),
                // Whoever had it has removed it, and the next one may have made another one since.
                Ok(()) | Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                // A link that leads elsewhere, or a file system whose files have no number of their own.
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(None),
                Err(TryLockError::WouldBlock) => {
                    let text = format!(
                        "another tracker is about to write the join file {} since {} s; see that it goes on or end it",
                        path.display(),
                        BEGINS_WITHIN.as_secs()
                    );
                    return Err(Error::new(Code::Io, text));
                }
            }
        }
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        // Still locked: nobody else takes it for one that is there to stay.
        let _ = std::fs::remove_file(&self.lock);
    }
}

/// Whether this open file is the one of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let which = |about: Metadata| (about.dev(), about.ino());
    let (open, there) = (file.metadata().map(which), std::fs::symlink_metadata(path).map(which));
    open.is_ok_and(|open| there.is_ok_and(|there| open == there))
}

impl TrackerLife {
    /// The first life of a new job, or the next one of that which the join file names: with its number and secret.
    ///
    /// # Errors
    /// `BadArgument` when the file is of another job, other users can read it, or it is none, and likewise for the file
    /// of the secret; `Io` when one can't be read.
    pub fn begin(path: &Path, terms: JobTerms) -> Result<TrackerLife, Error> {
        let begins = Beginning::alone(path)?;
        let found = JoinFile::read(path)?;
        if let Some(found) = &found {
            let there = terms_of(found);
            if found.is_for_status {
                let text = format!(
                    "the join file {} is of a `rejoin run`, which has a tracker of its own; name another file",
                    path.display()
                );
                return Err(Error::new(Code::BadArgument, text));
            }
            if there != terms {
                let text = format!(
                    "the join file {} is of {there}, and {terms} was asked for; name another file, or remove it if \
                     that job is over",
                    path.display()
                );
                return Err(Error::new(Code::BadArgument, text));
            }
        }
        let former = found.as_ref().map(|found| found.tracker);
        let (job, secret, life) = match found {
            Some(JoinFile { job, secret, life, .. }) => (job, secret, life + 1),
            None => {
                let made = || Secret::random().map(JobSecret::Here);
                let place = terms.secret_file.clone().map_or_else(made, |file| Ok(JobSecret::In(file)))?;
                (JobId::random()?, place, 1)
            }
        };
        let read = secret.read()?;
        let JobTerms { name, world, max, encrypt, durable, .. } = terms;
        let tracker = ([0; 4], 0).into();
        let join = JoinFile { name, job, secret, world, tracker, life, max, encrypt, is_for_status: false, durable };
        Ok(TrackerLife { join, secret: read, path: path.into(), former, begins })
    }

    /// Whether another life was there before.
    pub fn is_later(&self) -> bool {
        self.former.is_some()
    }

    /// Starts its server, and writes into the join file where that listens. Job, secret, epoch and
    /// encryption are this life's, whatever the configuration says. Where the port is left open it
    /// is the former life's if that can be had: nobody has to look for it then.
    ///
    /// # Errors
    /// As [`TrackerServer::start`]; `Io` when the file can't be written. Nothing is left behind.
    pub fn serve(&mut self, mut config: TrackerServerConfig) -> Result<TrackerServer, Error> {
        (config.job, config.secret, config.rules.epoch) = (self.join.job, self.secret.clone(), self.join.life);
        config.encrypt = self.join.encrypt;
        let former = self.former.filter(|former| former.ip() == config.listen && config.ports == PortRange::EPHEMERAL);
        let server = match former {
            Some(former) => {
                let ports = PortRange::new(former.port(), former.port())?;
                let there = TrackerServerConfig { ports, ..config.clone() };
                TrackerServer::start(there).or_else(|_| TrackerServer::start(config))
            }
            None => TrackerServer::start(config),
        }?;
        self.join.tracker = server.address();
        // Nobody can have been told of this life: what its end would say to agents is a word too much.
        self.join.write(&self.path).inspect_err(|_| server.abandon())?;
        self.begins = None;
        Ok(server)
    }

    /// What has become of this life if another one has taken the job over. Its server is to be abandoned then, without
    /// a word to the agents: they go to the other one.
    pub fn superseded(&self) -> Option<String> {
        let JoinFile { name, job, life, .. } = &self.join;
        let now = JoinFile::read(&self.path).ok().flatten().filter(|now| now.job == *job && now.life > *life)?;
        Some(format!(
            "job {name} has another tracker now: life {} at {}, by the join file {}; this is life {life}, and ends",
            now.life,
            now.tracker,
            self.path.display()
        ))
    }

    /// The job is over: removes the join file, if it is still this life's.
    pub fn end(&self) {
        let is_its = |now: &JoinFile| (now.job, now.life) == (self.join.job, self.join.life);
        if JoinFile::read(&self.path).ok().flatten().is_some_and(|now| is_its(&now)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn terms_of(join: &JoinFile) -> JobTerms {
    let JoinFile { name, world, max, encrypt, durable, secret, .. } = join;
    JobTerms {
        name: name.clone(),
        world: *world,
        max: *max,
        encrypt: *encrypt,
        durable: durable.clone(),
        secret_file: secret.file().map(Path::to_path_buf),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::message::Timing;
    use rejoin_protocol::start::JobStart;
    use rejoin_protocol::tracker::{DeathLimit, TrackerConfig};

    fn terms(world: u32) -> JobTerms {
        JobTerms { name: "training".into(), world, max: None, encrypt: false, durable: None, secret_file: None }
    }

    fn config(ports: PortRange) -> TrackerServerConfig {
        let rules = TrackerConfig {
            world: 2,
            spares: 0,
            elastic: None,
            epoch: 1,
            timing: Timing::usual(1500, 60_000),
            deaths: DeathLimit::new(u32::MAX, "deaths"),
            start: JobStart::Fresh,
            faults: Vec::new(),
            wants_result: false,
        };
        let (job, secret) = (JobId([1; 16]), Secret::new([1; 32]));
        TrackerServerConfig { job, secret, encrypt: false, listen: [127, 0, 0, 1].into(), ports, rules }
    }

    #[test]
    fn of_two_trackers_that_begin_at_the_same_time_the_second_is_the_life_after_the_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("join");
        let mut first = TrackerLife::begin(&path, terms(2)).expect("a new job");
        let second = std::thread::spawn({
            let path = path.clone();
            move || TrackerLife::begin(&path, terms(2)).map(|life| life.join.life)
        });
        let server = first.serve(config(PortRange::EPHEMERAL)).expect("it listens");
        assert_eq!(second.join().expect("it has not panicked").expect("the same job"), 2);
        server.abandon();
    }

    #[test]
    fn trackers_of_other_jobs_begin_in_the_same_folder_while_one_reads_its_checkpoints_and_no_lock_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let mut first = TrackerLife::begin(&path("one"), terms(2)).expect("a new job");
        let mut other = TrackerLife::begin(&path("other"), terms(2)).expect("another new job");
        for life in [&mut other, &mut first] {
            life.serve(config(PortRange::EPHEMERAL)).expect("it listens").abandon();
        }
        drop(TrackerLife::begin(&path("third"), terms(2)).expect("one that is never served"));
        let names = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("a file").file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["one", "other"]);
    }

    #[test]
    fn a_later_life_has_the_jobs_number_and_secret_and_the_port_and_the_former_one_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("join");
        let mut first = TrackerLife::begin(&path, terms(2)).expect("a new job");
        assert!(!first.is_later());
        let server = first.serve(config(PortRange::EPHEMERAL)).expect("it listens");
        assert_eq!((first.superseded(), first.join.tracker), (None, server.address()));
        server.abandon();
        let mut second = TrackerLife::begin(&path, terms(2)).expect("the same job");
        assert!(second.is_later());
        let server = second.serve(config(PortRange::EPHEMERAL)).expect("it listens");
        assert_eq!((second.join.job, second.join.life), (first.join.job, 2));
        assert_eq!(second.secret.expose(), first.secret.expose());
        assert_eq!(second.join.tracker, first.join.tracker, "nobody has to look for it");
        assert!(first.superseded().is_some_and(|text| text.contains("life 2") && text.contains("this is life 1")));
        first.end();
        assert!(path.exists(), "the file is the second life's");
        second.end();
        assert!(!path.exists());
        server.close();
    }

    #[test]
    fn a_later_life_of_other_terms_is_refused_with_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("join");
        let mut first = TrackerLife::begin(&path, terms(2)).expect("a new job");
        first.serve(config(PortRange::EPHEMERAL)).expect("it listens").abandon();
        let durable = |every: u32| DurablePlace {
            folder: "/shared".into(),
            every: std::num::NonZeroU32::new(every).expect("it isn't 0"),
            identity: JobId([3; 16]),
        };
        for (other, text) in [
            (terms(3), "job training with 3 ranks was"),
            (JobTerms { name: "other".into(), ..terms(2) }, "job other with 2 ranks was"),
            (JobTerms { max: Some(4), ..terms(2) }, "2 ranks (at most 4) was"),
            (JobTerms { encrypt: true, ..terms(2) }, "2 ranks, encrypted was"),
            (JobTerms { durable: Some(durable(1)), ..terms(2) }, "2 ranks and every checkpoint in /shared was"),
            (JobTerms { durable: Some(durable(5)), ..terms(2) }, "2 ranks and every 5th checkpoint in /shared was"),
            (JobTerms { secret_file: Some("/secret".into()), ..terms(2) }, "2 ranks and the secret in /secret was"),
        ] {
            let Err(error) = TrackerLife::begin(&path, other) else { panic!("it is another job: {text}") };
            assert_eq!(error.code, Code::BadArgument);
            assert!(error.message.contains("is of job training with 2 ranks, and"), "{error}");
            assert!(error.message.contains(text), "{error}");
        }
    }
}
