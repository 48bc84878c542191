//! The real libraries, from the Maven jars, and calls of their collective.

use super::xgboost::Xgboost;
use libloading::os::unix::Library;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Releases that are tested.
pub const RELEASES: [&str; 3] = ["3.4.0", "3.2.0", "3.1.1"];

/// The library of a release, as Gradle has taken it out of the jar.
pub fn file(release: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/xgboost");
    let file = folder.join(release).join("lib/linux").join(std::env::consts::ARCH).join("libxgboost4j.so");
    assert!(file.exists(), "{} is missing: `gradle xgboostLibraries` takes it out of XGBoost's jar", file.display());
    file
}

/// Whether the release's functions have a context before the communicator.
pub fn has_context(release: &str) -> bool {
    !["3.2.0", "3.1.1"].contains(&release)
}

type GetGroup = *const ();
type Allreduce = unsafe extern "C" fn(GetGroup, *mut u8, usize, i32, i32) -> i32;
type Broadcast = unsafe extern "C" fn(GetGroup, *mut u8, usize, i32) -> i32;
type Allgather = unsafe extern "C" fn(GetGroup, *mut u8, usize) -> i32;
type AllgatherV =
    unsafe extern "C" fn(GetGroup, *const u8, usize, *const i64, *mut i64, usize, *mut u8, usize, i32) -> i32;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Success,
    Error,
    Exception,
}

fn ended(code: i32) -> Ended {
    match code {
        0 => Ended::Success,
        1 => Ended::Error,
        2 => Ended::Exception,
        other => panic!("the probe gave {other}"),
    }
}

/// A loaded library whose collective is called as XGBoost itself calls it, for the calling thread's communicator.
pub struct Collective {
    pub xgboost: Xgboost,
    group: usize,
    table: Option<usize>,
    allreduce: Allreduce,
    broadcast: Broadcast,
    allgather: Allgather,
    allgather_v: AllgatherV,
    _probe: Library,
}

impl Collective {
    pub fn load(release: &str) -> Self {
        Collective::open(&file(release), has_context(release))
    }

    pub fn open(file: &Path, has_context: bool) -> Self {
        let xgboost = Xgboost::open(file.to_str().expect("a path in UTF-8"));
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("probe.cc");
        std::fs::write(&source, include_str!("probe.cc")).expect("the folder can be written");
        let built = folder.path().join("libcalls.so");
        let mut compile = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".into()));
        compile.args(["-shared", "-fPIC", "-O2", "-std=c++17", "-o"]).arg(&built).arg(&source);
        if has_context {
            compile.arg("-DWITH_CONTEXT");
        }
        assert!(compile.status().expect("a C++ compiler").success(), "the probe doesn't compile");
        // SAFETY: the libraries' initialisers do no harm, and the functions have these signatures.
        unsafe {
            let own = Library::new(file).expect("it is loaded already");
            let group = *own.get::<GetGroup>(b"_ZN7xgboost10collective15GlobalCommGroupEv").expect("it is exported");
            let table = own.get::<GetGroup>(b"_ZTVN7xgboost10collective4CollE").ok().map(|table| *table as usize);
            let probe = Library::new(&built).expect("the probe loads");
            Collective {
                xgboost,
                group: group as usize,
                table,
                allreduce: *probe.get::<Allreduce>(b"probe_allreduce").expect("it is there"),
                broadcast: *probe.get::<Broadcast>(b"probe_broadcast").expect("it is there"),
                allgather: *probe.get::<Allgather>(b"probe_allgather").expect("it is there"),
                allgather_v: *probe.get::<AllgatherV>(b"probe_allgather_v").expect("it is there"),
                _probe: probe,
            }
        }
    }

    fn group(&self) -> GetGroup {
        self.group as GetGroup
    }

    /// The address of the table of the collective's functions.
    pub fn table(&self) -> usize {
        self.table.expect("the library exports it")
    }

    /// What is in the four entries; nothing where there is no table under its name.
    pub fn entries(&self) -> Vec<usize> {
        let words = self.table.map(|table| table as *const usize);
        // SAFETY: the table has nine words.
        words.map(|words| (5..9).map(|entry| unsafe { *words.add(entry) }).collect()).unwrap_or_default()
    }

    /// Whether this process may write to the entries.
    pub fn is_writable(&self) -> bool {
        mapping(self.table()).expect("the table is there").contains("rw")
    }

    /// Puts another function into one of the four entries.
    pub fn replace_entry(&self, entry: usize, function: usize) {
        let place = (self.table() + (5 + entry) * 8) as *mut usize;
        // SAFETY: a word of the table, on a page that is made writable before.
        unsafe {
            let page = (place as usize & !4095) as *mut libc::c_void;
            assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ | libc::PROT_WRITE), 0);
            *place = function;
            assert_eq!(libc::mprotect(page, 4096, libc::PROT_READ), 0);
        }
    }

    pub fn allreduce(&self, data: &mut [u8], kind: i32, operator: i32) -> Ended {
        // SAFETY: pointer and length are a slice's.
        ended(unsafe { (self.allreduce)(self.group(), data.as_mut_ptr(), data.len(), kind, operator) })
    }

    pub fn broadcast(&self, data: &mut [u8], root: i32) -> Ended {
        // SAFETY: pointer and length are a slice's.
        ended(unsafe { (self.broadcast)(self.group(), data.as_mut_ptr(), data.len(), root) })
    }

    pub fn allgather(&self, data: &mut [u8]) -> Ended {
        // SAFETY: pointer and length are a slice's.
        ended(unsafe { (self.allgather)(self.group(), data.as_mut_ptr(), data.len()) })
    }

    /// `own` lies where it belongs in `received` already if `in_place`.
    pub fn allgather_v(
        &self,
        own: &[u8],
        sizes: &[i64],
        offsets: &mut [i64],
        received: &mut [u8],
        algorithm: i32,
    ) -> Ended {
        assert_eq!(offsets.len(), sizes.len() + 1);
        // SAFETY: pointers and lengths are those of slices.
        ended(unsafe {
            (self.allgather_v)(
                self.group(),
                own.as_ptr(),
                own.len(),
                sizes.as_ptr(),
                offsets.as_mut_ptr(),
                sizes.len(),
                received.as_mut_ptr(),
                received.len(),
                algorithm,
            )
        })
    }

    /// The same with the rank's own bytes where they belong in `received`.
    pub fn allgather_v_in_place(
        &self,
        rank: usize,
        sizes: &[i64],
        offsets: &mut [i64],
        received: &mut [u8],
        algorithm: i32,
    ) -> Ended {
        assert_eq!(offsets.len(), sizes.len() + 1);
        let first: i64 = sizes[..rank].iter().sum();
        let room = received.as_mut_ptr();
        // SAFETY: pointers and lengths are those of slices, or of a part of one.
        ended(unsafe {
            (self.allgather_v)(
                self.group(),
                room.add(first as usize),
                sizes[rank] as usize,
                sizes.as_ptr(),
                offsets.as_mut_ptr(),
                sizes.len(),
                room,
                received.len(),
                algorithm,
            )
        })
    }
}

/// What `/proc/self/maps` says of this address.
pub fn mapping(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let (start, end) = range.expect("a line of the table");
        let number = |text| usize::from_str_radix(text, 16).expect("a hexadecimal number");
        (number(start)..number(end)).contains(&address)
    });
    line.map(str::to_owned)
}
