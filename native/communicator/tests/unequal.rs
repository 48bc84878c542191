//! A rank that comes back gives other lengths than before its death.

use crate::ranks;

use ranks::{join, limits, Ranks};
use rejoin_agent::protocol::error::Code;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::{Action, FaultRule, Moment};
use rejoin_agent::protocol::ids::{Phase, Rank, Version};

#[test]
fn another_length_than_before_a_death_is_a_mismatch_where_the_bytes_are_still_needed() {
    for (shares_memory, elements) in [(true, 1), (true, 3), (false, 1), (false, 3)] {
        // Rank 0 has the lengths of all then, and needs rank 1's bytes.
        let moment = Moment::Entering { phase: Phase::Version(Version(0)), seqno: 1 };
        let rule = FaultRule { id: 0, rank: Rank(0), incarnation: None, moment, action: Action::Notify };
        let ranks = &Ranks::with_rules(2, 1, vec![rule]).sharing_memory(shares_memory);
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                let mut rank = join(&ranks.process("0"), 0, 0, limits());
                rank.allgather_v(&[1f64; 3]).expect_err("rank 1 gives something else")
            });
            let process = ranks.process("1");
            let mut rank = join(&process, 1, 0, limits());
            // An allgather_v begins with this.
            let mut lengths = [0u64; 2];
            rank.allgather(&[16u64], &mut lengths).expect("the lengths");
            assert_eq!(lengths, [24, 16]);
            ranks.event("rank 0 has the lengths", |event| matches!(event, Event::FaultFired { .. }));
            process.agent().end();
            drop(rank);
            let mut rank = join(&ranks.process("1-1"), 1, 1, limits());
            let error = rank.allgather_v(&vec![1f64; elements]).expect_err("it was 16 bytes");
            assert_eq!(error.code, Code::Mismatch, "{error}");
            let (given, before) = (8 * elements, "an older incarnation of it gave 16");
            assert!(error.message.contains(&format!("with {given} bytes of its own, but {before}")), "{error}");
            assert_eq!(other.join().expect("it ends").code, Code::Mismatch);
        });
    }
}
