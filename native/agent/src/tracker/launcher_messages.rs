//! What a launcher says, and what it means to the tracker.

use super::serve::Server;
use mio::Token;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Task;
use rejoin_protocol::launcher::{LauncherMessage, LauncherNews};
use rejoin_protocol::tracker::TrackerInput;
use rejoin_protocol::wire;
use rejoin_transport::Received;
use std::collections::BTreeSet;

impl Server {
    /// Reads what a launcher has said, and sends what is queued for all.
    pub(super) fn serve_launcher(&mut self, token: Token) {
        while let Some(received) = self.launchers.receive(token) {
            match received {
                Ok(Received::Pending) => break,
                Ok(Received::Frame(_, payload)) => {
                    let said = wire::decode::<LauncherMessage>(&payload);
                    if let Err(error) = said.and_then(|message| self.launcher_said(token, message)) {
                        return self.launcher_gone(token, &error.message);
                    }
                }
                Ok(Received::Hello(_) | Received::Established | Received::Refused(_)) => {
                    return self.launcher_gone(token, "it spoke as if its link were not established");
                }
                Err(cause) => return self.launcher_gone(token, &cause.to_string()),
            }
        }
        self.flush_launchers();
    }

    pub(super) fn flush_launchers(&mut self) {
        for (token, reason) in self.launchers.flush() {
            self.launcher_gone(token, &reason);
        }
    }

    /// What a launcher says of ranks that aren't its own is refused.
    fn launcher_said(&mut self, token: Token, message: LauncherMessage) -> Result<(), Error> {
        let bad = |text: String| Err(Error::new(Code::BadArgument, text));
        match message {
            LauncherMessage::Starts { launcher, host, ranks, ended } => {
                let (ranks, ended): (BTreeSet<_>, BTreeSet<_>) =
                    (ranks.into_iter().collect(), ended.into_iter().collect());
                let world = self.rules.world();
                if ranks.is_empty() || ranks.iter().any(|rank| rank.0 >= world) || !ended.is_subset(&ranks) {
                    return bad(format!("it said that it starts ranks that aren't some of the {world} of the job"));
                }
                log::info!("[job {}] the launcher on {host} starts {} ranks", self.job, ranks.len());
                self.launchers.start(token, launcher, &host, &ranks);
                let next = |rank| self.rules.newest_attempt(rank).map_or(0, |newest| newest.task.saturating_add(1));
                let attempts = ranks.iter().map(|rank| next(*rank)).collect();
                self.launchers.tell(token, &LauncherNews::Accepted { attempts });
                let over =
                    self.outcome.lock().result.as_ref().map(|outcome| outcome.as_ref().map(drop).map_err(Clone::clone));
                if let Some(over) = over {
                    self.launchers.tell(token, &LauncherNews::Over(over));
                }
                for rank in ended {
                    self.handle(TrackerInput::TaskEnded { task: Task(rank.0) });
                }
            }
            LauncherMessage::ProcessDied { executor, reason } => {
                self.handle(TrackerInput::ExecutorGone { executor, reason });
            }
            LauncherMessage::RankEnded { rank } if self.launchers.starts(token, rank) => {
                self.handle(TrackerInput::TaskEnded { task: Task(rank.0) });
            }
            // Another launcher starts it now.
            LauncherMessage::RankEnded { .. } => {}
            LauncherMessage::Cancel { error } => self.handle(TrackerInput::Cancel { error }),
            LauncherMessage::Status { from } => {
                let status = self.rules.job_status(from, self.now());
                self.launchers.tell(token, &LauncherNews::Status(status));
            }
            LauncherMessage::Sync { number } => self.launchers.tell(token, &LauncherNews::Synced { number }),
        }
        Ok(())
    }

    fn launcher_gone(&mut self, token: Token, reason: &str) {
        let Some(mut link) = self.launchers.remove(token) else { return };
        let _ = self.poll.registry().deregister(link.socket());
        log::info!("[job {}] a launcher's link ended: {reason}", self.job);
    }
}
