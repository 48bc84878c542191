//! What a rank sees when its world changes: the call that ends so, and what comes after it.

use crate::ranks;

use parking_lot::Mutex;
use ranks::{attempt, limits, values, Ranks, LIMIT};
use rejoin_agent::protocol::error::Code;
use rejoin_agent::protocol::ids::{Rank, Task, Version};
use rejoin_agent::protocol::resize::Elastic;
use rejoin_communicator::collectives::Reduction;
use std::sync::mpsc;

/// Three ranks, of which two are enough.
fn elastic() -> Elastic {
    let (timeout_millis, interval_millis) = (200, 100);
    Elastic { min: 2, max: 3, timeout_millis, interval_millis, most_resizes: None, own_may_be_lost: false }
}

#[test]
fn a_call_that_ends_with_resized_leaves_its_buffer_and_any_other_one_is_bad_state_until_the_rank_joins_again() {
    for shares_memory in [true, false] {
        let ranks = &Ranks::in_worlds(3, 1, Vec::new(), Some(elastic())).sharing_memory(shares_memory);
        let (made, is_made) = mpsc::channel();
        let is_made = &Mutex::new(is_made);
        std::thread::scope(|scope| {
            for task in 0..3 {
                let made = made.clone();
                scope.spawn(move || {
                    let process = ranks.process(&task.to_string());
                    let joined = process.join_as_task(Task(task), attempt(0), "", limits()).expect("it joins");
                    let mut rank = joined.expect("the job isn't over");
                    rank.load().expect("it loads");
                    rank.checkpoint(b"the first").expect("version 1");
                    let mut sum = [1.0];
                    rank.allreduce(&mut sum, Reduction::Sum).expect("all have version 1");
                    made.send(()).expect("the test waits for it");
                    let (was, gone) = (rank.rank(), 1);
                    if was == Rank(gone) {
                        // Until all have the sum, somebody needs something of it.
                        let is_made = is_made.lock();
                        (0..3).for_each(|_| is_made.recv_timeout(LIMIT).expect("a sum"));
                        return process.agent().end();
                    }
                    let mut buffer = values(was.0, 1000);
                    let error = rank.allreduce(&mut buffer, Reduction::Sum).expect_err("rank 1 never calls");
                    assert_eq!((error.code, &buffer), (Code::Resized, &values(was.0, 1000)), "{error}");
                    let now = was.0 - u32::from(was.0 > gone);
                    let line = format!("rank {was} of 3 is rank {now} of 2 from now on: no replacement of rank 1 came");
                    assert!(error.to_string().contains(&line), "{error}");
                    for again in 0..2 {
                        let error = rank.allreduce(&mut buffer, Reduction::Sum).expect_err("it has to join again");
                        assert_eq!((error.code, &buffer), (Code::BadState, &values(was.0, 1000)), "{again}: {error}");
                    }
                    assert_eq!(rank.checkpoint(b"another").expect_err("as above").code, Code::BadState);
                    assert_eq!(rank.version(), Version(1));
                    let mut rank = rank.join_again().expect("it joins").expect("the job isn't over");
                    let (version, model) = rank.load().expect("it loads");
                    assert_eq!((version, model.as_deref()), (Version(1), Some(&b"the first"[..])));
                    assert_eq!((rank.rank(), rank.world(), rank.version()), (Rank(now), 2, Version(1)));
                    let mut sum = [1.0];
                    rank.allreduce(&mut sum, Reduction::Sum).expect("a sum of the new world");
                    assert_eq!(sum, [2.0]);
                    rank.finish(b"the end").expect("all end alike");
                });
            }
        });
    }
}
