//! One durable checkpoint as a file: written whole or not at all, and verified when it is read.
//!
//! Layout, little endian: `REJOINCK`, format u32 (1), owner u32 (all bits set: none), job 16 bytes, lineage u32, version u32,
//! round u32, flags u32 (bit 0: complete, bit 1: each rank has a model of its own beside it), length u64, digest u128 of the
//! model (xxh3-128), checksum u64 of all that stands before it (xxh3-64); then the model.

use crate::store::digest;
use bytes::Bytes;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Checkpoint, Lineage, Rank, Version};
use rejoin_transport::JobId;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Bytes before the model.
pub const HEADER_BYTES: usize = 80;
const MAGIC: &[u8; 8] = b"REJOINCK";
const FORMAT: u32 = 1;
const NOBODY: u32 = u32::MAX;
/// How the names of finished files end; others are not looked at.
pub(super) const ENDING: &str = ".checkpoint";

/// The header of a checkpoint of this job.
pub fn encode(job: JobId, checkpoint: &Checkpoint) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    let flags = u32::from(checkpoint.complete) | u32::from(checkpoint.has_own) << 1;
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    out[12..16].copy_from_slice(&checkpoint.owner.map_or(NOBODY, |rank| rank.0).to_le_bytes());
    out[16..32].copy_from_slice(&job.0);
    for (at, number) in [checkpoint.lineage.0, checkpoint.version.0, checkpoint.round, flags].into_iter().enumerate() {
        out[32 + 4 * at..36 + 4 * at].copy_from_slice(&number.to_le_bytes());
    }
    out[48..56].copy_from_slice(&checkpoint.length.to_le_bytes());
    out[56..72].copy_from_slice(&checkpoint.digest.to_le_bytes());
    let checksum = xxhash_rust::xxh3::xxh3_64(&out[..72]);
    out[72..].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Reads a header.
///
/// # Errors
/// `Incompatible` for anything that [`encode`] doesn't give.
pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<(JobId, Checkpoint), Error> {
    let bad = |what: &str| Err(Error::new(Code::Incompatible, format!("not a durable checkpoint: {what}")));
    let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
    if &bytes[..8] != MAGIC {
        return bad("its first bytes are others");
    }
    if number(8) != FORMAT {
        return bad(&format!("it has format {}, expected {FORMAT}", number(8)));
    }
    if xxhash_rust::xxh3::xxh3_64(&bytes[..72]) != long(72) {
        return bad("the header's checksum doesn't fit");
    }
    let (flags, mut job) = (number(44), [0; 16]);
    if flags > 3 {
        return bad("it has unknown flags");
    }
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
    Ok((JobId(job), checkpoint))
}

/// The file's name: (lineage, version) and owner are in it, and the job.
pub fn name(job: JobId, checkpoint: &Checkpoint) -> String {
    let owner = checkpoint.owner.map_or(String::new(), |rank| format!("-rank-{rank}"));
    format!("{job}-{:06}-{:010}{owner}{ENDING}", checkpoint.lineage.0, checkpoint.version.0)
}

/// Writes one. After an error, also of a disk that is full, nothing new is in the folder.
///
/// # Errors
/// `Io` with what was tried.
pub fn write(folder: &Path, job: JobId, checkpoint: &Checkpoint, model: &[u8]) -> Result<PathBuf, Error> {
    let path = folder.join(name(job, checkpoint));
    // One of each name at a time in a process; other processes that write the same have a number of their own.
    let unfinished = path.with_extension(format!("unfinished-{}", std::process::id()));
    let written = (|| {
        let mut file = File::create(&unfinished)?;
        file.write_all(&encode(job, checkpoint))?;
        file.write_all(model)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        // Only now a crash of the machine leaves the new name.
        File::open(folder)?.sync_all()
    })();
    written.map_err(|cause: std::io::Error| {
        // Nothing depends on its being removed: no one reads a file with that ending.
        let _ = std::fs::remove_file(&unfinished);
        Error::new(
            Code::Io,
            format!("{} ({} bytes) can't be written: {cause}", path.display(), model.len() + HEADER_BYTES),
        )
    })?;
    Ok(path)
}

