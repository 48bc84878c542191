//! Workers train through bridges: within one process, between processes, with deaths.

mod common;

use common::worker::{all_done, join, spawn, Death, End, Shape};
use common::{config, Told, World};
use rejoin_agent::DataPlane;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Phase, Version};
use rejoin_protocol::report::Report;
use rejoin_xgboost::WireVariant;

const VARIANTS: [WireVariant; 2] = [WireVariant::From33, WireVariant::Until32];

fn undisturbed(homes: &[usize]) {
    for variant in VARIANTS {
        let world = World::new(homes);
        let shape = Shape::new(variant);
        all_done((0..world.size()).map(|rank| spawn(&world, rank, 0, &shape, None)).collect());
        for agent in &world.agents {
            assert!(agent.notes.all().iter().all(|report| !matches!(report, Told::Report(_, Report::Broken(_)))));
        }
    }
}

#[test]
fn one_rank_alone_trains() {
    undisturbed(&[0]);
}

#[test]
fn ranks_of_one_process_train() {
    undisturbed(&[0, 0]);
    undisturbed(&[0, 0, 0]);
    undisturbed(&[0, 0, 0, 0]);
}

#[test]
fn ranks_of_different_processes_train() {
    undisturbed(&[0, 1]);
    undisturbed(&[0, 1, 2]);
    undisturbed(&[0, 1, 2, 3]);
}

#[test]
fn ranks_of_mixed_processes_train() {
    undisturbed(&[0, 0, 1, 1, 0]);
    undisturbed(&[0, 1, 2, 0, 1, 2, 0, 1]);
}

#[test]
fn messages_longer_than_every_buffer_pass() {
    for homes in [[0, 0, 0], [0, 1, 1]] {
        let world = World::new(&homes);
        let shape = Shape { versions: 1, steps: 3, most: 9_000_000, ..Shape::new(WireVariant::From33) };
        all_done((0..3).map(|rank| spawn(&world, rank, 0, &shape, None)).collect());
    }
}

/// The version at which a restarted rank begins when it dies in `phase`: every other rank is there or one ahead.
fn restart_version(phase: Phase) -> u32 {
    match phase {
        Phase::Boot => 0,
        Phase::Version(v) => v.0,
    }
}

fn with_a_death(homes: &[usize], rank: u32, death: Death, variant: WireVariant, whole_process: bool) {
    let mut world = World::new(homes);
    let shape = Shape::new(variant);
    let agent = homes[rank as usize];
    let mut others = Vec::new();
    let mut dying = None;
    for other in 0..world.size() {
        let handle = spawn(&world, other, 0, &shape, (other == rank).then_some(death));
        if other == rank {
            dying = Some(handle);
        } else {
            others.push(handle);
        }
    }
    let end = join(dying.expect("the rank that dies is among them"));
    assert!(matches!(end, End::Died), "{end:?}");
    world.hold_all(restart_version(death.phase));
    if whole_process {
        world.kill(agent, config());
    } else {
        world.lose(rank);
    }
    world.seat(rank, agent, 1);
    world.start(rank, restart_version(death.phase));
    others.push(spawn(&world, rank, restart_version(death.phase), &shape, None));
    all_done(others);
    let notes = &world.agents[agent].notes;
    let (replayed, rounds) = notes.wait("the end of catching up", |report| match report {
        Told::Event(Event::CaughtUp { replayed_in, rounds_again, .. }) => Some((*replayed_in, *rounds_again)),
        _ => None,
    });
    assert!(replayed > 0);
    assert_eq!(rounds, u32::from(death.phase != Phase::Boot && death.step > 0), "{death:?}");
}

fn deaths() -> Vec<Death> {
    let version = |v| Phase::Version(Version(v));
    vec![
        Death { phase: Phase::Boot, step: 3 },
        Death { phase: version(0), step: 5 },
        Death { phase: version(3), step: 0 },
        Death { phase: version(3), step: 7 },
        Death { phase: version(5), step: 11 },
    ]
}

