//! What a job that is started anew, by hand, can go on from: the newest version of an earlier one
//! of its name that is whole.

use super::file::{self, Found};
use super::Folder;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Checkpoint, CheckpointName, Lineage, Rank, Version};
use rejoin_protocol::start::Origin;
use rejoin_transport::JobId;
use std::collections::BTreeMap;

/// How files are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Read to their ends: what is damaged is passed over.
    Whole,
    /// By their headers and lengths, for a tracker that ranks wait for, no longer than a lease: reading takes minutes
    /// where each of many ranks has a large model of its own. Who restores one verifies it.
    Headers,
}

/// The newest version in a folder that is whole, for `world` ranks to start from (`None`: any
/// number of them, as in an elastic job). Files are looked at from the newest on; what is
/// damaged is reported and passed over. `None` when there is none.
///
/// # Errors
/// `Io` when the folder or a file that is looked at can't be read, and `OutOfSpace` when there is no memory for one:
/// it may be whole all the same, and is not passed over; `BadArgument` when it was taken by another number of ranks,
/// each with a model of its own.
pub fn newest(folder: &dyn Folder, identity: JobId, world: Option<u32>, look: Look) -> Result<Option<Origin>, Error> {
    let found = file::list(folder, identity)?;
    let Some(last) = found.iter().map(|found| found.checkpoint.lineage).max() else { return Ok(None) };
    // From the newest on, and no further than to the first that is whole: all of them can take minutes.
    let mut looked: BTreeMap<CheckpointName, bool> = BTreeMap::new();
    let mut is_there = |checkpoint: &Checkpoint| -> Result<bool, Error> {
        let name = checkpoint.name();
        if let Some(known) = looked.get(&name) {
            return Ok(*known);
        }
        let mut there = false;
        for file in found.iter().filter(|found| found.checkpoint.name() == name) {
            there = there || look == Look::Headers || is_undamaged(folder, file)?;
        }
        looked.insert(name, there);
        Ok(there)
    };
    // As many as have files, at least. Where no header says how many, a job of any number of ranks can't tell whether
    // those of the last ones are missing.
    let took = |common: &Found| {
        let of_version = |other: &&Found| version_of(other) == version_of(common);
        let files = || found.iter().filter(of_version);
        let owners = files().filter_map(|other| other.checkpoint.owner).map(|owner| owner.0 + 1).max();
        let said = files().map(|other| other.world).max().filter(|said| *said > 0).or(world)?;
        Some(said.max(owners.unwrap_or(0)))
    };
    let mut newest = None;
    for common in found.iter().rev().filter(|common| common.checkpoint.owner.is_none()) {
        let checkpoint = &common.checkpoint;
        let is_whole = match took(common) {
            Some(took) => is_there(checkpoint)? && is_whole(checkpoint, took, &mut is_there)?,
            None => !checkpoint.has_own && is_there(checkpoint)?,
        };
        if is_whole {
            newest = Some(common);
            break;
        }
    }
    let Some(whole) = newest else { return Ok(None) };
    let Checkpoint { version, has_own, .. } = whole.checkpoint;
    let took = took(whole).unwrap_or(0);
    if let Some(world) = world.filter(|world| has_own && took != *world) {
        return Err(Error::new(
            Code::BadArgument,
            format!(
                "version {version} in {folder} was taken by {took} ranks, each with a model of its own; {world} ranks \
                 can't go on from it. Start as many as before, or an elastic job (a least number of ranks, `rejoin run \
                 --min`), whose ranks are given the models of those that it has no more; or begin anew under another \
                 name"
            ),
        ));
    }
    Ok(Some(Origin { checkpoint: whole.checkpoint, lineage: Lineage(last.0 + 1), world: took }))
}

/// How many checkpoints of other jobs are in a folder.
///
/// # Errors
/// `Io` when it can't be read.
pub fn others(folder: &dyn Folder, identity: JobId) -> Result<usize, Error> {
    Ok(file::names(folder)?.filter(|name| !name.starts_with(&identity.to_string())).count())
}

