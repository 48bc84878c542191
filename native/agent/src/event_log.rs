//! The event log: one JSON object a line, each a typed fact with the time since the run began and where its rank was.

use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{AgentId, Generation, Phase};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Most ranks of a run.
pub const MOST_RANKS: u32 = 4096;

/// What an agent uses is written though it is what it was, since a log tells how long its tracker was there.
const USAGE_AGAIN: Duration = Duration::from_secs(30);

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Microseconds since the run began.
    pub micros: u64,
    /// The rank that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Which incarnation of that rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// The newest view: epoch of the tracker, and the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// The version that the rank was last known in; absent in boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The rank's next collective, as last known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seqno: Option<u32>,
    /// What happened: one key, `event` or `launcher`.
    #[serde(flatten)]
    pub what: What,
}

/// Whose fact it is. Where a framework starts the tasks, whoever owns the tracker stands for the launcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The protocol's, as the tracker reported it.
    Event(Event),
    /// The launcher's own.
    Launcher(Fact),
}

/// What only the launcher knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    /// The run begins.
    Began {
        /** Number of ranks. */
        world: u32,
        /** The program and its arguments; of a framework's job its name. */
        command: Vec<String>,
        /** The kill rules; a fault's id is the place in this list. */
        rules: Vec<String>,
        /** Seconds since 1970. */
        unix_seconds: u64,
    },
    /// A process was started.
    Started {
        /** Which start of this rank. */
        attempt: u32,
        /** Its process id. */
        pid: u32,
    },
    /// A process has ended.
    Ended {
        /** Which start of this rank. */
        attempt: u32,
        /** In words, as `status 1` or `SIGKILL`. */
        how: String,
    },
    /// A process will be started again.
    Restarting {
        /** The next start. */
        attempt: u32,
        /** The pause before it. */
        after_millis: u64,
    },
    /// A stopped process goes on.
    Woken,
    /// The tracker was ended without a word.
    TrackerKilled,
    /// It is there again.
    TrackerBack,
    /// The run is over.
    Over {
        /** The launcher's exit status. */
        status: u8,
        /** Why, in words. */
        reason: String,
    },
}

/// The rank and incarnation that an event is about.
fn subject(event: &Event) -> (Option<u32>, Option<u32>) {
    match event {
        Event::RankJoined { rank, incarnation, .. }
        | Event::RankLost { rank, incarnation, .. }
        | Event::Restored { rank, incarnation, .. }
        | Event::CaughtUp { rank, incarnation, .. }
        | Event::VersionEntered { rank, incarnation, .. }
        | Event::Spent { rank, incarnation, .. }
        | Event::FaultFired { rank, incarnation, .. }
        | Event::DurableWritten { rank, incarnation, .. }
        | Event::DurableFailed { rank, incarnation, .. }
        | Event::Printed { rank, incarnation, .. }
        | Event::RankFinished { rank, incarnation, .. } => (Some(rank.0), Some(incarnation.number)),
        Event::RankRefused { rank, .. }
        | Event::LinkBroken { rank, .. }
        | Event::SharingEnded { rank, .. }
        | Event::SpareTook { rank, .. } => (Some(rank.0), None),
        _ => (None, None),
    }
}

/// Makes records: knows the time, and where each rank was last.
pub struct Recorder {
    began: Instant,
    /// How long the run had been going on when its tracker was there last, in a log that is gone on with.
    gone: Option<Duration>,
    /// How long it had been going on when this recorder began.
    before: Option<Duration>,
    generation: Option<Generation>,
    places: BTreeMap<u32, (Option<u32>, Option<u32>)>,
    /// What each agent has said of its memory, and when that was written last.
    usages: BTreeMap<AgentId, (Instant, Event)>,
    file: Option<File>,
    failure: Option<io::Error>,
}

