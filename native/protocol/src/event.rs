//! What happened, as typed facts: the demo's progress, the event log, later metrics and timelines are made of these.

use crate::error::Error;
use crate::ids::{AgentId, Attempt, Generation, Incarnation, Lineage, Phase, Rank, Task, Version};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// One fact. Durations are milliseconds, lengths bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An agent registered.
    AgentJoined {
        /** The agent, by the number that it drew at its start. */
        agent: AgentId,
        /** The framework's name of its executor. */
        executor: String,
        /** The name of its host, as set or as the system says. */
        host: String,
        /** The process number on that host. */
        pid: u32,
    },
    /// An agent is gone.
    AgentLost {
        /** The agent, by the number that it drew at its start. */
        agent: AgentId,
        /** The framework's name of the process. */
        executor: String,
        /** What was seen, in words. */
        reason: String,
    },
    /// A rank's task asked to take part and was given a slot.
    RankJoined {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** The framework's task, by its number: the rank's, in a job without spares. */
        index: Task,
        /** The framework's try of it: its stage attempt and its task attempt. */
        attempt: Attempt,
        /** The framework's name of the process that it runs in. */
        executor: String,
        /** Since this rank was lost; 0 for the first incarnation. */
        vacant_millis: u64,
    },
    /// A newcomer was turned away.
    RankRefused {
        /** The rank that it is about. */
        rank: Rank,
        /** The framework's try: its stage attempt and its task attempt. */
        attempt: Attempt,
        /** The cause in words. */
        reason: String,
    },
    /// A rank was declared lost.
    RankLost {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** The framework's name of the process. */
        executor: String,
        /** What was seen, in words. */
        reason: String,
        /** Since the last sign of life. */
        silent_millis: u64,
        /** How many deaths of this rank so far. */
        deaths: u32,
    },
    /// In a job with spares: a task stands by, because no rank is open for it.
    SpareStandsBy {
        /** The framework's task, by its number. */
        index: Task,
        /** The framework's try: its stage attempt and its task attempt. */
        attempt: Attempt,
        /** The framework's name of the process that it runs in. */
        executor: String,
        /** So many tasks stand by now. */
        spares: u32,
    },
    /// In a job with spares: a task that stood by was given a rank that is open.
    SpareTook {
        /** The rank that it is about. */
        rank: Rank,
        /** The framework's task, by its number. */
        index: Task,
        /** The framework's try: its stage attempt and its task attempt. */
        attempt: Attempt,
        /** The framework's name of the process that it runs in. */
        executor: String,
        /** Since this rank was lost. */
        vacant_millis: u64,
        /** So many tasks stand by still. */
        spares: u32,
        /** The cause in words. */
        reason: String,
    },
    /// A new view went out.
    ViewMade {
        /** The number of the view. */
        generation: Generation,
        /** The ranks that are alive. */
        alive: Vec<Rank>,
        /** The ranks that are missing. */
        vacant: Vec<Rank>,
        /** The cause in words. */
        reason: String,
    },
    /// A plan went out.
    PlanMade {
        /** The view it belongs to. */
        generation: Generation,
        /** The lineage that is trained. */
        lineage: Lineage,
        /** Where newcomers start. */
        version: Version,
        /** Round of that version. */
        round: u32,
        /** The ranks that start there. */
        newcomers: Vec<Rank>,
        /** Why that version was chosen, in words. */
        reason: String,
    },
    /// A newcomer has the checkpoint.
    Restored {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** The version that it is about. */
        version: Version,
        /** The first round that is trained from there. */
        round: u32,
        /** Length of the model in bytes. */
        bytes: u64,
        /** Where the bytes came from, in words: this process, or a host. */
        source: String,
        /** Duration in milliseconds. */
        millis: u64,
    },
    /// A newcomer has consumed all that was replayed to it and works with the others again.
    CaughtUp {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** Bytes replayed to it. */
        replayed_in: u64,
        /** Bytes that it produced again, compared and dropped. */
        regenerated: u64,
        /** Rounds computed twice; of a rank that has versions only, versions. */
        rounds_again: u32,
        /** Since its plan. */
        millis: u64,
    },
    /// A rank entered a version. Of many in quick succession the newest is told of
    /// ([`crate::host::Host::reports_at_once`]).
    VersionEntered {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** The lineage that the version belongs to. */
        lineage: Lineage,
        /** The version that it is about. */
        version: Version,
        /** The round that comes next. */
        round: u32,
    },
    /// How a rank spent a stretch of time. Reported only in jobs that ask for it
    /// (`rejoin run --events`); made by [`crate::profile::Profile`]. What is neither computing,
    /// waiting nor replaying went into moving and reducing bytes.
    Spent {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** How the time was spent, in microseconds. */
        stretch: crate::profile::Stretch,
        /** How long before this was reported the stretch ended, in microseconds. */
        ago_micros: u64,
        /** Where the rank was then: boot, or its version. */
        phase: Phase,
        /** The next collective in that phase. */
        seqno: u32,
    },
    /// A link between two living ranks broke and is made anew.
    LinkBroken {
        /** The rank at the end that reported it. */
        rank: Rank,
        /** The rank at the other end. */
        peer: Rank,
        /** What was seen, in words. */
        reason: String,
    },
    /// Before any rank starts: whether the ranks' training library's collectives are taken over, at
    /// all ranks or at none.
    HookAgreed {
        /** Whether they are taken over. */
        hooked: bool,
        /** Why, in words. */
        reason: String,
    },
    /// Ranks of one host go over links from now on, because one can't open the memory that another one shares.
    SharingEnded {
        /** The rank that could not do it. */
        rank: Rank,
        /** The rank whose memory it is. */
        peer: Rank,
        /** What was seen, in words. */
        reason: String,
    },
    /// A stranger or an outdated incarnation was turned away at a listener.
    StrangerRefused {
        /** Address and port of the other end. */
        address: String,
        /** The cause in words. */
        reason: String,
    },
    /// A checkpoint is in the durable store, whole.
    DurableWritten {
        /** The rank whose process wrote it. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** Which version it begins. */
        version: Version,
        /** Bytes of the model. */
        bytes: u64,
        /** Duration in milliseconds. */
        millis: u64,
    },
    /// A checkpoint could not be written to the durable store. Training goes on; what was there before is there still.
    DurableFailed {
        /** The rank that could not do it. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** Which version it begins. */
        version: Version,
        /** What was seen, and what to do. */
        reason: String,
    },
    /// All start again from an older version, in a new lineage.
    RolledBack {
        /** The lineage that begins with it. */
        lineage: Lineage,
        /** The version that all ranks start from. */
        version: Version,
        /** The cause in words. */
        reason: String,
    },
    /// A fault rule fired.
    FaultFired {
        /** The number of the rule, as its maker has given it. */
        id: u32,
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
    },
    /// A rank reported its end.
    RankFinished {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** Its model's digest; 32 hexadecimal digits in texts. */
        #[serde(with = "hexadecimal")]
        digest: u128,
    },
    /// Memory and disk in use at an agent.
    Usage {
        /** The agent, by the number that it drew at its start. */
        agent: AgentId,
        /** Logs in memory, with the memory of dropped ones that waits to be used again. */
        log_bytes: u64,
        /** Logs on disk. */
        spilled_bytes: u64,
        /** Checkpoints in memory, with the memory of a dropped one that waits to be used again. */
        checkpoint_bytes: u64,
        /** The most that logs in memory ever were, counted in the same way. */
        log_bytes_peak: u64,
    },
    /// The program around an agent stands still, and with it the ranks there: a collection of garbage, or a machine
    /// with too much to do. The agent itself answers.
    AgentSlow {
        /** The agent, by the number that it drew at its start. */
        agent: AgentId,
        /** The framework's name of its executor. */
        executor: String,
        /** For how long nothing of it ran so far. */
        silent_millis: u64,
    },
    /// The program around an agent runs again.
    AgentRuns {
        /** The agent, by the number that it drew at its start. */
        agent: AgentId,
        /** The framework's name of its executor. */
        executor: String,
        /** For how long nothing of it had run. */
        silent_millis: u64,
    },
    /// The end was reached by all.
    JobEnded {
        /** The model's digest; 32 hexadecimal digits in texts. */
        #[serde(with = "hexadecimal")]
        digest: u128,
        /** Deaths of all ranks together. */
        deaths: u32,
    },
    /// The job is over with an error.
    JobFailed {
        /** The error, with its code. */
        error: Error,
    },
    /// The world has shrunk or grown: the ranks that stay begin again as these, from the newest version that is held.
    Resized {
        /** For each rank of the world before the one that it is now; none for those that were missing or leave. */
        ranks: Vec<Option<Rank>>,
        /** How many ranks there are now: those, and behind them the ones that come. */
        world: u32,
        /** The cause in words. */
        reason: String,
    },
    /// A task that the framework is about to end, and whose rank the others go on without, may end:
    /// nothing is lost by it.
    TaskReleased {
        /** The framework's task, by its number. */
        index: Task,
        /** The try that may end, and those before it; a later one isn't meant. */
        attempt: Attempt,
        /** The framework's name of the process that it runs in; empty if it takes no part. */
        executor: String,
        /** The cause in words. */
        reason: String,
    },
    /// A rank's program has a text for whoever started the job.
    Printed {
        /** The rank that it is about. */
        rank: Rank,
        /** Which start of the rank, counted from 0. */
        incarnation: Incarnation,
        /** One line or several, or the beginning of a long one. */
        text: String,
    },
}

/// Digests as a number on the wire, and as hexadecimal digits in texts: readers of JSON take numbers for 64-bit floats.
mod hexadecimal {
    use alloc::format;
    use alloc::string::String;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(digest: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&format!("{digest:032x}"))
        } else {
            digest.serialize(serializer)
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)
        } else {
            u128::deserialize(deserializer)
        }
    }
}
