//! One durable checkpoint as a file: written whole or not at all, and verified when it is read.
//!
//! Layout, little endian: `REJOINCK`, format u32 (2), owner u32 (all bits set: none), job 16 bytes,
//! lineage u32, version u32, round u32, flags u32 (bit 0: complete, bit 1: each rank has a model of
//! its own beside it, from bit 2 on: the number of ranks that took it), length u64, digest u128 of
//! the model (xxh3-128; 0 for a model without bytes), checksum u64 of all that stands before it
//! (xxh3-64); then the model. Format 1 doesn't have the number of ranks.

use super::folder::Folder;
use crate::digest::model_digest;
use crate::reservation;
use bytes::Bytes;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Checkpoint, Lineage, Rank, Version};
use rejoin_transport::JobId;
use std::collections::BTreeMap;
use twox_hash::XxHash3_64;

/// Bytes before the model.
pub const HEADER_BYTES: usize = 80;
const MAGIC: &[u8; 8] = b"REJOINCK";
const FORMAT: u32 = 2;
/// The one before it, which knew no more than two flags.
const WITHOUT_WORLD: u32 = 1;
const NOBODY: u32 = u32::MAX;
/// How the names of finished files end; others are not looked at.
const ENDING: &str = ".checkpoint";

/// One that is in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub checkpoint: Checkpoint,
    /// The number of ranks that took it; 0 where its header doesn't say.
    pub world: u32,
    /// Its file.
    pub name: String,
}