#[test]
fn a_process_that_dies_is_replaced_and_its_rank_repeats_itself() {
    for variant in VARIANTS {
        for death in deaths() {
            for rank in 0..3 {
                with_a_death(&[0, 1, 2], rank, death, variant, true);
            }
        }
    }
}

#[test]
fn a_task_that_dies_is_replaced_in_its_own_process() {
    for variant in VARIANTS {
        for death in deaths() {
            with_a_death(&[0, 0, 0], 1, death, variant, false);
            with_a_death(&[0, 0, 1, 1], 2, death, variant, false);
        }
    }
}

#[test]
fn two_ranks_of_one_process_die_at_once() {
    let mut world = World::new(&[0, 0, 1]);
    let shape = Shape::new(WireVariant::From33);
    let death = Death { phase: Phase::Version(Version(2)), step: 4 };
    let survivor = spawn(&world, 2, 0, &shape, None);
    for handle in [spawn(&world, 0, 0, &shape, Some(death)), spawn(&world, 1, 0, &shape, Some(death))] {
        let end = join(handle);
        assert!(matches!(end, End::Died), "{end:?}");
    }
    world.hold_all(2);
    world.kill(0, config());
    world.seat(0, 0, 1);
    world.seat(1, 0, 1);
    world.start(0, 2);
    world.start(1, 2);
    all_done(vec![survivor, spawn(&world, 0, 2, &shape, None), spawn(&world, 1, 2, &shape, None)]);
}

#[test]
fn the_same_rank_dies_again_while_it_is_restored() {
    let mut world = World::new(&[0, 1, 2]);
    let shape = Shape::new(WireVariant::From33);
    let version = |v| Phase::Version(Version(v));
    let others = [spawn(&world, 0, 0, &shape, None), spawn(&world, 2, 0, &shape, None)];
    let places = [
        (0, Some(Death { phase: version(3), step: 6 })),
        (3, Some(Death { phase: Phase::Boot, step: 2 })),
        (3, Some(Death { phase: version(3), step: 3 })),
        (3, None),
    ];
    for (incarnation, (start, death)) in places.into_iter().enumerate() {
        if incarnation > 0 {
            world.hold_all(start);
            world.kill(1, config());
            world.seat(1, 1, incarnation as u32);
            world.start(1, start);
        }
        let end = join(spawn(&world, 1, start, &shape, death));
        assert!(matches!((&end, death), (End::Died, Some(_)) | (End::Done, None)), "{end:?}");
    }
    all_done(others.into());
}

#[test]
fn a_link_that_is_cut_between_living_ranks_is_made_anew() {
    let world = World::new(&[0, 1]);
    let shape = Shape { versions: 20, ..Shape::new(WireVariant::From33) };
    let handles = vec![spawn(&world, 0, 0, &shape, None), spawn(&world, 1, 0, &shape, None)];
    // A new link replaces the old one wherever the training is at that moment.
    for _ in 0..30 {
        world.link(0, 1);
    }
    all_done(handles);
}

#[test]
fn what_a_finished_phase_needs_no_more_is_dropped() {
    let world = World::new(&[0, 0]);
    let few = Shape { versions: 3, most: 50_000, ..Shape::new(WireVariant::From33) };
    let shape = Shape { versions: 40, ..few };
    all_done((0..2).map(|rank| spawn(&world, rank, 0, &shape, None)).collect());
    let usage = world.agents[0].bridge.usage();
    let version_bytes = |v: u32| -> usize {
        let phase = Phase::Version(Version(v));
        (0..shape.steps).map(|s| shape.message(0, 1, phase, s).len() + shape.message(1, 0, phase, s).len()).sum()
    };
    let all: usize = (0..40).map(version_bytes).sum();
    assert!(usage.log_bytes_peak < all as u64 / 4, "peak {} of {all} bytes", usage.log_bytes_peak);
    assert!(usage.log_bytes > 0 && usage.log_bytes <= usage.log_bytes_peak);
}
