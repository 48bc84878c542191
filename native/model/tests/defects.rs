//! The model bites: a defect that is built into the driver on purpose breaks a promise in some run.

use rejoin_model::{check, Setup};
use rejoin_sim::ranks::{Defect, Plane};

fn breaks(setup: Setup, promises: &[&str]) {
    let verdict = check(setup.clone(), 2);
    let (promise, _) = verdict.broken.unwrap_or_else(|| panic!("{} states, none shows it: {setup:?}", verdict.states));
    assert!(promises.contains(&promise), "{promise} of {setup:?}");
}

fn two_ranks() -> Setup {
    Setup { world: 2, ..Setup::two_versions() }
}

#[test]
fn a_result_that_counts_before_all_have_given_to_it_is_found() {
    breaks(two_ranks().defect(Defect::UnfinishedIsFinal), &["Agreement"]);
}

#[test]
fn a_boot_call_that_is_looked_up_without_its_number_is_found() {
    let setup = Setup { boot: vec![None, None], ..two_ranks() };
    breaks(setup.defect(Defect::NoOccurrence), &["Agreement", "Replay"]);
}

#[test]
fn a_version_of_which_nothing_is_kept_is_found() {
    breaks(two_ranks().crashes(1).defect(Defect::NothingOfThePrevious), &["Progress"]);
}

#[test]
fn a_tracker_that_comes_back_and_is_not_told_who_has_ended_is_found() {
    let setup = Setup { tracker_deaths: 1, ends: true, versions: vec![vec![None]], ..two_ranks() };
    breaks(setup.defect(Defect::EndsUnreported), &["Progress"]);
}

#[test]
fn frames_of_incarnations_that_the_view_has_not_are_found() {
    breaks(Setup { zombies: 1, ..two_ranks() }.defect(Defect::NoFencing), &["Fencing"]);
}

#[test]
fn a_rank_that_replays_its_lanes_from_different_versions_is_found() {
    breaks(Setup::both_lanes().crashes(1).defect(Defect::LanesApart), &["Identity", "Progress", "Replay"]);
}

#[test]
fn frames_of_either_lane_of_incarnations_that_the_view_has_not_are_found() {
    breaks(Setup { zombies: 1, ..Setup::both_lanes() }.defect(Defect::NoFencing), &["Fencing"]);
}

#[test]
fn a_view_that_is_answered_before_versions_are_handed_in_is_found() {
    let setup = Setup { world: 2, ..Setup::five_versions() };
    breaks(setup.crashes(1).defect(Defect::VersionsOvertaken), &["NoLostWork"]);
}

#[test]
fn versions_that_are_handed_in_late_while_a_rank_is_behind_are_found() {
    breaks(two_ranks().crashes(1).defect(Defect::VersionsLate), &["NoLostWork"]);
}

#[test]
fn a_last_version_that_is_never_reported_is_found() {
    breaks(two_ranks().defect(Defect::LastUnreported), &["NoLostWork"]);
}

#[test]
fn a_spare_that_trains_on_other_rows_than_those_of_its_rank_is_found() {
    let setup = Setup { versions: vec![vec![None]], ..Setup::with_a_spare() };
    breaks(setup.crashes(1).defect(Defect::RowsOfItsNumber), &["Agreement", "Identity", "Replay"]);
}

#[test]
fn a_task_that_is_given_a_rank_and_does_not_join_is_found() {
    breaks(Setup::with_a_spare().defect(Defect::GivenInVain), &["Progress"]);
}

/// Two ranks and two versions, in a world that shrinks to the second one when the first one dies, which it replaces.
fn shrinking() -> Setup {
    Setup { least: Some(1), victims: Some(vec![0]), ..two_ranks() }.crashes(1)
}

/// Two ranks and two versions of which the first one has a call, in a world that may grow to three.
fn growing() -> Setup {
    Setup { versions: vec![vec![None], vec![]], ..Setup::growing() }
}

#[test]
fn a_survivor_that_is_sent_back_and_does_not_ask_again_is_found() {
    breaks(shrinking().defect(Defect::AsksNoMore), &["Progress"]);
}

#[test]
fn a_survivor_that_keeps_the_rows_of_the_former_world_is_found() {
    breaks(shrinking().defect(Defect::OldRows), &["Agreement", "Identity", "Replay"]);
}

#[test]
fn a_rank_that_takes_the_former_world_for_the_present_one_is_found() {
    breaks(shrinking().defect(Defect::OldWorld), &["Agreement", "Identity", "Replay", "Progress"]);
}

#[test]
fn a_rank_with_channels_that_takes_the_former_world_for_the_present_one_is_found() {
    let setup = Setup { plane: Plane::Both, versions: vec![vec![None, None], vec![None, None]], ..shrinking() };
    breaks(setup.defect(Defect::OldWorld), &["Agreement", "Identity", "Replay", "Progress"]);
}

#[test]
fn a_joiner_that_begins_with_nothing_is_found() {
    breaks(growing().defect(Defect::FromNothing), &["Agreement", "Identity", "Replay"]);
}
