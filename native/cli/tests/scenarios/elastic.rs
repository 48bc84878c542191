//! Worlds that shrink: a rank that is killed for good, and the others that go on without it.

use crate::harness::{signal, until, Background};
use crate::{at, digest, example, process, ran, run, survive_choosing, Ran};
use std::path::Path;
use std::process::Command;

/// So many ranks that are not started again, of which at least `min` are to be left; each way in which bytes go.
fn shrinks(world: u32, min: u32, rules: &[String], options: &[&str]) -> [Ran; 2] {
    [&[][..], &["--no-shared-memory"]].map(|way| {
        let (world, min, program) = (world.to_string(), min.to_string(), example("scenario"));
        let mut all = vec!["-n", &world, "--min", &min, "--elastic-timeout", "300ms"];
        all.extend(way.iter().chain(options));
        rules.iter().for_each(|rule| all.extend(["--kill", rule]));
        all.extend(["--", &program, "4", "10000", "again"]);
        run(&all)
    })
}

/// The model of a run in which this was the world from the beginning: that of the scenario's last version follows from
/// how many ranks have made it.
fn fixed(world: u32) -> String {
    let (world, program) = (world.to_string(), example("scenario"));
    digest(&run(&["-n", &world, "--", &program, "4", "10000"]).ended(0))
}

#[test]
fn a_rank_that_is_killed_for_good_is_waited_for_and_the_others_go_on_as_a_smaller_world() {
    let alone = fixed(3);
    for ran in shrinks(4, 2, &[at(1, 2, 9)], &[]) {
        let ran = ran.ended(0);
        assert_eq!(digest(&ran), alone);
        ran.says("the others go on without it");
        ran.says("no replacement of rank 1 came within 0.3 s, so the world of 4 ranks goes on as one of 3");
        for line in
            ["is rank 0 of 3 from version 2 on", "is rank 1 of 3 from version 2 on", "is rank 2 of 3 from version 2"]
        {
            assert!(ran.out.contains(line), "no `{line}` in {}", ran.out);
        }
        assert!(ran.out.contains("joins again after RESIZED: rank 3 of 4 is rank 2 of 3 from now on"), "{}", ran.out);
        ran.says("3 of 4 ranks ended well");
    }
}

#[test]
fn the_world_shrinks_twice_and_the_first_rank_may_be_the_one_that_is_gone() {
    let alone = fixed(2);
    for ran in shrinks(4, 2, &[at(0, 1, 4), "rank=1,version=2,seqno=5,incarnation=2".into()], &[]) {
        let ran = ran.ended(0);
        assert_eq!(digest(&ran), alone);
        assert!(ran.out.contains("is rank 0 of 3 from version 1 on"), "{}", ran.out);
        assert!(ran.out.contains("is rank 1 of 2 from version 2 on"), "{}", ran.out);
    }
}

#[test]
fn a_world_that_has_to_change_more_often_than_it_may_ends_with_why_and_one_that_has_not_goes_on() {
    let second = "rank=1,version=2,seqno=5,incarnation=2".to_string();
    for ran in shrinks(4, 2, &[at(0, 1, 4), second.clone()], &["--reset-limit", "1"]) {
        let ran = ran.ended(4);
        ran.says("so the world of 4 ranks goes on as one of 3");
        ran.says("but the world has changed once, and may not change again").says("the reset limit");
    }
    let alone = fixed(2);
    for ran in shrinks(4, 2, &[at(0, 1, 4), second], &["--reset-limit", "2"]) {
        assert_eq!(digest(&ran.ended(0)), alone);
    }
}

#[test]
fn two_ranks_that_are_gone_at_once_are_one_step() {
    let ran = shrinks_killing(&[1, 2], &["4", "10000", "again"], &[]).ended(0);
    assert_eq!(digest(&ran), fixed(2));
    assert!(!ran.out.contains("of 3 from version"), "{}", ran.out);
}

