//! Crowds of connections that prove nothing, at every port of a job, while ranks die and come back.

use crate::digest;
use crate::harness::{example, until, Background};
use crate::Ran;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How a crowd behaves.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Each connection stays until it is closed by the other end, and is made again within a second then.
    Held,
    /// So many of all connections in a second are closed and made again, whatever the other end does.
    Reconnecting(u32),
}

/// A crowd at all ports of some processes, until it is sent away.
struct Crowd {
    going: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Crowd {
    /// `each` connections at the port of the tracker and at those of all agents that the event log
    /// names, now and later.
    fn gather(each: usize, manner: Manner, tracker: SocketAddr, log: &Path) -> Crowd {
        let (going, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (keeps_on, count, log) = (going.clone(), made.clone(), log.to_path_buf());
        let thread = std::thread::spawn(move || {
            let mut ports = BTreeMap::from([(tracker.port(), VecDeque::new())]);
            let mut known = BTreeSet::new();
            let (began, mut replaced, mut looked) = (Instant::now(), 0_u64, None::<Instant>);
            while !keeps_on.load(Ordering::Acquire) {
                if looked.is_none_or(|at| at.elapsed() > Duration::from_millis(20)) {
                    looked = Some(Instant::now());
                    for process in agents(&log).difference(&known.clone()) {
                        for port in listening(*process) {
                            known.insert(*process);
                            ports.entry(port).or_default();
                        }
                    }
                }
                match manner {
                    Manner::Held => {
                        let due = began.elapsed().as_millis() as u64 * each as u64 / 1_000;
                        for crowd in ports.values_mut() {
                            for _ in replaced..due {
                                // One that is still open goes to the end of the queue.
                                let next = crowd.pop_front();
                                crowd.extend(next.and_then(|mut next| is_open(&mut next).then_some(next)));
                            }
                        }
                        replaced = due;
                    }
                    Manner::Reconnecting(per_second) => {
                        let due = began.elapsed().as_micros() as u64 * u64::from(per_second) / 1_000_000;
                        for crowd in (0..ports.len() as u64).cycle().take((due - replaced).min(500) as usize) {
                            // The oldest of one port goes, then that of the next.
                            let crowd = ports.values_mut().nth(crowd as usize).expect("it is one of them");
                            crowd.pop_front();
                        }
                        replaced = due;
                    }
                }
                for (port, crowd) in &mut ports {
                    // A port with many to be made doesn't keep the others waiting.
                    for _ in crowd.len()..each.min(crowd.len() + 200) {
                        crowd.extend(stranger(*port));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Crowd { going, made, thread }
    }

    /// Sends them away, and says how many connections were made.
    fn leave(self) -> usize {
        self.going.store(true, Ordering::Release);
        self.thread.join().expect("the crowd has no defect");
        self.made.load(Ordering::Relaxed)
    }
}

/// A connection that says nothing; `None` if it can't even be begun.
fn stranger(port: u16) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    // Its local port is free at once when it goes.
    socket.set_linger(Some(Duration::ZERO)).ok()?;
    match socket.connect(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))) {
        Err(cause) if cause.raw_os_error() != Some(115) => None,
        _ => Some(socket),
    }
}

/// Whether the other end has not closed it.
fn is_open(socket: &mut Socket) -> bool {
    let seen = socket.read(&mut [0; 64]).map_err(|cause| cause.kind());
    matches!(seen, Err(ErrorKind::WouldBlock | ErrorKind::NotConnected))
}

/// The agents' processes that an event log names.
fn agents(log: &Path) -> BTreeSet<u32> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let reported = text.lines().filter(|line| line.contains("AgentJoined"));
    reported.filter_map(|line| Some(number(line.split_once("\"pid\":")?.1))).collect()
}

fn number(text: &str) -> u32 {
    text.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok()).expect("a number")
}

/// The ports where a process listens.
fn listening(process: u32) -> Vec<u16> {
    let Ok(files) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return Vec::new() };
    let targets = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let sockets: BTreeSet<String> = targets
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{process}/net/tcp")).unwrap_or_default();
    let columns = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    columns
        .filter(|line| line.len() > 9 && line[3] == "0A" && sockets.contains(line[9]))
        .filter_map(|line| u16::from_str_radix(line[1].split_once(':')?.1, 16).ok())
        .collect()
}

/// Four ranks of which three die, one after the other. Beside a crowd, if there is one. Gives how
/// long each was away: from its process's end until it has entered a version.
fn away(crowd: Option<(usize, Manner)>, most_files: u64) -> Vec<Duration> {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, go) = (folder.path().join("events.jsonl"), folder.path().join("go"));
    let script = format!(
        "echo tracker $REJOIN_TRACKER; \
         if [ $REJOIN_RANK = 0 ]; then while [ ! -e {} ]; do sleep 0.01; done; fi; exec {} 100 1000",
        go.display(),
        example("scenario")
    );
    let path = log.display().to_string();
    let mut arguments = vec!["-n", "4", "--restart", "--no-shared-memory", "--events", &path];
    let rules: Vec<String> = (1..4).map(|rank| format!("rank={rank},version={},seqno=9", 20 * rank)).collect();
    rules.iter().for_each(|rule| arguments.extend(["--kill", rule]));
    arguments.extend(["--", "sh", "-c", &script]);
    let own = getrlimit(Resource::Nofile);
    let mut run = Background::start_with_files(&arguments, most_files.min(own.maximum.unwrap_or(most_files)));
    let tracker = run.printed("tracker ", 4)[0].parse().expect("an address");
    until("all but rank 0 are there", || agents(&log).len() == 3);
    let crowd = crowd.map(|(each, manner)| {
        // The crowd needs descriptors of its own.
        setrlimit(Resource::Nofile, Rlimit { current: own.maximum, ..own }).expect("a limit up to the highest");
        let crowd = Crowd::gather(each, manner, tracker, &log);
        until("the crowd is there", || crowd.made.load(Ordering::Relaxed) >= 4 * each);
        crowd
    });
    let began = Instant::now();
    std::fs::write(&go, "").expect("a file");
    let status = run.status();
    let made = crowd.map_or(0, Crowd::leave);
    let errors = std::fs::read_to_string(run.folder.path().join("err")).unwrap_or_default();
    let events = std::fs::read_to_string(&log).expect("the log is there");
    assert!(status.success(), "{made} connections were made\n{errors}\n{events}");
    digest(&Ran { status: Some(0), out: run.out(), err: errors });
    let at = |what: &[&str]| {
        let mut lines = events.lines().filter(|line| what.iter().all(|word| line.contains(word)));
        let micros = lines.next().and_then(|line| line.split_once("\"micros\":"));
        let micros = micros.map(|(_, rest)| number(rest)).unwrap_or_else(|| panic!("{what:?} is in {events}"));
        Duration::from_micros(micros.into())
    };
    let dead = |rank: u32| at(&[&format!("\"rank\":{rank},"), "\"Ended\"", "SIGKILL"]);
    let back = |rank: u32| at(&[&format!("\"VersionEntered\":{{\"rank\":{rank},\"incarnation\":1,")]);
    let away: Vec<Duration> = (1..4).map(|rank| back(rank) - dead(rank)).collect();
    println!("{made} connections of strangers; the job took {:?}; away {away:?}", began.elapsed());
    away
}

/// The middle one of how long the ranks of some runs were away.
fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

/// In `make test-long`, which says REJOIN_TIMES=10: how long ranks are away beside thousands, and
/// how long with no crowd. The bars are 2 for those that are held and 5 for those that reconnect; a
/// loaded machine says nothing of them, so that they are printed (`-- --nocapture`) and not
/// compared.
fn figures(each: usize, manner: Manner) {
    let undisturbed = middle((0..3).flat_map(|_| away(None, 20_000)).collect());
    let beside = middle((0..3).flat_map(|_| away(Some((each, manner)), 20_000)).collect());
    let ratio = beside.as_secs_f64() / undisturbed.as_secs_f64();
    println!(
        "a killed rank is back after {undisturbed:?}; beside {each} connections at each port, {manner:?}: {beside:?}, \
         {ratio:.2}"
    );
}

#[test]
fn a_crowd_of_strangers_at_every_port_takes_neither_recovery_nor_the_launchers_descriptors() {
    for manner in [Manner::Held, Manner::Reconnecting(1_000)] {
        away(Some((400, manner)), 256);
    }
    if std::env::var("REJOIN_TIMES").is_ok() {
        figures(2_000, Manner::Held);
        figures(2_000, Manner::Reconnecting(5_000));
    }
}
