//! Where durable checkpoints lie: a folder of this machine, or what a program brings along (the JVM's file systems, for instance).

use std::fmt::{self, Debug, Display, Formatter};
use std::fs::File;
use std::io::{Read, Result, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// A flat folder of files that all processes of a job see. Calls come from several threads. A file is there whole or not at
/// all; of two processes that write the same name at once one wins, and both mean the same bytes.
///
/// What fails is told in the error's text, with the file's whole name.
pub trait Folder: Send + Sync + Debug + Display {
    /// The names of all files, in any order; others' files may be among them.
    fn names(&self) -> Result<Vec<String>>;

    /// A file's bytes.
    fn length(&self, name: &str) -> Result<u64>;

    /// Reads these bytes from a file, from there on.
    fn read(&self, name: &str, from: u64, into: &mut [u8]) -> Result<()>;

    /// Writes these parts, one behind the other, as one file, which outlasts a crash of the machine once this returns. After an
    /// error nothing of this name is new, and what was there is there still.
    fn write(&self, name: &str, parts: &[&[u8]]) -> Result<()>;

    /// Removes a file. It may be gone already.
    fn remove(&self, name: &str) -> Result<()>;
}

/// A folder of this machine's file system, which may be shared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFolder(pub PathBuf);

impl Display for LocalFolder {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.0.display(), f)
    }
}

impl Folder for LocalFolder {
    fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            // Ours are all text.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn length(&self, name: &str) -> Result<u64> {
        Ok(std::fs::metadata(self.0.join(name))?.len())
    }

    fn read(&self, name: &str, from: u64, into: &mut [u8]) -> Result<()> {
        let mut file = File::open(self.0.join(name))?;
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(into)
    }

    fn write(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        let path = self.0.join(name);
        // One of each name at a time in a process; other processes that write the same have a number of their own.
        let unfinished = path.with_extension(format!("unfinished-{}", std::process::id()));
        let written = (|| {
            let mut file = File::create(&unfinished)?;
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_all()?;
            std::fs::rename(&unfinished, &path)?;
            // Only now a crash of the machine leaves the new name.
            File::open(&self.0)?.sync_all()
        })();
        written.inspect_err(|_: &std::io::Error| {
            // Nothing depends on its being removed: no one reads a file with that ending.
            let _ = std::fs::remove_file(&unfinished);
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        std::fs::remove_file(self.0.join(name))
    }
}
