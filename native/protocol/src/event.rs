//! What happened, as typed facts: the demo's story, the log, later metrics and timelines are made of these.

use crate::error::Error;
use crate::ids::{AgentId, Attempt, Generation, Incarnation, Lineage, Phase, Rank, Version};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// One fact. Durations are milliseconds, lengths bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// An agent registered.
    AgentJoined {
        /** Who. */
        agent: AgentId,
        /** The framework's name of its executor. */
        executor: String,
        /** Its host. */
        host: String,
        /** Its process. */
        pid: u32,
    },
    /// An agent is gone.
    AgentLost {
        /** Who. */
        agent: AgentId,
        /** Its executor. */
        executor: String,
        /** What was seen. */
        reason: String,
    },
    /// A rank's task asked to take part and was given a seat.
    RankJoined {
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** The framework's try. */
        attempt: Attempt,
        /** Where. */
        executor: String,
        /** Since this rank was lost; 0 for the first incarnation. */
        vacant_millis: u64,
    },
    /// A newcomer was turned away.
    RankRefused {
        /** Who. */
        rank: Rank,
        /** The framework's try. */
        attempt: Attempt,
        /** Why. */
        reason: String,
    },
    /// A rank was declared lost.
    RankLost {
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** Its executor. */
        executor: String,
        /** What was seen. */
        reason: String,
        /** Since the last sign of life. */
        silent_millis: u64,
        /** How many deaths of this rank so far. */
        deaths: u32,
    },
    /// A new view went out.
    ViewMade {
        /** Its number. */
        generation: Generation,
        /** Alive now. */
        alive: Vec<Rank>,
        /** Not there. */
        vacant: Vec<Rank>,
        /** Why. */
        reason: String,
    },
    /// A plan went out.
    PlanMade {
        /** The view it belongs to. */
        generation: Generation,
        /** The lineage. */
        lineage: Lineage,
        /** Where newcomers start. */
        version: Version,
        /** Round of that version. */
        round: u32,
        /** Who starts there. */
        newcomers: Vec<Rank>,
        /** Why there. */
        reason: String,
    },
    /// A newcomer has the checkpoint.
    Restored {
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** Version. */
        version: Version,
        /** Round. */
        round: u32,
        /** Bytes. */
        bytes: u64,
        /** Where from, in words. */
        source: String,
        /** How long it took. */
        millis: u64,
    },
    /// A newcomer has consumed all that was replayed to it and works with the others again.
    CaughtUp {
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** Bytes replayed to it. */
        replayed_in: u64,
        /** Bytes that it produced again, compared and dropped. */
        regenerated: u64,
        /** Rounds computed twice. */
        rounds_again: u32,
        /** Since its plan. */
        millis: u64,
    },
    /// A rank entered a version.
    VersionEntered {
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** Lineage. */
        lineage: Lineage,
        /** Version. */
        version: Version,
        /** The round that comes next. */
        round: u32,
    },
    /// How a rank spent a stretch of time. Told only in jobs that ask for it (`rejoin run --events`); made by
    /// [`crate::diary::Diary`]. What is neither computing, waiting nor replaying went into moving and reducing bytes.
    Spent {
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** The stretch. */
        stretch: crate::diary::Stretch,
        /** How long before this was told the stretch ended, in microseconds. */
        ago_micros: u64,
        /** Where the rank was then: boot, or its version. */
        phase: Phase,
        /** The next collective in that phase. */
        seqno: u32,
    },
    /// A link between two living ranks broke and is made anew.
    LinkBroken {
        /** One end. */
        rank: Rank,
        /** The other. */
        peer: Rank,
        /** What was seen. */
        reason: String,
    },
    /// Before anybody starts: whether the ranks' training library's collectives are taken over, at all ranks or at none.
    HookAgreed {
        /** They are. */
        hooked: bool,
        /** Why, in words. */
        reason: String,
    },
    /// Ranks of one host go over links from now on, because one can't open the memory that another one shares.
    SharingEnded {
        /** Who tried. */
        rank: Rank,
        /** Whose memory. */
        peer: Rank,
        /** What was seen. */
        reason: String,
    },
    /// A stranger or an outdated incarnation was turned away at a listener.
    StrangerRefused {
        /** Address. */
        address: String,
        /** Why. */
        reason: String,
    },
    /// A checkpoint is in the durable store, whole.
    DurableWritten {
        /** Who wrote it. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** Which version it begins. */
        version: Version,
        /** Bytes of the model. */
        bytes: u64,
        /** How long it took. */
        millis: u64,
    },
    /// A checkpoint could not be written to the durable store. Training goes on; what was there before is there still.
    DurableFailed {
        /** Who tried. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** Which version it begins. */
        version: Version,
        /** What was seen, and what to do. */
        reason: String,
    },
    /// Everybody starts again from an older version, in a new lineage.
    RolledBack {
        /** The new lineage. */
        lineage: Lineage,
        /** From where. */
        version: Version,
        /** Why. */
        reason: String,
    },
    /// A fault rule struck.
    FaultFired {
        /** The rule. */
        id: u32,
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
    },
    /// A rank reported its end.
    RankFinished {
        /** Who. */
        rank: Rank,
        /** Its number. */
        incarnation: Incarnation,
        /** Its model's digest; 32 hexadecimal digits in texts. */
        #[serde(with = "hexadecimal")]
        digest: u128,
    },
    /// Memory and disk in use at an agent.
    Usage {
        /** Who. */
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
    /// The end was reached by everybody.
    JobEnded {
        /** The model's digest; 32 hexadecimal digits in texts. */
        #[serde(with = "hexadecimal")]
        digest: u128,
        /** All deaths. */
        deaths: u32,
    },
    /// The job is over with an error.
    JobFailed {
        /** Which. */
        error: Error,
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
