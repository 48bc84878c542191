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
    /// Their numbers, in the order in which they came first.
    came: Vec<u64>,
    /// The attempt that a rank's next launcher begins with at the least.
    begins: BTreeMap<Rank, u32>,
}

/// What a launcher that starts some ranks no more has said of them.
pub(super) struct Former {
    pub(super) ranks: Vec<Rank>,
    /// How often each of them is started again after a death.
    pub(super) restarts: u32,
}

struct Launcher {
    link: Link,
    /// The number that it drew, once it has said which ranks it starts.
    number: Option<u64>,
    host: String,
    ranks: BTreeSet<Rank>,
    /// How often each of them is started again after a death.
    restarts: u32,
    /// Another launcher that came later starts ranks of it: it ends as soon as it hears of that.
    is_superseded: bool,
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
        self.all.insert(
            token,
            Launcher {
                link,
                number: None,
                host: String::new(),
                ranks: BTreeSet::new(),
                restarts: 0,
                is_superseded: false,
            },
        );
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
    pub(super) fn flush(&mut self) -> Vec<(Token, LinkError)> {
        let flushed = self.all.iter_mut().map(|(token, launcher)| (*token, launcher.link.flush()));
        flushed.filter_map(|(token, flushed)| Some((token, flushed.err()?))).collect()
    }

    /// Forgets a launcher, and gives its link.
    pub(super) fn remove(&mut self, token: Token) -> Option<(Link, Former)> {
        let Launcher { link, ranks, restarts, .. } = self.all.remove(&token)?;
        Some((link, Former { ranks: ranks.into_iter().collect(), restarts }))
    }

    pub(super) fn tell(&mut self, token: Token, news: &LauncherNews) {
        if let Some(launcher) = self.all.get_mut(&token) {
            launcher.link.send_message(news);
        }
    }

    /// From now on these ranks are started there. Who started any of them before hears of it: the launcher that has
    /// come last counts, since a host that is gone can't give its ranks up; and if it comes back, it is the one that
    /// hears of it. Gives what was taken from others.
    pub(super) fn start(
        &mut self,
        token: Token,
        number: u64,
        host: &str,
        ranks: &BTreeSet<Rank>,
        restarts: u32,
    ) -> Vec<Former> {
        if !self.came.contains(&number) {
            self.came.push(number);
        }
        let place = |number: u64| self.came.iter().position(|came| *came == number);
        let (mut own, mut taken_by, mut former) = (ranks.clone(), Vec::new(), Vec::new());
        for launcher in self.all.values_mut() {
            let taken: Vec<Rank> = launcher.ranks.intersection(ranks).copied().collect();
            let Some(other) = launcher.number.filter(|other| *other != number && !taken.is_empty()) else { continue };
            if place(other) > place(number) {
                own.retain(|rank| !taken.contains(rank));
                taken_by.push(LauncherNews::TakenOver { host: launcher.host.clone(), ranks: taken });
            } else {
                launcher.ranks.retain(|rank| !taken.contains(rank));
                launcher.is_superseded = true;
                former.push(Former { ranks: taken.clone(), restarts: launcher.restarts });
                launcher.link.send_message(&LauncherNews::TakenOver { host: host.into(), ranks: taken });
            }
        }
        if let Some(launcher) = self.all.get_mut(&token) {
            (launcher.number, launcher.host, launcher.restarts) = (Some(number), host.into(), restarts);
            launcher.is_superseded |= !taken_by.is_empty();
            launcher.ranks = own;
            taken_by.iter().for_each(|news| launcher.link.send_message(news));
        }
        former
    }

    /// Who starts this rank next begins with this attempt or a later one.
    pub(super) fn begins_with(&mut self, rank: Rank, attempt: u32) {
        let least = self.begins.entry(rank).or_default();
        *least = attempt.max(*least);
    }

    /// The attempt that who starts this rank next begins with at the least.
    pub(super) fn least_attempt(&self, rank: Rank) -> u32 {
        self.begins.get(&rank).copied().unwrap_or_default()
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

    /// Whether what it says of its processes is heard: a process of another launcher may have the name of one that
    /// a launcher has started again before it heard that it is superseded.
    pub(super) fn is_heard(&self, token: Token) -> bool {
        self.all.get(&token).is_some_and(|launcher| !launcher.is_superseded)
    }

    /// Whether it is known to start this rank.
    pub(super) fn starts(&self, token: Token, rank: Rank) -> bool {
        self.all.get(&token).is_some_and(|launcher| launcher.ranks.contains(&rank))
    }
}
