//! Structs of other headers than the library's own: shorter ones, longer ones, and what is none.

mod job;

use job::*;
use rejoin::*;
use std::mem::{offset_of, size_of};
use std::ptr::{from_ref, null, null_mut};

/// Options of a later header: there is more behind what is known today.
#[repr(C)]
struct Longer {
    options: RejoinOptions,
    surplus: [u64; 3],
}

/// A barrier whose options are this long by their own word.
fn barrier(rank: &Rank, longer: &Longer) -> i32 {
    // SAFETY: so many bytes are there.
    unsafe { rejoin_barrier(rank.0, null(), from_ref(longer).cast()) }
}

fn longer(size: usize) -> Longer {
    Longer { options: RejoinOptions { size, ..no_options() }, surplus: [0; 3] }
}

#[test]
fn a_struct_of_an_older_header_has_the_defaults_of_what_it_lacks() {
    Job::new(1).all(|rank| {
        // Whatever stands behind the end is not read: here it would be refused.
        let (order, boot) = (offset_of!(RejoinOptions, order), offset_of!(RejoinOptions, boot));
        for end in [order, boot, offset_of!(RejoinOptions, prepare)] {
            let mut older = longer(end);
            older.options.order = if end <= order { 77 } else { 0 };
            older.options.boot = if end <= boot { 77 } else { 0 };
            older.options.prepare = Some(fails as _);
            rank.check(barrier(rank, &older));
        }
        rank.check(rank.finish(b""));
    });
}

#[test]
fn a_struct_of_a_newer_header_is_taken_if_what_is_unknown_is_zero_and_refused_by_name_otherwise() {
    Job::new(1).all(|rank| {
        let mut newer = longer(size_of::<Longer>());
        newer.options.boot = 2;
        newer.options.boot_name = c"a barrier".as_ptr();
        rank.check(barrier(rank, &newer));
        newer.options.boot_name = c"another one".as_ptr();
        newer.surplus[2] = 1 << 16;
        assert_eq!(barrier(rank, &newer), BAD_ARGUMENT);
        let said = rank.message();
        let at = size_of::<RejoinOptions>() + 2 * 8 + 2;
        for text in ["rejoin_options has 64 bytes", &format!("byte {at} is set"), env!("CARGO_PKG_VERSION")] {
            assert!(said.contains(text), "{text} in {said}");
        }
        rank.check(rank.finish(b""));
    });
}

#[test]
fn a_size_that_no_header_has_is_refused_with_what_to_begin_with() {
    Job::new(1).all(|rank| {
        let in_a_pointer = offset_of!(RejoinOptions, boot_name) + 4;
        for size in [0, 3, size_of::<usize>() + 2, in_a_pointer, size_of::<RejoinOptions>() + 5000, usize::MAX] {
            assert_eq!(barrier(rank, &longer(size)), BAD_ARGUMENT, "{size}");
            let said = rank.message();
            assert!(said.contains(&format!("its size is {size};")) && said.contains("REJOIN_OPTIONS_INIT"), "{said}");
        }
        rank.check(rank.finish(b""));
    });
}

#[test]
fn the_other_structs_are_read_the_same_way() {
    let job = Job::new(1);
    // The older config ends before `log_memory`: this one is none that could be used.
    let process = job.process_with(c"older", |config| {
        config.size = offset_of!(RejoinConfig, log_memory);
        (config.log_memory, config.log_disk) = (1, 1);
    });
    let (rank, status) = job.join(process, 0, 0);
    rank.check(status);
    rank.check(rank.allreduce(&mut [1.0; 1000], F64, SUM, c"more than a byte"));
    let limits = RejoinLimits { size: 9, join_millis: 0, call_millis: 0, finish_millis: 0 };
    let mut handle = null_mut();
    // SAFETY: the process is open, and the size is looked at first.
    let status = unsafe { rejoin_join(process, 0, 0, 1, null(), &limits, &mut handle) };
    let refused = Rank(handle);
    assert_eq!(status, BAD_ARGUMENT);
    assert!(refused.message().contains("REJOIN_LIMITS_INIT"), "{}", refused.message());
    rank.check(rank.finish(b""));
    // SAFETY: it is closed once.
    unsafe { rejoin_process_close(process) };
}
