//! An event log by rank: what each was at from when to when, and which faults it met.

use crate::timeline::scale::time;
use rejoin_agent::event_log::{Fact, Record, What};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::profile::Stretch;
use std::collections::BTreeMap;

/// What a rank is at, as far as the protocol knows. How it spends its time while it works is a
/// [`ActivitySpan`]'s business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankActivity {
    /// Its process is there, and hasn't joined yet.
    Starting,
    /// It has joined, and waits for the others and the plan.
    Meeting,
    /// Restarted: it fetches its checkpoint.
    Fetching,
    /// Restarted: it goes through what others have done already.
    Replaying,
    /// It works with the others.
    Working,
    /// It has reported its end.
    Finished,
    /// Dead, and not started again yet.
    Lost,
}

impl RankActivity {
    /// For the legend.
    pub fn name(self) -> &'static str {
        match self {
            RankActivity::Starting => "starting",
            RankActivity::Meeting => "meeting",
            RankActivity::Fetching => "fetching",
            RankActivity::Replaying => "catching up",
            RankActivity::Working => "at work",
            RankActivity::Finished => "finished",
            RankActivity::Lost => "lost",
        }
    }
}

/// A state with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSpan {
    pub state: RankActivity,
    pub from: u64,
    pub to: u64,
    /// What else is known of it.
    pub detail: String,
}

/// How a working rank spent a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivitySpan {
    pub from: u64,
    pub to: u64,
    pub stretch: Stretch,
    /// Where it was, as `version 3, call 17`.
    pub place: String,
}

/// Which fault a rank met, or what it reached.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// A fault rule.
    Fault(String),
    /// It was declared lost or its process ended.
    Death(String),
    /// It works with the others again.
    CaughtUp(String),
    /// It entered this version.
    Version(u32),
}

/// One rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RankRow {
    pub phases: Vec<StateSpan>,
    pub spans: Vec<ActivitySpan>,
    pub marks: Vec<(u64, Mark)>,
    /// Stretches by incarnation, before they have their place.
    profiles: BTreeMap<u32, IncarnationProfile>,
    /// Attempts that died, with the places of their marks. Launcher and tracker both report a
    /// death, in any order, also after the next start.
    died: BTreeMap<u32, usize>,
    /// The attempt that was started last.
    attempt: u32,
    /// The highest version that any of its incarnations entered.
    highest: u32,
    /// Attempts by incarnation.
    attempts: BTreeMap<u32, u32>,
    open: Option<(RankActivity, u64, String)>,
}

/// What one incarnation reported of how it spent its time; its times count from its beginning.
#[derive(Clone, Debug, PartialEq)]
struct IncarnationProfile {
    began: u64,
    spent: u64,
    spans: Vec<ActivitySpan>,
}

impl Default for IncarnationProfile {
    fn default() -> Self {
        IncarnationProfile { began: u64::MAX, spent: 0, spans: Vec::new() }
    }
}

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTimeline {
    pub command: String,
    pub rows: Vec<RankRow>,
    /// When views were made, with their names and reasons.
    pub views: Vec<(u64, String, String)>,
    /// When the tracker was away.
    pub trackerless: Vec<(u64, u64)>,
    /// Its length.
    pub micros: u64,
    /// How it ended.
    pub ending: String,
}

impl RankRow {
    fn begin(&mut self, state: RankActivity, at: u64, detail: String) {
        self.close(at);
        self.open = Some((state, at, detail));
    }

    fn close(&mut self, at: u64) {
        if let Some((state, from, detail)) = self.open.take() {
            if at > from {
                self.phases.push(StateSpan { state, from, to: at, detail });
            }
        }
    }

    /// The stretches of an incarnation follow each other without a gap, but the reports of them may
    /// be late. The one that came quickest says when they began.
    fn place_spans(&mut self) {
        for (_, IncarnationProfile { began, spans, .. }) in std::mem::take(&mut self.profiles) {
            let placed = spans.into_iter().map(|span| ActivitySpan {
                from: began.saturating_add(span.from),
                to: began.saturating_add(span.to),
                ..span
            });
            self.spans.extend(placed);
        }
        self.spans.sort_by_key(|span| span.from);
    }

