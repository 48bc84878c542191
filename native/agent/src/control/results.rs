//! Results of collectives that a rank here lacks and others have; and questions about others' calls.

use super::results_fetch::{Question, ResultsFetch};
use super::{Control, Role};
use rejoin_protocol::collective::{self, CollectiveId};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{MemberId, Rank};
use rejoin_transport::Purpose;
use std::time::{Duration, Instant};

/// Before all holders are asked again.
const PAUSE: Duration = Duration::from_millis(50);

impl Control {
    /// A rank's wish; it is void once there is a newer view.
    pub(super) fn fetch_results(&mut self, member: MemberId, fetch: collective::Fetch) {
        self.go_on_fetching(Box::new(ResultsFetch::new(member, fetch)));
    }

    /// Asks the next holder; after the last one, all of them again a little later.
    pub(super) fn go_on_fetching(&mut self, mut results: Box<ResultsFetch>) {
        loop {
            let current = self.host.view().is_some_and(|view| view.generation == results.fetch.generation);
            let lives = self.host.members().iter().any(|member| member.id() == Some(results.member));
            if !current || !lives {
                return;
            }
            let Some(holder) = results.next_holder(self.agent) else {
                results.holders = results.fetch.holders.clone().into();
                self.results.again.push((Instant::now() + PAUSE, results));
                return;
            };
            match self.connect(holder.address, Purpose::Fetch, Role::Results(results)) {
                Ok(token) => return self.serve_connection(token),
                Err((reason, Role::Results(back))) => {
                    results = back;
                    results.failed(&reason);
                }
                Err((reason, _)) => {
                    log::error!("{} a fetch could not be started: {reason}", self.shared.prefix());
                    return;
                }
            }
        }
    }

    /// While the logs here use more memory than they may, nothing more is read of results that were
    /// asked for: the holder's side of the link fills, and it waits. The ranks' threads make room
    /// in their calls.
    pub(super) fn go_on_after_pause(&mut self, now: Instant) {
        let is_full = self.planes.is_full();
        for token in std::mem::take(&mut self.results.paused) {
            match self.connections.get_mut(&token).map(|connection| &mut connection.role) {
                Some(Role::Results(results)) if is_full => {
                    // It isn't the holder that is silent.
                    results.last_heard = now;
                    self.results.paused.push(token);
                }
                Some(_) => self.serve_connection(token),
                None => {}
            }
        }
    }

    pub(super) fn fetch_results_again(&mut self, now: Instant) {
        while let Some(index) = self.results.again.iter().position(|(at, _)| *at <= now) {
            let (_, results) = self.results.again.swap_remove(index);
            self.go_on_fetching(results);
        }
    }

    /// What has a peer called there?
    pub(super) fn ask_call(&mut self, member: MemberId, peer: Rank, place: CollectiveId) {
        let question = Box::new(Question { member, peer, place });
        let address = self.host.view().and_then(|view| Some(view.alive(peer)?.1.address));
        let asked = match address {
            Some(address) => self.connect(address, Purpose::Fetch, Role::Asking(question)),
            None => Err((format!("rank {peer} has no slot"), Role::Asking(question))),
        };
        match asked {
            Ok(token) => self.serve_connection(token),
            Err((reason, Role::Asking(question))) => {
                log::debug!("{} asking rank {peer}: {reason}", self.shared.prefix_of(member.rank));
                question.unanswered(&self.planes);
            }
            Err((reason, _)) => {
                let error = Error::new(Code::Internal, reason);
                log::error!("{} {error}", self.shared.prefix());
            }
        }
    }
}