/// The header of a checkpoint of this job, which so many ranks took.
pub fn encode(job: JobId, checkpoint: &Checkpoint, world: u32) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    let flags = u32::from(checkpoint.complete) | u32::from(checkpoint.has_own) << 1 | world << 2;
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    out[12..16].copy_from_slice(&checkpoint.owner.map_or(NOBODY, |rank| rank.0).to_le_bytes());
    out[16..32].copy_from_slice(&job.0);
    for (at, number) in [checkpoint.lineage.0, checkpoint.version.0, checkpoint.round, flags].into_iter().enumerate() {
        out[32 + 4 * at..36 + 4 * at].copy_from_slice(&number.to_le_bytes());
    }
    out[48..56].copy_from_slice(&checkpoint.length.to_le_bytes());
    out[56..72].copy_from_slice(&checkpoint.digest.to_le_bytes());
    let checksum = XxHash3_64::oneshot(&out[..72]);
    out[72..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Reads a header.
///
/// # Errors
/// `Incompatible` for anything that [`encode`] doesn't give.
pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(JobId, Checkpoint, u32), Error> {
    let bad = |what: &str| Err(Error::new(Code::Incompatible, format!("not a durable checkpoint: {what}")));
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
    if &bytes[..8] != MAGIC {
        return bad("its first bytes are others");
    }
    let (format, flags) = (number(8), number(44));
    if ![WITHOUT_WORLD, FORMAT].contains(&format) {
        return bad(&format!("it has format {format}, expected {WITHOUT_WORLD} or {FORMAT}"));
    }
    if XxHash3_64::oneshot(&bytes[..72]) != long(72) {
        return bad("the header's checksum doesn't fit");
    }
    if format == WITHOUT_WORLD && flags > 3 {
        return bad(&format!("it has unknown flags {flags:#x}"));
    }
    let mut job = [0; 16];
    job.copy_from_slice(&bytes[16..32]);
    let checkpoint = Checkpoint {
        lineage: Lineage(number(32)),
        version: Version(number(36)),
        owner: (number(12) != NOBODY).then(|| Rank(number(12))),
        has_own: flags & 2 != 0,
        round: number(40),
        length: long(48),
        digest: u128::from(long(56)) | u128::from(long(64)) << 64,
        complete: flags & 1 != 0,
    };
    if !checkpoint.is_made() {
        return bad("it has no length");
    }
    Ok((JobId(job), checkpoint, flags >> 2))
}

/// The file's name: (lineage, version) and owner are in it, and the job.
pub fn name(job: JobId, checkpoint: &Checkpoint) -> String {
    let owner = checkpoint.owner.map_or(String::new(), |rank| format!("-rank-{rank}"));
    format!("{job}-{:06}-{:010}{owner}{ENDING}", checkpoint.lineage.0, checkpoint.version.0)
}

/// Writes one, and gives its name. After an error, also of a disk that is full, nothing new is in the folder.
///
/// # Errors
/// `Io` with what was tried.
pub fn write(
    folder: &dyn Folder,
    job: JobId,
    checkpoint: &Checkpoint,
    world: u32,
    model: &[u8],
) -> Result<String, Error> {
    let name = name(job, checkpoint);
    folder.write(&name, &[&encode(job, checkpoint, world), model]).map_err(|cause| {
        let bytes = model.len() + HEADER_BYTES;
        Error::new(Code::Io, format!("{folder}/{name} ({bytes} bytes) can't be written: {cause}"))
    })?;
    Ok(name)
}

/// The names of the checkpoints in a folder, of all jobs.
///
/// # Errors
/// `Io` when the folder can't be read.
pub(super) fn names(folder: &dyn Folder) -> Result<impl Iterator<Item = String>, Error> {
    let names = folder.names().map_err(|cause| {
        Error::new(Code::Io, format!("the folder {folder} of durable checkpoints can't be read: {cause}"))
    })?;
    Ok(names.into_iter().filter(|name| name.ends_with(ENDING)))
}

/// The checkpoints of a job in a folder, by what their headers and lengths say, the newest last;
/// files that don't fit are reported and left.
///
/// # Errors
/// `Io` when the folder can't be read.
pub fn list(folder: &dyn Folder, job: JobId) -> Result<Vec<Found>, Error> {
    list_again(folder, job, &[])
}

/// The same where these were there before: of a name that is there still no header is read.
pub(super) fn list_again(folder: &dyn Folder, job: JobId, known: &[Found]) -> Result<Vec<Found>, Error> {
    let known: BTreeMap<&str, &Found> = known.iter().map(|found| (found.name.as_str(), found)).collect();
    let mut found = Vec::new();
    for name in names(folder)?.filter(|name| name.starts_with(&job.to_string())) {
        if let Some(known) = known.get(name.as_str()) {
            found.push((*known).clone());
            continue;
        }
        match header(folder, &name) {
            Ok((of, checkpoint, world)) if of == job => found.push(Found { checkpoint, world, name }),
            Ok(_) => log::warn!("{folder}/{name} is of another job than its name says, and is not used"),
            Err(error) => log::warn!("{folder}/{name} is not used: {}", error.message),
        }
    }
    found.sort_by_key(|found| found.checkpoint.name());
    Ok(found)
}

fn header(folder: &dyn Folder, name: &str) -> Result<(JobId, Checkpoint, u32), Error> {
    let io = |cause: std::io::Error| Error::new(Code::Io, cause.to_string());
    let mut bytes = [0; HEADER_BYTES];
    folder.read(name, 0, &mut bytes).map_err(io)?;
    let (job, checkpoint, world) = decode(&bytes)?;
    let (there, expected) = (folder.length(name).map_err(io)?, checkpoint.length.saturating_add(HEADER_BYTES as u64));
    if there != expected {
        return Err(Error::new(Code::Incompatible, format!("it has {there} bytes, expected {expected}")));
    }
    Ok((job, checkpoint, world))
}

/// Reads the model of a checkpoint from the file of this name, and verifies its digest.
///
/// # Errors
/// `Io` when it can't be read, `OutOfSpace` when there is no memory for it, `Incompatible` when it
/// is another one or was changed.
pub fn read(folder: &dyn Folder, name: &str, expected: &Checkpoint) -> Result<Bytes, Error> {
    let named = |error: Error| Error::new(error.code, format!("{folder}/{name}: {}", error.message));
    let (_, there, _) = header(folder, name).map_err(named)?;
    let length = usize::try_from(there.length).unwrap_or(usize::MAX);
    reservation::check(|| format!("{folder}/{name}"), length)?;
    let mut model = vec![0; length];
    folder
        .read(name, HEADER_BYTES as u64, &mut model)
        .map_err(|cause| Error::new(Code::Io, format!("{folder}/{name} can't be read: {cause}")))?;
    let model = Bytes::from(model);
    if there != *expected || model_digest(&model) != expected.digest {
        let text = format!("{folder}/{name} doesn't hold the bytes that its header states; the file was changed");
        return Err(Error::new(Code::Incompatible, text));
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::super::folder::LocalFolder;
    use super::*;
    use tempfile::TempDir;

    const JOB: JobId = JobId([7; 16]);

    fn checkpoint(version: u32, model: &[u8]) -> Checkpoint {
        crate::agent::checkpoint(Lineage(1), Version(version), version, model, false)
    }

    fn folder() -> (TempDir, LocalFolder) {
        let folder = tempfile::tempdir().unwrap();
        let local = LocalFolder(folder.path().into());
        (folder, local)
    }

    #[test]
    fn of_a_file_that_is_known_no_header_is_read_again() {
        let (at, folder) = folder();
        write(&folder, JOB, &checkpoint(3, b"three"), 1, b"three").unwrap();
        let known = list(&folder, JOB).unwrap();
        write(&folder, JOB, &checkpoint(4, b"four"), 1, b"four").unwrap();
        let path = at.path().join(&known[0].name);
        std::fs::write(&path, "something else").unwrap();
        let versions = |known: &[Found]| -> Vec<u32> {
            list_again(&folder, JOB, known).unwrap().iter().map(|found| found.checkpoint.version.0).collect()
        };
        assert_eq!(versions(&[]), [4]);
        assert_eq!(versions(&known), [3, 4]);
        std::fs::remove_file(path).unwrap();
        assert_eq!(versions(&known), [4], "it is gone");
    }

    #[test]
    fn a_header_comes_back_as_it_was_and_every_changed_byte_is_seen() {
        for (owner, has_own, complete) in [(None, true, false), (Some(Rank(3)), false, true)] {
            let whole = Checkpoint { owner, has_own, complete, ..checkpoint(4, b"model") };
            let bytes = encode(JOB, &whole, 5);
            assert_eq!(decode(&bytes).unwrap(), (JOB, whole, 5));
            for at in 0..HEADER_BYTES {
                let mut changed = bytes;
                changed[at] ^= 0x10;
                assert_eq!(decode(&changed).unwrap_err().code, Code::Incompatible, "byte {at}");
            }
        }
    }

    #[test]
    fn a_header_of_the_format_before_is_read_and_tells_no_number_of_ranks() {
        let whole = Checkpoint { has_own: true, ..checkpoint(4, b"model") };
        for (world, is_read) in [(0, true), (5, false)] {
            let mut bytes = encode(JOB, &whole, world);
            bytes[8] = 1;
            let checksum = XxHash3_64::oneshot(&bytes[..72]);
            bytes[72..].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(decode(&bytes).ok(), is_read.then_some((JOB, whole, 0)), "its flags have no other meaning");
        }
    }

    #[test]
    fn a_header_that_tells_a_length_near_the_end_of_numbers_is_passed_over() {
        let (_kept, folder) = folder();
        let huge = Checkpoint { length: u64::MAX - 1, ..checkpoint(2, b"one") };
        std::fs::write(folder.0.join(name(JOB, &huge)), encode(JOB, &huge, 1)).unwrap();
        assert_eq!(list(&folder, JOB).unwrap(), []);
    }

    #[test]
    fn what_was_written_is_listed_and_read_and_what_is_cut_or_changed_is_not() {
        let (_kept, folder) = folder();
        let (one, two) = (checkpoint(2, b"one"), checkpoint(4, b"two"));
        let first = write(&folder, JOB, &one, 1, b"one").unwrap();
        let second = write(&folder, JOB, &two, 1, b"two").unwrap();
        write(&folder, JobId([8; 16]), &one, 1, b"one").unwrap();
        std::fs::write(folder.0.join("somebody's.txt"), "else").unwrap();
        let listed: Vec<Checkpoint> = list(&folder, JOB).unwrap().into_iter().map(|found| found.checkpoint).collect();
        assert_eq!(listed, [one, two]);
        assert_eq!(read(&folder, &first, &one).unwrap().as_ref(), b"one");
        assert!(read(&folder, &first, &two).is_err());
        let mut bytes = std::fs::read(folder.0.join(&second)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(folder.0.join(&second), &bytes).unwrap();
        assert_eq!(read(&folder, &second, &two).unwrap_err().code, Code::Incompatible);
        std::fs::write(folder.0.join(&second), &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(list(&folder, JOB).unwrap().len(), 1);
    }

    #[test]
    fn a_model_without_bytes_is_written_listed_and_read_as_any_other() {
        let (_kept, folder) = folder();
        let empty = checkpoint(2, b"");
        let name = write(&folder, JOB, &empty, 3, b"").unwrap();
        assert_eq!(list(&folder, JOB).unwrap(), [Found { checkpoint: empty, world: 3, name: name.clone() }]);
        assert_eq!(read(&folder, &name, &empty).unwrap().as_ref(), b"");
    }
}
