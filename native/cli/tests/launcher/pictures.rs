//! Event logs and the pictures that are drawn from them.

use crate::harness::{example, finish, rejoin, run};

#[test]
fn a_run_with_a_death_leaves_a_log_of_typed_events_and_a_picture_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (log, picture) = (path("events.jsonl"), path("run.svg"));
    let (program, rule) = (example("steps"), "rank=1,version=3,at=checkpoint");
    run(&["-n", "3", "--restart", "--events", &log, "--kill", rule, "--", &program]).ended(0);

    let text = std::fs::read_to_string(&log).expect("the log is there");
    let records: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    let times: Vec<u64> = records.iter().map(|r| r["micros"].as_u64().expect("each has its time")).collect();
    assert!(times.is_sorted());
    let index = |what: &dyn Fn(&serde_json::Value) -> bool| {
        records.iter().position(what).unwrap_or_else(|| panic!("an event is missing in:\n{text}"))
    };
    let fired = index(&|r| r["event"]["FaultFired"]["id"] == 0 && r["rank"] == 1);
    let ended = index(&|r| r["launcher"]["Ended"]["how"] == "SIGKILL" && r["rank"] == 1);
    let back = index(&|r| r["event"]["RankJoined"]["incarnation"] == 1 && r["rank"] == 1);
    let over = index(&|r| r["launcher"]["Over"]["status"] == 0);
    // The kernel reports the death to the launcher, and the dead reported itself that the rule fired: in any order,
    // and maybe before what the tracker says of the view that it died in.
    assert!(fired < over && ended < back && back < over, "{fired} {ended} {back} {over}");
    assert_eq!(over, records.len() - 1);
    let entered =
        index(&|r| r["event"]["VersionEntered"]["version"] == 2 && r["version"] == 2 && r["incarnation"] == 0);
    assert_eq!(records[entered]["generation"]["epoch"], 1);
    assert!(entered < over);

    finish(&mut rejoin(&["timeline", &log, "--output", &picture])).ended(0);
    let drawn = std::fs::read_to_string(&picture).expect("the picture is there");
    assert!(drawn.starts_with("<svg") && drawn.trim_end().ends_with("</svg>"));
    for part in ["rank 0", "rank 1", "rank 2", "died once", "rule `rank=1,version=3,at=checkpoint` fired", "SIGKILL"] {
        assert!(drawn.contains(part), "{part} is in the picture");
    }
    let printed = finish(&mut rejoin(&["timeline", &log])).ended(0);
    assert_eq!(printed.out.trim_end(), drawn.trim_end());
}

#[test]
fn a_file_that_is_no_log_is_refused_with_the_line() {
    let ran = finish(&mut rejoin(&["timeline", "/etc/passwd"])).ended(1);
    ran.says("line 1 of /etc/passwd is not an event of Rejoin");
}

#[test]
fn a_log_that_cannot_be_written_is_told() {
    run(&["-n", "1", "--events", "/nowhere/log", "--", "true"]).ended(1).says("--events /nowhere/log can't be used");
    run(&["-n", "1", "--events", "/dev/full", "--", "true"]).ended(6).says("could not be written to its end");
}
