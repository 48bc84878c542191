//! The checkpoints that this process holds, whoever took them. Outlives the tasks.

use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Checkpoint, Lineage, Version};
use std::collections::BTreeMap;

/// Digest under which checkpoints and models are compared (xxh3, 128 bits).
pub fn digest(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}

/// Checkpoint bytes by (lineage, version). Ranks of one process share one copy.
#[derive(Default)]
pub struct CheckpointStore {
    held: Mutex<BTreeMap<(Lineage, Version), (Checkpoint, Bytes)>>,
}

impl CheckpointStore {
    /// Keeps these bytes; bytes that are held already are not kept twice.
    ///
    /// # Errors
    /// `Mismatch` when other bytes are held under this name; what was held stays.
    pub fn put(&self, checkpoint: Checkpoint, bytes: Bytes) -> Result<(), Error> {
        let mut held = self.held.lock();
        let name = (checkpoint.lineage, checkpoint.version);
        match held.get(&name) {
            Some((there, _)) if there.digest != checkpoint.digest => Err(Error::new(
                Code::Mismatch,
                format!(
                    "version {} (round {}) was expected to be the same on every rank, but two ranks of this process took \
                     different checkpoints ({} bytes with digest {:032x}, {} bytes with digest {:032x}); training is not \
                     deterministic: check row order, seeds and the custom objective",
                    checkpoint.version, checkpoint.round, there.length, there.digest, checkpoint.length, checkpoint.digest
                ),
            )),
            Some(_) => Ok(()),
            None => {
                held.insert(name, (checkpoint, bytes));
                Ok(())
            }
        }
    }

    /// The bytes of this checkpoint, if these very ones are held.
    pub fn find(&self, checkpoint: &Checkpoint) -> Option<Bytes> {
        let held = self.held.lock();
        let (there, bytes) = held.get(&(checkpoint.lineage, checkpoint.version))?;
        (there.digest == checkpoint.digest).then(|| bytes.clone())
    }

    /// Drops a checkpoint. Readers that have its bytes keep them.
    pub fn forget(&self, lineage: Lineage, version: Version) {
        self.held.lock().remove(&(lineage, version));
    }

    /// Bytes held in all.
    pub fn bytes(&self) -> u64 {
        self.held.lock().values().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Drops everything.
    pub fn clear(&self) {
        self.held.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(bytes: &[u8]) -> Checkpoint {
        Checkpoint {
            lineage: Lineage(0),
            version: Version(3),
            round: 3,
            length: bytes.len() as u64,
            digest: digest(bytes),
            complete: false,
        }
    }

    #[test]
    fn two_ranks_of_one_process_share_one_copy() {
        let store = CheckpointStore::default();
        store.put(checkpoint(b"model"), Bytes::from_static(b"model")).unwrap();
        store.put(checkpoint(b"model"), Bytes::from_static(b"model")).unwrap();
        assert_eq!(store.bytes(), 5);
    }

    #[test]
    fn other_bytes_under_one_name_are_a_mismatch_and_change_nothing() {
        let store = CheckpointStore::default();
        store.put(checkpoint(b"model"), Bytes::from_static(b"model")).unwrap();
        let error = store.put(checkpoint(b"other"), Bytes::from_static(b"other")).unwrap_err();
        assert_eq!(error.code, Code::Mismatch);
        assert_eq!(store.find(&checkpoint(b"model")).unwrap().as_ref(), b"model");
        assert!(store.find(&checkpoint(b"other")).is_none());
    }

    #[test]
    fn a_forgotten_checkpoint_is_gone() {
        let store = CheckpointStore::default();
        store.put(checkpoint(b"model"), Bytes::from_static(b"model")).unwrap();
        store.forget(Lineage(0), Version(3));
        assert!(store.find(&checkpoint(b"model")).is_none());
        assert_eq!(store.bytes(), 0);
    }
}
