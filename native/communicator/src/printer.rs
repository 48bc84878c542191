//! What a rank's program tells whoever started the job.

use parking_lot::Mutex;
use rejoin_agent::Agent;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::MemberId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of one text; a longer one is cut.
const LONGEST: usize = 16 << 10;
/// Bytes in a second: the driver hears all ranks, and the tracker has other things to hear.
const PER_SECOND: usize = 256 << 10;

/// Of one rank in one incarnation; any thread may use it.
pub struct Printer {
    agent: Arc<Agent>,
    member: MemberId,
    prints: Prints,
}

/// How much one incarnation has printed; any thread may use it.
#[derive(Default)]
pub struct Prints {
    pace: Mutex<Pace>,
}

impl Prints {
    /// [`Printer::print`], for an agent that isn't the printer's own.
    pub fn print(&self, agent: &Agent, member: MemberId, text: &str) {
        let MemberId { rank, incarnation } = member;
        if let Some(text) = self.pace.lock().said(text, Instant::now()) {
            agent.report_event(Event::Printed { rank, incarnation, text });
        }
    }
}

#[derive(Default)]
struct Pace {
    began: Option<Instant>,
    bytes: usize,
    left_out: u64,
}

impl Pace {
    /// What is said of a text at this time: nothing where there were too many in this second.
    fn said(&mut self, text: &str, now: Instant) -> Option<String> {
        if self.began.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1)) {
            (self.began, self.bytes) = (Some(now), 0);
        }
        let cut = text.floor_char_boundary(LONGEST);
        if self.bytes + cut > PER_SECOND {
            self.left_out += 1;
            return None;
        }
        self.bytes += cut;
        let mut said = String::with_capacity(cut);
        if self.left_out > 0 {
            said = format!("({} texts left out: more than {} KiB in a second)\n", self.left_out, PER_SECOND >> 10);
            self.left_out = 0;
        }
        said.push_str(&text[..cut]);
        if cut < text.len() {
            said.push_str(&format!(" … ({} bytes more)", text.len() - cut));
        }
        Some(said)
    }
}

impl Printer {
    pub(crate) fn new(agent: Arc<Agent>, member: MemberId) -> Printer {
        Printer { agent, member, prints: Prints::default() }
    }

    /// Shows a text at the job's driver, as an [`Event::Printed`] of its tracker; when, nobody waits for.
    /// Up to 16 KiB of it, and up to 256 KiB in a second; what is left out is said with the next one.
    pub fn print(&self, text: &str) {
        self.prints.print(&self.agent, self.member, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_two_characters_and_says_how_much_is_missing() {
        let said = Pace::default().said(&"ä".repeat(LONGEST), Instant::now()).unwrap_or_default();
        assert!(said.starts_with("ää") && said.ends_with(&format!("ä … ({LONGEST} bytes more)")), "{said}");
        assert_eq!(Pace::default().said("short", Instant::now()).as_deref(), Some("short"));
    }

    #[test]
    fn a_flood_is_left_out_and_counted_until_the_next_second() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        let text = "x".repeat(LONGEST);
        let said = (0..100).filter(|_| pace.said(&text, now).is_some()).count();
        assert_eq!(said, PER_SECOND / LONGEST);
        let next = pace.said("calm", now + Duration::from_secs(1));
        assert_eq!(next.as_deref(), Some("(84 texts left out: more than 256 KiB in a second)\ncalm"));
    }
}
