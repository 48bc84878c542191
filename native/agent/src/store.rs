//! The checkpoints that this process holds, whichever rank took them. Outlives the tasks.

use crate::digest::model_digest;
use crate::durable::CheckpointFile;
use crate::reservation;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Checkpoint, CheckpointName, Lineage, Rank, Version};
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread::JoinHandle;
use twox_hash::xxhash3_128::Hasher;

/// Makes a lazy checkpoint's bytes: an immutable snapshot, which gives the same bytes whenever it
/// is asked. It is asked on a thread of the store's, at most once at a time there, and dropped when
/// it can't be needed any more.
pub type Supplier = dyn Fn() -> Result<Vec<u8>, Error> + Send + Sync;

/// A model, or what makes it.
#[derive(Clone)]
pub enum Model {
    /// A model that is there as bytes.
    Made(Bytes),
    /// It is made when it is needed; its checkpoint is [`crate::lazy_checkpoint`]'s.
    Lazy(Arc<Supplier>),
}

impl From<Bytes> for Model {
    fn from(bytes: Bytes) -> Model {
        Model::Made(bytes)
    }
}

/// A checkpoint, and its bytes or what makes them: also when the store has forgotten it.
#[derive(Clone)]
pub(crate) struct Kept {
    checkpoint: Checkpoint,
    held: Model,
}

/// Bytes that are copied and digested at a time: the second look finds them in the cache.
const BLOCK_BYTES: usize = 64 << 10;

/// Checkpoint bytes by name. Ranks of one process share one copy.
#[derive(Default)]
pub(crate) struct CheckpointStore {
    held: Mutex<BTreeMap<CheckpointName, (Checkpoint, Model)>>,
    /// What can be read from a durable store.
    durable: Mutex<BTreeMap<CheckpointName, (Checkpoint, CheckpointFile)>>,
    /// One supplier is asked at a time.
    making: Mutex<()>,
    /// The memory of a checkpoint that was dropped, for the next one: memory that was touched
    /// before is written several times as fast. At most one, and no caller waits for it.
    spare: Mutex<BytesMut>,
    releaser: Mutex<Option<Releaser>>,
}

/// The thread on which suppliers are dropped. That may take a lock of the language that they come
/// from, Python's or that of a JVM that collects garbage, and whoever holds the store or sends
/// heartbeats must not wait for one.
struct Releaser {
    suppliers: Sender<Arc<Supplier>>,
    thread: JoinHandle<()>,
}

impl Kept {
    pub(crate) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }
}

impl CheckpointStore {
    /// A copy of a model, and its digest, made in one pass over it.
    ///
    /// # Errors
    /// `OutOfSpace` when there is no memory for it.
    pub(crate) fn copy(&self, model: &[u8]) -> Result<(Bytes, u128), Error> {
        let mut copy = std::mem::take(&mut *self.spare.lock());
        copy.clear();
        if copy.capacity() < model.len() || copy.capacity() / 2 > model.len() {
            drop(copy);
            reservation::check(|| "the copy of a checkpoint".into(), model.len())?;
            copy = BytesMut::with_capacity(model.len());
        }
        let mut digest = Hasher::new();
        for block in model.chunks(BLOCK_BYTES) {
            copy.extend_from_slice(block);
            digest.write(block);
        }
        Ok((copy.freeze(), digest.finish_128()))
    }

    /// Keeps these bytes, or what makes them. Bytes that are held already are not kept twice.
    ///
    /// # Errors
    /// `Mismatch` when another checkpoint is held under this name; what was held stays.
    pub(crate) fn put(&self, checkpoint: Checkpoint, model: impl Into<Model>) -> Result<(), Error> {
        let mut model = Some(model.into());
        let put = self.put_in(&mut self.held.lock(), checkpoint, &mut model);
        self.release(model);
        put
    }

