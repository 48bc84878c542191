//! Deaths: what counts, what ends the job, and which rank is missed for too long.

use crate::support;

use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Incarnation, Lane, MemberId, Millis, Rank, Task};
use rejoin_protocol::message::{AgentMessage, TrackerMessage};
use rejoin_protocol::report::Report;
use rejoin_protocol::tracker::{DeathLimit, TrackerConfig, TrackerInput, TrackerOutput};
use support::*;

fn io() -> Option<Error> {
    Some(Error::new(Code::Io, "the objective threw"))
}

#[test]
fn a_task_that_ends_leaves_a_vacant_slot_and_everybody_hears_of_it() {
    let mut desk = Desk::trained_to(3, 2);
    let outputs = desk.leaves(2, 1, 0, io());
    assert!(lost(&outputs)[0].1.contains("the objective threw"));
    for link in [1, 2, 3] {
        assert_eq!(views(&outputs, link)[0].vacant(), [Rank(1)]);
    }
}

#[test]
fn an_error_that_will_repeat_ends_the_job_at_once_with_its_cause_first() {
    let mut desk = Desk::trained_to(2, 2);
    let failure = Error::new(Code::TrainingFailed, "label must be in [0, 1]");
    let outputs = desk.leaves(2, 1, 0, Some(failure));
    let error = failure_of(&outputs);
    assert_eq!(error.code, Code::TrainingFailed);
    assert!(error.message.contains("rank 1") && error.message.contains("label must be in [0, 1]"), "{error}");
    for link in [1, 2] {
        assert!(sent(&outputs, link).contains(&&TrackerMessage::Ended(Err(error.clone()))));
    }
}

fn failure_of(outputs: &[TrackerOutput]) -> &Error {
    failure(outputs).expect("the job should have failed")
}

#[test]
fn a_task_that_is_cancelled_alone_is_waited_for_and_counts_no_death() {
    let mut desk = Desk::trained_to(2, 2);
    let outputs = desk.leaves(2, 1, 0, Some(Error::new(Code::Cancelled, "killed by the scheduler")));
    assert!(failure(&outputs).is_none());
    assert_eq!(lost(&outputs)[0].2, 0);
}

#[test]
fn a_leave_of_an_older_incarnation_changes_nothing() {
    let mut desk = Desk::trained_to(2, 2);
    desk.leaves(1, 0, 0, io());
    desk.joins(1, 0, attempt(1));
    assert_eq!(desk.leaves(1, 0, 0, io()), []);
}

fn task_gone(task: u32, counts: bool) -> TrackerInput {
    TrackerInput::TaskGone { task: Task(0), attempt: attempt(task), reason: "exit 1".into(), counts }
}

#[test]
fn a_failed_task_is_lost_only_if_its_try_has_the_slot() {
    let mut desk = Desk::trained_to(2, 2);
    let gone = |task| task_gone(task, true);
    assert_eq!(desk.input(gone(4)), []);
    let outputs = desk.input(gone(0)).to_vec();
    assert!(lost(&outputs)[0].1.contains("exit 1"));
    assert_eq!(desk.input(gone(0)), [], "it is lost once");
}

#[test]
fn as_many_deaths_of_one_rank_as_the_limit_end_the_job_with_all_deaths_told() {
    let mut desk = Desk::trained_to(2, 2);
    desk.now = 1500;
    desk.leaves(1, 0, 0, io());
    desk.joins(1, 0, attempt(1));
    desk.leaves(1, 0, 1, io());
    desk.joins(1, 0, attempt(2));
    desk.leaves(2, 1, 0, Some(Error::new(Code::Io, "another one")));
    let outputs = desk.leaves(1, 0, 2, io());
    let error = failure_of(&outputs);
    assert_eq!(error.code, Code::Unrecoverable);
    for part in ["rank 0 died 3 times", "spark.task.maxFailures", "exec-1 at 1.500 s", "another one"] {
        assert!(error.message.contains(part), "`{part}` is missing in: {error}");
    }
}

/// A job whose framework says of each death whether it counts; its limit is the first one that does.
fn counted_by_its_framework() -> Desk {
    let deaths = DeathLimit { framework_counts: true, ..DeathLimit::new(1, "spark.task.maxFailures") };
    let mut desk = Desk::with(TrackerConfig { deaths, ..config(2) });
    desk.train_to(2, 2);
    desk
}

