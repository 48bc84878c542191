//! How a command line names hosts.

use rejoin_agent::event_log::MOST_RANKS;

/// A host and its slots, of `host:4` or `host`, which has one.
///
/// # Errors
/// What is expected, for any other text.
pub fn host(text: &str) -> Result<(String, u32), String> {
    named(text, 1).filter(|(_, slots)| (1..=MOST_RANKS).contains(slots)).ok_or_else(|| {
        format!(
            "expected a host, or one with its number of slots from 1 to {MOST_RANKS}, as node7:4; one with an IPv6 \
             address alone needs a name, in /etc/hosts or the configuration of ssh"
        )
    })
}

/// A host and its slots, as many as these where it is named without a number; `None` for any other text.
pub fn named(text: &str, slots: u32) -> Option<(String, u32)> {
    let (name, slots) = match text.rsplit_once(':') {
        // Numbers are read with a sign before them too.
        Some((name, slots)) => (name, slots.parse().ok().filter(|_| !slots.starts_with('+'))?),
        None => (text, slots),
    };
    is_host(name).then(|| (name.into(), slots))
}

/// Whether this may be the name of a host; what begins with a hyphen ssh would take for an option, and what is behind a
/// colon isn't told from a number of slots.
fn is_host(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.contains(|letter: char| letter == ':' || letter.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_slot_or_as_many_as_are_said() {
        assert_eq!(host("node7"), Ok(("node7".into(), 1)));
        assert_eq!(host("me@node7:4"), Ok(("me@node7".into(), 4)));
        for text in ["", ":4", "node7:", "node7:0", "node7:-1", "node7:x", "-oProxyCommand=x", "a b:2", "2001:db8::7"] {
            assert!(host(text).expect_err(text).contains("as node7:4"), "{text}");
        }
    }
}
