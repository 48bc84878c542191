//! A sleeper is woken, in every order that the memory model allows (loom). A wake-up that is lost
//! is a thread that waits for ever, which loom reports as a deadlock.

mod support;

use loom::sync::Arc;
use loom::thread;
use rejoin_sync::{Atomic, Counters, Parker};
use std::sync::atomic::{AtomicBool, Ordering};
use support::{in_every_order, Event, Futex, Long, Short};

#[test]
fn a_thread_that_dozes_is_never_left_asleep_over_what_others_gave_it() {
    in_every_order(3, || {
        let shared = Arc::new((Parker::<Long>::default(), Event::new()));
        let givers = [(); 2].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (parker, event) = &*shared;
                parker.changed(|| event.write());
            })
        });
        let (parker, event) = &*shared;
        loop {
            let seen = parker.changes();
            if seen == 3 {
                break;
            }
            let nap = || {
                event.wait();
                event.take();
            };
            parker.sleep(|| parker.changes() != seen, nap);
        }
        givers.into_iter().for_each(|giver| giver.join().unwrap());
    });
}

/// Runs a model that says whether a thread would have slept for ever. Each run itself ends well, so
/// that all of them are seen.
fn is_lost_in_some_order(model: impl Fn() -> bool + Sync + Send + 'static) -> bool {
    let lost = std::sync::Arc::new(AtomicBool::new(false));
    let found = lost.clone();
    in_every_order(1, move || {
        if model() {
            found.store(true, Ordering::SeqCst);
        }
    });
    lost.load(Ordering::SeqCst)
}

#[test]
fn a_thread_that_says_that_it_sleeps_only_after_its_last_look_would_be_found() {
    assert!(is_lost_in_some_order(|| {
        let shared = Arc::new((Long::new(0), Long::new(0), Event::new()));
        let giver = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (count, asleep, event) = &*shared;
                count.fetch_add(1, Ordering::AcqRel);
                if asleep.fetch_add(0, Ordering::AcqRel) > 0 {
                    event.write();
                }
            })
        };
        let (count, asleep, event) = &*shared;
        let naps = count.load(Ordering::Acquire) == 0;
        if naps {
            asleep.swap(1, Ordering::AcqRel);
        }
        giver.join().unwrap();
        naps && !event.is_ready()
    }));
}

/// The counters on one segment.
struct Segment(Long, Short, Short);

impl Segment {
    fn new() -> Self {
        Segment(Long::new(0), Short::new(0), Short::new(0))
    }

    fn counters(&self) -> Counters<'_, Long, Short> {
        Counters::new(&self.0, &self.1, &self.2)
    }
}

#[test]
fn a_rank_that_sleeps_for_another_ones_publish_is_woken_by_it() {
    in_every_order(3, || {
        let shared = Arc::new(([Segment::new(), Segment::new()], Futex::new()));
        let publisher = {
            let shared = shared.clone();
            thread::spawn(move || {
                let ([own, other], futex) = &*shared;
                for step in [1, 2] {
                    own.counters().publish(0, step, [other.counters()], |_| futex.wake());
                }
            })
        };
        let ([publisher_segment, own], futex) = &*shared;
        for step in [1, 2] {
            while publisher_segment.counters().published() < step {
                own.counters().sleep(&publisher_segment.counters(), 0, step, |bell, seen| futex.wait(bell, seen));
            }
        }
        publisher.join().unwrap();
    });
}

#[test]
fn ranks_that_sleep_for_each_other_in_turn_all_go_on() {
    in_every_order(3, || {
        let shared = Arc::new(([Segment::new(), Segment::new()], Futex::new()));
        fn run(shared: &([Segment; 2], Futex), rank: usize) {
            let (segments, futex) = shared;
            let (own, other) = (segments[rank].counters(), segments[1 - rank].counters());
            own.publish(rank as u32, 1, [other], |_| futex.wake());
            while other.published() < 1 {
                own.sleep(&other, 1 - rank as u32, 1, |bell, seen| futex.wait(bell, seen));
            }
        }
        let second = {
            let shared = shared.clone();
            thread::spawn(move || run(&shared, 1))
        };
        run(&shared, 0);
        second.join().unwrap();
    });
}

#[test]
fn a_publish_without_a_fence_before_the_look_for_sleepers_would_be_found() {
    assert!(is_lost_in_some_order(|| {
        let segments = Arc::new([Segment::new(), Segment::new()]);
        let publisher = {
            let segments = segments.clone();
            thread::spawn(move || {
                let [own, other] = &*segments;
                own.0.store(1, Ordering::Release);
                other.1.load(Ordering::Relaxed) == 1
            })
        };
        let [publisher_segment, own] = &*segments;
        let mut waits = false;
        own.counters().sleep(&publisher_segment.counters(), 0, 1, |_, _| waits = true);
        let wakes = publisher.join().unwrap();
        waits && !wakes
    }));
}
