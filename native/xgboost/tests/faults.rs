//! Fault rules fire at the byte they name, once.

mod common;

use common::worker::{all_done, join, spawn, End, Shape};
use common::{member, Told, World};
use rejoin_agent::DataPlane;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::ids::{MemberId, Phase, Rank, Version};
use rejoin_protocol::report::Report;
use rejoin_xgboost::WireVariant;

fn rule(moment: Moment, action: Action) -> FaultRule {
    FaultRule { id: 5, rank: Rank(1), incarnation: None, moment, action }
}

fn in_version(number: u32, bytes: u64) -> Moment {
    Moment::Bytes { phase: Phase::Version(Version(number)), bytes }
}

fn fired(world: &World) -> usize {
    let reports = world.agent(1).notes.all();
    reports.iter().filter(|report| matches!(report, Told::Fired(_))).count()
}

fn wait_fired(world: &World) {
    world.agent(1).notes.wait("a rule that fires", |report| matches!(report, Told::Fired(_)).then_some(()));
}

#[test]
fn a_kill_halts_the_rank_at_its_byte() {
    for bytes in [0, 1, 30_001] {
        let world = World::new(&[0, 1]);
        let shape = Shape::new(WireVariant::From33);
        world.agent(1).bridge.faults(&[rule(in_version(2, bytes), Action::Kill)]);
        let handles = vec![spawn(&world, 0, 0, &shape, None), spawn(&world, 1, 0, &shape, None)];
        wait_fired(&world);
        // Nothing kills this process, so the workers hang until they are freed.
        for rank in [0, 1] {
            world.agent(rank).bridge.free(member(rank, 0), Error::new(Code::Cancelled, "the test is over"));
        }
        handles.into_iter().for_each(|handle| assert!(!matches!(join(handle), End::Done)));
        assert_eq!(fired(&world), 1);
    }
}

#[test]
fn a_stop_that_never_comes_only_delays() {
    let world = World::new(&[0, 1]);
    let shape = Shape::new(WireVariant::From33);
    world.agent(1).bridge.faults(&[rule(in_version(1, 100), Action::Stop)]);
    all_done(vec![spawn(&world, 0, 0, &shape, None), spawn(&world, 1, 0, &shape, None)]);
    assert_eq!(fired(&world), 1);
}

#[test]
fn a_rank_that_is_halted_as_it_enters_a_version_goes_on_when_its_time_is_over() {
    for action in [Action::Stop, Action::Delay { millis: 50 }] {
        let world = World::new(&[0, 1]);
        let shape = Shape::new(WireVariant::From33);
        world.agent(1).bridge.faults(&[rule(in_version(2, 0), action)]);
        all_done(vec![spawn(&world, 0, 0, &shape, None), spawn(&world, 1, 0, &shape, None)]);
        assert_eq!(fired(&world), 1);
    }
}

#[test]
fn a_cut_link_is_reported_and_a_new_one_goes_on_where_it_ended() {
    for homes in [[0, 0], [0, 1]] {
        let world = World::new(&homes);
        let shape = Shape::new(WireVariant::From33);
        world.agent(1).bridge.faults(&[rule(in_version(3, 20_000), Action::CutLink { peer: Rank(0) })]);
        let handles = vec![spawn(&world, 0, 0, &shape, None), spawn(&world, 1, 0, &shape, None)];
        world.agent(1).notes.wait("a broken link", |report| match report {
            Told::Report(_, Report::LinkDown { peer: MemberId { rank: Rank(0), .. }, reason, .. })
                if reason.contains("fault rule") =>
            {
                Some(())
            }
            _ => None,
        });
        let is_other_end = |reported: &Told| {
            matches!(reported, Told::Report(MemberId { rank: Rank(0), .. }, Report::LinkDown { .. })).then_some(())
        };
        world.agent(0).notes.wait("the other end", is_other_end);
        world.link(0, 1);
        all_done(handles);
        assert_eq!(fired(&world), 1);
    }
}

#[test]
fn a_throw_frees_the_worker_and_its_next_incarnation_repeats_it() {
    for homes in [[0, 0], [0, 1]] {
        let mut world = World::new(&homes);
        let shape = Shape::new(WireVariant::From33);
        world.agent(1).bridge.faults(&[rule(in_version(3, 20_000), Action::Throw)]);
        let survivor = spawn(&world, 0, 0, &shape, None);
        assert!(matches!(join(spawn(&world, 1, 0, &shape, None)), End::Failed(_) | End::Refused(_)));
        let failure = world.agent(1).bridge.failure(member(1, 0)).expect("the reason is known");
        assert!(failure.code == Code::Io && failure.message.contains("fault rule 5"), "{failure}");
        world.hold_all(3);
        world.seat(1, homes[1], 1);
        world.start(1, 3);
        all_done(vec![survivor, spawn(&world, 1, 3, &shape, None)]);
        assert_eq!(fired(&world), 1);
    }
}

#[test]
fn a_rule_for_the_replay_fires_at_a_restarted_rank_only() {
    let mut world = World::new(&[0, 1]);
    let shape = Shape::new(WireVariant::From33);
    let rules =
        vec![rule(Moment::Replaying, Action::Throw), FaultRule { id: 6, ..rule(in_version(2, 5000), Action::Throw) }];
    world.agent(1).bridge.faults(&rules);
    let survivor = spawn(&world, 0, 0, &shape, None);
    for (incarnation, start) in [(0, 0), (1, 2), (2, 2)] {
        if incarnation > 0 {
            world.hold_all(start);
            world.seat(1, 1, incarnation);
            world.start(1, start);
        }
        let end = join(spawn(&world, 1, start, &shape, None));
        assert_eq!(matches!(end, End::Done), incarnation == 2, "incarnation {incarnation}: {end:?}");
    }
    all_done(vec![survivor]);
    assert_eq!(fired(&world), 2);
}
