//! Durable checkpoints as whoever has the tracker sees them: whose they are, and what a job goes on from.

use rejoin_agent::durable::resume::{newest, others, Look};
use rejoin_agent::durable::{self, file, identity, LocalFolder};
use rejoin_agent::join_file::DurablePlace;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::transport::JobId;
use rustix::fs::{flock, FlockOperation};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::num::NonZeroU32;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Makes the folder that an option names, for this user alone, and gives its whole name, for
/// processes that may go elsewhere; empty where there is none. Links on the way stay in it: on other
/// hosts they may lead elsewhere.
///
/// # Errors
/// `Io` when it can't be made.
pub fn made(option: &str, folder: Option<&Path>) -> Result<String, Error> {
    let Some(path) = folder else { return Ok(String::new()) };
    let whole = LocalFolder::make(path).and_then(|()| path.read_dir()).and_then(|_| std::path::absolute(path));
    let whole = whole.map_err(unusable(option, folder))?.into_os_string();
    whole.into_string().map_err(|name| {
        let name = name.display();
        Error::new(Code::BadArgument, format!("{option} {name} is no text; name a folder whose whole name is UTF-8"))
    })
}

/// What an option names can't be made or written.
pub fn unusable<'a>(option: &'a str, path: Option<&'a Path>) -> impl FnOnce(io::Error) -> Error + 'a {
    move |cause| {
        let path = path.unwrap_or(Path::new("")).display();
        Error::new(Code::Io, format!("{option} {path} can't be used: {cause}; name one that can be made and written"))
    }
}

/// What is wanted of durable checkpoints.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Where they go; it is made if it isn't there.
    pub folder: PathBuf,
    /// Every how many versions one is written.
    pub every: NonZeroU32,
    /// The job's name, by which they are found again.
    pub name: Option<String>,
    /// Whether the job goes on from those that are there.
    pub resume: bool,
}

impl Wanted {
    /// Where a job writes them. The folder is there then.
    ///
    /// # Errors
    /// As [`made`].
    pub fn place(&self, job: JobId) -> Result<DurablePlace, Error> {
        let folder = made("--durable", Some(&self.folder))?.into();
        let identity = self.name.as_deref().map_or(job, identity);
        Ok(DurablePlace { folder, every: self.every, identity })
    }
}

/// The file that stands in the folder of a job's durable checkpoints for as long as whoever has its tracker is there.
/// The holder of its lock has the job, whose number is in it. On other hosts it says that the folder is the same one.
fn mark(place: &DurablePlace) -> PathBuf {
    place.folder.join(durable::mark(place.identity))
}

