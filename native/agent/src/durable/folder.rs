//! Where durable checkpoints lie: a folder of this machine, or what a program brings along (the
//! JVM's file systems, for instance).

use std::fmt::{self, Debug, Display, Formatter};
use std::fs::{DirBuilder, File};
use std::io::{Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A flat folder of files that all processes of a job see. Calls come from several threads. A file
/// is there whole or not at all; of two processes that write the same name at once one wins, and
/// both mean the same bytes.
///
/// What fails is named in the error's text, with the file's whole name.
pub trait Folder: Send + Sync + Debug + Display {
    /// The names of all files, in any order; others' files may be among them.
    fn names(&self) -> Result<Vec<String>>;

    /// A file's bytes.
    fn length(&self, name: &str) -> Result<u64>;

    /// Reads these bytes from a file, from there on.
    fn read(&self, name: &str, from: u64, into: &mut [u8]) -> Result<()>;

    /// Writes these parts, one behind the other, as one file, which outlasts a crash of the machine
    /// once this returns. After an error nothing of this name is new, and what was there is there
    /// still.
    fn write(&self, name: &str, parts: &[&[u8]]) -> Result<()>;

    /// Removes a file. It may be gone already.
    fn remove(&self, name: &str) -> Result<()>;

    /// Removes what [`Folder::write`] has left of files whose names begin so, where it was cut short (its process was
    /// killed) longer ago than this. By itself: nothing, for folders in which nothing is left.
    fn remove_unfinished(&self, _of: &str, _ago: Duration) -> Result<()> {
        Ok(())
    }
}

/// A folder of this machine's file system, which may be shared with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFolder(pub PathBuf);

impl LocalFolder {
    /// Makes a folder that only this user can look into, with those above it that are not
    /// there either. One that is there stays as it is: its permissions were its maker's choice.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn make(path: &Path) -> Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }
}

/// What stands in the names of files that aren't written to their ends, before what tells writers apart.
const UNFINISHED: &str = "unfinished-";

/// A new file that only this user can read or write.
fn private(path: &Path) -> Result<File> {
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

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
        // Other processes may write the same, and in containers they have the same number.
        let unfinished = path.with_extension(format!("{UNFINISHED}{:016x}", rejoin_transport::random_u64()));
        let written = (|| {
            let mut file = private(&unfinished)?;
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

    fn remove_unfinished(&self, of: &str, ago: Duration) -> Result<()> {
        let is_unfinished = |name: &String| {
            let ending = name.rsplit_once('.').map(|(_, ending)| ending);
            name.starts_with(of) && ending.is_some_and(|ending| ending.starts_with(UNFINISHED))
        };
        for name in self.names()?.into_iter().filter(is_unfinished) {
            let path = self.0.join(name);
            // It may be gone already, and one of the future is being written.
            let written = std::fs::symlink_metadata(&path).and_then(|about| about.modified());
            if written.is_ok_and(|written| written.elapsed().is_ok_and(|since| since > ago)) {
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn files_and_the_folder_that_is_made_for_them_are_for_their_user_alone() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("of/a/job");
        LocalFolder::make(&inner).unwrap();
        let folder = LocalFolder(inner.clone());
        folder.write("one.checkpoint", &[b"a ", b"model"]).unwrap();
        assert_eq!((mode(&inner), mode(&inner.join("one.checkpoint"))), (0o700, 0o600));
    }

    #[test]
    fn a_folder_that_is_there_stays_as_its_maker_wanted_it() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o750)).unwrap();
        LocalFolder::make(folder.path()).unwrap();
        assert_eq!(mode(folder.path()), 0o750);
    }

    #[test]
    fn a_file_is_not_written_through_a_link_that_somebody_has_laid_in_its_way() {
        let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let laid = folder.path().join(format!("one.unfinished-{}", std::process::id()));
        std::os::unix::fs::symlink(elsewhere.path(), &laid).unwrap();
        LocalFolder(folder.path().into()).write("one.checkpoint", &[b"model"]).unwrap();
        assert_eq!(std::fs::read(elsewhere.path()).unwrap(), b"");
        let written = folder.path().join("one.checkpoint");
        assert!(std::fs::symlink_metadata(&written).unwrap().is_file());
        assert_eq!((mode(&written), std::fs::read(&written).unwrap().as_slice()), (0o600, &b"model"[..]));
    }
}
