//! Whether memory is there for what callers ask for: where it isn't, their call fails, and not their process.

use rejoin_protocol::error::{Code, Error};

/// Less is taken without a look: asking costs two calls of the system, and an allocator may keep
/// smaller pieces that are given back.
const LARGE: usize = 64 << 20;

/// Whether so many bytes can be had at once; nothing is touched, and all of it is given back.
///
/// # Errors
/// `OutOfSpace` when they can't; `what` is what needs them.
pub fn check(what: impl FnOnce() -> String, bytes: usize) -> Result<(), Error> {
    if bytes < LARGE || Vec::<u8>::new().try_reserve_exact(bytes).is_ok() {
        return Ok(());
    }
    Err(Error::new(
        Code::OutOfSpace,
        format!(
            "{} needs {bytes} bytes of memory at once, which this process can't have; give it more, or make it smaller",
            what()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_process_can_have_is_an_error_that_says_what_for_and_how_much() {
        assert_eq!(check(|| unreachable!("a little is there"), 1 << 20), Ok(()));
        assert_eq!(check(|| unreachable!("and some more"), LARGE), Ok(()));
        for bytes in [isize::MAX as usize, usize::MAX] {
            let error = check(|| "the result of a call".into(), bytes).expect_err("no machine has so much");
            assert_eq!(error.code, Code::OutOfSpace);
            assert!(error.message.starts_with(&format!("the result of a call needs {bytes} bytes")), "{error}");
        }
    }
}
