//! What bytes are compared by.

use twox_hash::XxHash3_128;

/// Digest under which checkpoints and models are compared (xxh3, 128 bits).
pub fn digest(bytes: &[u8]) -> u128 {
    XxHash3_128::oneshot(bytes)
}

/// The same of a model; one without bytes has none.
pub(crate) fn model_digest(model: &[u8]) -> u128 {
    if model.is_empty() {
        0
    } else {
        digest(model)
    }
}

/// What is sent of each part of a fetch with it.
pub(crate) fn part_digest(part: &[u8]) -> u64 {
    digest(part) as u64
}
