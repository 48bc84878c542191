//! What a launcher says, and what it means to the tracker.

use super::launchers::Left;
use super::serve::Server;
use mio::Token;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Attempt, Rank, Task};
use rejoin_protocol::launcher::{numbers, LauncherMessage, LauncherNews};
use rejoin_protocol::tracker::TrackerInput;
use rejoin_protocol::wire;
use rejoin_transport::{LinkError, Received};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

/// So long a tracker that comes back waits for launchers before it gives numbers to new ones.
const OTHERS_COME: Duration = Duration::from_secs(5);
/// More often no launcher starts a process again while it is out of reach.
const UNHEARD: u32 = 10_000;

/// The ranks of a launcher, with the attempt that each begins with, as it was told last.
type Holds = BTreeMap<Rank, Option<u32>>;

impl Server {
    /// Reads what a launcher has said, and sends what is queued for all.
    pub(super) fn serve_launcher(&mut self, token: Token) {
        while let Some(received) = self.launchers.receive(token) {
            match received {
                Ok(Received::Pending) => break,
                Ok(Received::Frame(_, payload)) => {
                    let said = wire::decode::<LauncherMessage>(&payload);
                    if let Err(error) = said.and_then(|message| self.launcher_said(token, message)) {
                        return self.launcher_gone(token, &error.message, false);
                    }
                }
                Ok(Received::Hello(_) | Received::Established | Received::Refused(_)) => {
                    return self.launcher_gone(token, "it spoke as if its link were not established", false);
                }
                Err(cause) => return self.launcher_gone(token, &cause.to_string(), is_cut_off(&cause)),
            }
        }
        self.flush_launchers();
    }

    pub(super) fn flush_launchers(&mut self) {
        for (token, cause) in self.launchers.flush() {
            // One that goes resets its connection, and writing fails before its last words are read.
            while let Some(Ok(Received::Frame(_, payload))) = self.launchers.receive(token) {
                let said = wire::decode::<LauncherMessage>(&payload);
                if said.and_then(|message| self.launcher_said(token, message)).is_err() {
                    break;
                }
            }
            self.launcher_gone(token, &cause.to_string(), is_cut_off(&cause));
        }
    }

    /// What a launcher says of ranks that aren't its own is refused.
    fn launcher_said(&mut self, token: Token, message: LauncherMessage) -> Result<(), Error> {
        let bad = |text: String| Err(Error::new(Code::BadArgument, text));
        match message {
            LauncherMessage::Starts { launcher, host, ranks, ended, slots, restarts } => {
                let world = self.rules.most_ranks();
                if slots > 0 && !self.rules.is_elastic() {
                    return bad(format!("it offers {slots} slots for a job whose {world} ranks are fixed"));
                }
                if ranks.is_empty() && slots == 0
                    || ranks.keys().any(|rank| rank.0 >= world)
                    || ended.keys().any(|rank| !ranks.contains_key(rank))
                {
                    return bad(format!("it said that it starts ranks that aren't some of the {world} of the job"));
                }
                let (taken, ranks) = self.taken_meanwhile(ranks, restarts);
                let ranks = self.numbered(launcher, ranks, slots.saturating_sub(taken.len() as u32));
                log::info!("[job {}] the launcher on {host} starts {} ranks", self.job, ranks.len());
                for left in self.launchers.start(token, launcher, &host, &ranks, restarts) {
                    self.keep_apart(left);
                }
                let next: BTreeMap<Rank, u32> = ranks
                    .into_keys()
                    .map(|rank| (rank, self.next_attempt(rank).max(self.launchers.least_attempt(launcher, rank))))
                    .collect();
                for (rank, host) in taken {
                    self.launchers.tell(token, &LauncherNews::TakenOver { host, ranks: vec![rank] });
                }
                self.launchers.accept(token, |rank| next.get(&rank).copied().unwrap_or_default());
                let over =
                    self.outcome.lock().result.as_ref().map(|outcome| outcome.as_ref().map(drop).map_err(Clone::clone));
                if let Some(over) = over {
                    self.launchers.tell(token, &LauncherNews::Over(over));
                }
                for (rank, attempt) in ended {
                    if self.launchers.starts(token, rank) {
                        let attempt = Attempt { stage: 0, task: attempt };
                        self.handle(TrackerInput::TaskEnded { task: Task(rank.0), attempt });
                    }
                }
            }
            // No other launcher's process has the name of one of its.
            LauncherMessage::ProcessDied { executor, reason } if self.launchers.number(token).is_some() => {
                self.handle(TrackerInput::ExecutorGone { executor, reason });
            }
            LauncherMessage::RankLeaves { rank, attempt } if self.launchers.starts(token, rank) => {
                let attempt = Attempt { stage: 0, task: attempt };
                self.handle(TrackerInput::TaskLeaves { task: Task(rank.0), attempt });
            }
            LauncherMessage::RankEnded { rank, attempt } if self.launchers.starts(token, rank) => {
                let attempt = Attempt { stage: 0, task: attempt };
                self.handle(TrackerInput::TaskEnded { task: Task(rank.0), attempt });
            }
            // Another launcher starts it now.
            LauncherMessage::ProcessDied { .. }
            | LauncherMessage::RankLeaves { .. }
            | LauncherMessage::RankEnded { .. } => {}
            LauncherMessage::Cancel { error } => self.handle(TrackerInput::Cancel { error }),
            LauncherMessage::Status { from } => {
                let mut status = self.rules.job_status(from, self.now());
                for rank in &mut status.ranks {
                    let said = self.launchers.restarts(self.rules.started_as(rank.rank));
                    rank.most_deaths = rank.most_deaths.or(said);
                }
                self.launchers.tell(token, &LauncherNews::Status(status));
            }
            LauncherMessage::Sync { number } => self.launchers.tell(token, &LauncherNews::Synced { number }),
        }
        Ok(())
    }