#[test]
fn a_world_that_would_be_too_small_waits_for_its_members_and_ends_with_who_was_missing() {
    for ran in shrinks(3, 3, &[at(1, 1, 3)], &["--members", "1500ms"]) {
        let ran = ran.ended(4);
        ran.says("MEMBERS_MISSING");
        ran.says("rank 1 is missing since 1 s");
        ran.says("Its world doesn't go below 3 ranks, and 2 were there");
    }
}

#[test]
fn a_rank_that_is_started_again_in_time_is_the_same_rank_of_the_same_world() {
    let ran = survive_choosing(4, &["--min", "2"], &["4", "10000", "again"], &[at(1, 2, 9)]);
    assert_eq!(digest(&ran), fixed(4));
    assert!(!ran.out.contains("of 3 from version"), "{}", ran.out);
}

#[test]
fn the_tracker_dies_when_a_rank_is_gone_and_its_next_life_shrinks_the_world() {
    let alone = fixed(3);
    // Rank 0 comes to call 0 whatever becomes of rank 1, which dies some calls later.
    let rules = [at(1, 2, 9), "rank=0,version=2,seqno=0,do=tracker:500ms".into()];
    for ran in shrinks(4, 2, &rules, &[]) {
        assert_eq!(digest(&ran.ended(0)), alone);
    }
}

/// Four ranks of which these are killed for good while rank 3 is frozen: the others wait for it, so that none of them
/// waits for one that is dead already.
fn shrinks_killing(killed: &[u32], arguments: &[&str], options: &[&str]) -> Ran {
    let (folder, program) = (tempfile::tempdir().expect("a folder"), example("scenario"));
    let log = folder.path().join("events.jsonl");
    let path = log.display().to_string();
    let times = ["--elastic-timeout", "2s", "--lost-after", "40s", "--events", &path];
    let rule = ["--kill", "rank=3,version=2,seqno=9,do=stop:1000s"];
    let program = [&["--", program.as_str()], arguments].concat();
    let run = Background::start(&[&["-n", "4", "--min", "2"], &times[..], &rule, options, &program].concat());
    until("rank 3 is frozen", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("FaultFired")));
    // All at once, before any of them is started again.
    let frozen = process(&log, 3);
    let processes: Vec<String> = killed.iter().map(|rank| process(&log, *rank).to_string()).collect();
    assert!(Command::new("kill").arg("-KILL").args(processes).status().expect("kill is there").success());
    if !killed.contains(&3) {
        signal(frozen, "CONT");
    }
    ran(run)
}

fn shrinks_with_own(killed: &[u32], options: &[&str]) -> Ran {
    shrinks_killing(killed, &["4", "10000", "own", "again"], options)
}

#[test]
fn the_own_models_of_ranks_that_are_gone_are_given_to_the_others() {
    let ran = shrinks_with_own(&[1], &[]).ended(0);
    assert_eq!(digest(&ran), fixed(3));
    let given: Vec<&str> = ran.out.lines().filter(|line| line.contains("the own model of rank")).collect();
    assert!(
        matches!(given[..], [one] if one.ends_with("is given the own model of rank 1 of 4 as of version 2")),
        "{given:?}"
    );
    let ran = shrinks_with_own(&[0, 1], &[]).ended(0);
    assert_eq!(digest(&ran), fixed(2));
    for gone in [0, 1] {
        let line = format!("is given the own model of rank {gone} of 4 as of version 2");
        assert_eq!(ran.out.matches(&line).count(), 1, "{}", ran.out);
    }
}

#[test]
fn an_own_model_of_which_no_copy_is_left_ends_the_run_with_whose_unless_it_may_be_lost() {
    // Rank 2's process holds the only copy of rank 1's.
    let ran = shrinks_with_own(&[1, 2], &["--own-copies", "1"]).ended(4);
    ran.says("the own model of rank 1 in the world of 4 ranks that made it as of version 2 is lost");
    let ran = shrinks_with_own(&[1, 2], &["--own-copies", "1", "--own-may-be-lost"]).ended(0);
    assert_eq!(digest(&ran), fixed(2));
    for line in ["lacks the own model of rank 1 of 4 as of version 2", "is given the own model of rank 2 of 4"] {
        assert_eq!(ran.out.matches(line).count(), 1, "{}", ran.out);
    }
}

