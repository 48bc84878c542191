//! What `rejoin status` says of a job.

use crate::harness::{example, finish, rejoin, signal, until};
use crate::jobs::{digest, Job, Started};
use crate::prints;
use std::process::Command;

#[test]
fn the_status_of_an_elastic_job_says_that_the_others_go_on_without_a_rank_that_is_missing() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "1", "--max", "2", "--elastic-timeout", "55s"];
    let mut tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let (mut a, mut b) = (job.slots("a", "1", &["2", "1"]), job.slots("b", "1", &["2", "1"]));
    a.printed("is rank", 1);
    b.printed("is rank", 1);
    b.kill();
    let mut said = String::new();
    until("a rank is missing", || {
        said = finish(&mut rejoin(&["status", "--join", &job.path("join")])).ended(0).out;
        said.contains(" is missing: ")
    });
    assert!(
        said.contains("the others go on without it (--elastic-timeout); where they are too few, the job"),
        "{said}"
    );
    signal(tracker.child.id(), "TERM");
    tracker.ended();
    a.ended();
}

#[test]
fn the_status_says_where_each_rank_is_and_who_is_missing_since_when_until_the_job_is_over() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    job.is_under_way();
    let join = job.path("join");
    let mut watched = job.start("watched", &["status", "--join", &join, "--watch", "--json"]);
    let status = |more: &[&str]| finish(&mut rejoin(&[&["status", "--join", &join][..], more].concat())).ended(0);
    let object = || serde_json::from_str::<serde_json::Value>(&status(&["--json"]).out).expect("it is JSON");
    prints(&status(&[]), "job training: 4 ranks, 0 missing, 0 deaths; life 1 of its tracker at 127.0.0.1:");
    // Its ranks die with it, and nobody starts them again.
    b.kill();
    until("both ranks are missing", || status(&[]).out.contains("2 missing"));
    let json = object();
    let ranks = json["ranks"].as_array().expect("a list");
    let hosts: Vec<_> = ranks.iter().map(|rank| rank["place"]["host"].as_str()).collect();
    assert_eq!((&json["job"], hosts), (&"training".into(), vec![Some("a"), Some("a"), None, None]), "{json}");
    assert!(ranks[3]["state"]["Missing"]["millis"].is_u64() && ranks[3]["deaths"] == 1, "{json}");
    // The launcher that would say how often it starts rank 3 again is gone.
    assert!(ranks[0]["most_deaths"] == 10 && ranks[3]["most_deaths"].is_null(), "{json}");
    assert!(ranks[0]["lost_millis"] == 0 && ranks[0]["rounds_again"] == 0, "{json}");
    until("the death costs time", || object()["ranks"][3]["lost_millis"].as_u64() > Some(0));
    let told = status(&[]);
    ["process 0.0", "0 of 10  -", "rank 3 is missing: ", "; the job ends in "]
        .iter()
        .for_each(|text| prints(&told, text));
    let mut c = job.host("c", "127.0.0.4", "2-3");
    for host in [&mut a, &mut c] {
        host.ended().ended(0);
    }
    tracker.ended().ended(0);
    let watched = watched.ended().ended(0);
    let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(!watched.out.is_empty() && watched.out.lines().all(is_json), "{}", watched.out);
    watched.says("the job is over");
    finish(&mut rejoin(&["status", "--join", &join])).ended(1).says("there is no join file");
}

