//! Rank 0's result, as its parts come.

use alloc::vec::Vec;

/// What of a result is here.
#[derive(Clone, Debug, Default)]
pub(super) struct IncomingResult {
    pub(super) bytes: Vec<u8>,
    pub(super) total: u64,
}

impl IncomingResult {
    pub(super) fn is_whole(&self) -> bool {
        self.len() == self.total
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }
}