/// The number of the job that has the folder, or had it last; `None` if none had.
fn holder(place: &DurablePlace) -> io::Result<Option<String>> {
    let mut number = String::new();
    match File::open(mark(place)).and_then(|file| file.take(64).read_to_string(&mut number)) {
        Ok(_) => Ok(Some(number)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Fails unless this host sees the folder that this job's durable checkpoints go to.
///
/// # Errors
/// `BadArgument` when it isn't there, or is another one, maybe one of an earlier job of the name; `Io` when that can't
/// be told.
pub fn is_here(place: &DurablePlace, job: JobId) -> Result<(), Error> {
    match holder(place) {
        Ok(Some(number)) if number == job.to_string() => Ok(()),
        Ok(_) => Err(Error::new(
            Code::BadArgument,
            format!(
                "the job's durable checkpoints go to {} (--durable of its tracker), which isn't there on this host, or \
                 is another folder: {} was expected in it, with the number of this job. Name a folder that all hosts \
                 share, under the same name",
                place.folder.display(),
                mark(place).display()
            ),
        )),
        Err(cause) => {
            let text = format!("the job's durable checkpoints go to {}: {cause}", place.folder.display());
            Err(Error::new(Code::Io, text))
        }
    }
}

/// The folder of a job, and the files in it that are the job's, where its tracker is.
pub struct Store {
    folder: LocalFolder,
    place: DurablePlace,
    /// The number of ranks that can go on from what is there; `None`: any, in an elastic job.
    world: Option<u32>,
    is_resuming: bool,
    has_name: bool,
    /// Nobody else has this job on this folder; the lock goes with the file. `None`: the life before still has it.
    lock: Option<File>,
}

impl Store {
    /// Looks at the folder, for a job with this number, of so many ranks (`None`: it is elastic).
    ///
    /// # Errors
    /// `BadArgument` when checkpoints of the name are there and nothing is said of them, unless another life of the
    /// tracker was there before, or when another job of the name is at work; `Io` when the folder can't be used.
    pub fn open(wanted: &Wanted, world: Option<u32>, job: JobId, is_later_life: bool) -> Result<Store, Error> {
        let place = wanted.place(job)?;
        let name = wanted.name.as_deref();
        let (folder, is_resuming) = (LocalFolder(place.folder.clone()), wanted.resume || is_later_life);
        let mut store = Store { folder, place, world, is_resuming, has_name: name.is_some(), lock: None };
        // The life before may still be there: it ends as soon as it has seen this one.
        let is_free = store.hold(job)? || is_later_life && holder(&store.place).ok().flatten() == Some(job.to_string());
        if !is_free {
            let text = format!(
                "another run of job `{}` is at work on {}; its checkpoints are its own",
                name.unwrap_or_default(),
                store.folder
            );
            return Err(Error::new(Code::BadArgument, text));
        }
        let there = file::list(&store.folder, store.place.identity)?;
        if let (Some(last), false) = (there.last(), store.is_resuming) {
            let (version, folder, identity) = (last.checkpoint.version, &store.folder, store.place.identity);
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "{folder} holds durable checkpoints of job `{}` up to version {version}; --resume goes on from \
                     there, another --job or folder begins anew, and so does this one without the files {identity}-*",
                    name.unwrap_or_default()
                ),
            ));
        }
        Ok(store)
    }

    /// Takes the job on this folder, unless somebody else has it, and says whether it has it now.
    ///
    /// # Errors
    /// `Io` when the folder can't be written.
    pub fn hold(&mut self, job: JobId) -> Result<bool, Error> {
        if self.lock.is_some() {
            return Ok(true);
        }
        let path = mark(&self.place);
        let io = |cause: io::Error| Error::new(Code::Io, format!("{} can't be made: {cause}", path.display()));
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = file.map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(cause) => return Err(io(cause.into())),
        }
        // Launchers look for it: it is never another one for a moment.
        if holder(&self.place).map_err(io)? != Some(job.to_string()) {
            let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{job}"));
            // Other hosts read it.
            written.and_then(|()| file.sync_all()).map_err(io)?;
        }
        self.lock = Some(file);
        Ok(true)
    }

    /// Where ranks write.
    pub fn place(&self) -> &DurablePlace {
        &self.place
    }

    /// What the tracker starts from.
    ///
    /// # Errors
    /// As [`newest`].
    pub fn start(&self) -> Result<JobStart, Error> {
        self.found(Look::Whole)
    }

    fn found(&self, look: Look) -> Result<JobStart, Error> {
        let is_wanted = self.is_resuming;
        let found = if is_wanted { newest(&self.folder, self.place.identity, self.world, look)? } else { None };
        Ok(found.map_or(JobStart::Fresh, JobStart::Durable))
    }

    /// What a later life of it starts from, should no rank be left that knows more: all that is there is the job's own,
    /// or what it has begun with, which every life has to know. Where that can't be told it isn't; the tracker ends the
    /// job if it would have to begin anew.
    pub fn start_again(&mut self, say: impl Fn(&str)) -> JobStart {
        self.is_resuming = true;
        self.found(Look::Headers).unwrap_or_else(|error| {
            say(&format!("durable checkpoints: {error}"));
            JobStart::Fresh
        })
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
        let count = others(&self.folder, self.place.identity)?;
        if count > 0 {
            remarks
                .push(format!("{count} checkpoints of other jobs in {folder} are not used (see --job and --resume)"));
        }
        Ok(remarks)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.has_name {
            // Nobody comes back to this number.
            let _ = std::fs::remove_file(mark(&self.place));
        }
    }
}