    fn died(&mut self, attempt: u32, at: u64, how: String) {
        if let Some(place) = self.died.get(&attempt) {
            // The launcher and the tracker each report what they have seen of it, in any order.
            if let Some((_, Mark::Death(profiles))) = self.marks.get_mut(*place) {
                *profiles = format!("{profiles}; {how}");
            }
            return;
        }
        self.died.insert(attempt, self.marks.len());
        self.marks.push((at, Mark::Death(how.clone())));
        if attempt == self.attempt {
            self.begin(RankActivity::Lost, at, how);
        }
    }

    /// How often it died.
    pub fn deaths(&self) -> usize {
        self.died.len()
    }
}

impl RunTimeline {
    /// The timeline of a log that begins with a run's start; `None` for another one.
    pub fn of(records: &[Record]) -> Option<RunTimeline> {
        let What::Launcher(Fact::Began { world, command, rules, .. }) = &records.first()?.what else { return None };
        let mut timeline = RunTimeline {
            command: command.join(" "),
            rows: (0..*world).map(|_| RankRow::default()).collect(),
            views: Vec::new(),
            trackerless: Vec::new(),
            micros: records.iter().map(|record| record.micros).max().unwrap_or_default(),
            ending: "the log ends before the run does".into(),
        };
        let mut away = None;
        for record in records {
            let at = record.micros;
            match &record.what {
                What::Launcher(Fact::TrackerKilled) => away = Some(at),
                What::Launcher(Fact::TrackerBack) => timeline.trackerless.extend(away.take().map(|from| (from, at))),
                What::Launcher(Fact::Over { status, reason }) => {
                    timeline.ending = if *status == 0 { reason.clone() } else { format!("status {status}: {reason}") };
                }
                What::Launcher(fact) => timeline.launcher(record.rank, at, fact),
                What::Event(event) => timeline.event(at, event, rules),
            }
        }
        timeline.trackerless.extend(away.map(|from| (from, timeline.micros)));
        let end = timeline.micros;
        for row in &mut timeline.rows {
            row.close(end);
            row.place_spans();
        }
        Some(timeline)
    }

    fn row(&mut self, rank: u32) -> Option<&mut RankRow> {
        self.rows.get_mut(rank as usize)
    }

