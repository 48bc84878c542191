//! Hooked calls that can't be finished: XGBoost is given an error, never bytes that aren't the
//! result, and never waits for ever.

#[allow(clippy::duplicate_mod)]
mod common;
#[allow(clippy::duplicate_mod)]
mod hooked;
#[path = "../../communicator/tests/ranks/mod.rs"]
#[allow(clippy::duplicate_mod)]
mod ranks;

use hooked::in_own_process;
use hooked::job::{hooked as job, Member, Transport};
use hooked::library::{has_context, Collective, Ended, RELEASES};
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Phase, Version};
use rejoin_xgboost::WireVariant;
use std::sync::Barrier;

const FLOAT: i32 = 1;
const SUM: i32 = 2;

fn variant(release: &str) -> WireVariant {
    if has_context(release) {
        WireVariant::From33
    } else {
        WireVariant::Until32
    }
}

fn sum(collective: &Collective, own: f32, count: usize) -> (Ended, Vec<f32>) {
    let mut values = vec![own; count];
    let ended = collective.allreduce(bytemuck::cast_slice_mut(&mut values), FLOAT, SUM);
    (ended, values)
}

impl Member<'_> {
    /// Enters the first version: from here on XGBoost's socket calls are served in place.
    fn enter_version(&self) {
        let (phase, mark) = (Phase::Version(Version(0)), PhaseMark { round: 0, checkpoint: 0 });
        self.bridge.enter(self.member, phase, mark).expect("everything is at rest");
        self.operations.enter(Version(0), 0).expect("boot is over");
    }

    fn failure(&self) -> Error {
        self.bridge.failure(self.member).expect("the rank has failed")
    }
}

/// After a failure the same process can train again.
fn trains_again(collective: &Collective, variant: WireVariant) {
    let sums =
        job(collective, variant, 2, 2, Transport::Memory, |member| sum(collective, member.rank as f32 + 0.25, 3));
    assert_eq!(sums, [(Ended::Success, vec![1.5; 3]), (Ended::Success, vec![1.5; 3])]);
}

#[test]
fn ranks_that_make_different_calls_are_told_which_and_get_no_result() {
    let test = "ranks_that_make_different_calls_are_told_which_and_get_no_result";
    for release in RELEASES {
        in_own_process(test, release, || {
            let collective = Collective::load(release);
            for (together, transport) in [(3, Transport::Memory), (1, Transport::Links)] {
                // A rank that is still in the first call would be freed from it: the mismatch ends the job.
                let first_has_ended = Barrier::new(3);
                let failures = job(&collective, variant(release), 3, together, transport, |member| {
                    assert_eq!(sum(&collective, 1.0, 10), (Ended::Success, vec![3.0; 10]));
                    first_has_ended.wait();
                    // One rank has other data: more bins, say.
                    let count = if member.rank == 1 { 300 } else { 200 };
                    let (ended, values) = sum(&collective, 2.0, count);
                    assert_eq!(ended, Ended::Error, "rank {}", member.rank);
                    assert_eq!(values, vec![2.0; count], "the caller's buffer was touched");
                    // It doesn't recover by itself.
                    assert_ne!(sum(&collective, 1.0, 10).0, Ended::Success);
                    assert_eq!(member.served().calls, 1);
                    member.failure()
                });
                let named = |error: &&Error| error.message.contains("300") && error.message.contains("200");
                let mismatches: Vec<&Error> = failures.iter().filter(|error| error.code == Code::Mismatch).collect();
                assert!(mismatches.iter().any(named), "{failures:#?}");
                assert_eq!(mismatches.len(), 3, "{failures:#?}");
            }
            trains_again(&collective, variant(release));
        });
    }
}

#[test]
fn a_rank_whose_task_was_killed_is_freed_from_a_hooked_call() {
    let test = "a_rank_whose_task_was_killed_is_freed_from_a_hooked_call";
    for release in RELEASES {
        in_own_process(test, release, || {
            let collective = Collective::load(release);
            for turn in 0..20 {
                let in_version = turn % 2 == 1;
                let transport = if turn % 4 < 2 { Transport::Memory } else { Transport::Links };
                let about_to_call = Barrier::new(2);
                let outcomes = job(&collective, variant(release), 2, 2, transport, |member| {
                    assert_eq!(sum(&collective, 1.0, 10).0, Ended::Success);
                    if in_version {
                        member.enter_version();
                    }
                    if member.rank == 1 {
                        // Never comes.
                        about_to_call.wait();
                        return None;
                    }
                    let killed = Error::new(Code::Cancelled, "the task was killed");
                    let (agent, id, reported) = (member.agent.clone(), member.member, killed.clone());
                    let killer = std::thread::scope(|scope| {
                        let killer = scope.spawn(|| {
                            about_to_call.wait();
                            agent.free(id, reported);
                        });
                        let (ended, values) = sum(&collective, 7.0, 10);
                        assert_eq!((ended, values), (Ended::Error, vec![7.0; 10]));
                        killer.join()
                    });
                    killer.expect("the rank can be freed");
                    assert_eq!(member.failure(), killed);
                    Some(())
                });
                assert_eq!(outcomes, [Some(()), None]);
            }
            trains_again(&collective, variant(release));
        });
    }
}
