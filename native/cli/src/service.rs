//! `rejoin tracker`: the tracker of a job as a process of its own, for launchers on any hosts.

use crate::listen::{own_address, Listen};
use crate::run::ending::{Ending, OUTPUT_FAILED};
use crate::run::tracker::{rules, LEASE};
use rejoin_agent::event_log::{Fact, Recorder};
use rejoin_agent::join_file::JoinFile;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::resize::Elastic;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{TrackerConfig, TrackerInput};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::{TrackerNotice, TrackerServer, TrackerServerConfig};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it looks whether another life has taken over.
const LOOK: Duration = Duration::from_millis(250);

/// What a tracker is told.
pub struct Service {
    /// The job's name.
    pub name: String,
    /// Number of ranks.
    pub world: u32,
    /// Within which bounds their number may change; `None`: it is fixed.
    pub elastic: Option<Elastic>,
    /// The join file.
    pub join: PathBuf,
    /// Where it listens; the address on the way to other hosts if it isn't given.
    pub listen: Option<Listen>,
    /// Silence after which a process is declared lost.
    pub lost_after: Duration,
    /// How long a rank may be missing.
    pub members: Duration,
    /// Whether what ranks send each other is encrypted.
    pub encrypt: bool,
    /// Where the event log goes.
    pub events: Option<PathBuf>,
    /// Level of the log.
    pub log: String,
}

fn say(text: &str) {
    eprintln!("rejoin tracker: {text}");
}

/// Serves the job to its end and says the exit status.
///
/// # Errors
/// What kept it from being begun; nothing is left behind.
pub fn serve(service: &Service) -> Result<u8, Error> {
    rejoin_agent::logging::level(&service.log)?;
    let io = |what: &'static str| {
        move |cause: std::io::Error| Error::new(Code::Io, format!("the tracker can't {what}: {cause}"))
    };
    let signal = watch_signals().map_err(io("watch for signals"))?;
    let mut recorder = Recorder::new(service.events.as_deref()).map_err(io("write --events"))?;
    let (mut join, server) = begin(service)?;
    join.tracker = server.address();
    // Nobody can have been told of this life: what its end would say to agents is a word too much.
    join.write(&service.join).inspect_err(|_| server.abandon())?;
    println!(
        "tracker of job {}, {}, at {}; life {}; join file {}",
        join.name,
        ranks(join.world, join.max),
        join.tracker,
        join.life,
        service.join.display()
    );
    let rules = Vec::new();
    let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    recorder.fact(None, Fact::Began { world: join.world, command: vec![join.name.clone()], rules, unix_seconds });
    let ending = watch(service, &join, &server, &signal, &mut recorder);
    if let Ending::TakenOver(reason) = &ending {
        // Not a word to the agents: they go to the one that has taken over.
        server.abandon();
        say(reason);
        return Ok(ending.status());
    }
    // Who is on his way here hears how the job has ended.
    let until = Instant::now() + LEASE;
    while server.links() > 0 && Instant::now() < until && !is_second(&signal) {
        take_events(&server, &mut recorder, LOOK);
    }
    server.close();
    while let Ok(Some(notice)) = server.poll(Duration::ZERO) {
        note(notice, &mut recorder);
    }
    // Only if it is still this life's.
    if JoinFile::read(&service.join).ok().flatten().is_some_and(|now| (now.job, now.life) == (join.job, join.life)) {
        let _ = std::fs::remove_file(&service.join);
    }
    let status = ending.status();
    say(&ending.reason());
    recorder.fact(None, Fact::Over { status, reason: ending.reason() });
    if let Some(cause) = recorder.failure() {
        say(&format!("the event log could not be written to its end: {cause}"));
        return Ok(if status == 0 { OUTPUT_FAILED } else { status });
    }
    Ok(status)
}

fn ranks(world: u32, max: Option<u32>) -> String {
    match max {
        Some(max) => format!("{world} ranks (at most {max})"),
        None => format!("{world} ranks"),
    }
}

