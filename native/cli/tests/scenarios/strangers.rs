//! A stranger is turned away, and the job goes on.

use crate::digest;
use crate::harness::{example, until, Background, LIMIT};
use rejoin_agent::protocol::error::Code;
use rejoin_agent::protocol::ids::{Attempt, Rank};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::AgentConfig;
use rejoin_communicator::{Limits, Process};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;

#[test]
fn garbage_and_a_wrong_secret_at_the_trackers_door_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let go = folder.path().join("go");
    // Rank 0 waits until the strangers have been there.
    let script = format!(
        "echo tracker $REJOIN_TRACKER; echo job $REJOIN_JOB; \
         if [ $REJOIN_RANK = 0 ]; then while [ ! -e {} ]; do sleep 0.01; done; fi; exec {}",
        go.display(),
        example("scenario")
    );
    let log = folder.path().join("events.jsonl").display().to_string();
    let mut run = Background::start(&["-n", "4", "--events", &log, "--", "sh", "-c", &script]);
    let tracker = run.printed("tracker ", 4)[0].clone();
    let job = u128::from_str_radix(&run.printed("job ", 4)[0], 16).expect("hexadecimal digits");
    for garbage in [&b"GET / HTTP/1.1\r\nHost: somebody\r\n\r\n"[..], &[0xff; 4096], b""] {
        let mut stranger = TcpStream::connect(&tracker).expect("the tracker listens");
        stranger.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
        // It may be hung up on before all is written.
        let _ = stranger.write_all(garbage);
        let _ = stranger.shutdown(std::net::Shutdown::Write);
        assert!(matches!(stranger.read(&mut [0; 16]), Ok(0) | Err(_)), "nothing is answered");
    }
    let process = Process::start(AgentConfig {
        job: JobId(job.to_be_bytes()),
        secret: Secret::random().expect("randomness"),
        encrypt: false,
        executor: "stranger".into(),
        listen: IpAddr::from([127, 0, 0, 1]),
        ports: PortRange::EPHEMERAL,
        host: "localhost".into(),
        tracker: tracker.parse().expect("an address"),
        join_file: None,
        tracker_millis: 300,
    })
    .expect("an agent starts without its tracker");
    let refused = process.join(Rank(0), Attempt { stage: 0, task: 9 }, "scenario", Limits::default()).err();
    assert_eq!(refused.expect("a wrong secret doesn't get a slot").code, Code::TrackerUnreachable);
    std::fs::write(&go, "").expect("a file");
    assert!(run.status().success(), "{}", run.out());
    let ended = crate::Ran { status: Some(0), out: run.out(), err: String::new() };
    digest(&ended);
    let events = std::fs::read_to_string(Path::new(&log)).expect("the log is there");
    assert!(events.contains("StrangerRefused"), "{events}");
}

/// A run whose rank 0 waits for a file, and what an agent of it has to know.
struct Joined {
    run: Background,
    folder: tempfile::TempDir,
    job: JobId,
    secret: Secret,
    tracker: SocketAddr,
}

impl Joined {
    fn start() -> Joined {
        Joined::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Joined {
        let folder = tempfile::tempdir().expect("a folder");
        let go = folder.path().join("go");
        let script = format!(
            "echo tracker $REJOIN_TRACKER; echo job $REJOIN_JOB; \
             echo secret $(od -An -v -tx1 /proc/self/fd/$REJOIN_SECRET_FD | tr -d ' \\n'); \
             if [ $REJOIN_RANK = 0 ]; then while [ ! -e {} ]; do sleep 0.01; done; fi; exec {}",
            go.display(),
            example("scenario")
        );
        let log = folder.path().join("events.jsonl").display().to_string();
        let run = Background::start(&[&["-n", "4", "--events", &log], options, &["--", "sh", "-c", &script]].concat());
        let secret = run.printed("secret ", 4)[0].clone();
        let bytes: Vec<u8> = (0..32)
            .map(|at| u8::from_str_radix(&secret[2 * at..2 * at + 2], 16).expect("hexadecimal digits"))
            .collect();
        let job = u128::from_str_radix(&run.printed("job ", 4)[0], 16).expect("hexadecimal digits");
        let tracker = run.printed("tracker ", 4)[0].parse().expect("an address");
        let secret = Secret::new(bytes.try_into().expect("32 bytes"));
        Joined { run, folder, job: JobId(job.to_be_bytes()), secret, tracker }
    }

    fn agent(&self, tracker: SocketAddr) -> Process {
        Process::start(AgentConfig {
            job: self.job,
            secret: self.secret.clone(),
            encrypt: false,
            executor: "stranger".into(),
            listen: IpAddr::from([127, 0, 0, 1]),
            ports: PortRange::EPHEMERAL,
            host: "localhost".into(),
            tracker,
            join_file: None,
            tracker_millis: 5_000,
        })
        .expect("an agent starts")
    }

    fn events(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("events.jsonl")).expect("the log is there")
    }