/// Whether a version can be started from: the model that all have is `checkpoint`, and each rank's
/// own is there too, if they had some.
pub(super) fn is_whole<E>(
    checkpoint: &Checkpoint,
    world: u32,
    mut is_there: impl FnMut(&Checkpoint) -> Result<bool, E>,
) -> Result<bool, E> {
    if checkpoint.owner.is_some() || !checkpoint.has_own {
        return Ok(checkpoint.owner.is_none());
    }
    for rank in 0..world {
        if !is_there(&Checkpoint { owner: Some(Rank(rank)), ..*checkpoint })? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn version_of(found: &Found) -> (Lineage, Version) {
    (found.checkpoint.lineage, found.checkpoint.version)
}

fn is_undamaged(folder: &dyn Folder, found: &Found) -> Result<bool, Error> {
    match file::read(folder, &found.name, &found.checkpoint) {
        Ok(_) => Ok(true),
        Err(error) if error.code == Code::Incompatible => {
            log::warn!("not used: {}", error.message);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::LocalFolder;
    use std::path::{Path, PathBuf};

    const NAME: &str = "a job";

    fn write(folder: &Path, lineage: u32, version: u32, owner: Option<u32>, has_own: bool) -> PathBuf {
        let model = format!("{lineage} {version} {owner:?}");
        write_model(folder, (lineage, version), owner, has_own, 2, &model)
    }

    fn write_model(
        folder: &Path,
        (lineage, version): (u32, u32),
        owner: Option<u32>,
        has_own: bool,
        world: u32,
        model: &str,
    ) -> PathBuf {
        let plain = crate::agent::checkpoint(Lineage(lineage), Version(version), version, model.as_bytes(), false);
        let checkpoint = Checkpoint { owner: owner.map(Rank), has_own, ..plain };
        let name =
            file::write(&at(folder), super::super::identity(NAME), &checkpoint, world, model.as_bytes()).unwrap();
        folder.join(name)
    }

    fn at(folder: &Path) -> LocalFolder {
        LocalFolder(folder.into())
    }

    fn found(folder: &Path, world: u32) -> Option<(u32, u32, u32)> {
        let origin = newest(&at(folder), super::super::identity(NAME), Some(world), Look::Whole).unwrap();
        origin.map(|Origin { checkpoint, lineage, .. }| (checkpoint.lineage.0, checkpoint.version.0, lineage.0))
    }

    #[test]
    fn the_newest_version_that_is_whole_is_found_in_a_line_that_has_nothing_newer() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(found(folder, 2), None);
        write(folder, 0, 3, None, false);
        assert_eq!(found(folder, 2), Some((0, 3, 1)));
        write(folder, 2, 5, None, false);
        assert_eq!(found(folder, 2), Some((2, 5, 3)));
        // What belongs together counts together.
        write(folder, 3, 6, None, true);
        write(folder, 3, 6, Some(0), false);
        assert_eq!(found(folder, 2), Some((2, 5, 4)));
        let last = write(folder, 3, 6, Some(1), false);
        assert_eq!(found(folder, 2), Some((3, 6, 4)));
        // A file that was cut or changed doesn't count.
        let mut bytes = std::fs::read(&last).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&last, bytes).unwrap();
        assert_eq!(found(folder, 2), Some((2, 5, 4)));
    }

    /// One whose files are there, and can't be read at the moment: all, or the one of this name.
    #[derive(Debug)]
    struct OutOfReach(LocalFolder, Option<String>);

    impl std::fmt::Display for OutOfReach {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            self.0.fmt(f)
        }
    }

    impl Folder for OutOfReach {
        fn names(&self) -> std::io::Result<Vec<String>> {
            self.0.names()
        }
        fn length(&self, name: &str) -> std::io::Result<u64> {
            self.0.length(name)
        }
        fn read(&self, name: &str, from: u64, into: &mut [u8]) -> std::io::Result<()> {
            match from {
                0 => self.0.read(name, from, into),
                _ if self.1.as_ref().is_some_and(|only| only != name) => self.0.read(name, from, into),
                _ => Err(std::io::Error::other("no datanode has the block")),
            }
        }
        fn write(&self, name: &str, parts: &[&[u8]]) -> std::io::Result<()> {
            self.0.write(name, parts)
        }
        fn remove(&self, name: &str) -> std::io::Result<()> {
            self.0.remove(name)
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_now_is_not_taken_for_a_damaged_one() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, 3, None, false);
        let error = newest(&OutOfReach(at(folder.path()), None), super::super::identity(NAME), Some(2), Look::Whole)
            .unwrap_err();
        assert_eq!(error.code, Code::Io);
        assert!(error.message.contains("no datanode has the block"), "{error}");
    }

    #[test]
    fn for_a_tracker_that_ranks_wait_for_no_model_is_read() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, 3, None, true);
        (0..2).for_each(|rank| drop(write(folder.path(), 0, 3, Some(rank), false)));
        write(folder.path(), 0, 4, None, true);
        write(folder.path(), 0, 4, Some(1), false);
        let out_of_reach = OutOfReach(at(folder.path()), None);
        let origin = newest(&out_of_reach, super::super::identity(NAME), Some(2), Look::Headers).unwrap();
        assert_eq!(origin.unwrap().checkpoint.version, Version(3), "rank 0's own of version 4 is missing");
    }

    #[test]
    fn what_is_older_than_the_newest_whole_version_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let old = write(folder.path(), 0, 3, None, false);
        write(folder.path(), 0, 5, None, false);
        let name = old.file_name().unwrap().to_str().unwrap().to_string();
        let origin =
            newest(&OutOfReach(at(folder.path()), Some(name)), super::super::identity(NAME), Some(2), Look::Whole)
                .unwrap();
        assert_eq!(origin.unwrap().checkpoint.version, Version(5));
    }

    #[test]
    fn another_number_of_ranks_than_had_models_of_their_own_is_refused_though_the_common_one_is_empty() {
        for common in ["", "a model"] {
            let folder = tempfile::tempdir().unwrap();
            let write = |version, owner: Option<u32>| {
                let model = if owner.is_some() { "its own" } else { common };
                drop(write_model(folder.path(), (0, version), owner, owner.is_none(), 3, model));
            };
            // The newest one is not whole, for two ranks neither: rank 2's own model is missing.
            [6, 7].into_iter().for_each(|version| write(version, None));
            (0..3).for_each(|rank| write(6, Some(rank)));
            (0..2).for_each(|rank| write(7, Some(rank)));
            assert_eq!(found(folder.path(), 3), Some((0, 6, 1)));
            let by_any = newest(&at(folder.path()), super::super::identity(NAME), None, Look::Whole).unwrap().unwrap();
            assert_eq!((by_any.checkpoint.version, by_any.world), (Version(6), 3), "an elastic job goes on");
            for world in [1, 2, 4] {
                let error =
                    newest(&at(folder.path()), super::super::identity(NAME), Some(world), Look::Whole).unwrap_err();
                assert_eq!(error.code, Code::BadArgument);
                for text in ["version 6", "taken by 3 ranks", &format!("{world} ranks can't go on")] {
                    assert!(error.message.contains(text), "{error}");
                }
            }
        }
    }

    #[test]
    fn a_version_is_whole_with_the_own_models_of_all_that_any_of_its_files_names() {
        let any = |folder: &Path| newest(&at(folder), super::super::identity(NAME), None, Look::Whole).unwrap();
        let version = |folder: &Path, version, world, owners: u32| {
            drop(write_model(folder, (0, version), None, true, world, "a model"));
            (0..owners).for_each(|rank| drop(write_model(folder, (0, version), Some(rank), false, world, "its own")));
        };
        let folder = tempfile::tempdir().unwrap();
        version(folder.path(), 5, 3, 3);
        version(folder.path(), 6, 0, 2);
        let found = any(folder.path()).unwrap();
        assert_eq!((found.checkpoint.version, found.world), (Version(5), 3), "nobody says how many took version 6");
        // Its common file was written when the world had shrunk.
        drop(write_model(folder.path(), (0, 7), None, true, 2, "a model"));
        (0..3).for_each(|rank| drop(write_model(folder.path(), (0, 7), Some(rank), false, 3, "its own")));
        let found = any(folder.path()).unwrap();
        assert_eq!((found.checkpoint.version, found.world), (Version(7), 3));
    }

    #[test]
    fn a_common_model_alone_is_taken_on_by_any_number_of_ranks() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, 6, None, false);
        assert!([1, 2, 5].into_iter().all(|world| found(folder.path(), world).is_some()));
    }

    #[test]
    fn other_names_are_other_jobs() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 0, 3, None, false);
        let other = super::super::identity("another");
        assert_eq!(newest(&at(folder.path()), other, Some(1), Look::Whole).unwrap(), None);
        assert_eq!(others(&at(folder.path()), other).unwrap(), 1);
        assert_eq!(others(&at(folder.path()), super::super::identity(NAME)).unwrap(), 0);
    }
}
