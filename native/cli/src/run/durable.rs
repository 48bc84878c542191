//! Durable checkpoints as the launcher sees them: whose they are, and what a run goes on from.

use super::Options;
use rejoin_agent::durable::resume::{newest, others};
use rejoin_agent::durable::{file, identity, LocalFolder};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::transport::JobId;
use rustix::fs::{flock, FlockOperation};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes the folder that an option names, for this user alone, and gives its whole name, for
/// processes that may go elsewhere; empty where there is none.
///
/// # Errors
/// `Io` when it can't be made.
pub fn made(option: &str, folder: Option<&Path>) -> Result<String, Error> {
    let Some(path) = folder else { return Ok(String::new()) };
    let made = LocalFolder::make(path).and_then(|()| std::fs::canonicalize(path));
    Ok(made.map_err(unusable(option, folder))?.to_string_lossy().into_owned())
}

/// What an option names can't be made or written.
pub fn unusable<'a>(option: &'a str, path: Option<&'a Path>) -> impl FnOnce(io::Error) -> Error + 'a {
    move |cause| {
        let path = path.unwrap_or(Path::new("")).display();
        Error::new(Code::Io, format!("{option} {path} can't be used: {cause}; name one that can be made and written"))
    }
}

/// The folder of a run, and the files in it that are the run's.
pub struct Store {
    folder: LocalFolder,
    world: u32,
    identity: JobId,
    is_resuming: bool,
    /// No other launcher runs this job on this folder. The lock goes with the file.
    _lock: Option<File>,
}

impl Store {
    /// Looks at the folder. `job` is what files are marked with when the run has no name.
    ///
    /// # Errors
    /// `BadArgument` when checkpoints of the name are there and nothing is said of them, or another
    /// run of it is at work; `Io` when the folder can't be used.
    pub fn open(options: &Options, job: JobId) -> Result<Option<Store>, Error> {
        let Some(folder) = options.durable.clone().map(LocalFolder) else { return Ok(None) };
        let Some(name) = &options.job else {
            return Ok(Some(Store { folder, world: options.world, identity: job, is_resuming: false, _lock: None }));
        };
        let identity = identity(name);
        let path = folder.0.join(format!("{identity}.lock"));
        let io = |cause: String| Error::new(Code::Io, format!("{} can't be made: {cause}", path.display()));
        let lock = File::options().write(true).create(true).truncate(true).mode(0o600).open(&path);
        let lock = lock.map_err(|cause| io(cause.to_string()))?;
        if let Err(cause) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if cause != rustix::io::Errno::WOULDBLOCK {
                return Err(io(cause.to_string()));
            }
            let text = format!("another run of job `{name}` is at work on {folder}; its checkpoints are its own");
            return Err(Error::new(Code::BadArgument, text));
        }
        let there = file::list(&folder, identity)?;
        if let (Some(last), false) = (there.last(), options.resume) {
            let version = last.checkpoint.version;
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "{folder} holds durable checkpoints of job `{name}` up to version {version}; --resume goes on \
                     from there, another --job or folder begins anew, and so does this one without the files \
                     {identity}-*"
                ),
            ));
        }
        let (world, is_resuming) = (options.world, options.resume);
        Ok(Some(Store { folder, world, identity, is_resuming, _lock: Some(lock) }))
    }

    /// What files are marked with.
    pub fn identity(&self) -> JobId {
        self.identity
    }

    /// What a life of the tracker that begins now starts from.
    ///
    /// # Errors
    /// As [`newest`].
    pub fn start(&self) -> Result<JobStart, Error> {
        let found = if self.is_resuming { newest(&self.folder, self.identity, self.world)? } else { None };
        Ok(found.map_or(JobStart::Fresh, JobStart::Durable))
    }

    /// What a user should know of the folder, a line each.
    ///
    /// # Errors
    /// As [`others`].
    pub fn remarks(&self, start: JobStart) -> Result<Vec<String>, Error> {
        let (mut remarks, folder) = (Vec::new(), &self.folder);
        match start {
            JobStart::Fresh if self.is_resuming => {
                remarks.push(format!("no whole checkpoint of this job is in {folder}: it starts from the beginning"));
            }
            JobStart::Fresh => {}
            start => remarks.push(format!("goes on from version {} in {folder}", start.version())),
        }
        let count = others(&self.folder, self.identity)?;
        if count > 0 {
            remarks
                .push(format!("{count} checkpoints of other jobs in {folder} are not used (see --job and --resume)"));
        }
        Ok(remarks)
    }
}
