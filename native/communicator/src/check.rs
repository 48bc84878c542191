//! What has to hold for any bytes that a process is given by its surroundings. Run by this crate's
//! tests, and by a fuzz target through the feature `check`.

use crate::launched::{Launched, SECRET_DESCRIPTOR, SECRET_NAME};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

/// A check of one decoder.
pub type Check = fn(&[u8]);

/// Each decoder's corpus folder, and its check.
pub const ALL: [(&str, Check); 1] = [("environment", environment)];

/// An environment, `NAME=VALUE` on each line, is read, or refused with words. The secret's
/// descriptor may be given as `here`, which is one that holds a secret.
///
/// # Panics
/// When that doesn't hold.
pub fn environment(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let secret = secret();
    let variable = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let value = lines.find(|(known, _)| *known == name).map(|(_, value)| value.to_string())?;
        Some(if name == SECRET_DESCRIPTOR && value == "here" { secret.as_raw_fd().to_string() } else { value })
    };
    match Launched::from(variable) {
        Ok(launched) => {
            assert!(launched.rank.0 < launched.world, "{launched:?}");
            assert_eq!(launched.agent.secret.expose(), &[5; 32]);
        }
        Err(error) => assert!(error.message.contains("expected"), "{error}"),
    }
}

/// As a launcher makes it.
fn secret() -> File {
    let name = std::ffi::CString::new(SECRET_NAME).expect("a name without zeros");
    // SAFETY: the name is a text that ends with a zero; the result is checked.
    #[allow(unsafe_code)]
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    assert!(descriptor >= 0, "memory for a secret can't be made");
    // SAFETY: the descriptor was just made, and nothing else has it.
    #[allow(unsafe_code)]
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(&[5; 32]).expect("memory can be written");
    file
}

#[cfg(test)]
#[path = "../../../fuzz/kept.rs"]
mod kept;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn the_kept_corpus_of_every_fuzz_target_runs_through() {
        for (name, check) in ALL {
            kept::inputs(name).iter().for_each(|bytes| check(bytes));
        }
    }

    fn whole() -> Vec<(String, String)> {
        let text = include_str!("../../../fuzz/corpus/environment/whole");
        text.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn read(lines: &[(String, String)]) -> bool {
        let secret = secret();
        let variable = |name: &str| {
            let value = lines.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())?;
            Some(if value == "here" { secret.as_raw_fd().to_string() } else { value })
        };
        Launched::from(variable).is_ok()
    }

    #[test]
    fn an_environment_that_is_whole_is_read_and_numbers_with_a_sign_are_not() {
        assert!(read(&whole()));
        for changed in ["REJOIN_JOB", "REJOIN_RANK"] {
            let mut lines = whole();
            let line = lines.iter_mut().find(|(name, _)| name == changed).expect("it is set");
            line.1.replace_range(..1, "+");
            assert!(!read(&lines), "{lines:?}");
        }
    }

    fn line() -> impl Strategy<Value = (String, String)> {
        let names = [
            "RANK",
            "WORLD",
            "ATTEMPT",
            "TRACKER",
            "JOB",
            "SECRET_FD",
            "DURABLE",
            "DURABLE_EVERY",
            "DURABLE_IDENTITY",
            "LOG_MEMORY",
            "LOG_DISK",
            "SPILL",
            "OWN_COPIES",
            "DETAILS",
            "CALLS",
            "SHARED_MEMORY",
        ];
        let values = prop_oneof![
            any::<u64>().prop_map(|number| number.to_string()),
            (0u32..5).prop_map(|number| number.to_string()),
            Just("127.0.0.1:4711".to_string()),
            Just("000102030405060708090a0b0c0d0e0f".to_string()),
            Just("here".to_string()),
            "\\PC{0,40}",
        ];
        (prop::sample::select(names.to_vec()), values).prop_map(|(name, value)| (format!("REJOIN_{name}"), value))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_environment_is_read_or_refused_with_words(
            first in vec(line(), 0..4), rest in any::<bool>(), text in "\\PC{0,60}",
        ) {
            // Changed first: the first line with a name counts.
            let lines = first.into_iter().chain(whole().into_iter().filter(|_| rest));
            let lines: Vec<String> = lines.map(|(name, value)| format!("{name}={value}")).collect();
            environment(lines.join("\n").as_bytes());
            environment(text.as_bytes());
        }
    }
}
