//! The agent's link to its tracker: made, kept, made again.

use super::handing::Handing;
use super::{Control, HANDSHAKE, TRACKER};
use mio::Interest;
use rejoin_protocol::host::HostInput;
use rejoin_protocol::message::{AgentMessage, TrackerMessage, RESULT_PART_LIMIT};
use rejoin_protocol::wire;
use rejoin_transport::{Flushed, Hello, Link, LinkError, Purpose, Received};
use std::time::{Duration, Instant};

/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

impl Control {
    /// Connects now, or after the pause since the last try.
    pub(super) fn want_tracker(&mut self) {
        if self.tracker.link.is_none() && self.tracker.next.is_none() {
            self.tracker.next = Some((self.tracker.began + PAUSE).max(Instant::now()));
        }
    }

    pub(super) fn connect_tracker(&mut self) {
        self.tracker.next = None;
        if self.tracker.link.is_some() {
            return;
        }
        self.tracker.began = Instant::now();
        self.tracker.established = false;
        self.tracker.look();
        let hello = Hello { agent: self.agent, purpose: Purpose::Tracker, encrypt: true };
        let made = Link::connect(self.tracker.address, &self.keys, hello).and_then(|mut link| {
            self.poll.registry().register(link.socket(), TRACKER, Interest::READABLE | Interest::WRITABLE)?;
            Ok(link)
        });
        match made {
            Ok(link) => {
                self.tracker.link = Some(link);
                self.serve_tracker();
            }
            Err(cause) => {
                self.has_run_out(&cause);
                self.tracker_down(format!("can't connect: {cause}"));
            }
        }
    }

    pub(super) fn tracker_down(&mut self, reason: String) {
        self.lost_tracker(&reason);
        self.handle(Some(HostInput::TrackerDown { reason }));
    }

    /// There is no link to it any more.
    fn lost_tracker(&mut self, reason: &str) {
        if let Some(mut link) = self.tracker.link.take() {
            let _ = self.poll.registry().deregister(link.socket());
        }
        self.tracker.established = false;
        // It comes again, from its beginning, with the next registration.
        self.tracker.handing = None;
        // After the job's end the driver closes its tracker: that is no news.
        let level = if self.host.job_is_over() { log::Level::Debug } else { log::Level::Warn };
        log::log!(level, "{} tracker {}: {reason}", self.shared.prefix(), self.tracker.address);
        self.shared.tracker_is(reason.to_string());
    }

    /// Reads and writes what is there.
    pub(super) fn serve_tracker(&mut self) {
        loop {
            let Some(link) = self.tracker.link.as_mut() else { return };
            match link.receive() {
                Ok(Received::Pending) => break,
                Ok(Received::Established) => {
                    self.tracker.established = true;
                    self.shared.tracker_is("connected".into());
                    // What a task said before counts in what the tracker is sent first, too.
                    self.take_commands();
                    self.handle(Some(HostInput::TrackerUp));
                }
                Ok(Received::Refused(error)) => return self.tracker_down(format!("refused: {error}")),
                Ok(Received::Frame(_, payload)) => match wire::decode::<TrackerMessage>(&payload) {
                    Ok(message) => {
                        // What a task said before this message arrived counts before it: a status
                        // report must never be older than the bytes that its rank has sent.
                        self.take_commands();
                        self.handle(Some(HostInput::Tracker(message)));
                    }
                    Err(error) => return self.tracker_down(format!("sent what can't be read: {error}")),
                },
                Ok(Received::Hello(_)) => return self.tracker_down("spoke as if it had connected to us".into()),
                Err(LinkError::Incompatible(error)) if !self.tracker.established => {
                    self.lost_tracker(&error.message);
                    return self.handle(Some(HostInput::TrackerIncompatible { error }));
                }
                Err(cause) => return self.tracker_down(cause.to_string()),
            }
        }
        self.flush_tracker();
    }

    pub(super) fn send_tracker(&mut self, message: &AgentMessage) {
        if let Some(link) = self.tracker.link.as_mut().filter(|_| self.tracker.established) {
            link.send_message(message);
        }
    }

    /// Sends what is queued, and then as much of a result as may be moved in one turn.
    pub(super) fn flush_tracker(&mut self) {
        let mut moved = 0;
        while let Some(link) = self.tracker.link.as_mut() {
            match link.flush() {
                Ok(Flushed::Blocked) => return,
                Ok(Flushed::Done) if moved >= self.turn.bytes => {
                    self.turn.unfinished.insert(TRACKER);
                    return;
                }
                Ok(Flushed::Done) => {}
                Err(cause) => {
                    self.last_words();
                    return self.tracker_down(cause.to_string());
                }
            }
            let Some(message) = self.next_of_result() else { return };
            self.send_tracker(&message);
            moved += RESULT_PART_LIMIT;
        }
    }

    /// The next part of the result that is on its way, or the report behind it.
    fn next_of_result(&mut self) -> Option<AgentMessage> {
        let handing = self.tracker.handing.as_ref()?;
        let is_current = self.result_of(handing.member).is_some();
        let next = self.tracker.handing.as_mut().filter(|_| is_current).and_then(Handing::next);
        if next.is_none() {
            self.tracker.handing = None;
        }
        next
    }

    /// Reads what the tracker said before its link broke: it may have been the job's end.
    fn last_words(&mut self) {
        while let Some(Ok(Received::Frame(_, payload))) = self.tracker.link.as_mut().map(|link| link.receive()) {
            if let Ok(message) = wire::decode::<TrackerMessage>(&payload) {
                self.take_commands();
                self.handle(Some(HostInput::Tracker(message)));
            }
        }
    }

    /// Everything that was said is out, or a second has passed. Only before a fault is injected here.
    pub(super) fn flush_tracker_fully(&mut self) {
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            self.flush_tracker();
            match self.tracker.link.as_ref() {
                Some(link) if link.queued_bytes() > 0 || self.tracker.handing.is_some() => {
                    std::thread::sleep(Duration::from_millis(1))
                }
                _ => return,
            }
        }
    }

    pub(super) fn tracker_deadline(&mut self, now: Instant) {
        if self.tracker.link.is_some() && !self.tracker.established && now > self.tracker.began + HANDSHAKE {
            self.tracker_down(format!("no handshake within {} s", HANDSHAKE.as_secs()));
        }
    }
}
