//! Data links of ranks here to living peers: the lower rank makes them, and the plane gets them.

use super::{Connection, Control, Role};
use crate::agent::MemberId;
use crate::links::Due;
use mio::Token;
use rejoin_protocol::host::Input;
use rejoin_protocol::ids::{Incarnation, Lane, Rank};
use rejoin_transport::{Link, Purpose};
use std::time::Instant;

impl Control {
    pub(super) fn make_due_links(&mut self, now: Instant) {
        for Due { member, peer, incarnation, lane, address } in self.links.due(now) {
            let generation = self.host.view().map(|view| view.generation).unwrap_or_default();
            let purpose = Purpose::Data {
                lane,
                rank: member.rank,
                incarnation: member.incarnation,
                peer,
                peer_incarnation: incarnation,
                generation,
            };
            let role = Role::Making { member, peer, peer_incarnation: incarnation, lane };
            match self.connect(address, purpose, role) {
                Ok(token) => {
                    self.links.making(member, peer, lane, token);
                    self.serve_connection(token);
                }
                Err((reason, _)) => {
                    let token = Token(0);
                    self.links.making(member, peer, lane, token);
                    self.link_try_failed(member, peer, incarnation, lane, token, reason);
                }
            }
        }
    }

    pub(super) fn link_try_failed(
        &mut self,
        member: MemberId,
        peer: Rank,
        theirs: Incarnation,
        lane: Lane,
        token: Token,
        reason: String,
    ) {
        log::debug!("{} link to rank {peer} for {lane}: {reason}", self.shared.prefix_of(member.rank));
        if self.links.try_failed(member, peer, lane, token, Instant::now()) {
            let MemberId { rank, incarnation } = member;
            let reason = format!("many tries failed, the last: {reason}");
            self.handle(Some(Input::LinkDown { rank, incarnation, peer, peer_incarnation: theirs, reason }));
        }
    }

    /// The peer's process has answered, and doesn't need the link yet.
    pub(super) fn link_not_yet(&mut self, token: Token, reason: &str) {
        let Some(Connection { role: Role::Making { member, peer, lane, .. }, .. }) = self.remove(token) else { return };
        log::debug!("{} link to rank {peer} for {lane}: {reason}", self.shared.prefix_of(member.rank));
        self.links.not_yet(member, peer, lane, token, Instant::now());
    }

    /// Gives a data link that stands to the plane.
    pub(super) fn hand_over(&mut self, mut link: Link, member: MemberId, peer: Rank, theirs: Incarnation, lane: Lane) {
        if let Err(cause) = link.flush() {
            log::debug!("{} link to rank {peer}: {cause}", self.shared.prefix_of(member.rank));
        }
        if self.links.up(member, peer, theirs, lane) {
            self.plane.link(member.rank, member.incarnation, peer, theirs, lane, link);
        }
    }
}