#[test]
fn a_death_that_the_framework_does_not_count_is_forgotten_whenever_it_says_so() {
    let mut desk = counted_by_its_framework();
    assert!(failure(&desk.leaves(1, 0, 0, io())).is_none(), "it may not count");
    desk.input(task_gone(0, false));
    desk.joins(1, 0, attempt(1));
    assert!(failure(&desk.leaves(1, 0, 1, io())).is_none());
    let back = desk.joins(1, 0, attempt(2)).to_vec();
    assert!(failure(&back).is_none());
    assert!(failure(desk.input(task_gone(1, false))).is_none(), "the word comes after the next attempt has joined");
    let outputs = desk.input(task_gone(2, false)).to_vec();
    assert_eq!(lost(&outputs)[0].2, 0, "nobody else had seen this one");
}

#[test]
fn where_the_framework_counts_one_death_too_many_ends_the_job_when_it_says_so() {
    let mut desk = counted_by_its_framework();
    desk.leaves(1, 0, 0, io());
    let outputs = desk.input(task_gone(0, true)).to_vec();
    let error = failure_of(&outputs);
    assert_eq!(error.code, Code::Unrecoverable);
    assert!(error.message.contains("rank 0 died once"), "{error}");
    assert_eq!(desk.input(task_gone(0, true)), [], "the job is over");
}

/// Deaths, how many are survived, milliseconds lost and rounds computed twice.
fn cost(desk: &Desk) -> (u32, Option<u32>, u64, u64) {
    let rank = desk.tracker.job_status(Rank(0), Millis(desk.now)).ranks.swap_remove(0);
    (rank.deaths, rank.most_deaths, rank.lost_millis, rank.rounds_again)
}

#[test]
fn the_status_says_of_each_rank_how_long_its_deaths_have_kept_it_from_the_others_and_how_many_are_survived() {
    let mut desk = Desk::trained_to(2, 2);
    assert_eq!(cost(&desk), (0, Some(2), 0, 0));
    desk.leaves(1, 0, 0, io());
    desk.now += 300;
    desk.joins(1, 0, attempt(1));
    desk.now += 50;
    assert_eq!(cost(&desk), (1, Some(2), 350, 0), "it is there, and not at work with the others yet");
    let caught_up = |incarnation, rounds_again| {
        let (rank, incarnation) = (Rank(0), Incarnation::nth(incarnation));
        AgentMessage::Event(Event::CaughtUp {
            rank,
            incarnation,
            replayed_in: 0,
            regenerated: 0,
            rounds_again,
            millis: 1,
        })
    };
    desk.says(1, caught_up(0, 90));
    assert_eq!(cost(&desk), (1, Some(2), 350, 0), "a former incarnation's word comes late");
    desk.says(1, caught_up(1, 3));
    desk.now += 1000;
    assert_eq!(cost(&desk), (1, Some(2), 350, 3));
    desk.leaves(1, 0, 1, io());
    desk.now += 100;
    assert_eq!(cost(&desk), (2, Some(2), 450, 3));
}

#[test]
fn where_who_starts_the_ranks_counts_their_deaths_the_limit_ends_nothing_and_is_said_to_who_asks() {
    let mut desk = Desk::with(TrackerConfig { deaths: DeathLimit::of_starter(2, "--restarts"), ..config(2) });
    desk.train_to(2, 2);
    for incarnation in 0..3 {
        assert!(failure(&desk.leaves(1, 0, incarnation, io())).is_none());
        desk.joins(1, 0, attempt(incarnation + 1));
    }
    assert_eq!(cost(&desk).1, Some(1));
    let desk = Desk::with(TrackerConfig { deaths: DeathLimit::of_starter(u32::MAX, "--restarts"), ..config(2) });
    assert_eq!(cost(&desk).1, None, "it is the starter's alone to say");
}

#[test]
fn a_task_that_was_never_a_member_is_no_death() {
    let mut desk = counted_by_its_framework();
    assert!(failure(desk.input(task_gone(7, true))).is_none());
}

#[test]
fn deaths_of_different_ranks_do_not_add_up() {
    let mut desk = Desk::trained_to(4, 2);
    for rank in 0..3 {
        assert!(failure(&desk.leaves(u64::from(rank) + 1, rank, 0, io())).is_none());
    }
}

