//! What a run has before its first process starts: a job of its own, or one that it joins.

use super::durable::{is_here, unusable, Store};
use super::ending::NotBegun;
use super::joined::JoinedTracker;
use super::say;
use super::ssh::Ssh;
use super::tracker::{JobTracker, OwnTracker};
use super::wait::Wait;
use super::{Joining, LauncherEvent, Options};
use crossbeam::channel::Sender;
use rejoin_agent::join_file::{DurablePlace, JobSecret, JoinFile, JoinSource};
use rejoin_agent::protocol::error::Error;
use rejoin_agent::transport::{JobId, Secret};
use rejoin_communicator::launched;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a run needs of its job, its own or one that it joins.
pub struct Ready {
    /// The most ranks that there may be.
    pub world: u32,
    /// Whether that changes.
    pub is_elastic: bool,
    /// In this process, or a link to that of another one.
    pub tracker: Box<dyn JobTracker>,
    /// Its durable checkpoints, where the tracker is this run's.
    pub store: Option<Store>,
    /// Where ranks write these.
    pub durable: Option<DurablePlace>,
    /// What its processes prove that they belong to it with.
    pub secret: Secret,
    /// The attempt that each rank that is started here begins with.
    pub attempts: BTreeMap<u32, u32>,
    /// Variables that say where job and process are.
    pub place: Vec<(&'static str, String)>,
    /// How processes are started on other hosts.
    pub ssh: Option<Ssh>,
}

impl Ready {
    /// A job of the run's own.
    ///
    /// # Errors
    /// What keeps it from being begun.
    pub fn own(options: &Options, goes_elsewhere: bool, sender: &Sender<LauncherEvent>) -> Result<Ready, Error> {
        let own_address = options.own_address(goes_elsewhere);
        let (job, secret) = (JobId::random()?, Secret::random()?);
        let wanted = options.durable.as_ref();
        let fixed = Some(options.world).filter(|_| options.elastic.is_none());
        let store = wanted.map(|wanted| Store::open(wanted, fixed, job, false)).transpose()?;
        let durable = store.as_ref().map(|store| store.place().clone());
        let start = store.as_ref().map(Store::start).transpose()?.unwrap_or_default();
        for remark in store.as_ref().map(|store| store.remarks(start)).transpose()?.unwrap_or_default() {
            say(&remark);
        }
        let tracker = OwnTracker::start(options, own_address, (job, secret.clone()), start, sender.clone())?;
        let mut place = vec![
            (launched::TRACKER, tracker.address().to_string()),
            (launched::JOB, job.to_string()),
            // Not what the launcher was given itself, as a rank of another job.
            (launched::JOIN, String::new()),
            (launched::ENCRYPT, String::new()),
        ];
        let mut ssh = None;
        if goes_elsewhere {
            // Others reach those of this machine.
            place.extend([(launched::ADDRESS, own_address.to_string()), (launched::HOST, host_name())]);
            ssh = Some(Ssh::new(
                options,
                JoinFile {
                    name: job.to_string(),
                    job,
                    secret: JobSecret::Here(secret.clone()),
                    world: options.world,
                    tracker: tracker.address(),
                    life: 1,
                    max: options.elastic.map(|elastic| elastic.max),
                    encrypt: false,
                    is_for_status: false,
                    durable: durable.clone(),
                },
            )?);
        }
        if !goes_elsewhere {
            place.extend([(launched::ADDRESS, String::new()), (launched::HOST, String::new())]);
        }
        let attempts = (0..options.world).map(|rank| (rank, 0)).collect();
        let (world, is_elastic) = (options.most_ranks(), options.elastic.is_some());
        Ok(Ready { world, is_elastic, tracker: Box::new(tracker), store, durable, secret, attempts, place, ssh })
    }

    /// A job that is joined.
    ///
    /// # Errors
    /// What keeps it from being joined.
    pub fn joined(joining: &Joining, wait: &Wait, sender: &Sender<LauncherEvent>) -> Result<Ready, NotBegun> {
        let tracker = JoinedTracker::open(joining, wait, say, sender.clone())?;
        let join = &tracker.join;
        join.durable.as_ref().map_or(Ok(()), |place| is_here(place, join.job))?;
        // Processes may go elsewhere.
        let file = match &joining.source {
            JoinSource::File(file) => std::fs::canonicalize(file).map_err(unusable("--join", Some(file)))?,
            JoinSource::Told(_) => PathBuf::new(),
        };
        let place = vec![
            (launched::TRACKER, join.tracker.to_string()),
            (launched::JOB, join.job.to_string()),
            (launched::JOIN, file.to_string_lossy().into_owned()),
            (launched::ENCRYPT, u8::from(join.encrypt).to_string()),
            (launched::ADDRESS, tracker.address.to_string()),
            (launched::HOST, joining.host.clone()),
        ];
        let (world, secret, attempts) = (join.most_ranks(), join.secret.read()?, tracker.attempts.clone());
        let (is_elastic, durable) = (join.max.is_some(), join.durable.clone());
        let (tracker, store, ssh) = (Box::new(tracker), None, None);
        Ok(Ready { world, is_elastic, tracker, store, durable, secret, attempts, place, ssh })
    }
}

/// The name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
