//! An input in a durable training's folder.

use crate::buffer::Buffer;
use crate::fingerprint::{Fingerprint, Sha256Digest};
use crate::list::PageList;
use crate::page::Page;
use rejoin_protocol::error::{Code, Error};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An input all of whose pages were stored: its list, and the folder where their files are.
#[derive(Debug)]
pub struct Input {
    folder: PathBuf,
    name: String,
    list: PageList,
}

/// A page that was read and verified.
#[derive(Debug)]
pub struct ReadPage {
    bytes: Buffer,
    partition: usize,
    number: u64,
    sha256: Sha256Digest,
}

impl ReadPage {
    /// From bytes that stand elsewhere, which are copied; their page is number 0 of partition 0.
    ///
    /// # Errors
    /// As [`Page::verified`], and `OUT_OF_SPACE`.
    pub fn of(bytes: &[u8], sha256: Sha256Digest) -> Result<ReadPage, Error> {
        let bytes = Buffer::copy_of(bytes)?;
        Page::verified(&bytes, sha256)?;
        Ok(ReadPage { bytes, partition: 0, number: 0, sha256 })
    }

    /// The page.
    ///
    /// # Errors
    /// None: it was read before.
    pub fn page(&self) -> Result<Page<'_>, Error> {
        Page::of(&self.bytes)
    }

    /// All its bytes, the head included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Of those bytes.
    pub fn sha256(&self) -> Sha256Digest {
        self.sha256
    }

    /// The partition that it is of.
    pub fn partition(&self) -> usize {
        self.partition
    }

    /// Its number, counted over all partitions.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Input {
    /// Reads the list of an input.
    ///
    /// # Parameters
    /// `folder`: of one training, on a file system that this machine has; `name`: `training` or
    /// `evaluation`.
    ///
    /// # Errors
    /// `BAD_ARGUMENT` when there is no such list, so that no whole input is there; `IO` when it can't
    /// be read; else as [`PageList::of`].
    pub fn open(folder: &Path, name: &str) -> Result<Input, Error> {
        let bad = |text: String| Error::new(Code::BadArgument, text);
        if name.is_empty() || name.contains(['/', '\0']) {
            return Err(bad(format!("the input's name is {name:?}; expected training or evaluation")));
        }
        let path = folder.join(format!("{name}.pages"));
        let bytes = std::fs::read(&path).map_err(|cause| match cause.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => bad(format!(
                "expected the list of pages {}; saw none. Name the folder of one training on a mounted file system \
                 (it is below spark.rejoin.durable), whose input was stored to its end; without the list pages don't \
                 count",
                path.display()
            )),
            _ => cannot_read(&path, &cause),
        })?;
        let list = PageList::of(&bytes).map_err(|error| of_file(&path, error))?;
        Ok(Input { folder: folder.to_path_buf(), name: name.to_string(), list })
    }

    /// What its list says.
    pub fn list(&self) -> &PageList {
        &self.list
    }

    /// Reads a page by its number, counted over all partitions from 0, and verifies it.
    ///
    /// # Errors
    /// `BAD_ARGUMENT` for a number that it hasn't; `INPUT_LOST` when the page's file is missing or
    /// isn't what the list says; `IO` when it can't be read; `OUT_OF_SPACE` without memory for it;
    /// `INCOMPATIBLE` when it was written by other rules.
    pub fn read(&self, number: u64) -> Result<ReadPage, Error> {
        let found = self.list.place(number).and_then(|(partition, within)| {
            let pages = self.list.partitions().get(partition)?;
            Some((partition, within, pages.attempt, *pages.pages.get(within)?))
        });
        let (partition, within, attempt, expected) = found.ok_or_else(|| {
            let text = format!(
                "page {number} was asked for; the {} input in {} has {} pages, from 0",
                self.name,
                self.folder.display(),
                self.list.pages()
            );
            Error::new(Code::BadArgument, text)
        })?;
        let path = self.folder.join(format!("{}-{partition}-{attempt}-{within}.page", self.name));
        let bytes = read(&path, &expected)?;
        let page = Page::verified(&bytes, expected.sha256).map_err(|error| match error.code {
            Code::InputLost => lost(&path, &expected, "its bytes are others"),
            _ => of_file(&path, error),
        })?;
        if u64::from(page.rows()) != expected.rows {
            return Err(lost(&path, &expected, &format!("it has {} rows", page.rows())));
        }
        Ok(ReadPage { bytes, partition, number, sha256: expected.sha256 })
    }
}

/// All of a file, if it is as long as it has to be: nothing is reserved for another one.
fn read(path: &Path, expected: &Fingerprint) -> Result<Buffer, Error> {
    let failed = |cause: std::io::Error| match cause.kind() {
        ErrorKind::NotFound => lost(path, expected, "there is no such file"),
        ErrorKind::UnexpectedEof => lost(path, expected, "it has become shorter"),
        _ => cannot_read(path, &cause),
    };
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    if length != expected.bytes {
        return Err(lost(path, expected, &format!("it has {length} bytes")));
    }
    let length = usize::try_from(length).map_err(|_| lost(path, expected, "it is longer than memory"))?;
    Buffer::read(&mut file, length)?.map_err(failed)
}

fn lost(path: &Path, expected: &Fingerprint, seen: &str) -> Error {
    let text = format!(
        "page {} is lost: expected {expected}; {seen}. A training that ends removes its folder; if it goes on, let it \
         store its input again",
        path.display()
    );
    Error::new(Code::InputLost, text)
}

fn cannot_read(path: &Path, cause: &std::io::Error) -> Error {
    let text = format!("{} can't be read: {cause}; see that this process may read the folder", path.display());
    Error::new(Code::Io, text)
}

fn of_file(path: &Path, error: Error) -> Error {
    Error::new(error.code, format!("{}: {}", path.display(), error.message))
}