    /// What isn't kept, or was before, is in `model` then.
    fn put_in(
        &self,
        held: &mut BTreeMap<CheckpointName, (Checkpoint, Model)>,
        checkpoint: Checkpoint,
        model: &mut Option<Model>,
    ) -> Result<(), Error> {
        match held.get(&checkpoint.name()) {
            Some((there, _)) if !there.agrees(&checkpoint) => Err(Error::new(
                Code::Mismatch,
                format!(
                    "version {} (round {}) was expected to be the same on every rank, but two ranks of this process \
                     took different checkpoints ({} with digest {:032x}, {} with digest {:032x}); training is not \
                     deterministic: check the order of rows, seeds and the program's own functions",
                    checkpoint.version,
                    checkpoint.round,
                    there.size(),
                    there.digest,
                    checkpoint.size(),
                    checkpoint.digest
                ),
            )),
            Some((_, there)) if matches!((there, &model), (Model::Made(_), _) | (_, Some(Model::Lazy(_)))) => Ok(()),
            _ => {
                let new = model.take().map(|model| (checkpoint, model));
                let before = new.and_then(|new| held.insert(checkpoint.name(), new));
                *model = before.map(|(_, before)| before);
                Ok(())
            }
        }
    }

    /// Drops these models; those that aren't made yet on a thread of their own.
    fn release(&self, models: impl IntoIterator<Item = Model>) {
        let lazy = models.into_iter().filter_map(|model| match model {
            Model::Made(_) => None,
            Model::Lazy(supplier) => Some(supplier),
        });
        for supplier in lazy {
            let mut releaser = self.releaser.lock();
            if releaser.is_none() {
                match Releaser::start() {
                    Ok(started) => *releaser = Some(started),
                    // It is dropped here, late rather than never.
                    Err(cause) => log::warn!("no thread can be started that drops a checkpoint's supplier: {cause}"),
                }
            }
            if let Some(releaser) = &*releaser {
                let _ = releaser.suppliers.send(supplier);
            }
        }
    }