    /// Lets rank 0 go on; all end well.
    fn ends_well(mut self) -> String {
        std::fs::write(self.folder.path().join("go"), "").expect("a file");
        assert!(self.run.status().success(), "{}", self.run.out());
        let ended = crate::Ran { status: Some(0), out: self.run.out(), err: String::new() };
        digest(&ended);
        self.events()
    }
}

#[test]
fn an_older_try_of_a_rank_that_lives_is_turned_away_although_it_knows_the_secret() {
    let joined = Joined::start();
    until("rank 1 has joined", || joined.events().contains("{\"RankJoined\":{\"rank\":1,"));
    let agent = joined.agent(joined.tracker);
    // Its slot belongs to another process with the same attempt.
    let refused = agent.join(Rank(1), Attempt { stage: 0, task: 0 }, "scenario", Limits::default()).err();
    assert_eq!(refused.expect("the slot is taken").code, Code::Fenced);
    let events = joined.ends_well();
    assert!(events.contains("RankRefused") && !events.contains("RankLost"), "{events}");
}

#[test]
fn an_incarnation_that_was_lost_is_not_let_in_again_although_it_knows_the_secret() {
    let joined = Joined::start_with(&["--restart", "--kill", "rank=1,at=join"]);
    until("rank 1 has come back", || joined.events().contains("{\"RankJoined\":{\"rank\":1,\"incarnation\":1,"));
    let agent = joined.agent(joined.tracker);
    let refused = agent.join(Rank(1), Attempt { stage: 0, task: 0 }, "scenario", Limits::default()).err();
    assert_eq!(refused.expect("a newer one has the slot").code, Code::Fenced);
    let events = joined.ends_well();
    assert_eq!(events.matches("\"RankLost\"").count(), 1, "only the first one: {events}");
}

#[test]
fn a_handshake_that_is_played_again_gets_nobody_in() {
    let joined = Joined::start();
    // A relay between an agent and its tracker has all bytes of its handshake and of what it said then.
    let between = TcpListener::bind("127.0.0.1:0").expect("a port");
    let agent = joined.agent(between.local_addr().expect("its address"));
    let (mut from_agent, _) = between.accept().expect("the agent connects");
    let mut to_tracker = TcpStream::connect(joined.tracker).expect("the tracker listens");
    let (mut answers, mut back) = (to_tracker.try_clone().unwrap(), from_agent.try_clone().unwrap());
    let answering = std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
    let mut recorded = Vec::new();
    let is_in = |joined: &Joined| joined.events().matches("\"executor\":\"stranger\"").count();
    from_agent.set_read_timeout(Some(std::time::Duration::from_millis(20))).expect("a limit can be set");
    until("the agent is in", || {
        let mut buffer = [0; 4096];
        if let Ok(count) = from_agent.read(&mut buffer) {
            recorded.extend_from_slice(&buffer[..count]);
            to_tracker.write_all(&buffer[..count]).expect("the tracker reads");
        }
        is_in(&joined) == 1
    });
    let mut again = TcpStream::connect(joined.tracker).expect("the tracker listens");
    again.set_read_timeout(Some(LIMIT)).expect("a limit can be set");
    // It may be hung up on before all is written.
    let _ = again.write_all(&recorded);
    let mut answer = Vec::new();
    let _ = again.read_to_end(&mut answer);
    until("the stranger is reported", || joined.events().contains("StrangerRefused"));
    assert_eq!(is_in(&joined), 1, "{}", joined.events());
    // The one in between goes, and the true agent with it.
    let _ = (to_tracker.shutdown(std::net::Shutdown::Both), from_agent.shutdown(std::net::Shutdown::Both));
    drop(between);
    drop(agent);
    let _ = answering.join();
    let events = joined.ends_well();
    assert!(!events.contains("RankLost"), "{events}");
}
