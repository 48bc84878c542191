//! Every run of a small job keeps every promise: all orders of messages, a death at every point.
//!
//! What takes longer is `cargo run --release -p rejoin-model -- ...`; `docs/testing.md` has the figures.

use rejoin_model::{check, Setup};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::start::JobStart;
use rejoin_sim::ranks::Plane;

/// Checks a setup whole; fewer states than expected would mean that it doesn't do what it says.
fn holds(setup: Setup, at_least: usize) {
    let verdict = check(setup.clone(), 2);
    if let Some((promise, trace)) = verdict.broken {
        panic!("{promise} is broken in {setup:?}:\n{}", trace.join("\n"));
    }
    println!("{} states in {:.1} s: {setup:?}", verdict.states, verdict.took.as_secs_f64());
    assert!(verdict.states >= at_least, "{} states in {setup:?}", verdict.states);
}

fn two_ranks(setup: Setup) -> Setup {
    Setup { world: 2, ..setup }
}

#[test]
fn three_ranks_make_two_collectives_and_one_dies_anywhere() {
    // Ranks 0 and 2 do the same in this job; rank 1 is a root.
    holds(Setup { victims: Some(vec![1, 2]), ..Setup::two_collectives() }.crashes(1), 900_000);
}

#[test]
fn reduced_set_ups_leave_out_no_end_that_a_job_can_come_to() {
    let one = two_ranks(Setup::one_collective());
    let setups = [
        two_ranks(Setup::two_versions()).crashes(1),
        two_ranks(Setup::two_collectives()).crashes(1),
        // Rank 1 lives.
        Setup { victims: Some(vec![0, 2, 3]), ..one.clone() }.crashes(2),
        Setup { from_rendezvous: true, ..one.clone() }.crashes(1),
        Setup { cuts: 1, ..one.clone() }.crashes(1),
        Setup { tracker_deaths: 1, ..one.clone() }.crashes(1),
        Setup { least: Some(1), leaves: 1, ..one.clone() },
        Setup { least: Some(1), tracker_deaths: 1, ..one.clone() }.crashes(1),
        Setup { zombies: 1, ..one },
        Setup { victims: Some(vec![1]), ..Setup::one_collective() }.crashes(1),
    ];
    for setup in setups {
        let (reduced, whole) = (check(setup.clone().reduced(), 2), check(setup.clone(), 2));
        assert!(whole.broken.is_none() && reduced.broken.is_none(), "{setup:?}");
        println!("{} of {} states, {} ends: {setup:?}", reduced.states, whole.states, whole.ends.len());
        assert!(reduced.states <= whole.states && !whole.ends.is_empty());
        assert_eq!(reduced.ends, whole.ends, "{setup:?}");
    }
}

#[test]
fn a_rank_of_three_dies_anywhere_and_who_replaces_it_dies_anywhere_too() {
    holds(Setup { victims: Some(vec![1, 3]), ..Setup::one_collective() }.crashes(2).reduced(), 500_000);
}

#[test]
fn two_ranks_with_a_checkpoint_survive_a_death_from_the_rendezvous_on() {
    holds(Setup { from_rendezvous: true, ..two_ranks(Setup::two_versions()) }.crashes(1), 50_000);
}

#[test]
fn ranks_whose_last_versions_are_reported_late_survive_a_death_anywhere_and_one_of_the_tracker() {
    let setup = two_ranks(Setup::five_versions());
    holds(setup.clone().crashes(1), 150_000);
    holds(Setup { tracker_deaths: 1, ..setup }, 250_000);
}

#[test]
fn boot_results_survive_a_death_and_a_broken_link() {
    holds(Setup { cuts: 1, ..two_ranks(Setup::boot_and_one()) }.crashes(1), 300_000);
}

#[test]
fn a_process_that_lives_on_after_it_was_declared_lost_does_no_harm() {
    holds(Setup { zombies: 1, ..two_ranks(Setup::boot_and_one()) }, 50_000);
}

#[test]
fn ranks_with_channels_and_collectives_survive_a_death_or_a_broken_link_of_either() {
    holds(Setup::both_lanes().crashes(1), 400_000);
    holds(Setup { cuts: 1, ..Setup::both_lanes() }, 400_000);
}

#[test]
fn ranks_with_channels_and_collectives_survive_the_death_of_the_tracker() {
    holds(Setup { tracker_deaths: 1, ..Setup::both_lanes() }, 80_000);
}

#[test]
fn a_tracker_that_dies_anywhere_and_comes_back_takes_the_job_over() {
    holds(Setup { tracker_deaths: 1, ..two_ranks(Setup::two_versions()) }, 1_000);
}

#[test]
fn a_tracker_comes_back_to_a_job_in_which_a_process_dies_anywhere() {
    let setup = Setup { tracker_deaths: 1, versions: vec![vec![None]], ..two_ranks(Setup::two_collectives()) };
    holds(setup.crashes(1), 10_000);
    // With a checkpoint, which the process that is started again may be bringing when the tracker dies.
    let setup = Setup { tracker_deaths: 1, ..two_ranks(Setup::two_versions()) };
    holds(setup.crashes(1), 500_000);
}