    /// Of the ranks that a launcher says it starts those whose process is there and can't be its own, as it is a later
    /// one than any that it may have started: another launcher has come meanwhile. With its host.
    fn taken_meanwhile(&self, ranks: Holds, restarts: u32) -> (Vec<(Rank, String)>, Holds) {
        let host = |rank: Rank, holds: u32| {
            let newest = self.rules.newest_attempt(rank)?.task;
            let is_another = newest > holds.saturating_add(restarts.min(UNHEARD));
            self.rules.host_of_newest(rank).filter(|_| is_another).map(String::from)
        };
        let taken: Vec<(Rank, String)> =
            ranks.iter().filter_map(|(rank, holds)| Some((*rank, host(*rank, (*holds)?)?))).collect();
        let left = ranks.into_iter().filter(|(rank, _)| !taken.iter().any(|(other, _)| other == rank)).collect();
        (taken, left)
    }

    /// The ranks of a launcher, with numbers for as many slots as it has more.
    fn numbered(&self, launcher: u64, ranks: Holds, slots: u32) -> Holds {
        // Launchers of a former life come back first: nobody else knows which numbers they have.
        let is_known = self.rules.epoch() <= 1 || self.began.elapsed() > OTHERS_COME;
        let (Some(there), true) = (self.rules.tasks_there(), is_known) else { return ranks };
        let taken = there.into_iter().chain(self.launchers.ranks_of_others(launcher)).collect();
        let own = ranks.keys().copied().collect();
        let numbers = numbers(&own, &taken, self.launchers.away(), slots, self.rules.most_ranks());
        numbers.into_iter().map(|number| (number, ranks.get(&number).copied().flatten())).collect()
    }

    /// The attempt after the newest one of a rank that is known.
    fn next_attempt(&self, rank: Rank) -> u32 {
        self.rules.newest_attempt(rank).map_or(0, |newest| newest.task.saturating_add(1))
    }

    /// A launcher that is out of reach may start its processes again all the same, as often as it does that. None of
    /// them has the name and the attempt of one that another launcher starts.
    fn keep_apart(&mut self, left: Left) {
        for (rank, told) in left.ranks {
            let starts = left.restarts.min(UNHEARD).saturating_add(1);
            self.launchers.leave(left.launcher, rank, self.next_attempt(rank).max(told).saturating_add(starts));
        }
    }

    fn launcher_gone(&mut self, token: Token, reason: &str, is_cut_off: bool) {
        let Some((mut link, left)) = self.launchers.remove(token) else { return };
        if is_cut_off {
            self.launchers.are_away(left.ranks.keys().copied());
            self.keep_apart(left);
        } else {
            // Should it come back, and another one have its ranks, the two are told apart.
            for (rank, told) in left.ranks {
                self.launchers.leave(left.launcher, rank, told.saturating_add(1));
            }
        }
        let _ = self.poll.registry().deregister(link.socket());
        log::info!("[job {}] a launcher's link ended: {reason}", self.job);
    }
}

/// Whether a link ended because nothing came through any more: who had it may live.
fn is_cut_off(cause: &LinkError) -> bool {
    let kinds = [ErrorKind::TimedOut, ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable];
    matches!(cause, LinkError::Io(cause) if kinds.contains(&cause.kind()))
}