    fn launcher(&mut self, rank: Option<u32>, at: u64, fact: &Fact) {
        let Some(row) = rank.and_then(|rank| self.row(rank)) else { return };
        match fact {
            Fact::Started { attempt, pid } => {
                row.attempt = *attempt;
                row.begin(RankActivity::Starting, at, format!("attempt {attempt}, process {pid}"));
            }
            Fact::Ended { how, .. } if how == "status 0" => row.close(at),
            Fact::Ended { attempt, how } => row.died(*attempt, at, how.clone()),
            Fact::Restarting { after_millis, .. } if *after_millis > 0 => {
                if let Some((RankActivity::Lost, _, detail)) = &mut row.open {
                    detail.push_str(&format!("; started again after {after_millis} ms"));
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, at: u64, event: &Event, rules: &[String]) {
        match event {
            Event::ViewMade { generation, reason, .. } => {
                self.views.push((at, generation.to_string(), reason.clone()));
            }
            Event::PlanMade { newcomers, version, reason, .. } => {
                for rank in newcomers {
                    let Some(row) = self.row(rank.0) else { continue };
                    let again = row.deaths() > 0;
                    let state = if again { RankActivity::Fetching } else { RankActivity::Working };
                    row.begin(state, at, format!("planned to start at version {version}: {reason}"));
                }
            }
            Event::Spent { rank, incarnation, stretch, ago_micros, phase, seqno } => {
                let place = format!("{phase}, before call {seqno}");
                if let Some(row) = self.row(rank.0) {
                    let profiles = row.profiles.entry(incarnation.number).or_default();
                    // Whatever number a file holds: where time ends is only in a file that no clock has written.
                    let from = profiles.spent;
                    profiles.spent = from.saturating_add(stretch.micros);
                    let ended = at.saturating_sub(*ago_micros);
                    profiles.began = profiles.began.min(ended.saturating_sub(profiles.spent));
                    profiles.spans.push(ActivitySpan { from, to: profiles.spent, stretch: *stretch, place });
                }
            }
            _ => self.rank_event(at, event, rules),
        }
    }

    fn rank_event(&mut self, at: u64, event: &Event, rules: &[String]) {
        let rank = match event {
            Event::RankJoined { rank, .. }
            | Event::RankLost { rank, .. }
            | Event::Restored { rank, .. }
            | Event::CaughtUp { rank, .. }
            | Event::VersionEntered { rank, .. }
            | Event::FaultFired { rank, .. }
            | Event::RankFinished { rank, .. } => *rank,
            _ => return,
        };
        let Some(row) = self.row(rank.0) else { return };
        match event {
            Event::RankJoined { incarnation, attempt, .. } => {
                row.attempts.insert(incarnation.number, attempt.task);
                // Where a framework starts the tasks, this alone says which attempt is the newest.
                row.attempt = attempt.task;
                row.begin(RankActivity::Meeting, at, format!("has joined as incarnation {incarnation}"));
            }
            Event::RankLost { incarnation, reason, .. } => {
                let attempt = row.attempts.get(&incarnation.number).copied().unwrap_or(row.attempt);
                row.died(attempt, at, reason.clone());
            }
            Event::Restored { version, bytes, source, millis, .. } => {
                let detail = format!("got checkpoint {version} ({bytes} bytes) from {source} in {millis} ms");
                row.begin(RankActivity::Replaying, at, detail);
            }
            Event::CaughtUp { replayed_in, millis, .. } => {
                let detail = format!("caught up {millis} ms after its plan; {replayed_in} bytes were replayed to it");
                row.marks.push((at, Mark::CaughtUp(detail.clone())));
                row.begin(RankActivity::Working, at, detail);
            }
            Event::VersionEntered { version, .. } => {
                row.marks.push((at, Mark::Version(version.0)));
                let beyond = version.0 > row.highest;
                row.highest = row.highest.max(version.0);
                if beyond && row.open.as_ref().is_some_and(|(state, ..)| *state == RankActivity::Replaying) {
                    row.begin(RankActivity::Working, at, "is further than its incarnations before".into());
                }
            }
            Event::FaultFired { id, .. } => {
                let rule = rules.get(*id as usize).map_or_else(|| format!("rule {id}"), |rule| rule.clone());
                row.marks.push((at, Mark::Fault(rule)));
            }
            Event::RankFinished { .. } => row.begin(RankActivity::Finished, at, "reported its end".into()),
            _ => {}
        }
    }

    /// Deaths of all ranks.
    pub fn deaths(&self) -> usize {
        self.rows.iter().map(RankRow::deaths).sum()
    }

    /// What stands under the title.
    pub fn summary(&self) -> String {
        let deaths = match self.deaths() {
            0 => "no rank died".into(),
            1 => "1 death".into(),
            more => format!("{more} deaths"),
        };
        format!("{} ranks, {}, {deaths}; {}", self.rows.len(), time(self.micros), self.ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_agent::protocol::ids::{Attempt, Generation, Incarnation, Lineage, Rank, Task, Version};

    fn fact(micros: u64, rank: Option<u32>, fact: Fact) -> Record {
        let what = What::Launcher(fact);
        Record { micros, rank, incarnation: None, generation: None, version: None, seqno: None, what }
    }

    fn event(micros: u64, event: Event) -> Record {
        let what = What::Event(event);
        Record { micros, rank: None, incarnation: None, generation: None, version: None, seqno: None, what }
    }

    fn began() -> Record {
        let rules = vec!["rank=0,at=join".to_string()];
        fact(0, None, Fact::Began { world: 1, command: vec!["p".into(), "x".into()], rules, unix_seconds: 0 })
    }

    fn joined(micros: u64, incarnation: u32) -> Record {
        event(
            micros,
            Event::RankJoined {
                rank: Rank(0),
                incarnation: Incarnation::nth(incarnation),
                index: Task(0),
                attempt: Attempt { stage: 0, task: incarnation },
                executor: "e".into(),
                vacant_millis: 0,
            },
        )
    }

    fn planned(micros: u64) -> Record {
        event(
            micros,
            Event::PlanMade {
                generation: Generation { epoch: 1, number: 1 },
                lineage: Lineage(0),
                version: Version(0),
                round: 0,
                newcomers: vec![Rank(0)],
                reason: "r".into(),
            },
        )
    }

    fn lost(micros: u64, incarnation: u32) -> Record {
        event(
            micros,
            Event::RankLost {
                rank: Rank(0),
                incarnation: Incarnation::nth(incarnation),
                executor: "e".into(),
                reason: "gone".into(),
                silent_millis: 0,
                deaths: incarnation + 1,
            },
        )
    }

    #[test]
    fn a_rank_whose_tasks_a_framework_starts_is_lost_from_each_death_to_its_return() {
        let records = [began(), joined(10, 0), lost(20, 0), joined(30, 1), lost(40, 1), joined(50, 2), planned(60)];
        let timeline = RunTimeline::of(&records).unwrap();
        let row = &timeline.rows[0];
        let gone: Vec<(u64, u64)> = row
            .phases
            .iter()
            .filter(|span| span.state == RankActivity::Lost)
            .map(|span| (span.from, span.to))
            .collect();
        assert_eq!((gone, row.deaths()), (vec![(20, 30), (40, 50)], 2));
    }

    #[test]
    fn a_rank_that_died_once_is_told_from_its_start_to_its_end() {
        let records = [
            began(),
            fact(10, Some(0), Fact::Started { attempt: 0, pid: 7 }),
            joined(20, 0),
            planned(30),
            event(90, Event::FaultFired { id: 0, rank: Rank(0), incarnation: Incarnation::nth(0) }),
            fact(100, Some(0), Fact::Ended { attempt: 0, how: "SIGKILL".into() }),
            fact(110, Some(0), Fact::Started { attempt: 1, pid: 8 }),
            lost(115, 0),
            joined(120, 1),
            planned(130),
            event(
                140,
                Event::Restored {
                    rank: Rank(0),
                    incarnation: Incarnation::nth(1),
                    version: Version(2),
                    round: 2,
                    bytes: 9,
                    source: "rank 1".into(),
                    millis: 0,
                },
            ),
            event(
                150,
                Event::CaughtUp {
                    rank: Rank(0),
                    incarnation: Incarnation::nth(1),
                    replayed_in: 0,
                    regenerated: 0,
                    rounds_again: 0,
                    millis: 1,
                },
            ),
            event(180, Event::RankFinished { rank: Rank(0), incarnation: Incarnation::nth(1), digest: 0 }),
            fact(200, Some(0), Fact::Ended { attempt: 1, how: "status 0".into() }),
            fact(210, None, Fact::Over { status: 0, reason: "well".into() }),
        ];
        let timeline = RunTimeline::of(&records).unwrap();
        let row = &timeline.rows[0];
        let profiles: Vec<(RankActivity, u64, u64)> = row.phases.iter().map(|p| (p.state, p.from, p.to)).collect();
        let wanted = [
            (RankActivity::Starting, 10, 20),
            (RankActivity::Meeting, 20, 30),
            (RankActivity::Working, 30, 100),
            (RankActivity::Lost, 100, 110),
            (RankActivity::Starting, 110, 120),
            (RankActivity::Meeting, 120, 130),
            (RankActivity::Fetching, 130, 140),
            (RankActivity::Replaying, 140, 150),
            (RankActivity::Working, 150, 180),
            (RankActivity::Finished, 180, 200),
        ];
        assert_eq!(profiles, wanted);
        assert_eq!((row.deaths(), timeline.deaths()), (1, 1));
        assert_eq!(row.marks[0], (90, Mark::Fault("rank=0,at=join".into())));
        assert_eq!(row.marks[1], (100, Mark::Death("SIGKILL; gone".into())));
        assert_eq!(timeline.summary(), "1 ranks, 210 µs, 1 death; well");
    }

    #[test]
    fn a_stretch_stands_where_it_was_spent_and_not_where_it_was_told() {
        let stretch = Stretch { micros: 40, computing_micros: 40, ..Stretch::default() };
        let spent = Event::Spent {
            rank: Rank(0),
            incarnation: Incarnation::nth(0),
            stretch,
            ago_micros: 25,
            phase: rejoin_agent::protocol::ids::Phase::Boot,
            seqno: 3,
        };
        // The second one is reported late: it follows the first all the same.
        let timeline = RunTimeline::of(&[began(), event(100, spent.clone()), event(999, spent)]).unwrap();
        let places: Vec<(u64, u64)> = timeline.rows[0].spans.iter().map(|span| (span.from, span.to)).collect();
        assert_eq!(places, [(35, 75), (75, 115)]);
    }

    #[test]
    fn a_log_without_a_beginning_is_no_story_and_one_without_an_end_says_so() {
        assert!(RunTimeline::of(&[joined(5, 0)]).is_none());
        assert!(RunTimeline::of(&[]).is_none());
        let timeline = RunTimeline::of(&[began(), fact(5, None, Fact::TrackerKilled), joined(50, 0)]).unwrap();
        assert!(timeline.summary().contains("the log ends before the run does"));
        assert_eq!(timeline.trackerless, [(5, 50)]);
    }
}
