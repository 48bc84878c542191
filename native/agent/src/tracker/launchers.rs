//! Launchers that aren't in the tracker's process: their links, and who starts which ranks.

use mio::Token;
use rejoin_protocol::ids::Rank;
use rejoin_protocol::launcher::LauncherNews;
use rejoin_transport::{Link, LinkError, Received};
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
    /// How often each of them is started again after a death.
    restarts: u32,
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
        self.all.insert(token, Launcher { link, number: None, ranks: BTreeSet::new(), restarts: 0 });
    }

    /// To all that have said which ranks they start.
    pub(super) fn tell_all(&mut self, news: &LauncherNews) {
        for launcher in self.all.values_mut().filter(|launcher| launcher.number.is_some()) {
            launcher.link.send_message(news);
        }
    }

    /// What the launcher's link has next; `None` where there is no such launcher.
    pub(super) fn receive(&mut self, token: Token) -> Option<Result<Received, LinkError>> {
        self.all.get_mut(&token).map(|launcher| launcher.link.receive())
    }

    /// Sends what is queued; the launchers whose links have turned out to be over, and why.
    pub(super) fn flush(&mut self) -> Vec<(Token, String)> {
        let flushed = self.all.iter_mut().map(|(token, launcher)| (*token, launcher.link.flush()));
        flushed.filter_map(|(token, flushed)| Some((token, flushed.err()?.to_string()))).collect()
    }

    /// Forgets a launcher, and gives its link.
    pub(super) fn remove(&mut self, token: Token) -> Option<Link> {
        self.all.remove(&token).map(|launcher| launcher.link)
    }

    pub(super) fn tell(&mut self, token: Token, news: &LauncherNews) {
        if let Some(launcher) = self.all.get_mut(&token) {
            launcher.link.send_message(news);
        }
    }

    /// From now on these ranks are started there. Who started any of them before hears of it: the
    /// newest word counts, since a host that is gone can't give its ranks up.
    pub(super) fn start(&mut self, token: Token, number: u64, host: &str, ranks: &BTreeSet<Rank>, restarts: u32) {
        for launcher in self.all.values_mut().filter(|launcher| launcher.number.is_some_and(|own| own != number)) {
            let taken: Vec<Rank> = launcher.ranks.intersection(ranks).copied().collect();
            launcher.ranks.retain(|rank| !ranks.contains(rank));
            if !taken.is_empty() {
                launcher.link.send_message(&LauncherNews::TakenOver { host: host.into(), ranks: taken });
            }
        }
        if let Some(launcher) = self.all.get_mut(&token) {
            (launcher.number, launcher.ranks, launcher.restarts) = (Some(number), ranks.clone(), restarts);
        }
    }

    /// The ranks that other launchers start.
    pub(super) fn ranks_of_others(&self, number: u64) -> BTreeSet<Rank> {
        let others = self.all.values().filter(|launcher| launcher.number.is_some_and(|own| own != number));
        others.flat_map(|launcher| launcher.ranks.iter().copied()).collect()
    }

    /// How often this rank is started again after a death, if a launcher has said so.
    pub(super) fn restarts(&self, rank: Rank) -> Option<u32> {
        self.all.values().find(|launcher| launcher.ranks.contains(&rank)).map(|launcher| launcher.restarts)
    }

    /// Whether it is known to start this rank.
    pub(super) fn starts(&self, token: Token, rank: Rank) -> bool {
        self.all.get(&token).is_some_and(|launcher| launcher.ranks.contains(&rank))
    }
}
