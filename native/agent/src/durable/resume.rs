//! What a job that is started anew, by hand, can go on from: the newest version of an earlier one of its name that is whole.

use super::{file, Folder};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Checkpoint, CheckpointName, Rank, Version};
use rejoin_transport::JobId;
use std::collections::BTreeSet;

/// For [`rejoin_protocol::tracker::Input::Resume`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The line of lineages: its last one is newer than all files, so that none of them is taken for one of the new run.
    pub branches: Vec<Version>,
    /// The version to start from.
    pub version: Version,
}

/// The newest version in a folder that `world` ranks can start from. Its files are read to their ends; what can't be read is
/// told of and passed over. `None` when there is none.
///
/// # Errors
/// `Io` when the folder can't be read; `BadArgument` when the newest one was taken by more ranks, each with a model of its own.
pub fn newest(folder: &dyn Folder, identity: JobId, world: u32) -> Result<Option<Resume>, Error> {
    let found = file::list(folder, identity)?;
    let Some(last) = found.iter().map(|(checkpoint, _)| checkpoint.lineage).max() else { return Ok(None) };
    let there: BTreeSet<CheckpointName> = found
        .iter()
        .filter(|(checkpoint, name)| is_readable(folder, name, checkpoint))
        .map(|(there, _)| there.name())
        .collect();
    let is_there = |checkpoint: &Checkpoint| there.contains(&checkpoint.name());
    let whole = found.iter().rev().find(|(there, _)| is_there(there) && is_whole(there, world, is_there));
    let Some((checkpoint, _)) = whole else { return Ok(None) };
    let of_version = |other: &&Checkpoint| (other.lineage, other.version) == (checkpoint.lineage, checkpoint.version);
    let owners = found.iter().map(|(there, _)| there).filter(of_version).filter_map(|there| there.owner).max();
    if let Some(owner) = owners.filter(|owner| owner.0 >= world) {
        return Err(Error::new(
            Code::BadArgument,
            format!(
                "version {} in {} was taken by ranks up to {owner}, each with a model of its own; {world} ranks can't go on \
                 from it. Start as many as before",
                checkpoint.version, folder
            ),
        ));
    }
    let (before, after) = (checkpoint.lineage.0 as usize, last.0 as usize + 1);
    let mut branches = vec![Version(0); before];
    branches.resize(after, checkpoint.version);
    Ok(Some(Resume { branches, version: checkpoint.version }))
}

/// How many checkpoints of other jobs are in a folder.
///
/// # Errors
/// `Io` when it can't be read.
pub fn others(folder: &dyn Folder, identity: JobId) -> Result<usize, Error> {
    Ok(file::names(folder)?.filter(|name| !name.starts_with(&identity.to_string())).count())
}

/// Whether a version can be started from: the model that all have is `checkpoint`, and each rank's own is there too, if they
/// had some.
pub(super) fn is_whole(checkpoint: &Checkpoint, world: u32, is_there: impl Fn(&Checkpoint) -> bool) -> bool {
    let own = |rank| is_there(&Checkpoint { owner: Some(Rank(rank)), ..*checkpoint });
    checkpoint.owner.is_none() && (!checkpoint.has_own || (0..world).all(own))
}

fn is_readable(folder: &dyn Folder, name: &str, checkpoint: &Checkpoint) -> bool {
    file::read(folder, name, checkpoint).inspect_err(|error| log::warn!("not used: {}", error.message)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::LocalFolder;
    use rejoin_protocol::ids::Lineage;
    use std::path::{Path, PathBuf};

    const NAME: &str = "a job";

    fn write(folder: &Path, lineage: u32, version: u32, owner: Option<u32>, has_own: bool) -> PathBuf {
        let model = format!("{lineage} {version} {owner:?}");
        let plain = crate::agent::checkpoint(Lineage(lineage), Version(version), version, model.as_bytes(), false);
        let checkpoint = Checkpoint { owner: owner.map(Rank), has_own, ..plain };
        let name = file::write(&at(folder), super::super::identity(NAME), &checkpoint, model.as_bytes()).unwrap();
        folder.join(name)
    }

    fn at(folder: &Path) -> LocalFolder {
        LocalFolder(folder.into())
    }

    fn found(folder: &Path, world: u32) -> Option<Resume> {
        newest(&at(folder), super::super::identity(NAME), world).unwrap()
    }

    #[test]
    fn the_newest_version_that_is_whole_is_found_in_a_line_that_has_nothing_newer() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(found(folder, 2), None);
        write(folder, 0, 3, None, false);
        let line = |branches: &[u32], version| {
            let branches = branches.iter().copied().map(Version).collect();
            Some(Resume { branches, version: Version(version) })
        };
        assert_eq!(found(folder, 2), line(&[3], 3));
        write(folder, 2, 5, None, false);
        assert_eq!(found(folder, 2), line(&[0, 0, 5], 5));
        // What belongs together counts together.
        write(folder, 3, 6, None, true);
        write(folder, 3, 6, Some(0), false);
        assert_eq!(found(folder, 2), line(&[0, 0, 5, 5], 5));
        let last = write(folder, 3, 6, Some(1), false);
        assert_eq!(found(folder, 2), line(&[0, 0, 0, 6], 6));
        // A file that was cut or changed doesn't count.
        let mut bytes = std::fs::read(&last).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&last, bytes).unwrap();
        assert_eq!(found(folder, 2), line(&[0, 0, 5, 5], 5));
    }

    #[test]
    fn fewer_ranks_than_had_a_model_of_their_own_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, 6, None, true);
        (0..3).for_each(|rank| drop(write(folder.path(), 0, 6, Some(rank), false)));
        let error = newest(&at(folder.path()), super::super::identity(NAME), 2).unwrap_err();
        assert_eq!(error.code, Code::BadArgument);
        assert!(error.message.contains("ranks up to 2"), "{error}");
        assert!(found(folder.path(), 3).is_some() && found(folder.path(), 4).is_none());
    }

    #[test]
    fn other_names_are_other_jobs() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, 3, None, false);
        let other = super::super::identity("another");
        assert_eq!(newest(&at(folder.path()), other, 1).unwrap(), None);
        assert_eq!(others(&at(folder.path()), other).unwrap(), 1);
        assert_eq!(others(&at(folder.path()), super::super::identity(NAME)).unwrap(), 0);
    }
}
