//! Logs on a disk that is really full: a small file system of its own where this program may mount
//! one, else a limit that the system sets for the length of files. Both give the error of a full
//! disk in the very call that writes.

mod common;

use common::worker::{join, spawn, End, Shape};
use common::{config, member, World};
use rejoin_agent::DataPlane;
use rejoin_protocol::error::Code;
use rejoin_xgboost::{BridgeConfig, WireVariant};
use std::path::Path;
use std::process::Command;

const BYTES: u64 = 256 << 10;

/// A directory with room for few bytes.
struct SmallDisk {
    directory: tempfile::TempDir,
    mounted: bool,
}

impl SmallDisk {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary folder");
        let size = format!("size={BYTES}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(directory.path()).output();
        let mounted = mount.is_ok_and(|output| output.status.success());
        if !mounted {
            println!("no file system can be mounted here; the length of files is limited instead");
            let limit = libc::rlimit { rlim_cur: BYTES, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the structure is valid, and a signal that is ignored has no handler.
            let done = unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                libc::setrlimit(libc::RLIMIT_FSIZE, &limit)
            };
            assert_eq!(done, 0, "the length of files can't be limited either");
        }
        SmallDisk { directory, mounted }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.mounted {
            let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
            assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.path().display());
        }
    }
}

#[test]
fn a_disk_that_is_really_full_ends_the_job_with_an_error_that_names_it_and_nobody_hangs() {
    let disk = SmallDisk::new();
    let full = BridgeConfig { log_memory_bytes: 60_000, spill_dir: disk.path().to_owned(), ..config() };
    let world = World::with(&[0, 0], full);
    let shape = Shape { steps: 400, ..Shape::new(WireVariant::From33) };
    let handles = [0, 1].map(|rank| spawn(&world, rank, 0, &shape, None));
    let error = world.agents[0].notes.broken();
    assert_eq!(error.code, Code::OutOfSpace, "{error}");
    let directory = disk.path().display().to_string();
    for part in [&directory, "60000 bytes of memory", "Make room"] {
        assert!(error.message.contains(part), "{part:?} is missing: {error}");
    }
    for rank in [0, 1] {
        world.agents[0].bridge.free(member(rank, 0), error.clone());
    }
    handles.into_iter().for_each(|handle| assert!(!matches!(join(handle), End::Done)));
}