#[test]
fn a_tracker_that_dies_around_its_first_plan_ends_no_job_that_has_not_begun() {
    let setup = Setup { tracker_deaths: 1, from_rendezvous: true, ..two_ranks(Setup::one_collective()) };
    holds(setup.crashes(1), 400_000);
}

#[test]
fn a_job_that_goes_on_from_an_earlier_one_survives_a_death_anywhere_and_one_of_the_tracker() {
    for start in [JobStart::Durable, JobStart::HandedOver] {
        let setup = two_ranks(Setup::two_versions()).goes_on(start);
        holds(Setup { from_rendezvous: true, ..setup.clone() }.crashes(1), 20_000);
        holds(Setup { tracker_deaths: 1, ..setup }, 2_000);
    }
}

/// What docs/testing.md lists as still found: when this fails, it is mended, and can be listed as kept.
#[test]
fn a_root_that_was_ahead_alone_and_is_gone_with_its_checkpoint_is_the_one_early_end_that_is_known() {
    let setup = Setup { tracker_deaths: 1, from_rendezvous: true, ..two_ranks(Setup::root_ahead()) };
    let (promise, trace) = check(setup.crashes(1), 2).broken.expect("it is known to be broken");
    assert_eq!(promise, "Progress", "{}", trace.join("\n"));
}

#[test]
fn a_tracker_that_dies_while_it_tells_the_end_finds_it_again_although_ranks_have_gone() {
    let setup = Setup { tracker_deaths: 1, versions: vec![vec![None]], ..two_ranks(Setup::two_collectives()) };
    holds(Setup { ends: true, ..setup }, 1_000);
}

#[test]
fn ranks_that_make_different_calls_are_told_and_nothing_is_handed_out() {
    for rank in 0..2 {
        let setup = Setup { differs: Some(Rank(rank)), versions: vec![vec![None, None]], ..Setup::two_collectives() };
        holds(two_ranks(setup), 50);
    }
}

#[test]
fn a_world_shrinks_after_a_death_anywhere_and_after_another_one_anywhere() {
    holds(Setup { victims: Some(vec![1]), ..Setup::shrinking() }.crashes(1), 10_000);
    let setup = Setup { least: Some(1), versions: vec![vec![None]], victims: Some(vec![0, 2]), ..Setup::shrinking() };
    holds(setup.crashes(2), 10_000);
}

#[test]
fn a_world_grows_at_a_boundary_and_the_joiner_dies_anywhere() {
    holds(Setup::growing(), 30_000);
    let setup = Setup { versions: vec![vec![None], vec![]], victims: Some(vec![2]), ..Setup::growing() };
    holds(setup.crashes(1), 70_000);
}

#[test]
fn a_world_with_channels_and_collectives_shrinks_after_a_death_anywhere_and_grows_at_a_boundary() {
    holds(Setup { least: Some(1), victims: Some(vec![0]), ..Setup::both_lanes() }.crashes(1), 4_000);
    let setup = Setup { versions: vec![vec![None, None], vec![]], plane: Plane::Both, ..Setup::growing() };
    holds(setup.reduced(), 10_000);
}

#[test]
fn a_world_grows_at_a_boundary_although_the_tracker_dies_anywhere() {
    let setup = Setup { versions: vec![vec![None], vec![]], tracker_deaths: 1, ..Setup::growing() };
    holds(setup.reduced(), 500_000);
}

#[test]
fn a_rank_that_goes_for_good_leaves_the_others_at_a_boundary_and_may_die_before_that() {
    holds(Setup { leaves: 1, ..Setup::shrinking() }, 100_000);
    // One of the two that stay, so that there are always as many as have to be.
    let setup = Setup { least: Some(1), leaves: 1, victims: Some(vec![1]), ..Setup::one_collective() };
    holds(setup.crashes(1).reduced(), 100_000);
}

#[test]
fn a_rank_goes_for_good_although_the_tracker_dies_anywhere() {
    holds(Setup { least: Some(1), leaves: 1, tracker_deaths: 1, ..two_ranks(Setup::two_versions()) }, 200_000);
}

#[test]
fn a_world_shrinks_although_the_tracker_dies_anywhere() {
    let setup = Setup { least: Some(1), tracker_deaths: 1, ..two_ranks(Setup::two_versions()) };
    holds(setup.crashes(1), 10_000);
    // One of two survivors may have heard of the smaller world, and the other one not.
    let setup = Setup { least: Some(2), tracker_deaths: 1, victims: Some(vec![0]), ..Setup::one_collective() };
    holds(setup.crashes(1).reduced(), 500_000);
}

#[test]
fn a_spare_takes_over_from_a_process_that_dies_anywhere() {
    holds(Setup::with_a_spare().crashes(1), 100_000);
}
