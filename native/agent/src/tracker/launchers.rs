//! Launchers that aren't in the tracker's process: their links, and who starts which ranks.

use mio::Token;
use rejoin_protocol::ids::Rank;
use rejoin_protocol::launcher::{takes_over, LauncherNews};
use rejoin_transport::{Link, LinkError, Received};
use std::collections::{BTreeMap, BTreeSet};

/// All launchers that are linked.
#[derive(Default)]
pub(super) struct Launchers {
    all: BTreeMap<Token, Launcher>,
    /// By launchers that start a rank no more, as far as is known: the attempt that another one begins with at the
    /// least.
    left: BTreeMap<Rank, BTreeMap<u64, u32>>,
    /// What launchers had that are out of reach, and nobody has started since.
    away: BTreeSet<Rank>,
}

/// Some ranks that a launcher starts no more.
pub(super) struct Left {
    /// The launcher's number.
    pub(super) launcher: u64,
    /// The ranks, with the attempt that each was to begin with, as it was told last.
    pub(super) ranks: BTreeMap<Rank, u32>,
    /// How often it starts each of them again after a death.
    pub(super) restarts: u32,
}

struct Launcher {
    link: Link,
    /// The number that it drew, once it has said which ranks it starts.
    number: Option<u64>,
    host: String,
    /// With the attempt that each begins with, as it was told last.
    ranks: BTreeMap<Rank, u32>,
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
        let (host, ranks) = (String::new(), BTreeMap::new());
        self.all.insert(token, Launcher { link, number: None, host, ranks, restarts: 0 });
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
    pub(super) fn remove(&mut self, token: Token) -> Option<(Link, Left)> {
        let Launcher { link, number, ranks, restarts, .. } = self.all.remove(&token)?;
        Some((link, Left { launcher: number.unwrap_or_default(), ranks, restarts }))
    }

    pub(super) fn tell(&mut self, token: Token, news: &LauncherNews) {
        if let Some(launcher) = self.all.get_mut(&token) {
            launcher.link.send_message(news);
        }
    }

    /// From now on these ranks are started there, but for those that another launcher has taken over meanwhile
    /// ([`takes_over`]): a host that is gone can't give its ranks up. Whose ranks others start now hears of it. Gives
    /// what was taken from others.
    pub(super) fn start(
        &mut self,
        token: Token,
        number: u64,
        host: &str,
        ranks: &BTreeMap<Rank, Option<u32>>,
        restarts: u32,
    ) -> Vec<Left> {
        let (mut own, mut taken_by, mut left) = (ranks.clone(), Vec::new(), Vec::new());
        for other in self.all.values_mut().filter(|other| other.number.is_some_and(|known| known != number)) {
            let of_both = other.ranks.iter().filter_map(|(rank, told)| Some((*rank, *told, *own.get(rank)?)));
            let (taken, kept): (Vec<_>, Vec<_>) = of_both.partition(|(_, told, holds)| takes_over(*holds, *told));
            let ranks = |some: &[(Rank, u32, Option<u32>)]| some.iter().map(|(rank, ..)| *rank).collect::<Vec<_>>();
            if !kept.is_empty() {
                own.retain(|rank, _| !ranks(&kept).contains(rank));
                taken_by.push(LauncherNews::TakenOver { host: other.host.clone(), ranks: ranks(&kept) });
            }
            if !taken.is_empty() {
                other.link.send_message(&LauncherNews::TakenOver { host: host.into(), ranks: ranks(&taken) });
                let taken: BTreeMap<Rank, u32> = taken.into_iter().map(|(rank, told, _)| (rank, told)).collect();
                other.ranks.retain(|rank, _| !taken.contains_key(rank));
                let launcher = other.number.unwrap_or_default();
                left.push(Left { launcher, ranks: taken, restarts: other.restarts });
            }
        }
        self.away.retain(|rank| !own.contains_key(rank));
        if let Some(launcher) = self.all.get_mut(&token) {
            (launcher.number, launcher.host, launcher.restarts) = (Some(number), host.into(), restarts);
            launcher.ranks = own.into_iter().map(|(rank, holds)| (rank, holds.unwrap_or_default())).collect();
            taken_by.iter().for_each(|news| launcher.link.send_message(news));
        }
        left
    }

    /// The launcher is told that its ranks begin with these attempts, or later ones that it was told before.
    pub(super) fn accept(&mut self, token: Token, next: impl Fn(Rank) -> u32) {
        let Some(launcher) = self.all.get_mut(&token) else { return };
        for (rank, told) in &mut launcher.ranks {
            *told = next(*rank).max(*told);
        }
        let (ranks, attempts) = launcher.ranks.iter().map(|(rank, told)| (*rank, *told)).unzip();
        launcher.link.send_message(&LauncherNews::Accepted { ranks, attempts });
    }

    /// A launcher starts this rank no more: others begin with this attempt at the least.
    pub(super) fn leave(&mut self, launcher: u64, rank: Rank, attempt: u32) {
        let least = self.left.entry(rank).or_default().entry(launcher).or_default();
        *least = attempt.max(*least);
    }

    /// The attempt that this launcher begins this rank with at the least.
    pub(super) fn least_attempt(&self, launcher: u64, rank: Rank) -> u32 {
        let others = self.left.get(&rank).into_iter().flatten().filter(|(other, _)| **other != launcher);
        others.map(|(_, least)| *least).max().unwrap_or_default()
    }

    /// The launcher of these is out of reach, and may come back.
    pub(super) fn are_away(&mut self, ranks: impl IntoIterator<Item = Rank>) {
        self.away.extend(ranks);
    }

    /// What launchers had that may come back.
    pub(super) fn away(&self) -> &BTreeSet<Rank> {
        &self.away
    }

    /// The ranks that other launchers start.
    pub(super) fn ranks_of_others(&self, number: u64) -> BTreeSet<Rank> {
        let others = self.all.values().filter(|launcher| launcher.number.is_some_and(|own| own != number));
        others.flat_map(|launcher| launcher.ranks.keys().copied()).collect()
    }

    /// The number of a launcher, once it has said which ranks it starts.
    pub(super) fn number(&self, token: Token) -> Option<u64> {
        self.all.get(&token)?.number
    }

    /// How often this rank is started again after a death, if a launcher has said so.
    pub(super) fn restarts(&self, rank: Rank) -> Option<u32> {
        self.all.values().find(|launcher| launcher.ranks.contains_key(&rank)).map(|launcher| launcher.restarts)
    }

    /// Whether it is known to start this rank.
    pub(super) fn starts(&self, token: Token, rank: Rank) -> bool {
        self.all.get(&token).is_some_and(|launcher| launcher.ranks.contains_key(&rank))
    }
}