/// The checkpoints of a job in a folder, by what their headers and lengths say; files that don't fit are told of and left.
///
/// # Errors
/// `Io` when the folder can't be read.
pub fn list(folder: &Path, job: JobId) -> Result<Vec<(Checkpoint, PathBuf)>, Error> {
    let io = |cause: std::io::Error| {
        Error::new(Code::Io, format!("the folder {} of durable checkpoints can't be read: {cause}", folder.display()))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let named = path.file_name().and_then(|name| name.to_str());
        if !named.is_some_and(|name| name.starts_with(&job.to_string()) && name.ends_with(ENDING)) {
            continue;
        }
        match header(&path) {
            Ok((of, checkpoint)) if of == job => found.push((checkpoint, path)),
            Ok(_) => log::warn!("{} is of another job than its name says, and is not used", path.display()),
            Err(error) => log::warn!("{} is not used: {}", path.display(), error.message),
        }
    }
    found.sort_by_key(|(checkpoint, _)| checkpoint.name());
    Ok(found)
}

fn header(path: &Path) -> Result<(JobId, Checkpoint), Error> {
    let io = |cause: std::io::Error| Error::new(Code::Io, cause.to_string());
    let mut file = File::open(path).map_err(io)?;
    let mut bytes = [0; HEADER_BYTES];
    file.read_exact(&mut bytes).map_err(io)?;
    let (job, checkpoint) = decode(&bytes)?;
    let (there, expected) = (file.metadata().map_err(io)?.len(), checkpoint.length.saturating_add(HEADER_BYTES as u64));
    if there != expected {
        return Err(Error::new(Code::Incompatible, format!("it has {there} bytes, expected {expected}")));
    }
    Ok((job, checkpoint))
}

/// Reads the model of a checkpoint, and verifies its digest.
///
/// # Errors
/// `Io` when it can't be read, `Incompatible` when it is another one or was changed.
pub fn read(path: &Path, expected: &Checkpoint) -> Result<Bytes, Error> {
    let named = |error: Error| Error::new(error.code, format!("{}: {}", path.display(), error.message));
    let (_, there) = header(path).map_err(named)?;
    let bytes = std::fs::read(path)
        .map_err(|cause| Error::new(Code::Io, format!("{} can't be read: {cause}", path.display())))?;
    let model = Bytes::from(bytes).split_off(HEADER_BYTES);
    if there != *expected || digest(&model) != expected.digest {
        let text = format!("{} doesn't hold the bytes that its header tells; the file was changed", path.display());
        return Err(Error::new(Code::Incompatible, text));
    }
    Ok(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobId = JobId([7; 16]);

    fn checkpoint(version: u32, model: &[u8]) -> Checkpoint {
        crate::agent::checkpoint(Lineage(1), Version(version), version, model, false)
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("rejoin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_header_comes_back_as_it_was_and_every_changed_byte_is_seen() {
        for (owner, has_own, complete) in [(None, true, false), (Some(Rank(3)), false, true)] {
            let whole = Checkpoint { owner, has_own, complete, ..checkpoint(4, b"model") };
            let bytes = encode(JOB, &whole);
            assert_eq!(decode(&bytes).unwrap(), (JOB, whole));
            for at in 0..HEADER_BYTES {
                let mut changed = bytes;
                changed[at] ^= 0x10;
                assert_eq!(decode(&changed).unwrap_err().code, Code::Incompatible, "byte {at}");
            }
        }
    }

    #[test]
    fn a_header_that_tells_a_length_near_the_end_of_numbers_is_passed_over() {
        let folder = folder("durable-length");
        let huge = Checkpoint { length: u64::MAX - 1, ..checkpoint(2, b"one") };
        std::fs::write(folder.join(name(JOB, &huge)), encode(JOB, &huge)).unwrap();
        assert_eq!(list(&folder, JOB).unwrap(), []);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_was_written_is_listed_and_read_and_what_is_cut_or_changed_is_not() {
        let folder = folder("durable-file");
        let (one, two) = (checkpoint(2, b"one"), checkpoint(4, b"two"));
        let first = write(&folder, JOB, &one, b"one").unwrap();
        let second = write(&folder, JOB, &two, b"two").unwrap();
        write(&folder, JobId([8; 16]), &one, b"one").unwrap();
        std::fs::write(folder.join("somebody's.txt"), "else").unwrap();
        let listed: Vec<Checkpoint> =
            list(&folder, JOB).unwrap().into_iter().map(|(checkpoint, _)| checkpoint).collect();
        assert_eq!(listed, [one, two]);
        assert_eq!(read(&first, &one).unwrap().as_ref(), b"one");
        assert!(read(&first, &two).is_err());
        let mut bytes = std::fs::read(&second).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&second, &bytes).unwrap();
        assert_eq!(read(&second, &two).unwrap_err().code, Code::Incompatible);
        std::fs::write(&second, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(list(&folder, JOB).unwrap().len(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