#[test]
fn a_slot_that_stays_vacant_too_long_ends_the_job_and_tells_who_was_missed() {
    let mut desk = Desk::trained_to(2, 2);
    desk.leaves(1, 0, 0, io());
    assert!(failure(&desk.pass_alive(59_900, &[1, 2])).is_none());
    let outputs = desk.pass_alive(200, &[1, 2]);
    let error = failure_of(&outputs);
    assert_eq!(error.code, Code::MembersMissing);
    for part in ["rank 0", "60 s", "the objective threw", "2 tasks can run at once"] {
        assert!(error.message.contains(part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn ranks_that_never_come_are_missed_from_the_jobs_start_on() {
    let mut desk = Desk::new(3);
    desk.register(1);
    desk.joins(1, 1, attempt(0));
    let outputs = desk.pass_alive(60_100, &[1]);
    let error = failure_of(&outputs);
    assert_eq!(error.code, Code::MembersMissing);
    assert!(error.message.contains("rank 0") && error.message.contains("rank 2"), "{error}");
    assert!(error.message.contains("never joined"), "{error}");
}

#[test]
fn a_training_that_takes_long_is_not_missed() {
    let mut desk = Desk::trained_to(2, 2);
    assert!(failure(&desk.pass_alive(200_000, &[1, 2])).is_none());
}

fn down(desk: &mut Desk, from: u32, to: u32) -> Vec<TrackerOutput> {
    let [member, peer] = [from, to].map(|rank| MemberId { rank: Rank(rank), incarnation: Incarnation::nth(0) });
    let report = Report::LinkDown { peer, lane: Lane::Channels, reason: "reset".into() };
    let message = AgentMessage::Report { member, report };
    desk.says(u64::from(from) + 1, message).to_vec()
}

#[test]
fn a_broken_link_between_living_ranks_is_told_once_and_nobody_is_lost() {
    let mut desk = Desk::trained_to(2, 2);
    assert!(events(&down(&mut desk, 0, 1)).is_empty(), "mostly it is the first sign of a death");
    down(&mut desk, 1, 0);
    let outputs = desk.pass_alive(600, &[1, 2]);
    let broken = events(&outputs).into_iter().filter(|event| matches!(event, Event::LinkBroken { .. })).count();
    assert_eq!(broken, 1);
    assert!(lost(&outputs).is_empty());
}

#[test]
fn a_broken_link_that_was_a_death_is_not_told_as_a_broken_link() {
    let mut desk = Desk::trained_to(2, 2);
    down(&mut desk, 0, 1);
    desk.leaves(2, 1, 0, io());
    let outputs = desk.pass_alive(600, &[1, 2]);
    assert!(!events(&outputs).iter().any(|event| matches!(event, Event::LinkBroken { .. })));
}

#[test]
fn a_link_that_cannot_be_kept_costs_one_end_its_slot() {
    let mut desk = Desk::trained_to(3, 2);
    // Ranks 1 and 0 are both troubled, rank 1 with rank 2 as well.
    (0..3).for_each(|_| drop(down(&mut desk, 1, 2)));
    let mut all = Vec::new();
    (0..8).for_each(|_| all.extend(down(&mut desk, 0, 1)));
    let (rank, reason, _) = lost(&all).remove(0);
    assert_eq!(rank, 1);
    assert!(reason.contains("8 times"), "{reason}");
    assert!(all.iter().any(|output| matches!(output, TrackerOutput::Kill { task: Task(1), .. })));
}

#[test]
fn something_broken_that_a_current_incarnation_reports_ends_the_job() {
    let mut desk = Desk::trained_to(2, 2);
    let broken = |incarnation| AgentMessage::Report {
        member: MemberId { rank: Rank(1), incarnation: Incarnation::nth(incarnation) },
        report: Report::Broken(Error::new(Code::Mismatch, "rank 0 did not repeat itself")),
    };
    assert_eq!(desk.says(2, broken(7)), [], "that incarnation is unknown");
    let outputs = desk.says(2, broken(0)).to_vec();
    let error = failure_of(&outputs);
    assert_eq!(error.code, Code::Mismatch);
    assert!(error.message.starts_with("rank 0 did not repeat itself"), "{error}");
}

#[test]
fn a_cancelled_job_ends_once() {
    let mut desk = Desk::trained_to(2, 2);
    let cancel = || TrackerInput::Cancel { error: Error::new(Code::Cancelled, "by the user") };
    let outputs = desk.input(cancel()).to_vec();
    assert_eq!(failure_of(&outputs).code, Code::Cancelled);
    assert_eq!(events(&outputs).len(), 1);
    assert_eq!(desk.input(cancel()), []);
    assert_eq!(desk.tracker.wake_at(), None);
}

#[test]
fn a_standing_that_does_not_know_a_join_accepted_rank_means_its_task_has_ended() {
    let mut desk = Desk::trained_to(2, 2);
    desk.leaves(1, 0, 0, io());
    let outputs = desk.stands(2, Vec::new(), vec![checkpoint(2)]);
    assert_eq!(lost(&outputs)[0].0, 1);
}

/// What is said over link 1 for so long, message after message, as a long backlog of it is worked off.
fn backlog(desk: &mut Desk, millis: u64) -> Vec<TrackerOutput> {
    let (mut all, until) = (Vec::new(), desk.now + millis);
    for sequence in 0.. {
        desk.now += 50;
        if desk.now > until {
            break;
        }
        let heartbeat = AgentMessage::Heartbeat { sequence, ranks: Vec::new() };
        all.extend_from_slice(desk.says(1, heartbeat));
    }
    all
}

#[test]
fn nobody_is_silent_while_the_tracker_reads_what_somebody_else_has_sent() {
    let mut desk = Desk::trained_to(2, 1);
    let outputs = backlog(&mut desk, 5 * TIMING.lost_after_millis);
    assert_eq!(lost(&outputs), []);
    desk.input(TrackerInput::BytesCame { link: 2 });
    assert_eq!(lost(desk.input(TrackerInput::Wake)), []);
    assert_eq!(lost(&desk.pass_alive(TIMING.lost_after_millis / 2, &[1])), []);
}

#[test]
fn who_is_silent_is_lost_however_much_others_say() {
    let mut desk = Desk::trained_to(2, 1);
    let mut found = Vec::new();
    let until = desk.now + 2 * TIMING.lost_after_millis;
    while desk.now < until {
        // Messages don't put off when silence is judged.
        let due = desk.tracker.wake_at().expect("the job goes on");
        assert!(due.0 <= desk.now + TIMING.heartbeat_millis, "due at {due:?}, now is {}", desk.now);
        found.extend(lost(&backlog(&mut desk, 50)));
        if desk.tracker.wake_at().is_some_and(|at| at.0 <= desk.now) {
            desk.input(TrackerInput::BytesCame { link: 1 });
            found.extend(lost(desk.input(TrackerInput::Wake)));
        }
    }
    assert!(matches!(&found[..], [(1, reason, 1)] if reason.contains("no sign of life")), "{found:?}");
}

#[test]
fn bytes_that_are_no_whole_message_are_a_sign_of_life() {
    let mut desk = Desk::trained_to(2, 1);
    for _ in 0..4 * TIMING.lost_after_millis / TIMING.heartbeat_millis {
        desk.now += TIMING.heartbeat_millis;
        for link in [1, 2] {
            desk.input(TrackerInput::BytesCame { link });
        }
        assert_eq!(lost(desk.input(TrackerInput::Wake)), []);
    }
}

#[test]
fn the_trackers_own_delay_is_counted_once_however_many_messages_follow_it() {
    let mut desk = Desk::trained_to(2, 1);
    let began = desk.now;
    let mut found = lost(&desk.pass_alive(7 * TIMING.lost_after_millis / 10, &[1]));
    let delay = 3 * TIMING.heartbeat_millis;
    desk.now += delay;
    for sequence in 0..20 {
        desk.now += 1;
        let heartbeat = AgentMessage::Heartbeat { sequence, ranks: Vec::new() };
        found.extend(lost(desk.says(1, heartbeat)));
    }
    assert_eq!(found, []);
    let latest = began + TIMING.lost_after_millis + delay + TIMING.heartbeat_millis;
    let outputs = desk.pass_alive(latest - desk.now, &[1]);
    assert!(matches!(&lost(&outputs)[..], [(1, _, 1)]), "{:?}", lost(&outputs));
}
