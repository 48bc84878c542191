//! Rank 0's result on its way to the tracker: part by part, each behind all else that there is to say.

use bytes::{Buf, Bytes};
use rejoin_protocol::ids::MemberId;
use rejoin_protocol::message::{AgentMessage, RESULT_PART_LIMIT};

/// A result that isn't handed over as a whole, and the report of the end that comes behind it.
pub(super) struct Handing {
    pub(super) member: MemberId,
    rest: Bytes,
    total: u64,
    finish: Option<AgentMessage>,
}

impl Handing {
    pub(super) fn new(member: MemberId, result: Bytes, finish: AgentMessage) -> Handing {
        Handing { member, total: result.len() as u64, rest: result, finish: Some(finish) }
    }

    /// What comes next; `None` when the report has been given.
    pub(super) fn next(&mut self) -> Option<AgentMessage> {
        if self.rest.is_empty() {
            return self.finish.take();
        }
        let (member, total) = (self.member, self.total);
        let offset = total - self.rest.len() as u64;
        let bytes = self.rest[..self.rest.len().min(RESULT_PART_LIMIT)].to_vec();
        self.rest.advance(bytes.len());
        Some(AgentMessage::ResultPart { member, offset, total, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::ids::{Incarnation, Rank};
    use rejoin_protocol::report::Report;

    #[test]
    fn a_result_is_handed_over_in_parts_and_the_report_of_the_end_comes_last_and_once() {
        let member = MemberId { rank: Rank(0), incarnation: Incarnation::nth(3) };
        let finish = AgentMessage::Report { member, report: Report::Finished { rounds: 7, digest: 1 } };
        for length in [0, 1, RESULT_PART_LIMIT, 2 * RESULT_PART_LIMIT + 1] {
            let result: Bytes = (0..length).map(|place| (place ^ place >> 9) as u8).collect();
            let mut handing = Handing::new(member, result.clone(), finish.clone());
            let mut handed = Vec::new();
            while let Some(AgentMessage::ResultPart { offset, total, bytes, .. }) = {
                let next = handing.next();
                assert!(next.is_some() || handed.len() == length, "{} of {length} bytes", handed.len());
                next.filter(|next| *next != finish)
            } {
                assert_eq!((offset, total), (handed.len() as u64, length as u64));
                handed.extend(bytes);
            }
            assert_eq!(handed, result, "of {length} bytes");
            assert_eq!(handing.next(), None);
        }
    }
}