/// A life of a job with own models that goes on from what is durable, in a world of so many ranks: it ends when the
/// worlds of all lives have had these sizes.
fn life(folder: &Path, world: u32, sizes: &[&str]) -> Background {
    let (world, text) = (world.to_string(), |name: &str| folder.join(name).display().to_string());
    let (durable, log) = (text("durable"), text(&format!("{world}.jsonl")));
    let job = ["--job", "m", "--durable", &durable, "--durable-every", "1", "--resume", "--events", &log];
    let program = ["--", "env", "ELASTIC_OWN=1", &example("elastic")];
    Background::start(&[&["-n", &world, "--min", "2"], &job[..], &program, sizes].concat())
}

#[test]
fn a_later_job_of_another_world_goes_on_from_durable_versions_and_gives_out_the_own_models_of_ranks_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("durable")).expect("room for a folder");
    // No world has nine ranks: each of these lives is killed, with all its ranks.
    for (world, sizes, given) in [(4, &["4", "9"][..], 0), (3, &["4", "3", "9"], 1), (5, &["4", "3", "5", "9"], 0)] {
        let mut run = life(folder.path(), world, sizes);
        run.printed(&format!("reached {}", sizes.len() - 1), world as usize);
        let log = folder.path().join(format!("{world}.jsonl"));
        let written = || std::fs::read_to_string(&log).unwrap_or_default().matches("DurableWritten").count();
        until("some versions are durable", || written() > 4 * (world as usize + 1));
        run.signal("KILL");
        run.status();
        assert_eq!(run.out().matches("is given the own model of rank").count(), given, "{}", run.out());
    }
    // This one makes few versions, perhaps one: files of five ranks are still there for the next one.
    for (world, sizes, given) in [(2, &["4", "3", "5", "2"][..], 3), (3, &["4", "3", "5", "2", "3"], 0)] {
        let last = ran(life(folder.path(), world, sizes)).ended(0);
        // The program ends with an error unless each part is at one rank.
        assert_eq!(last.out.matches("is given the own model of rank").count(), given, "{}", last.out);
        digest(&last);
    }
}

#[test]
fn a_rank_whose_calls_end_with_an_error_is_gone_as_one_that_is_killed_and_is_the_same_rank_if_it_comes_back() {
    let alone = fixed(3);
    let rule = format!("{},do=throw", at(1, 2, 9));
    for ran in shrinks(4, 2, std::slice::from_ref(&rule), &[]) {
        let ran = ran.ended(0);
        assert_eq!(digest(&ran), alone);
        ran.says(&format!("rule `{rule}` fired")).says("rank 1 failed (status 9)");
        ran.says("no replacement of rank 1 came within 0.3 s, so the world of 4 ranks goes on as one of 3");
    }
    let ran = survive_choosing(4, &["--min", "2"], &["4", "10000", "again"], &[rule]);
    assert_eq!(digest(&ran), fixed(4));
    assert!(!ran.out.contains("of 3 from version"), "{}", ran.out);
}

/// Four ranks of which all are killed while rank 3 is frozen.
fn all_are_killed(options: &[&str]) -> Ran {
    shrinks_killing(&[0, 1, 2, 3], &["4", "10000", "again"], options)
}

#[test]
fn a_run_of_which_all_ranks_fail_ends_and_says_that_none_is_left_or_what_is_lost() {
    all_are_killed(&[]).ended(3).says("no rank is left, and none is started again");
    // All are started again at once, but nobody has the model any more.
    all_are_killed(&["--restart"]).ended(4).says("UNRECOVERABLE");
}
