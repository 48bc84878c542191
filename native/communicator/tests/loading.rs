//! What a rank starts from is asked for before the calls of its first version: a program that
//! doesn't is refused at its first try, and not when one of its ranks has come back.

use crate::ranks;

use parking_lot::Mutex;
use ranks::{attempt, limits, Ranks};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::{Rank, Version};
use rejoin_communicator::collectives::{Element, Reduction};
use rejoin_communicator::{Boot, Communicator, Folding, Input, Language, Options};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// What a rank does.
type Called = fn(&mut Communicator) -> Result<(), Error>;

/// What each rank of a new job of two gets, none of which has loaded.
fn unloaded(language: Language, work: impl Fn(&mut Communicator) -> Result<(), Error> + Sync) -> Vec<Error> {
    let ranks = Ranks::new(2, 2);
    let process = ranks.process("0").speaking(language);
    std::thread::scope(|scope| {
        let (work, process) = (&work, &process);
        let join = move |own| process.join(Rank(own), attempt(0), "", limits()).unwrap().expect("the job isn't over");
        let live = move |mut rank: Communicator| {
            let error = work(&mut rank).unwrap_err();
            let again = rank.barrier().unwrap_err();
            assert_eq!(again.code, Code::BadState, "{again}");
            assert!(again.message.contains("of no more use"), "{again}");
            error
        };
        let joining = [0, 1].map(|own| scope.spawn(move || join(own)));
        // The first one that is refused ends the job: by then the other one has to have joined.
        let joined = joining.map(|thread| thread.join().expect("a rank's thread panicked"));
        let living = joined.map(|rank| scope.spawn(move || live(rank)));
        living.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
    })
}

fn says(errors: Vec<Error>, texts: &[&str]) {
    for error in errors {
        assert_eq!(error.code, Code::BadState, "{error}");
        for text in texts {
            assert!(error.message.contains(text), "{text} in {error}");
        }
    }
}

#[test]
fn a_collective_before_load_is_refused_in_the_first_incarnation_with_its_site_and_the_change() {
    let call = |rank: &mut Communicator| rank.allreduce(&mut [1f64; 3], Reduction::Sum);
    let here = "allreduce(3 f64, sum) at native/communicator/tests/loading.rs:";
    says(unloaded(Language::Rust, call), &[here, "Call load() first", "`Options { boot: Boot::BySite, .. }`"]);
    says(unloaded(Language::C, call), &[here, "Call rejoin_load() first", "`options.boot = REJOIN_BOOT_BY_SITE`"]);
    says(unloaded(Language::Java, call), &[here, "Call load() first", "`CallOptions.NONE.boot()`"]);
}

#[test]
fn each_kind_of_call_is_refused_before_load() {
    let calls: [Called; 8] = [
        |rank| rank.broadcast(&mut [1f32], Rank(0)),
        |rank| rank.allgather(&[1f32], &mut [0f32; 2]),
        |rank| rank.allgather_v(&[1f32]).map(drop),
        |rank| rank.reduce_scatter(&[1f32; 2], &mut [0f32], Reduction::Sum),
        |rank| rank.barrier(),
        |rank| rank.checkpoint(b"model").map(drop),
        |rank| rank.checkpoint_lazy(|| Ok(Vec::new())).map(drop),
        |rank| rank.checkpoint_with_own(b"model", b"own").map(drop),
    ];
    for call in calls {
        says(unloaded(Language::Rust, call), &["before load()"]);
    }
}

#[test]
fn a_boot_collective_may_stand_before_load_and_not_behind_a_checkpoint() {
    let boot = Options { boot: Boot::BySite, ..Options::default() };
    let sum = Folding::known(Element::U8, Reduction::Sum).unwrap();
    let boot = |rank: &mut Communicator| rank.allreduce_bytes(Input::Ready(&[1; 4]), &sum, &boot).map(drop);
    says(
        unloaded(Language::Rust, |rank| {
            boot(rank)?;
            rank.load()?;
            boot(rank)?;
            rank.checkpoint(b"model")?;
            boot(rank)
        }),
        &["allreduce(4 u8, sum) at native/communicator/tests/loading.rs:", "in version 1, after a checkpoint"],
    );
}

#[test]
fn what_a_rank_starts_from_is_asked_for_before_its_first_checkpoint_only() {
    says(
        unloaded(Language::C, |rank| {
            assert_eq!(rank.load()?, (Version(0), None));
            assert_eq!(rank.load()?, (Version(0), None));
            rank.barrier()?;
            rank.checkpoint(b"model")?;
            rank.load().map(drop)
        }),
        &["starts from, which is version 0", "it is in version 1", "rejoin_load() once"],
    );
}

#[test]
fn a_lazy_checkpoint_of_what_changes_is_found_at_the_next_one_and_a_snapshots_bytes_are_made_twice() {
    for is_snapshot in [true, false] {
        let errors = Ranks::new(2, 2).all(|mut rank| {
            let (model, made) = (Arc::new(Mutex::new(vec![1u8; 10])), Arc::new(AtomicU32::new(0)));
            let mut taken = || -> Result<(), Error> {
                for version in 1..5 {
                    rank.allreduce(&mut [1f32], Reduction::Sum)?;
                    let (snapshot, made) = (model.lock().clone(), made.clone());
                    // As a program of Rabit's would pass its model on, which it changes before the next checkpoint.
                    let pointer = (!is_snapshot).then(|| model.clone());
                    rank.checkpoint_lazy(move || {
                        made.fetch_add(1, Ordering::SeqCst);
                        Ok(pointer.as_ref().map_or_else(|| snapshot.clone(), |pointer| pointer.lock().clone()))
                    })?;
                    model.lock()[0] = version + 1;
                }
                Ok(())
            };
            let taken = taken();
            if taken.is_ok() {
                rank.finish(b"the end").unwrap();
            }
            // The other rank may have ended the job before this one looks.
            assert!(made.load(Ordering::SeqCst) == 2 || !is_snapshot);
            taken
        });
        for error in errors {
            match error {
                Ok(()) => assert!(is_snapshot, "what changes was taken for a snapshot"),
                Err(error) => {
                    assert_eq!((error.code, is_snapshot), (Code::Mismatch, false), "{error}");
                    assert!(error.message.contains("the supplier of lazy checkpoint 1"), "{error}");
                }
            }
        }
    }
}
