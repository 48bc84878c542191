//! Playing the tracker for a worker.

use super::Engine;
use crate::bootstrap::Bootstrap;
use crate::bridged_rank::{BridgedRank, Door, Talk};
use crate::dialogue::{magic, Dialogue, WorkerMessage};
use crate::gate::{loopback, Gate};
use crate::kernel;
use crate::sources::Source;
use crate::topology::WireVariant;
use crate::worker_socket::{prepare, WorkerSocket};
use mio::{Interest, Token};
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{MemberId, Phase, Rank};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

impl Engine {
    pub(super) fn communicator(
        &mut self,
        member: MemberId,
        variant: WireVariant,
    ) -> Result<Vec<(String, String)>, Error> {
        let MemberId { rank, incarnation } = member;
        let missing = || {
            let text =
                format!("rank {rank} incarnation {incarnation} has no start here, so it has no way into XGBoost");
            Error::new(Code::BadState, text)
        };
        let bridged_rank = self.member(member).ok_or_else(missing)?;
        if let Some(failure) = &bridged_rank.failure {
            return Err(failure.clone());
        }
        let training = bridged_rank.training.as_mut().ok_or_else(missing)?;
        if training.variant.is_some() {
            let text = format!("rank {rank}: XGBoost's way in was opened before; each incarnation has one");
            return Err(Error::new(Code::BadState, text));
        }
        training.variant = Some(variant);
        let secret = secret()?;
        let failed = |cause| Error::new(Code::Io, format!("rank {rank}: no listener for its worker: {cause}"));
        let gate = Gate::open(Source::Tracker(rank), &mut self.sources).map_err(failed)?;
        let port = gate.port().map_err(failed)?;
        if let Some(bridged_rank) = self.member(member) {
            let (talks, bootstrap) = (HashMap::new(), None);
            bridged_rank.door = Some(Door { gate, secret: secret.clone(), talks, bootstrap, opened: false });
        }
        self.enter_now(member, Phase::Boot, PhaseMark { round: 0, checkpoint: 0 })?;
        Ok(vec![
            ("dmlc_tracker_uri".into(), loopback(port).ip().to_string()),
            ("dmlc_tracker_port".into(), port.to_string()),
            ("dmlc_task_id".into(), secret),
            ("dmlc_timeout".into(), self.config.worker_timeout.as_secs().max(1).to_string()),
            // The listener is there: a second try would only wait for one that is gone.
            ("dmlc_retry".into(), "1".into()),
        ])
    }