#[test]
fn the_status_of_a_rank_that_was_started_as_another_one_says_its_own_deaths_and_its_own_launchers_restarts() {
    let job = Job::new();
    let times = ["-n", "2", "--min", "2", "--max", "4", "--elastic-timeout", "300ms", "--resize-interval", "100ms"];
    let mut tracker = job.elastic_tracker("tracker", "127.0.0.1", &times);
    let (join, program, sizes) = (job.path("join"), example("elastic"), ["2", "4", "2", "4"]);
    let mut a = job.slots("a", "2", &sizes);
    a.printed("reached 1", 2);
    let slots = ["run", "--join", &join, "--slots", "2", "--host", "b", "--timeout", "50s", "--restart"];
    let mut b = job.start("b", &[&slots[..], &["--restarts", "7", "--", &program], &sizes].concat());
    b.printed("reached 2", 2);
    let ranks = || {
        let ran = finish(&mut rejoin(&["status", "--join", &join, "--json"])).ended(0);
        let json: serde_json::Value = serde_json::from_str(&ran.out).expect("it is JSON");
        json["ranks"].as_array().expect("a list").clone()
    };
    let of = |ranks: &[serde_json::Value], name: &str| ranks.iter().map(|rank| rank[name].as_u64()).collect::<Vec<_>>();
    assert_eq!(of(&ranks(), "most_deaths"), [Some(10), Some(10), Some(7), Some(7)]);

    // Those that it has started as rank 2 and 3 are rank 0 and 1 from now on.
    a.kill();
    b.printed("reached 3", 2);
    until("what both do again is counted", || of(&ranks(), "rounds_again").iter().all(|rounds| *rounds > Some(0)));
    let before = ranks();
    assert_eq!((of(&before, "most_deaths"), of(&before, "deaths")), (vec![Some(7); 2], vec![Some(0); 2]), "{before:?}");
    signal(job.processes(&b)[0], "KILL");
    let process = |rank: &serde_json::Value| rank["place"]["process"].as_str().unwrap_or_default().to_string();
    let mut after = ranks();
    until("the rank is there again", || {
        after = ranks();
        after.iter().all(|rank| !process(rank).is_empty()) && after.iter().any(|rank| rank["deaths"] == 1)
    });
    let started = after.iter().position(|rank| rank["deaths"] == 1).expect("one has died");
    assert_eq!(process(&after[started]), process(&before[started]).replace(".0", ".1"), "{after:?}");
    assert_eq!(after[started]["incarnation"].as_u64(), before[started]["incarnation"].as_u64().map(|nth| nth + 1));
    assert_eq!(after[1 - started]["deaths"], 0, "{after:?}");
    assert_eq!(of(&after, "most_deaths"), [Some(7), Some(7)]);
    prints(&finish(&mut rejoin(&["status", "--join", &join])).ended(0), "1 of 7");

    let mut c = job.slots("c", "2", &sizes);
    let (b, c) = (b.ended().ended(0), c.ended().ended(0));
    digest(&[&b, &c]);
    tracker.ended().ended(0);
}

#[test]
fn a_status_that_is_watched_in_a_terminal_is_drawn_anew_in_its_place_until_the_job_is_over() {
    let job = Job::new();
    let mut tracker = job.tracker("tracker", "127.0.0.1");
    let watch = format!("{} status --join {} --watch", rejoin(&[]).get_program().display(), job.path("join"));
    let terminal = ["--quiet", "--return", "--command", &watch, "/dev/null"];
    let mut watched = job.start_command("watched", Command::new("script").args(terminal));
    let drawn = |watched: &Started| watched.text("out").matches("\x1b[H\x1b[J").count();
    until("it is drawn a second time", || drawn(&watched) > 1);
    let (mut a, mut b) = (job.host("a", "127.0.0.2", "0-1"), job.host("b", "127.0.0.3", "2-3"));
    for host in [&mut a, &mut b] {
        host.ended().ended(0);
    }
    tracker.ended().ended(0);
    let watched = watched.ended().ended(0);
    prints(&watched, "job training: 4 ranks, 4 missing");
    prints(&watched, "the job is over: its join file is gone");
}

#[test]
fn the_status_of_a_run_of_its_own_is_asked_by_a_file_that_is_for_that_alone_and_goes_with_the_run() {
    let job = Job::new();
    let (file, go, program) = (job.path("status"), job.path("go"), example("scenario"));
    let line = "while [ ! -e \"$0\" ]; do sleep 0.05; done; exec \"$@\"";
    let of_run = ["run", "-n", "2", "--job", "mine", "--durable", &job.path("durable"), "--status", &file, "--"];
    let mut running = job.start("run", &[&of_run[..], &["sh", "-c", line, &go, &program, "3", "1000"]].concat());
    let status = || finish(&mut rejoin(&["status", "--join", &file]));
    until("the run answers", || status().out.contains("job mine: 2 ranks, 2 missing"));
    let joins = finish(&mut rejoin(&["run", "--join", &file, "--ranks", "0-1", "--", "true"])).ended(1);
    joins.says("starts all ranks itself");
    let again = finish(&mut rejoin(&["run", "-n", "1", "--status", &file, "--", "true"])).ended(1);
    again.says("is there already");
    std::fs::write(&go, "").expect("room for a file");
    running.ended().ended(0);
    assert!(!std::path::Path::new(&file).exists());
    status().ended(1).says("there is no join file");
}

#[test]
fn the_status_of_a_job_whose_tracker_is_gone_is_an_error_that_says_where_it_was() {
    let job = Job::new();
    job.tracker("tracker", "127.0.0.1").kill();
    let ran = finish(&mut rejoin(&["status", "--join", &job.path("join")])).ended(1);
    ran.says("TRACKER_UNREACHABLE").says("the tracker of job training (life 1) at 127.0.0.1:");
}