impl Recorder {
    /// A recorder that writes nowhere, or to a file, of which nothing stays when the run begins.
    ///
    /// # Errors
    /// When the file can't be made.
    pub fn new(path: Option<&Path>) -> io::Result<Recorder> {
        // Appended to, as a later life of a tracker may do at the same time.
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path));
        Ok(Recorder {
            began: Instant::now(),
            gone: None,
            before: None,
            generation: None,
            places: BTreeMap::new(),
            usages: BTreeMap::new(),
            file: file.transpose()?,
            failure: None,
        })
    }

    /// Goes on with the log of a tracker that was ended without a word. A file that isn't there, or is empty, is begun;
    /// of a last line that was cut off nothing stays.
    ///
    /// # Errors
    /// When the file can't be written, or isn't the log of a run of this program; it is as it was then.
    pub fn go_on(path: &Path, command: &[String]) -> io::Result<Recorder> {
        if !path.exists() {
            return Recorder::new(Some(path));
        }
        let (mut first, mut last) = (None, None);
        let (mut generation, mut places) = (None, BTreeMap::new());
        // One record after the other: the log of days may be larger than the memory.
        let whole = each(path, |record| {
            generation = record.generation.or(generation);
            if let Some(rank) = record.rank {
                places.insert(rank, (record.version, record.seqno));
            }
            first.get_or_insert_with(|| record.clone());
            last = Some(record);
        });
        let whole = whole.map_err(io::Error::other)?;
        let (Some(first), Some(last)) = (first, last) else { return Recorder::new(Some(path)) };
        let since = match &first.what {
            What::Launcher(Fact::Began { command: its, unix_seconds, .. }) if its == command && !is_over(&last) => {
                *unix_seconds
            }
            _ => {
                let (path, expected) = (path.display(), command.join(" "));
                let text = format!("{path} is another run's log; expected that of {expected}, or name another file");
                return Err(io::Error::other(text));
            }
        };
        let file = OpenOptions::new().append(true).open(path)?;
        if whole < file.metadata()?.len() {
            file.set_len(whole)?;
        }
        let last = Duration::from_micros(last.micros);
        // Never backwards, whatever was done to the clock meanwhile.
        let now = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_secs(since));
        let before = now.map_or(last, |now| now.max(last));
        let (gone, before, file) = (Some(last), Some(before), Some(file));
        Ok(Recorder { gone, before, file, generation, places, ..Recorder::new(None)? })
    }

    /// The run begins: so many ranks, the program with its arguments, and the kill rules. In a log that is gone on with
    /// it is said instead when its tracker was there last, and that there is one again.
    pub fn begins(&mut self, world: u32, command: Vec<String>, rules: Vec<String>) {
        match self.gone.take() {
            Some(gone) => {
                self.record_at(gone, None, None, What::Launcher(Fact::TrackerKilled));
                self.fact(None, Fact::TrackerBack);
            }
            None => {
                // What isn't a file has nothing to be emptied.
                let file = self.file.as_ref().filter(|file| file.metadata().is_ok_and(|about| about.is_file()));
                self.failure = file.and_then(|file| file.set_len(0).err());
                let unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
                self.fact(None, Fact::Began { world, command, rules, unix_seconds });
            }
        }
    }

    /// A fact of the protocol.
    pub fn event(&mut self, event: Event) {
        match &event {
            Event::ViewMade { generation, .. } => self.generation = Some(*generation),
            Event::RankJoined { rank, .. } => drop(self.places.insert(rank.0, (None, None))),
            Event::VersionEntered { rank, version, .. } => {
                self.places.insert(rank.0, (Some(version.0), Some(0)));
            }
            Event::Spent { rank, phase, seqno, .. } => {
                let version = match phase {
                    Phase::Boot => None,
                    Phase::Version(version) => Some(version.0),
                };
                self.places.insert(rank.0, (version, Some(*seqno)));
            }
            // Every agent says it every other second, for days.
            Event::Usage { agent, .. } => {
                let written = self.usages.get(agent);
                if written.is_some_and(|(at, usage)| *usage == event && at.elapsed() < USAGE_AGAIN) {
                    return;
                }
                self.usages.insert(*agent, (Instant::now(), event.clone()));
            }
            _ => {}
        }
        let (rank, incarnation) = subject(&event);
        self.write(rank, incarnation, What::Event(event));
    }

    /// A fact of the launcher.
    pub fn fact(&mut self, rank: Option<u32>, fact: Fact) {
        self.write(rank, None, What::Launcher(fact));
    }

    /// Why the log is not whole, if it isn't.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    fn write(&mut self, rank: Option<u32>, incarnation: Option<u32>, what: What) {
        let at = self.before.unwrap_or_default() + self.began.elapsed();
        self.record_at(at, rank, incarnation, what);
    }

    fn record_at(&mut self, at: Duration, rank: Option<u32>, incarnation: Option<u32>, what: What) {
        let Some(file) = self.file.as_mut().filter(|_| self.failure.is_none()) else { return };
        let (version, seqno) = rank.and_then(|rank| self.places.get(&rank).copied()).unwrap_or_default();
        let micros = at.as_micros() as u64;
        let record = Record { micros, rank, incarnation, generation: self.generation, version, seqno, what };
        let line = serde_json::to_string(&record).map_err(io::Error::other);
        // One write for each line: a reader sees whole lines while the run goes on.
        if let Err(cause) = line.and_then(|line| file.write_all(format!("{line}\n").as_bytes())) {
            self.failure = Some(cause);
        }
    }
}