    /// Connections wait at the listener that plays the tracker. It stays when the worker is
    /// connected: a worker's `shutdown` comes there too, and doesn't end well without an answer.
    pub(super) fn answer_door(&mut self, rank: Rank) {
        let Some(door) = self.bridged_rank(rank).and_then(|bridged_rank| bridged_rank.door.as_mut()) else { return };
        let opened = door.opened;
        let knocks = match door.gate.knocks(Instant::now()) {
            Ok(knocks) => knocks,
            // It only shuts down, and the gate is looked at again.
            Err(cause) if opened => {
                let reason = format!("what connects to the worker's tracker can't be looked at: {cause}");
                return self.refuse(rank, loopback(0), &reason);
            }
            Err(cause) => return self.cannot_connect(rank, cause),
        };
        for mut stream in knocks.own {
            prepare(&stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let token = match self.sources.add(&mut stream, Source::Dialogue(rank), interest) {
                Ok(token) => token,
                Err(cause) => return self.cannot_connect(rank, cause),
            };
            let talk = Talk { stream, dialogue: Dialogue::new(), outbox: magic().to_vec(), greeted: false };
            if let Some(door) = self.bridged_rank(rank).and_then(|bridged_rank| bridged_rank.door.as_mut()) {
                door.talks.insert(token, talk);
            }
            self.listen_to(rank, token);
        }
        for from in knocks.strangers {
            self.refuse(rank, from, "the connection doesn't come from this process");
        }
    }

    /// Gates that strangers have come to are looked at again when their time has come.
    pub(super) fn look_at_gates(&mut self) {
        let now = Instant::now();
        let is_due = |door: &Door| door.again().is_some_and(|at| at <= now);
        let due = self
            .bridged_ranks
            .iter()
            .filter(|bridged_rank| bridged_rank.door.as_ref().is_some_and(is_due))
            .map(|bridged_rank| bridged_rank.rank);
        for rank in due.collect::<Vec<Rank>>() {
            self.answer_door(rank);
            self.go_on_connecting(rank);
        }
    }

    /// A worker says something to its tracker.
    pub(super) fn listen_to(&mut self, rank: Rank, token: Token) {
        let shared = self.shared.clone();
        let Some(bridged_rank) = self.bridged_rank(rank) else { return };
        let incarnation = bridged_rank.incarnation;
        let Some(door) = bridged_rank.door.as_mut() else { return };
        let Some(talk) = door.talks.get_mut(&token) else { return };
        let mut ended = talk.write().is_err() | talk.read();
        let mut strange = None;
        let mut start = None;
        loop {
            match talk.dialogue.next() {
                Ok(None) => break,
                Ok(Some(WorkerMessage::Hello { task_id })) if task_id == door.secret => talk.greeted = true,
                Ok(Some(WorkerMessage::Hello { .. })) => {
                    strange = Some("its task id is not the one that was given".to_owned())
                }
                Ok(Some(_)) if !talk.greeted => {}
                Ok(Some(WorkerMessage::Start { port })) => start = Some(port),
                Ok(Some(WorkerMessage::Shutdown)) => {
                    log::debug!("{} its worker shuts down", shared.prefix(rank));
                    ended = true;
                }
                Ok(Some(WorkerMessage::Error { message })) => {
                    log::warn!("{} XGBoost reports: {message}", shared.prefix(rank));
                    ended = true;
                }
                Ok(Some(WorkerMessage::Print { message })) => {
                    log::debug!("{} {message}", shared.prefix(rank));
                    if let Some(agent) = shared.agent() {
                        let text = message.trim_end().to_owned();
                        agent.report_event(Event::Printed { rank, incarnation, text });
                    }
                    ended = true;
                }
                Err(text) => strange = Some(text),
            }
            if strange.is_some() {
                break;
            }
        }
        if !ended && strange.is_none() && start.is_none() {
            return;
        }
        let Some(mut talk) = door.talks.remove(&token) else { return };
        if let Some(reason) = strange {
            let from = talk.stream.peer_addr().unwrap_or_else(|_| loopback(0));
            self.sources.remove(&mut talk.stream, token);
            return self.refuse(rank, from, &reason);
        }
        match start {
            Some(port) => self.begin_connecting(rank, port, talk, token),
            None => self.sources.remove(&mut talk.stream, token),
        }
    }

    fn begin_connecting(&mut self, rank: Rank, port: u16, mut talk: Talk, token: Token) {
        let Engine { bridged_ranks, sources, .. } = self;
        let found =
            bridged_ranks.iter_mut().find(|bridged_rank| bridged_rank.rank == rank && bridged_rank.failure.is_none());
        let parts = found.and_then(|bridged_rank| Some((bridged_rank.training.as_mut()?, bridged_rank.door.as_mut()?)));
        let Some((training, door)) = parts.filter(|(_, door)| door.bootstrap.is_none() && !door.opened) else {
            // Freed meanwhile, or a second start: the closed connection ends the worker's call.
            log::warn!(
                "{} its worker asked to be connected, which is not its turn; it is turned away",
                self.shared.prefix(rank)
            );
            return sources.remove(&mut talk.stream, token);
        };
        let Some(variant) = training.variant else { return sources.remove(&mut talk.stream, token) };
        sources.rename(token, Source::Bootstrap(rank));
        match Bootstrap::begin(rank, training.world, variant, port, (talk.stream, token), sources) {
            Ok(bootstrap) => {
                door.bootstrap = Some(bootstrap);
                self.go_on_connecting(rank);
            }
            Err(cause) => self.cannot_connect(rank, cause),
        }
    }

    /// A descriptor or a port is missing, or another process has come in between: another try may do better.
    fn cannot_connect(&mut self, rank: Rank, cause: std::io::Error) {
        let text = format!(
            "rank {rank}: its worker can't be connected with the agent of its process: {cause}. If this comes again, \
             see that the process may open enough files (ulimit -n), and that no other program connects to its ports"
        );
        self.fail_rank(rank, Error::new(Code::Io, text));
    }

    /// Something moved in a worker's bootstrap.
    pub(super) fn go_on_connecting(&mut self, rank: Rank) {
        let Engine { bridged_ranks, sources, .. } = self;
        let Some(bridged_rank) = bridged_ranks.iter_mut().find(|bridged_rank| bridged_rank.rank == rank) else {
            return;
        };
        let Some(door) = &mut bridged_rank.door else { return };
        let Some(bootstrap) = &mut door.bootstrap else { return };
        let result = bootstrap.advance(sources);
        let strangers = bootstrap.take_strangers();
        match result {
            Ok(None) => {}
            Ok(Some(ready)) => {
                if let Some(done) = door.bootstrap.take() {
                    done.end(sources);
                }
                door.opened = true;
                let mut broken = None;
                for (peer, (stream, token)) in ready {
                    sources.rename(token, Source::Worker(rank, peer));
                    match WorkerSocket::new(stream, token) {
                        Ok(socket) => {
                            let channel = bridged_rank.training.as_mut().and_then(|training| training.channel(peer));
                            if let Some(channel) = channel {
                                channel.worker = Some(socket);
                            }
                        }
                        Err(cause) => broken = Some(cause),
                    }
                }
                match broken {
                    None => {
                        log::debug!("{} its worker is connected", self.shared.prefix(rank));
                        self.make_all_busy(rank);
                    }
                    Some(cause) => self.cannot_connect(rank, cause),
                }
            }
            Err(cause) => self.cannot_connect(rank, cause),
        }
        for from in strangers {
            self.refuse(rank, from, "the connection doesn't come from this process, or was not expected");
        }
    }

    /// Reported and logged once; further ones are only counted, so that they can't fill a disk.
    fn refuse(&mut self, rank: Rank, from: SocketAddr, reason: &str) {
        self.strangers += 1;
        if self.strangers > 1 {
            return;
        }
        log::warn!(
            "{} a stranger at {from} was refused: {reason} (further ones are only counted)",
            self.shared.prefix(rank)
        );
        if let Some(agent) = self.shared.agent() {
            agent.report_event(Event::StrangerRefused { address: from.to_string(), reason: reason.to_owned() });
        }
    }

    /// There is nothing to wait for any more.
    pub(super) fn close_door(&mut self, bridged_rank: &mut BridgedRank) {
        if let Some(door) = bridged_rank.door.take() {
            self.dismantle(door);
        }
    }

    pub(super) fn dismantle(&mut self, door: Door) {
        if let Some(bootstrap) = door.bootstrap {
            bootstrap.abandon(&mut self.sources);
        }
        door.gate.close(&mut self.sources);
        for (token, mut talk) in door.talks {
            self.sources.remove(&mut talk.stream, token);
            rejoin_transport::reset(talk.stream);
        }
    }
}

impl Talk {
    fn write(&mut self) -> std::io::Result<()> {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    }

    /// Reads what is there; true at the end of the stream.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => {
                    self.dialogue.feed(&buffer[..count]);
                    kernel::acknowledge(&self.stream);
                }
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => return false,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
    }
}

/// 128 random bits in hexadecimal digits.
fn secret() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|cause| Error::new(Code::Io, format!("the system gives no random numbers: {cause}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
