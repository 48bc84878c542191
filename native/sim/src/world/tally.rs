//! What is counted in a run.

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How the job ended.
    pub end: String,
    /// Virtual time, in milliseconds.
    pub millis: u64,
    /// Things that happened.
    pub steps: u64,
    /// Ranks that were lost.
    pub losses: u32,
    /// Ranks that were given to tasks that stood by.
    pub spares: u32,
    /// How often the world has shrunk or grown.
    pub resized: u32,
    /// Processes that were released before their end.
    pub released: u32,
    /// How often it has grown.
    pub grown: u32,
    /// Views that were made.
    pub views: u32,
    /// Checkpoints that were chosen by all, counted at each rank.
    pub chosen: u32,
    /// Lives of the tracker.
    pub lives: u32,
    /// Whether all ranks agreed on the hook.
    pub hooked: bool,
    /// Results that were computed.
    pub computed: u32,
    /// Those of them that went through shared memory.
    pub shared: u32,
    /// Results that were handed out from a log.
    pub replayed: u32,
}
