//! Memory that ranks of one host share, where it can't be shared after all.

use crate::ranks;

use ranks::{attempt, limits, Ranks, LIMIT};
use rejoin_agent::logs::{Budget, LogLimits};
use rejoin_agent::protocol::collective::SegmentAddress;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::host::Offer;
use rejoin_agent::protocol::ids::Rank;
use rejoin_agent::protocol::tracker::TrackerInput;
use rejoin_agent::Agent;
use rejoin_communicator::collectives::Reduction;
use rejoin_communicator::CollectivePlane;
use std::sync::Arc;

#[test]
fn a_rank_whose_memory_can_not_be_opened_is_named_and_all_go_over_links() {
    let ranks = Ranks::new(3, 1);
    let plane = Arc::new(CollectivePlane::new(Budget::new(LogLimits::default(), "the test's")));
    let other = &Agent::start(ranks.config("elsewhere"), plane).unwrap();
    std::thread::scope(|scope| {
        // As a process of another namespace under the same host name would give it.
        let segment = SegmentAddress { process: u32::MAX >> 1, descriptor: 3, nonce: 1, slot_bytes: 4096 };
        let offer = Offer { segment: Some(segment), ..Offer::default() };
        let join = move || {
            other.join_offering(Rank(2), attempt(0), "collectives 1; own_copies 2; ".into(), offer.clone(), LIMIT)
        };
        let joins = scope.spawn(join);
        for rank in 0..2 {
            let ranks = &ranks;
            scope.spawn(move || {
                let process = ranks.process(&rank.to_string());
                let mut rank = ranks::join(&process, rank, 0, limits());
                let error = rank.allreduce(&mut [1f32], Reduction::Sum).unwrap_err();
                assert_eq!(error.code, Code::Cancelled, "{error}");
            });
        }
        joins.join().unwrap().unwrap();
        let reported = ranks.event("sharing ends", |event| matches!(event, Event::SharingEnded { .. }));
        let Event::SharingEnded { rank, peer, reason } = reported else { unreachable!("it was waited for") };
        assert!(rank < Rank(2) && peer == Rank(2), "{rank} and {peer}");
        assert!(reason.contains("another host or process namespace"), "{reason}");
        ranks.event(
            "a new attempt",
            |event| matches!(event, Event::ViewMade { reason, .. } if reason.contains("over links from now on")),
        );
        ranks.tracker.notify(TrackerInput::Cancel { error: Error::new(Code::Cancelled, "enough was seen") });
    });
}
