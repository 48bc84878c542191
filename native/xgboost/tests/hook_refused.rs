//! Libraries that aren't as the hook expects them: nothing is touched, and one line says why.

#[allow(clippy::duplicate_mod)]
mod common;
#[allow(clippy::duplicate_mod)]
mod hooked;
#[path = "../../communicator/tests/ranks/mod.rs"]
#[allow(clippy::duplicate_mod)]
mod ranks;

use hooked::job::stock;
use hooked::library::{file, has_context, Collective, Ended, RELEASES};
use hooked::{copies, in_own_process};
use rejoin_xgboost::hook;
use std::path::Path;

/// What the hook says of this library, which it must leave as it is: it trains as ever.
fn refusal(library: &Path, has_context: bool) -> String {
    let collective = Collective::open(library, has_context);
    let before = collective.entries();
    let reason = hook::install().expect_err("the library isn't as expected");
    assert_eq!(collective.entries(), before, "{reason}");
    assert!(!reason.contains('\n') && reason.contains(library.to_str().expect("UTF-8")), "{reason}");
    // It says the same again.
    assert_eq!(hook::install(), Err(reason.clone()));
    let sums = stock(&collective, 2, |rank| {
        let mut value = (rank as f32 + 0.5).to_ne_bytes();
        assert_eq!(collective.allreduce(&mut value, 1, 2), Ended::Success);
        f32::from_ne_bytes(value)
    });
    assert_eq!(sums, [2.0, 2.0]);
    reason
}

fn renamed(test: &str, release: &str, name: &str, word: &str, check: impl FnOnce(&str)) {
    in_own_process(test, &format!("{release} {word}"), || {
        let change = |bytes: &mut Vec<u8>| copies::rename(bytes, name, word);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let copy = copies::copy(&file(release), folder.path(), change);
        check(&refusal(&copy, has_context(release)));
    });
}

#[test]
fn a_library_whose_table_has_another_name_is_refused() {
    let test = "a_library_whose_table_has_another_name_is_refused";
    for release in RELEASES {
        renamed(test, release, "_ZTVN7xgboost10collective4CollE", "Coll", |reason| {
            assert!(reason.contains("doesn't export the table of its collective's functions"), "{reason}");
        });
    }
}

#[test]
fn a_library_in_which_a_function_of_a_entry_has_another_name_is_refused() {
    let test = "a_library_in_which_a_function_of_a_entry_has_another_name_is_refused";
    for release in RELEASES {
        // The names of all four begin so: the function's own, behind its length.
        for (start, word) in
            [("9AllreduceE", "Allreduce"), ("9BroadcastE", "Broadcast"), ("10AllgatherVE", "AllgatherV")]
        {
            let name = format!("_ZN7xgboost10collective4Coll{start}");
            renamed(test, release, &name, word, |reason| {
                assert!(reason.contains("is an unknown version of XGBoost"), "{reason}");
                assert!(reason.contains("entry 5 holds") && reason.contains("entry 8 holds"), "{reason}");
            });
        }
    }
}

#[test]
fn a_library_whose_functions_have_another_parameter_is_refused() {
    let test = "a_library_whose_functions_have_another_parameter_is_refused";
    for release in RELEASES {
        // The operator becomes a type of another name.
        renamed(test, release, "_21ArrayInterfaceHandler4TypeENS0_2OpE", "Op", |reason| {
            assert!(reason.contains("is an unknown version of XGBoost"), "{reason}");
        });
    }
}

#[test]
fn a_library_with_two_entries_exchanged_is_refused() {
    let test = "a_library_with_two_entries_exchanged_is_refused";
    for release in RELEASES {
        in_own_process(test, release, || {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let copy = copies::copy(&file(release), folder.path(), |bytes| copies::exchange_entries(bytes, 6, 7));
            let collective = Collective::open(&copy, has_context(release));
            let before = collective.entries();
            let reason = hook::install().expect_err("Broadcast and Allgather are exchanged");
            assert_eq!(collective.entries(), before, "{reason}");
            assert!(reason.contains("doesn't hold the expected ones in the expected order"), "{reason}");
            assert!(reason.contains("entry 6 holds _ZN7xgboost10collective4Coll9Allgather"), "{reason}");
        });
    }
}

#[test]
fn entries_that_others_have_replaced_are_left_to_them() {
    let test = "entries_that_others_have_replaced_are_left_to_them";
    for release in RELEASES {
        in_own_process(test, release, || {
            let collective = Collective::load(release);
            collective.replace_entry(0, libc::abs as *const () as usize);
            let before = collective.entries();
            let reason = hook::install().expect_err("another hook was there before");
            assert_eq!(collective.entries(), before, "{reason}");
            assert!(reason.contains("were replaced by") && reason.contains("libc"), "{reason}");
        });
    }
}

#[test]
fn one_unknown_library_keeps_the_hook_out_of_a_known_one() {
    let test = "one_unknown_library_keeps_the_hook_out_of_a_known_one";
    in_own_process(test, "3.4.0", || {
        let known = Collective::load("3.4.0");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let probe = folder.path().join("libxgboost_other.so");
        let source = folder.path().join("other.c");
        std::fs::write(&source, "int other(void) { return 1; }\n").expect("the folder can be written");
        let mut compile = std::process::Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
        compile.args(["-shared", "-fPIC", "-o"]).arg(&probe).arg(&source);
        assert!(compile.status().expect("a C compiler").success());
        // SAFETY: it has no initialisers.
        let _other = unsafe { libloading::Library::new(&probe) }.expect("it loads");
        let before = known.entries();
        let reason = hook::install().expect_err("one of the two is unknown");
        assert!(reason.contains("libxgboost_other.so doesn't export"), "{reason}");
        assert_eq!(known.entries(), before);
    });
}

#[test]
fn without_any_xgboost_there_is_nothing_to_hook() {
    in_own_process("without_any_xgboost_there_is_nothing_to_hook", "none", || {
        let reason = hook::install().expect_err("nothing is loaded");
        assert_eq!(reason, "no library with \"xgboost\" in its name is loaded");
    });
}

#[test]
fn a_known_library_is_hooked_once_and_stays_loaded() {
    for release in RELEASES {
        in_own_process("a_known_library_is_hooked_once_and_stays_loaded", release, || {
            let collective = Collective::load(release);
            let before = collective.entries();
            hook::install().expect("it is known");
            let hooked = collective.entries();
            assert!(before.iter().zip(&hooked).all(|(before, hooked)| before != hooked), "{before:x?} {hooked:x?}");
            assert!(!collective.is_writable(), "the table is read-only again");
            hook::install().expect("it is hooked");
            assert_eq!(collective.entries(), hooked);
            let table = collective.table();
            drop(collective);
            assert!(is_mapped(table), "the library was unloaded");
        });
    }
}

fn is_mapped(address: usize) -> bool {
    hooked::library::mapping(address).is_some()
}
