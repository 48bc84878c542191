//! Checkpoints that go from here to others: those that newcomers ask for, and ranks' own models
//! that others are to hold.

use super::{Command, Connection, Control, MemberState, Role};
use crate::copies::{Copy, Said};
use mio::Token;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::Moment;
use rejoin_protocol::host::HostInput;
use rejoin_protocol::ids::{Checkpoint, MemberId, Rank};
use rejoin_protocol::report::Report;
use rejoin_protocol::view::AgentAddress;
use rejoin_transport::Purpose;

impl Control {
    /// Has an own model held by another process too.
    pub(super) fn copy(&mut self, checkpoint: Checkpoint, to: &AgentAddress) {
        let agent = to.agent;
        // The answer comes through the queue: the host may be in the middle of a report.
        let empty = (checkpoint.length == 0).then(bytes::Bytes::new);
        let Some(bytes) = self.shared.store.find(&checkpoint).or(empty) else {
            return self.shared.command(Command::CopyFailed { checkpoint, agent });
        };
        let role = Role::Copying(Box::new(Copy::new(checkpoint, agent, bytes)));
        match self.connect(to.address, Purpose::Fetch, role) {
            Ok(token) => self.serve_connection(token),
            Err((reason, _)) => {
                log::warn!("{} a copy of version {}: {reason}", self.shared.prefix(), checkpoint.version);
                self.shared.command(Command::CopyFailed { checkpoint, agent });
            }
        }
    }

    /// The other process has said what became of a copy.
    pub(super) fn copied(&mut self, token: Token, said: &Said) {
        let Some(Connection { role: Role::Copying(copy), .. }) = self.remove(token) else { return };
        let (checkpoint, agent) = (copy.checkpoint, copy.to);
        match (said, checkpoint.owner) {
            (Said::Differs, Some(rank)) => {
                let text = format!(
                    "rank {rank}'s own model of version {} has other bytes than it had before (digest {:032x} now); \
                     training is not deterministic",
                    checkpoint.version, checkpoint.digest
                );
                let incarnation = self.members.get(&rank).and_then(|member| member.incarnation).unwrap_or_default();
                self.report(MemberId { rank, incarnation }, Report::Broken(Error::new(Code::Mismatch, text)));
            }
            _ => self.handle(Some(HostInput::Copied { checkpoint, agent })),
        }
    }

    /// Has a checkpoint made or read, on a thread of its own: this one has heartbeats to send.
    pub(super) fn make(&mut self, wanted: Checkpoint) {
        if !self.making.insert(wanted) {
            return;
        }
        let shared = self.shared.clone();
        let thread = std::thread::Builder::new().name("rejoin-supplier".into()).spawn(move || {
            let made = shared.store.make(&wanted);
            shared.command(Command::Made { asked: wanted, made });
        });
        if let Err(cause) = thread {
            let made = Err(Error::new(Code::Io, format!("no thread for a supplier can be started: {cause}")));
            self.shared.command(Command::Made { asked: wanted, made });
        }
    }

    /// It is made, or can't be: the one that asked for it is served, or asks another.
    pub(super) fn made(&mut self, asked: Checkpoint, made: &Result<(Checkpoint, bytes::Bytes), Error>) {
        self.making.remove(&asked);
        if let Err(error) = made {
            log::error!("{} checkpoint {} can't be given: {error}", self.shared.prefix(), asked.version);
        }
        let mut serving = Vec::new();
        for (token, connection) in &mut self.connections {
            if let Role::Serving(serve) = &mut connection.role {
                serve.made(&asked, made);
                serving.push(*token);
            }
        }
        for token in serving {
            self.serve_connection(token);
        }
    }

    /// The moment before the first byte goes out, for each rank that this process hosts.
    pub(super) fn asked_to_serve(&mut self) {
        let id = |(rank, state): (&Rank, &MemberState)| Some(MemberId { rank: *rank, incarnation: state.incarnation? });
        for member in self.members.iter().filter_map(id).collect::<Vec<_>>() {
            self.moment(member, Moment::Serving);
        }
    }
}
