//! Who doesn't belong to the job is turned away, and the job goes on.

use crate::digest;
use crate::harness::{example, Background, LIMIT};
use rejoin_agent::collective::{Limits, Process};
use rejoin_agent::protocol::error::Code;
use rejoin_agent::protocol::ids::{Attempt, Rank};
use rejoin_agent::transport::{JobId, PortRange, Secret};
use rejoin_agent::AgentConfig;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
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
        tracker_millis: 300,
    })
    .expect("an agent starts without its tracker");
    let refused = process.join(Rank(0), Attempt { stage: 0, task: 9 }, "scenario", Limits::default()).err();
    assert_eq!(refused.expect("a wrong secret doesn't get a seat").code, Code::TrackerUnreachable);
    std::fs::write(&go, "").expect("a file");
    assert!(run.status().success(), "{}", run.out());
    let ended = crate::Ran { status: Some(0), out: run.out(), err: String::new() };
    digest(&ended);
    let events = std::fs::read_to_string(Path::new(&log)).expect("the log is there");
    assert!(events.contains("StrangerRefused"), "{events}");
}
