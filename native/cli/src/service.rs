//! `rejoin tracker`: the tracker of a job as a process of its own, for launchers on any hosts.

use crate::listen::{own_address, Listen};
use crate::run::durable::{Store, Wanted};
use crate::run::ending::{Ending, OUTPUT_FAILED};
use crate::run::output;
use crate::run::signals::{self, Caught};
use crate::run::tracker::{rules, LEASE};
use rejoin_agent::event_log::{Fact, Recorder};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::resize::Elastic;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{TrackerConfig, TrackerInput};
use rejoin_agent::tracker_life::{JobTerms, TrackerLife};
use rejoin_agent::transport::{JobId, PortRange};
use rejoin_agent::{TrackerNotice, TrackerServer, TrackerServerConfig};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    /// The file of the job's secret; `None`: it stands in the join file.
    pub secret: Option<PathBuf>,
    /// Where it listens; the address on the way to other hosts if it isn't given.
    pub listen: Option<Listen>,
    /// Silence after which a process is declared lost.
    pub lost_after: Duration,
    /// How long a rank may be missing.
    pub members: Duration,
    /// Durable checkpoints, if there are to be any.
    pub durable: Option<Wanted>,
    /// Whether what ranks send each other is encrypted.
    pub encrypt: bool,
    /// Where the event log goes.
    pub events: Option<PathBuf>,
    /// Level of the log.
    pub log: String,
}

fn say(text: &str) {
    output::say(&format!("rejoin tracker: {text}"));
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
    let signals = signals::watch(|_| true).map_err(io("watch for signals"))?;
    let (life, mut store, server, mut recorder) = begin(service)?;
    let join = &life.join;
    // As what is said: where it can't be written, the job goes on.
    let _ = writeln!(
        std::io::stdout(),
        "tracker of job {}, {}, at {}; life {}; join file {}",
        join.name,
        ranks(join.world, join.max),
        join.tracker,
        join.life,
        service.join.display()
    );
    recorder.begins(join.world, vec![join.name.clone()], Vec::new());
    let ending = watch(&life, store.as_mut(), &server, &signals, &mut recorder);
    if let Ending::TakenOver(reason) = &ending {
        // Not a word to the agents: they go to the one that has taken over.
        server.abandon();
        say(reason);
        return Ok(ending.status());
    }
    // Who is on his way here hears how the job has ended.
    let until = Instant::now() + LEASE;
    let heard = u32::from(matches!(ending, Ending::Signalled(_)));
    while server.links() > 0 && Instant::now() < until && signals.count() <= heard {
        take_events(&server, &mut recorder, LOOK);
    }
    server.close();
    while let Ok(Some(notice)) = server.poll(Duration::ZERO) {
        note(notice, &mut recorder);
    }
    life.end();
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

/// By the name that it has on other hosts, too.
fn whole(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path)
        .map_err(|cause| Error::new(Code::Io, format!("--secret {} has no whole path: {cause}", path.display())))
}

/// A new job, or the next life of the one that the join file names.
fn begin(service: &Service) -> Result<(TrackerLife, Option<Store>, TrackerServer, Recorder), Error> {
    // Its files have the job's name, whatever number it has.
    let durable = service.durable.as_ref().map(|wanted| wanted.place(JobId([0; 16]))).transpose()?;
    let (name, world, max) = (service.name.clone(), service.world, service.elastic.map(|elastic| elastic.max));
    let secret_file = service.secret.as_deref().map(whole).transpose()?;
    let mut life = TrackerLife::begin(
        &service.join,
        JobTerms { name, world, max, encrypt: service.encrypt, durable, secret_file },
    )?;
    let (job, is_later) = (life.join.job, life.is_later());
    let fixed = Some(world).filter(|_| service.elastic.is_none());
    let open = |wanted| Store::open(wanted, fixed, job, is_later);
    let mut store = service.durable.as_ref().map(open).transpose()?;
    if is_later {
        say(&format!(
            "takes over job {} from life {} ({}); to begin it anew, end this, remove the file and start again",
            service.name,
            life.join.life - 1,
            service.join.display()
        ));
    }
    let start = match &mut store {
        None => JobStart::Fresh,
        Some(store) if is_later => store.start_again(say),
        Some(store) => {
            let start = store.start()?;
            store.remarks(start)?.iter().for_each(|remark| say(remark));
            start
        }
    };
    // Before this life is there for anybody: a log that can't be written ends nothing but this process.
    let recorder = match &service.events {
        Some(path) if is_later => Recorder::go_on(path, std::slice::from_ref(&service.name)),
        path => Recorder::new(path.as_deref()),
    };
    let recorder = recorder.map_err(|cause| {
        let path = service.events.as_deref().unwrap_or(Path::new("")).display();
        Error::new(Code::BadArgument, format!("--events {path} can't be used: {cause}"))
    })?;
    let listen = service.listen.unwrap_or_else(|| Listen { address: own_address(), port: None });
    let server = life.serve(TrackerServerConfig {
        job,
        secret: life.secret.clone(),
        encrypt: service.encrypt,
        listen: listen.address,
        ports: listen.port.map_or(Ok(PortRange::EPHEMERAL), |port| PortRange::new(port, port))?,
        rules: TrackerConfig {
            elastic: service.elastic,
            ..rules(world, life.join.life, service.lost_after, service.members, start)
        },
    })?;
    Ok((life, store, server, recorder))
}

/// Until the job, this life or this process is over.
fn watch(
    life: &TrackerLife,
    mut store: Option<&mut Store>,
    server: &TrackerServer,
    signals: &Caught,
    recorder: &mut Recorder,
) -> Ending {
    loop {
        take_events(server, recorder, LOOK);
        match server.result() {
            Ok(Some(_)) => return Ending::Well,
            Ok(None) => {}
            Err(error) => return Ending::JobFailed(error.to_string()),
        }
        if let Some(signal) = signals.first() {
            let ending = Ending::Signalled(signal);
            server.notify(TrackerInput::Cancel { error: Error::new(Code::Cancelled, ending.reason()) });
            return ending;
        }
        if let Some(reason) = life.superseded() {
            return Ending::TakenOver(reason);
        }
        if let Some(Err(error)) = store.as_mut().map(|store| store.hold(life.join.job)) {
            // It isn't lost for that: what it keeps away are other jobs of the same name.
            log::warn!("{}", error.message);
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
        Event::DurableFailed { rank, version, reason, .. } => {
            say(&format!("rank {rank}: durable checkpoint {version} failed: {reason}"));
        }
        Event::RolledBack { version, reason, .. } => {
            say(&format!("all ranks go back to version {version}: {reason}"));
        }
        _ => {}
    }
    recorder.event(event);
}
