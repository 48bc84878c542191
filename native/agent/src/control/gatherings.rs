//! Checkpoints that come for ranks here, from those that hold them.

use super::{Control, Role};
use crate::control::Command;
use crate::digest::digest;
use crate::fetch::{Gathering, NextStripe, Progress};
use bytes::Bytes;
use mio::Token;
use rejoin_protocol::host::HostInput;
use rejoin_protocol::ids::{Checkpoint, MemberId};
use rejoin_protocol::report::Report;
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::Kind;
use rejoin_transport::Purpose;
use std::time::Instant;

/// What was there of a stripe.
pub(super) enum StripeRead {
    /// So many of its bytes; there may be more.
    Read(usize),
    /// Nothing more now, or its connection has ended.
    Over,
    /// A message comes next.
    Message,
}

impl Control {
    /// Has a checkpoint brought, from the nearest of these; what is here of it stays.
    pub(super) fn gather(&mut self, member: MemberId, checkpoint: Checkpoint, holders: Vec<AgentAddress>) {
        let known = self.gatherings.get_mut(&member);
        match known.and_then(|gathering| gathering.go_on(&checkpoint, holders.clone())) {
            Some(gone) => {
                let is_gone = |role: &Role| match role {
                    Role::Fetching(whose, number) => *whose == member && gone.contains(number),
                    _ => false,
                };
                self.drop_connections(is_gone);
            }
            None => {
                self.drop_fetches(member);
                let gathering = Gathering::new(member, checkpoint, holders, self.host.host_name(), Instant::now());
                self.gatherings.insert(member, gathering);
            }
        }
        self.go_on_gathering(member);
    }

    /// Asks the holder that is next for parts of a member's checkpoint, or gives up.
    pub(super) fn go_on_gathering(&mut self, member: MemberId) {
        while let Some(gathering) = self.gatherings.get_mut(&member) {
            let (number, holder) = match gathering.next(Instant::now()) {
                NextStripe::Ask(number, holder) => (number, holder),
                NextStripe::Wait => return,
                NextStripe::Failed => {
                    // What is here is kept for the next try.
                    let (reason, is_further) = (gathering.failure().message, gathering.has_come_further());
                    return self.handle(Some(HostInput::FetchFailed { member, is_further, reason }));
                }
            };
            match self.connect(holder.address, Purpose::Fetch, Role::Fetching(member, number)) {
                Ok(token) => self.serve_connection(token),
                Err((reason, _)) => {
                    if let Some(gathering) = self.gatherings.get_mut(&member) {
                        gathering.failed(number, &reason);
                    }
                }
            }
        }
    }

    /// Drops the fetches of a member that is over.
    pub(super) fn drop_fetches(&mut self, member: MemberId) {
        self.gatherings.remove(&member);
        self.drop_connections(|role| match role {
            Role::Fetching(whose, _) => *whose == member,
            Role::Results(results) => results.member == member,
            _ => false,
        });
    }

    fn drop_connections(&mut self, is_gone: impl Fn(&Role) -> bool) {
        let gone = self.connections.iter().filter(|(_, connection)| is_gone(&connection.role));
        for token in gone.map(|(token, _)| *token).collect::<Vec<Token>>() {
            self.remove(token);
        }
    }

    /// Brings bytes of a checkpoint to where they belong.
    pub(super) fn read_stripe(&mut self, token: Token, member: MemberId, number: u32) -> StripeRead {
        let (Some(connection), Some(gathering)) = (self.connections.get_mut(&token), self.gatherings.get_mut(&member))
        else {
            self.remove(token);
            return StripeRead::Over;
        };
        let read = match connection.link.next_header() {
            Ok(None) => return StripeRead::Over,
            Ok(Some(header)) if header.kind != Kind::Bulk => return StripeRead::Message,
            Ok(Some(header)) => match gathering.room(number, &header) {
                Ok(room) => connection.link.read_payload(room).map_err(|cause| cause.to_string()),
                Err(reason) => Err(reason),
            },
            Err(cause) => Err(cause.to_string()),
        };
        match read {
            Ok(0) => StripeRead::Over,
            Ok(count) => {
                let progress = gathering.came(number, count, Instant::now());
                self.gathered(token, member, progress);
                StripeRead::Read(count)
            }
            Err(reason) => {
                self.end(token, reason);
                StripeRead::Over
            }
        }
    }

    /// What became of a stripe.
    pub(super) fn gathered(&mut self, token: Token, member: MemberId, progress: Progress) {
        match progress {
            Progress::Wait => {}
            Progress::Failed(reason) => self.end(token, reason),
            Progress::Brought => {
                self.remove(token);
                self.go_on_gathering(member);
            }
            Progress::Whole(bytes) => {
                self.remove(token);
                self.verify(member, bytes);
            }
            Progress::Done(bytes) => {
                self.remove(token);
                self.fetched(member, bytes);
            }
        }
    }

    /// Has the digest of a whole checkpoint computed, on a thread of its own: this one has heartbeats to send.
    fn verify(&mut self, member: MemberId, bytes: Bytes) {
        let Some(began) = self.gatherings.get(&member).map(|gathering| gathering.began) else { return };
        let (shared, digested) = (self.shared.clone(), bytes.clone());
        let verified = move |bytes: Bytes| {
            let digest = digest(&bytes);
            shared.command(Command::Verified { member, began, bytes, digest });
        };
        let thread = std::thread::Builder::new().name("rejoin-verifier".into()).spawn({
            let verified = verified.clone();
            move || verified(digested)
        });
        if thread.is_err() {
            verified(bytes);
        }
    }

    /// The digest of what was whole. It counts for nothing when something else is wanted by now.
    pub(super) fn verified(&mut self, member: MemberId, began: Instant, bytes: Bytes, digest: u128) {
        let Some(gathering) = self.gatherings.get_mut(&member).filter(|now| now.began == began) else { return };
        match gathering.verified(bytes, digest) {
            Progress::Done(bytes) => self.fetched(member, bytes),
            _ => self.go_on_gathering(member),
        }
    }

    fn fetched(&mut self, member: MemberId, bytes: Bytes) {
        let Some(gathering) = self.gatherings.remove(&member) else { return };
        let millis = gathering.began.elapsed().as_millis() as u64;
        let (source, length) = (gathering.source(self.agent), bytes.len() as u64);
        match self.shared.store.put(gathering.checkpoint, bytes) {
            Ok(()) => self.handle(Some(HostInput::Fetched { member, bytes: length, source, millis })),
            Err(error) => self.report(member, Report::Broken(error)),
        }
    }
}