    /// Waits until all suppliers are dropped that are needed no more.
    pub(crate) fn await_releases(&self) {
        let releaser = self.releaser.lock().take();
        if let Some(Releaser { suppliers, thread }) = releaser {
            drop(suppliers);
            // A supplier may be what keeps the agent that ends with it.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    /// The bytes of this checkpoint, if these very ones are held and made.
    pub(crate) fn find(&self, checkpoint: &Checkpoint) -> Option<Bytes> {
        self.find_made(checkpoint).map(|(_, bytes)| bytes)
    }

    /// The same, with what they are.
    pub(crate) fn find_made(&self, checkpoint: &Checkpoint) -> Option<(Checkpoint, Bytes)> {
        let held = self.held.lock();
        match held.get(&checkpoint.name())? {
            (there, Model::Made(bytes)) if there.agrees(checkpoint) => Some((*there, bytes.clone())),
            _ => None,
        }
    }

    /// Whether [`CheckpointStore::make`] may give it.
    pub(crate) fn can_make(&self, checkpoint: &Checkpoint) -> bool {
        let agrees = |there: &Checkpoint| there.agrees(checkpoint);
        self.held.lock().get(&checkpoint.name()).is_some_and(|(there, _)| agrees(there))
            || self.durable.lock().get(&checkpoint.name()).is_some_and(|(there, _)| agrees(there))
    }

    /// The bytes of this checkpoint: held, made now, or read from a durable store. Takes its time.
    ///
    /// # Errors
    /// The supplier's or the file's; `TrainingFailed` when the supplier panics; `BadState` when it isn't here.
    pub(crate) fn make(&self, checkpoint: &Checkpoint) -> Result<(Checkpoint, Bytes), Error> {
        if let Some(kept) = self.kept(checkpoint) {
            return self.make_as(kept, checkpoint);
        }
        let durable = self.durable.lock().get(&checkpoint.name()).cloned();
        match durable.filter(|(there, _)| there.agrees(checkpoint)) {
            Some((there, place)) => Ok((there, place.read(&there)?)),
            None => Err(Error::new(Code::BadState, format!("version {} is not held here", checkpoint.version))),
        }
    }

    /// A checkpoint that is held, to be made whenever it suits. One without bytes is held wherever its name is known.
    pub(crate) fn kept(&self, checkpoint: &Checkpoint) -> Option<Kept> {
        if checkpoint.length == 0 {
            return Some(Kept { checkpoint: *checkpoint, held: Model::Made(Bytes::new()) });
        }
        let held = self.held.lock();
        let (there, held) = held.get(&checkpoint.name()).filter(|(there, _)| there.agrees(checkpoint))?;
        Some(Kept { checkpoint: *there, held: held.clone() })
    }

    /// Its bytes, and what they are. Takes its time.
    ///
    /// # Errors
    /// The supplier's; `TrainingFailed` when it panics.
    pub(crate) fn make_kept(&self, kept: Kept) -> Result<(Checkpoint, Bytes), Error> {
        let wanted = kept.checkpoint;
        self.make_as(kept, &wanted)
    }

    /// The same; `Mismatch` when it isn't what is wanted, and then what makes it stays what it was.
    fn make_as(&self, kept: Kept, wanted: &Checkpoint) -> Result<(Checkpoint, Bytes), Error> {
        let _one_at_a_time = self.making.lock();
        // Another may have asked before.
        let Kept { checkpoint, held } = self.kept(&kept.checkpoint).unwrap_or(kept);
        let supplier = match held {
            Model::Made(bytes) => return Ok((checkpoint, bytes)),
            Model::Lazy(supplier) => supplier,
        };
        let made = catch_unwind(AssertUnwindSafe(|| supplier()))
            .unwrap_or_else(|_| Err(Error::new(Code::TrainingFailed, "the supplier of a lazy checkpoint panicked")));
        let bytes = Bytes::from(made?);
        let made = Checkpoint { length: bytes.len() as u64, digest: model_digest(&bytes), ..checkpoint };
        if !made.agrees(wanted) {
            let text = format!("version {} was made with another digest than asked for", made.version);
            return Err(Error::new(Code::Mismatch, text));
        }
        // It may have been forgotten meanwhile.
        if let Some(entry) = self.held.lock().get_mut(&made.name()) {
            *entry = (made, Model::Made(bytes.clone()));
        }
        Ok((made, bytes))
    }

    /// A checkpoint can be read from there.
    pub(crate) fn is_durable(&self, checkpoint: Checkpoint, place: CheckpointFile) {
        self.durable.lock().insert(checkpoint.name(), (checkpoint, place));
    }

    /// The durable store has nothing any more that is older than this.
    pub(crate) fn tidied(&self, lineage: Lineage, version: Version) {
        self.durable.lock().retain(|_, (there, _)| (there.lineage, there.version) >= (lineage, version));
    }

    /// Drops a version's checkpoints, whichever ranks own them. Readers that have bytes keep them; durable ones stay.
    pub(crate) fn forget(&self, lineage: Lineage, version: Version) {
        let mut dropped = Vec::new();
        let mut held = self.held.lock();
        // Many versions may be held for a moment, of which not all are looked at.
        let of_version = (lineage, version, None)..=(lineage, version, Some(Rank(u32::MAX)));
        let names: Vec<CheckpointName> = held.range(of_version).map(|(name, _)| *name).collect();
        for name in names {
            dropped.extend(held.remove(&name));
        }
        drop(held);
        let (mut buffers, mut suppliers) = (Vec::new(), Vec::new());
        for (_, model) in dropped {
            match model {
                // What is still read is freed by its last reader.
                Model::Made(bytes) => buffers.extend(bytes.try_into_mut()),
                Model::Lazy(_) => suppliers.push(model),
            }
        }
        self.release(suppliers);
        if let Some(largest) = buffers.into_iter().max_by_key(BytesMut::capacity) {
            *self.spare.lock() = largest;
        }
    }

    /// Bytes of memory in all: what is held, and what waits to be used again.
    pub(crate) fn bytes(&self) -> u64 {
        let spare = self.spare.lock().capacity() as u64;
        let held = self.held.lock();
        let made = held.values().filter_map(|(_, held)| match held {
            Model::Made(bytes) => Some(bytes.len() as u64),
            Model::Lazy(_) => None,
        });
        made.sum::<u64>() + spare
    }

    /// Drops everything.
    pub(crate) fn clear(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        self.release(held.into_values().map(|(_, model)| model));
        self.durable.lock().clear();
        *self.spare.lock() = BytesMut::new();
    }
}

impl Releaser {
    fn start() -> std::io::Result<Releaser> {
        let (suppliers, dropped) = channel::<Arc<Supplier>>();
        let thread = std::thread::Builder::new().name("rejoin-release".into());
        // The program's own code: a panic of it ends the thread, and what comes after it is dropped where it is sent.
        let thread = thread.spawn(move || dropped.into_iter().for_each(drop))?;
        Ok(Releaser { suppliers, thread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::digest;
    use std::time::Duration;

    /// Dropping one waits until it is let go.
    struct Slow(Arc<Mutex<()>>, Sender<()>);

    impl Drop for Slow {
        fn drop(&mut self) {
            drop(self.0.lock());
            let _ = self.1.send(());
        }
    }

    #[test]
    fn nobody_waits_for_a_supplier_to_be_dropped_but_who_ends_the_agent() {
        let store = Arc::new(CheckpointStore::default());
        let lock = Arc::new(Mutex::new(()));
        let (sender, dropped) = channel();
        let lazy = |version| {
            let slow = Slow(lock.clone(), sender.clone());
            let supplier = move || {
                let _ = &slow;
                Ok(vec![version as u8])
            };
            let name = crate::agent::lazy_checkpoint(Lineage(0), Version(version), version);
            store.put(name, Model::Lazy(Arc::new(supplier))).unwrap();
        };
        let held = lock.lock();
        lazy(1);
        lazy(1);
        lazy(2);
        store.put(checkpoint(b"model"), Bytes::from_static(b"model")).unwrap();
        store.forget(Lineage(0), Version(1));
        assert!(store.find(&checkpoint(b"model")).is_some());
        store.clear();
        assert!(dropped.try_recv().is_err(), "the lock is held");
        drop(held);
        store.await_releases();
        assert_eq!(dropped.try_iter().count(), 3);
        lazy(3);
        store.forget(Lineage(0), Version(3));
        assert!(dropped.recv_timeout(Duration::from_secs(60)).is_ok(), "also afterwards");
    }

    fn checkpoint(bytes: &[u8]) -> Checkpoint {
        Checkpoint {
            lineage: Lineage(0),
            version: Version(3),
            owner: None,
            has_own: false,
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
    fn a_supplier_that_gives_other_bytes_than_wanted_is_a_mismatch_as_often_as_it_is_asked() {
        let store = CheckpointStore::default();
        let wanted = checkpoint(b"what the others have");
        let lazy = crate::agent::lazy_checkpoint(wanted.lineage, wanted.version, wanted.round);
        store.put(lazy, Model::Lazy(Arc::new(|| Ok(b"something else".to_vec())))).unwrap();
        for _ in 0..2 {
            assert_eq!(store.make(&wanted).unwrap_err().code, Code::Mismatch);
        }
    }

    #[test]
    fn a_copy_has_the_digest_of_its_bytes_also_in_memory_that_was_used_before() {
        let store = CheckpointStore::default();
        for length in [0, 1, BLOCK_BYTES - 1, 3 * BLOCK_BYTES + 7, 2 * BLOCK_BYTES] {
            let model: Vec<u8> = (0..length).map(|place| (place * 31 + length) as u8).collect();
            let (copy, its_digest) = store.copy(&model).unwrap();
            assert_eq!((&copy[..], its_digest), (&model[..], digest(&model)));
            store.put(checkpoint(&model), copy).unwrap();
            store.forget(Lineage(0), Version(3));
        }
    }

    #[test]
    fn the_memory_of_a_forgotten_checkpoint_is_used_again_unless_somebody_reads_it() {
        let store = CheckpointStore::default();
        let model = vec![7; 100_000];
        let (copy, _) = store.copy(&model).unwrap();
        let place = copy.as_ptr();
        store.put(checkpoint(&model), copy).unwrap();
        store.forget(Lineage(0), Version(3));
        let (again, _) = store.copy(&vec![8; 100_000]).unwrap();
        assert_eq!(again.as_ptr(), place);
        store.put(checkpoint(&again), again.clone()).unwrap();
        store.forget(Lineage(0), Version(3));
        let (elsewhere, _) = store.copy(&model).unwrap();
        assert_ne!(elsewhere.as_ptr(), place);
        assert_eq!(&again[..], &vec![8; 100_000][..], "a reader's bytes stay");
    }

    #[test]
    fn memory_that_waits_to_be_used_again_is_counted_until_it_is_given_up() {
        let store = CheckpointStore::default();
        let model = vec![7; 100_000];
        let (copy, _) = store.copy(&model).unwrap();
        store.put(checkpoint(&model), copy).unwrap();
        assert_eq!(store.bytes(), 100_000);
        store.forget(Lineage(0), Version(3));
        assert!(store.bytes() >= 100_000, "{} bytes wait", store.bytes());
        let (copy, _) = store.copy(&model).unwrap();
        store.put(checkpoint(&model), copy).unwrap();
        assert_eq!(store.bytes(), 100_000, "it is used again");
        store.forget(Lineage(0), Version(3));
        store.clear();
        assert_eq!(store.bytes(), 0);
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