/// A new job, or the next life of the one that the join file names.
fn begin(service: &Service) -> Result<(JoinFile, TrackerServer), Error> {
    let path = service.join.display();
    let bad = |text: String| Error::new(Code::BadArgument, text);
    let found = JoinFile::read(&service.join)?;
    if let Some(found) = &found {
        let max = service.elastic.map(|elastic| elastic.max);
        if (&found.name, found.world, found.max) != (&service.name, service.world, max) {
            return Err(bad(format!(
                "the join file {path} is of job {} with {}, and --job {} with {} was asked for; name another file, or \
                 remove it if that job is over",
                found.name,
                ranks(found.world, found.max),
                service.name,
                ranks(service.world, max)
            )));
        }
        say(&format!(
            "takes over job {} from life {} ({path}); to begin it anew, end this, remove the file and start again",
            found.name, found.life
        ));
    }
    let listen = service.listen.unwrap_or_else(|| Listen { address: own_address(), port: None });
    let join = JoinFile {
        name: service.name.clone(),
        world: service.world,
        job: found.as_ref().map_or_else(JobId::random, |found| Ok(found.job))?,
        secret: found.as_ref().map_or_else(Secret::random, |found| Ok(found.secret.clone()))?,
        tracker: (listen.address, 0).into(),
        life: found.as_ref().map_or(1, |found| found.life + 1),
        max: service.elastic.map(|elastic| elastic.max),
        is_for_status: false,
    };
    // At the former life's port nobody has to look for it.
    let former = found.filter(|found| found.tracker.ip() == listen.address).map(|found| found.tracker.port());
    let start = |port: Option<u16>| {
        let ports = port.map_or(Ok(PortRange::EPHEMERAL), |port| PortRange::new(port, port))?;
        TrackerServer::start(TrackerServerConfig {
            job: join.job,
            secret: join.secret.clone(),
            encrypt: service.encrypt,
            listen: listen.address,
            ports,
            rules: TrackerConfig {
                elastic: service.elastic,
                ..rules(service.world, join.life, service.lost_after, service.members, JobStart::Fresh)
            },
        })
    };
    let server = match (listen.port, former) {
        (None, Some(port)) => start(Some(port)).or_else(|_| start(None)),
        (port, _) => start(port),
    };
    Ok((join, server?))
}

/// Until the job, this life or this process is over.
fn watch(
    service: &Service,
    join: &JoinFile,
    server: &TrackerServer,
    signal: &AtomicI32,
    recorder: &mut Recorder,
) -> Ending {
    loop {
        take_events(server, recorder, LOOK);
        match server.result() {
            Ok(Some(_)) => return Ending::Well,
            Ok(None) => {}
            Err(error) => return Ending::JobFailed(error.to_string()),
        }
        let caught = signal.load(Ordering::Acquire);
        if caught != 0 {
            let ending = Ending::Signalled(caught.abs());
            server.notify(TrackerInput::Cancel { error: Error::new(Code::Cancelled, ending.reason()) });
            return ending;
        }
        let now = JoinFile::read(&service.join).ok().flatten();
        if let Some(now) = now.filter(|now| now.job == join.job && now.life > join.life) {
            return Ending::TakenOver(format!(
                "job {} has another tracker now: life {} at {}, by the join file {}; this is life {}, and ends",
                join.name,
                now.life,
                now.tracker,
                service.join.display(),
                join.life
            ));
        }
    }
}

fn take_events(server: &TrackerServer, recorder: &mut Recorder, at_most: Duration) {
    let until = Instant::now() + at_most;
    while let Ok(Some(notice)) = server.poll(until.saturating_duration_since(Instant::now())) {
        note(notice, recorder);
    }
}

/// Says what a user wants to see of a job, and records all.
fn note(notice: TrackerNotice, recorder: &mut Recorder) {
    let TrackerNotice::Event(event) = notice else { return };
    match &event {
        Event::RankJoined { rank, incarnation, executor, .. } => {
            say(&format!("rank {rank} has joined as incarnation {incarnation} ({executor})"));
        }
        Event::RankLost { rank, reason, .. } => say(&format!("rank {rank} is lost: {reason}")),
        Event::Resized { reason, .. } => say(&format!("the world changes: {reason}")),
        Event::RolledBack { version, reason, .. } => {
            say(&format!("all ranks go back to version {version}: {reason}"));
        }
        _ => {}
    }
    recorder.event(event);
}

/// The last signal that came; a second one waits for nothing.
fn watch_signals() -> std::io::Result<Arc<AtomicI32>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let caught = Arc::new(AtomicI32::new(0));
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let noted = caught.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let is_second = noted.load(Ordering::Acquire) != 0;
            noted.store(if is_second { -signal } else { signal }, Ordering::Release);
        }
    })?;
    Ok(caught)
}

fn is_second(signal: &AtomicI32) -> bool {
    signal.load(Ordering::Acquire) < 0
}
