//! The job's tracker as the launcher has it. Its own: started, ended without a word, started again at the same address.

use super::{LauncherEvent, Options};
use crossbeam::channel::Sender;
use rejoin_agent::join_file::{JobSecret, JoinFile};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::ids::Rank;
use rejoin_agent::protocol::message::Timing;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{DeathLimit, TrackerConfig, TrackerInput};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::{TrackerNotice, TrackerServer, TrackerServerConfig};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How long ranks and launchers go on when their tracker is gone.
pub const LEASE: Duration = Duration::from_millis(Timing::LEASE_MILLIS);

/// What a launcher has of its job's tracker, wherever that is.
pub trait JobTracker {
    /// Passes on what the launcher knows; nothing if there is no tracker now.
    fn notify(&self, fact: TrackerInput);

    /// Returns when all that the tracker knew at the call is known here, or it can't be had.
    fn settle(&self);

    /// Asks for numbers for processes that have none yet.
    fn ask_for_numbers(&self) {}

    /// How the job ended; `None` while it goes on.
    fn outcome(&self) -> Option<Result<(), Error>>;

    /// Whether this rank was sent back to an older version and has not joined again.
    fn was_sent_back(&self, rank: u32) -> bool;

    /// Ends it without a word, as if its process had been killed.
    fn kill(&mut self);

    /// Starts it again at its address, in its next life, which starts from this should no rank be left that knows more.
    ///
    /// # Errors
    /// When it can't listen there.
    fn revive(&mut self, start: JobStart) -> Result<(), Error>;

    /// Ends it in good order; all that it reported is in the launcher's queue then.
    fn close(&mut self);
}

/// The rules of a job whose launchers count the deaths.
pub fn rules(world: u32, epoch: u32, lost_after: Duration, members: Duration, start: JobStart) -> TrackerConfig {
    TrackerConfig {
        world,
        spares: 0,
        elastic: None,
        epoch,
        timing: Timing::usual(lost_after.as_millis() as u64, members.as_millis() as u64),
        deaths: DeathLimit::of_starter(u32::MAX, "--restarts"),
        start,
        faults: Vec::new(),
        wants_result: false,
    }
}

/// The launcher's own tracker, or the place where it was.
pub struct OwnTracker {
    config: TrackerServerConfig,
    server: Option<(Arc<TrackerServer>, JoinHandle<()>)>,
    address: SocketAddr,
    tell: Sender<LauncherEvent>,
    status: Option<StatusFile>,
}

/// The join file by which the status of a run is asked. It goes with the tracker, also where the run has not begun.
struct StatusFile {
    path: PathBuf,
    /// The job's.
    name: String,
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        // It may have been removed by hand.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl OwnTracker {
    /// Starts the first one.
    ///
    /// # Errors
    /// When it can't listen.
    pub fn start(
        options: &Options,
        listen: IpAddr,
        (job, secret): (JobId, Secret),
        start: JobStart,
        tell: Sender<LauncherEvent>,
    ) -> Result<OwnTracker, Error> {
        let rules = TrackerConfig {
            faults: options.rules.iter().map(|rule| rule.fault.clone()).collect(),
            elastic: options.elastic,
            deaths: DeathLimit::of_starter(options.restarts.saturating_add(1), "--restarts"),
            ..rules(options.world, 1, options.limits.lost_after, options.limits.members, start)
        };
        let port = options.listen.and_then(|listen| listen.port);
        let ports = port.map_or(Ok(PortRange::EPHEMERAL), |port| PortRange::new(port, port))?;
        let config = TrackerServerConfig { job, secret, encrypt: false, listen, ports, rules };
        let status = options.status.clone().map(|path| {
            let name = options
                .durable
                .as_ref()
                .and_then(|wanted| wanted.name.clone())
                .unwrap_or_else(|| config.job.to_string());
            match path.symlink_metadata() {
                Err(_) => Ok(StatusFile { path, name }),
                Ok(_) => Err(Error::new(
                    Code::BadArgument,
                    format!(
                        "--status {} is there already: another run's, or one's that was killed; name another file, or \
                         remove it if that run is over",
                        path.display()
                    ),
                )),
            }
        });
        let address = SocketAddr::new(listen, 0);
        let mut tracker = OwnTracker { config, server: None, address, tell, status: status.transpose()? };
        tracker.serve()?;
        Ok(tracker)
    }

    /// Where agents reach it; the same for all its lives.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn serve(&mut self) -> Result<(), Error> {
        let server = Arc::new(TrackerServer::start(self.config.clone())?);
        self.address = server.address();
        if let Some(StatusFile { path, name }) = &self.status {
            let TrackerConfig { world, elastic, epoch, .. } = &self.config.rules;
            let join = JoinFile {
                name: name.clone(),
                job: self.config.job,
                secret: JobSecret::Here(self.config.secret.clone()),
                world: *world,
                tracker: self.address,
                life: *epoch,
                max: elastic.map(|elastic| elastic.max),
                encrypt: self.config.encrypt,
                is_for_status: true,
                durable: None,
            };
            join.write(path).inspect_err(|_| server.abandon())?;
        }
        let (notices, tell) = (server.clone(), self.tell.clone());
        let forwarder = std::thread::spawn(move || {
            while let Ok(next) = notices.poll(Duration::from_secs(60)) {
                // That is heard from the process itself, whether there is a tracker or not.
                let next = next.filter(|next| !matches!(next, TrackerNotice::Event(Event::FaultFired { .. })));
                if next.is_some_and(|next| tell.send(LauncherEvent::Notice(next)).is_err()) {
                    return;
                }
            }
        });
        self.server = Some((server, forwarder));
        Ok(())
    }
}

impl JobTracker for OwnTracker {
    fn notify(&self, fact: TrackerInput) {
        if let Some((server, _)) = &self.server {
            server.notify(fact);
        }
    }

    fn settle(&self) {}

    fn outcome(&self) -> Option<Result<(), Error>> {
        let (server, _) = self.server.as_ref()?;
        server.result().map(|result| result.map(drop)).transpose()
    }

    fn was_sent_back(&self, rank: u32) -> bool {
        self.server.as_ref().is_some_and(|(server, _)| server.was_sent_back(Rank(rank)))
    }

    fn kill(&mut self) {
        if let Some((server, forwarder)) = self.server.take() {
            server.abandon();
            // It has nothing to say if it panicked; what it took in is in the launcher's queue.
            let _ = forwarder.join();
        }
    }

    fn revive(&mut self, start: JobStart) -> Result<(), Error> {
        if self.server.is_some() {
            return Ok(());
        }
        (self.config.rules.epoch, self.config.rules.start) = (self.config.rules.epoch + 1, start);
        self.config.ports = PortRange::new(self.address.port(), self.address.port())?;
        self.serve()
    }

    fn close(&mut self) {
        if let Some((server, forwarder)) = self.server.take() {
            server.close();
            let _ = forwarder.join();
            self.status = None;
        }
    }
}
