//! What all ranks of a job have agreed on, or one of them has found not to hold.

/// For the life of the job.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    /// What the ranks assume; of the first that came.
    pub(super) fingerprint: Option<alloc::string::String>,
    /// Whether training libraries' collectives are taken over, once it was agreed.
    pub(super) hooked: Option<bool>,
    /// No rank has found so far that ranks of one host can't share memory.
    pub(super) share_memory: bool,
}
