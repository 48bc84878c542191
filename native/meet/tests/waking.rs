//! Who sleeps is woken, in every order that the memory model allows (loom). A wake-up that is lost is a thread that waits for ever, which
//! loom reports as a deadlock.

mod support;

use loom::sync::Arc;
use loom::thread;
use rejoin_meet::{Doze, Numbers, Word};
use std::sync::atomic::{AtomicBool, Ordering};
use support::{in_every_order, Event, Futex, Long, Short};

#[test]
fn a_thread_that_dozes_is_never_left_asleep_over_what_others_gave_it() {
    in_every_order(3, || {
        let shared = Arc::new((Doze::<Long>::default(), Event::new()));
        let givers = [true, false].map(|frame| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (doze, event) = &*shared;
                match frame {
                    true => doze.arrived(|| event.write()),
                    false => doze.changed(|| event.write()),
                }
            })
        });
        let (doze, event) = &*shared;
        loop {
            let seen = (doze.changes(), doze.arrivals());
            if seen == (2, 1) {
                break;
            }
            let nap = || {
                event.wait();
                event.take();
            };
            doze.sleep(|| (doze.changes(), doze.arrivals()) != seen, nap);
        }
        givers.into_iter().for_each(|giver| giver.join().unwrap());
    });
}

/// Runs a model that says whether somebody would have slept for ever. Each run itself ends well, so that all of them are seen.
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

/// The numbers on one board.
struct Board(Long, Short, Short);

impl Board {
    fn new() -> Self {
        Board(Long::new(0), Short::new(0), Short::new(0))
    }

    fn numbers(&self) -> Numbers<'_, Long, Short> {
        Numbers::new(&self.0, &self.1, &self.2)
    }
}

#[test]
fn a_rank_that_sleeps_for_another_ones_post_is_woken_by_it() {
    in_every_order(3, || {
        let shared = Arc::new(([Board::new(), Board::new()], Futex::new()));
        let poster = {
            let shared = shared.clone();
            thread::spawn(move || {
                let ([own, other], futex) = &*shared;
                for beat in [1, 2] {
                    own.numbers().post(0, beat, [other.numbers()], |_| futex.wake());
                }
            })
        };
        let ([poster_board, own], futex) = &*shared;
        for beat in [1, 2] {
            while poster_board.numbers().posted() < beat {
                own.numbers().sleep(&poster_board.numbers(), 0, beat, |bell, seen| futex.wait(bell, seen));
            }
        }
        poster.join().unwrap();
    });
}

#[test]
fn ranks_that_sleep_for_each_other_in_turn_all_go_on() {
    in_every_order(3, || {
        let shared = Arc::new(([Board::new(), Board::new()], Futex::new()));
        fn run(shared: &([Board; 2], Futex), rank: usize) {
            let (boards, futex) = shared;
            let (own, other) = (boards[rank].numbers(), boards[1 - rank].numbers());
            own.post(rank as u32, 1, [other], |_| futex.wake());
            while other.posted() < 1 {
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
fn a_post_without_a_fence_before_the_look_for_sleepers_would_be_found() {
    assert!(is_lost_in_some_order(|| {
        let boards = Arc::new([Board::new(), Board::new()]);
        let poster = {
            let boards = boards.clone();
            thread::spawn(move || {
                let [own, other] = &*boards;
                own.0.store(1, Ordering::Release);
                other.1.load(Ordering::Relaxed) == 1
            })
        };
        let [poster_board, own] = &*boards;
        let mut waits = false;
        own.numbers().sleep(&poster_board.numbers(), 0, 1, |_, _| waits = true);
        let wakes = poster.join().unwrap();
        waits && !wakes
    }));
}
