//! Ranks that a former life of the tracker has sent back, and that all join again under the next one.

use crate::support;

use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{AgentId, Checkpoint, Version};
use rejoin_protocol::message::{AgentMessage, RankState, Registration, StatusReport};
use rejoin_protocol::tracker::{TrackerInput, TrackerOutput};
use rejoin_protocol::view::View;
use support::takeover::{former, second_life};
use support::*;

/// A world of which the ranks were all sent back, and are about to join again. The newest view that
/// they have says so, or was made before.
fn sent_back(highest: Option<Version>, has_heard: bool) -> View {
    let alive = if has_heard { None } else { Some(0) };
    View { highest, ..former(3, &[alive, alive], &[]) }
}

/// The agents of this view come back, the first one holding this, and their ranks join again by agents of these links.
fn all_join_again(view: &View, held: Vec<Checkpoint>, links: [u64; 2]) -> Vec<TrackerOutput> {
    let mut desk = second_life(2);
    for link in [1, 2] {
        let held = if link == 1 { held.clone() } else { Vec::new() };
        let status = StatusReport { generation: view.generation, ranks: Vec::new(), held, handed_over: Vec::new() };
        let view = Some(Box::new(view.clone()));
        let registration = Registration { status, view, ..Desk::registration(link, Vec::new(), Vec::new()) };
        desk.says(link, AgentMessage::Register(registration));
        if !links.contains(&link) {
            desk.input(TrackerInput::Closed { link, reason: "reset".into() });
            desk.input(TrackerInput::Probed { agent: AgentId(link), gone: true });
        }
    }
    for (rank, link) in (0..).zip(links) {
        if link > 2 {
            desk.register(link);
        }
        desk.joins(link, rank, attempt(1));
    }
    desk.pass_alive(1100, &links);
    let answer = |(rank, link)| {
        let held = if link == 1 { held.clone() } else { Vec::new() };
        desk.stands(link, vec![stands(rank, in_life(2, 1), RankState::Fresh)], held)
    };
    (0..).zip(links).map(answer).last().unwrap_or_default()
}

#[test]
fn ranks_that_all_join_again_begin_from_nothing_only_if_the_view_says_that_they_had_entered_nothing() {
    for has_heard in [true, false] {
        let outputs = all_join_again(&sent_back(Some(Version(0)), has_heard), Vec::new(), [1, 2]);
        assert_eq!(plan(&outputs, 1).map(|plan| plan.newcomers[0].version), Some(Version(0)), "{outputs:?}");
        for highest in [Some(Version(1)), None] {
            let outputs = all_join_again(&sent_back(highest, has_heard), Vec::new(), [1, 2]);
            let error = failure(&outputs).expect("what they had entered is lost");
            assert_eq!(error.code, Code::Unrecoverable, "{error}");
        }
    }
}

#[test]
fn ranks_that_all_join_again_do_not_begin_from_nothing_if_an_agent_of_the_view_holds_something_or_has_died_since() {
    let view = sent_back(Some(Version(0)), false);
    let outputs = all_join_again(&view, vec![checkpoint(1)], [1, 2]);
    assert_eq!(plan(&outputs, 1).map(|plan| plan.newcomers[0].version), Some(Version(1)), "{outputs:?}");
    let outputs = all_join_again(&view, vec![checkpoint(1)], [3, 2]);
    assert_eq!(failure(&outputs).map(|error| error.code), Some(Code::Unrecoverable), "{outputs:?}");
}