fn is_over(record: &Record) -> bool {
    matches!(record.what, What::Launcher(Fact::Over { .. }))
}

/// Reads a log.
///
/// # Errors
/// When the file can't be read, or a line is no record: then with its number. A last line that was
/// cut off in the middle (the launcher was killed while it wrote) is left out.
pub fn read(path: &Path) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    each(path, |record| records.push(record))?;
    Ok(records)
}

/// Reads a log record by record; the bytes of all whole lines. Errors as for [`read`].
fn each(path: &Path, mut take: impl FnMut(Record)) -> Result<u64, String> {
    let file = File::open(path).map_err(|cause| format!("{} can't be opened: {cause}", path.display()))?;
    let mut reader = io::BufReader::new(file);
    let (mut whole, mut line) = (0, String::new());
    for number in 1.. {
        line.clear();
        let length =
            reader.read_line(&mut line).map_err(|cause| format!("{} can't be read: {cause}", path.display()))?;
        let is_whole = line.ends_with('\n');
        if length == 0 {
            break;
        }
        match serde_json::from_str(&line) {
            Ok(record) => take(record),
            Err(_) if !is_whole => break,
            Err(cause) => {
                return Err(format!(
                    "line {number} of {} is not an event of Rejoin: {cause}; expected a log written by `rejoin run \
                     --events` or `rejoin tracker --events`, or by a job of Spark or Flink with the setting \
                     `rejoin.events`",
                    path.display()
                ))
            }
        }
        whole += if is_whole { length as u64 } else { 0 };
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_protocol::error::{Code, Error};
    use rejoin_protocol::ids::{Incarnation, Lineage, Rank, Version};

    #[test]
    fn a_log_is_read_as_it_was_written_with_places_and_without_a_last_half_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let mut recorder = Recorder::new(Some(&path)).unwrap();
        recorder.fact(None, Fact::Began { world: 2, command: vec!["a".into()], rules: vec![], unix_seconds: 1 });
        let generation = Generation { epoch: 1, number: 3 };
        recorder.event(Event::ViewMade { generation, alive: vec![Rank(1)], vacant: vec![], reason: "x".into() });
        let entered = Event::VersionEntered {
            rank: Rank(1),
            incarnation: Incarnation::nth(0),
            lineage: Lineage(0),
            version: Version(7),
            round: 7,
        };
        recorder.event(entered.clone());
        // Numbers beyond those that JSON's readers take for whole ones, and a digest.
        recorder.event(Event::AgentLost { agent: AgentId(u64::MAX), executor: "e".into(), reason: "\n\"".into() });
        recorder.event(Event::JobEnded { digest: u128::MAX - 5, deaths: 0 });
        recorder.event(Event::JobFailed { error: Error::new(Code::Mismatch, "different") });
        assert!(recorder.failure().is_none());
        drop(recorder);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{text}{{\"micros\": 12")).unwrap();
        let records = read(&path).unwrap();
        assert_eq!(records.len(), 6);
        assert_eq!(records[2].what, What::Event(entered));
        assert_eq!((records[2].rank, records[2].version, records[2].seqno), (Some(1), Some(7), Some(0)));
        assert_eq!(records[2].generation, Some(generation));
        assert_eq!(records[4].what, What::Event(Event::JobEnded { digest: u128::MAX - 5, deaths: 0 }));
        assert!(records.windows(2).all(|pair| pair[0].micros <= pair[1].micros));
    }

    #[test]
    fn the_log_of_a_tracker_that_was_killed_is_gone_on_with_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let command = ["a".to_string()];
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let mut recorder = Recorder::go_on(&path, &command).unwrap();
        let began = Fact::Began { world: 2, command: command.to_vec(), rules: vec![], unix_seconds: now - 100 };
        recorder.fact(None, began.clone());
        let (lineage, version, incarnation) = (Lineage(0), Version(7), Incarnation::nth(0));
        recorder.event(Event::VersionEntered { rank: Rank(1), incarnation, lineage, version, round: 7 });
        drop(recorder);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{{\"micros\": 12")).unwrap();
        let mut recorder = Recorder::go_on(&path, &command).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole, "it hasn't begun yet");
        recorder.begins(2, command.to_vec(), vec![]);
        recorder.fact(Some(1), Fact::Woken);
        let records = read(&path).unwrap();
        let facts = [Fact::TrackerKilled, Fact::TrackerBack, Fact::Woken].map(What::Launcher);
        assert_eq!(records[0].what, What::Launcher(began));
        assert_eq!(records[2..].iter().map(|one| one.what.clone()).collect::<Vec<What>>(), facts);
        let seconds: Vec<u64> = records.iter().map(|one| one.micros / 1_000_000).collect();
        assert!(seconds[..3] == [0; 3] && seconds[3..].iter().all(|at| (99..200).contains(at)), "{seconds:?}");
        assert_eq!(records[4].version, Some(7), "where the rank was is known");
        assert!(Recorder::go_on(&path, &["b".to_string()]).is_err(), "another job's");
        recorder.fact(None, Fact::Over { status: 0, reason: "all is done".into() });
        assert!(Recorder::go_on(&path, &command).is_err(), "an earlier one's of that name");
        let mut anew = Recorder::new(Some(&path)).unwrap();
        assert!(read(&path).unwrap().len() > 1, "it hasn't begun yet");
        anew.begins(2, command.to_vec(), vec![]);
        assert_eq!(read(&path).unwrap().len(), 1);
        std::fs::write(&path, "something else\n").unwrap();
        let error = Recorder::go_on(&path, &command).map(drop).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else\n");
    }

    #[test]
    fn what_an_agent_uses_is_in_the_log_when_it_is_another_than_before() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut recorder = Recorder::new(Some(file.path())).unwrap();
        for (agent, log_bytes) in [(1, 10), (2, 10), (1, 10), (1, 20), (2, 10), (1, 10)] {
            let agent = AgentId(agent);
            recorder.event(Event::Usage {
                agent,
                log_bytes,
                spilled_bytes: 0,
                checkpoint_bytes: 0,
                log_bytes_peak: 20,
            });
        }
        assert_eq!(read(file.path()).unwrap().len(), 4);
    }

    #[test]
    fn a_start_under_a_later_life_of_the_tracker_is_shown_as_its_number() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut recorder = Recorder::new(Some(file.path())).unwrap();
        let incarnation = Incarnation { epoch: 2, number: 5 };
        recorder.event(Event::FaultFired { id: 0, rank: Rank(1), incarnation });
        let text = std::fs::read_to_string(file.path()).unwrap();
        assert_eq!(text.matches("\"incarnation\":5").count(), 2, "{text}");
        let reported = Event::FaultFired { id: 0, rank: Rank(1), incarnation: Incarnation::nth(5) };
        assert_eq!(read(file.path()).unwrap()[0].what, What::Event(reported));
    }

    #[test]
    fn a_file_that_is_no_log_is_refused_with_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "hello\n").unwrap();
        assert!(read(&path).unwrap_err().contains("line 1 of"));
        assert!(read(&folder.path().join("none")).unwrap_err().contains("can't be opened"));
    }
}
