//! Launchers that aren't in the tracker's process: their links, and who starts which ranks.

use super::serve::Server;
use mio::Token;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::Rank;
use rejoin_protocol::launcher::{LauncherMessage, LauncherNews};
use rejoin_protocol::tracker::TrackerInput;
use rejoin_protocol::wire;
use rejoin_transport::{Flushed, Link, Received};
use std::collections::{BTreeMap, BTreeSet};

/// All launchers that are linked.
#[derive(Default)]
pub(super) struct Launchers {
    all: BTreeMap<Token, Launcher>,
}

struct Launcher {
    link: Link,
    /// The number that it drew, once it has said which ranks it starts.
    number: Option<u64>,
    ranks: BTreeSet<Rank>,
}

impl Launchers {
    pub(super) fn has(&self, token: Token) -> bool {
        self.all.contains_key(&token)
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_queued(&self) -> bool {
        self.all.values().any(|launcher| launcher.link.queued_bytes() > 0)
    }

    pub(super) fn let_in(&mut self, token: Token, link: Link) {
        self.all.insert(token, Launcher { link, number: None, ranks: BTreeSet::new() });
    }

    /// To all that have said which ranks they start.
    pub(super) fn tell_all(&mut self, news: &LauncherNews) {
        for launcher in self.all.values_mut().filter(|launcher| launcher.number.is_some()) {
            launcher.link.send_message(news);
        }
    }

    fn tell(&mut self, token: Token, news: &LauncherNews) {
        if let Some(launcher) = self.all.get_mut(&token) {
            launcher.link.send_message(news);
        }
    }

    /// From now on these ranks are started there. Who started any of them before hears of it: the
    /// newest word counts, since a host that is gone can't give its ranks up.
    fn start(&mut self, token: Token, number: u64, host: &str, ranks: &BTreeSet<Rank>) {
        for launcher in self.all.values_mut().filter(|launcher| launcher.number.is_some_and(|own| own != number)) {
            let taken: Vec<Rank> = launcher.ranks.intersection(ranks).copied().collect();
            launcher.ranks.retain(|rank| !ranks.contains(rank));
            if !taken.is_empty() {
                launcher.link.send_message(&LauncherNews::TakenOver { host: host.into(), ranks: taken });
            }
        }
        if let Some(launcher) = self.all.get_mut(&token) {
            (launcher.number, launcher.ranks) = (Some(number), ranks.clone());
        }
    }

    /// Whether it is known to start this rank.
    fn starts(&self, token: Token, rank: Rank) -> bool {
        self.all.get(&token).is_some_and(|launcher| launcher.ranks.contains(&rank))
    }
}

impl Server {
    /// Reads what a launcher has said, and sends what is queued for it.
    pub(super) fn serve_launcher(&mut self, token: Token) {
        while let Some(launcher) = self.launchers.all.get_mut(&token) {
            match launcher.link.receive() {
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
        let flushed = self.launchers.all.iter_mut().map(|(token, launcher)| (*token, launcher.link.flush()));
        let broken: Vec<_> = flushed
            .filter_map(|(token, flushed): (Token, Result<Flushed, _>)| Some((token, flushed.err()?.to_string())))
            .collect();
        for (token, reason) in broken {
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
                    self.handle(TrackerInput::RankEnded { rank });
                }
            }
            LauncherMessage::ProcessDied { executor, reason } => {
                self.handle(TrackerInput::ExecutorGone { executor, reason });
            }
            LauncherMessage::RankEnded { rank } if self.launchers.starts(token, rank) => {
                self.handle(TrackerInput::RankEnded { rank });
            }
            // Another launcher starts it now.
            LauncherMessage::RankEnded { .. } => {}
            LauncherMessage::Cancel { error } => self.handle(TrackerInput::Cancel { error }),
            LauncherMessage::Sync { number } => self.launchers.tell(token, &LauncherNews::Synced { number }),
        }
        Ok(())
    }

    fn launcher_gone(&mut self, token: Token, reason: &str) {
        let Some(mut launcher) = self.launchers.all.remove(&token) else { return };
        let _ = self.poll.registry().deregister(launcher.link.socket());
        log::info!("[job {}] a launcher's link ended: {reason}", self.job);
    }
}
