//! One job whose ranks are threads that call C's functions.
#![allow(dead_code)] // each file of tests needs another part

use rejoin::*;
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::message::Timing;
use rejoin_agent::protocol::start::JobStart;
use rejoin_agent::protocol::tracker::{DeathLimit, TrackerConfig};
use rejoin_agent::transport::{random_u64, JobId, PortRange, Secret};
use rejoin_agent::{TrackerNotice, TrackerServer, TrackerServerConfig};
use std::ffi::{c_char, c_void, CStr, CString};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

pub const BAD_ARGUMENT: i32 = 1;
pub const INCOMPATIBLE: i32 = 12;
pub const BAD_STATE: i32 = 2;
pub const MISMATCH: i32 = 5;
pub const TRAINING_FAILED: i32 = 13;
pub const F64: i32 = 11;
pub const I32: i32 = 2;
pub const U8: i32 = 4;
pub const SUM: i32 = 0;
pub const MAX: i32 = 3;

/// A tracker, and what its processes have to know.
pub struct Job {
    tracker: TrackerServer,
    name: CString,
    secret: [u8; 32],
    world: u32,
}

/// A rank's handle, which its thread closes.
pub struct Rank(pub *mut RejoinCommunicator);

// SAFETY: a handle may go from one thread to another.
unsafe impl Send for Rank {}

impl Rank {
    pub fn message(&self) -> String {
        // SAFETY: the text stays until the next call with the handle.
        unsafe { CStr::from_ptr(rejoin_message(self.0)) }.to_str().expect("UTF-8").to_string()
    }

    pub fn check(&self, status: i32) {
        assert_eq!(status, 0, "{}", self.message());
    }

    /// The version that it starts from.
    pub fn load(&self) -> u32 {
        let (mut version, mut model, mut bytes) = (0, null(), 0);
        // SAFETY: there is room for all.
        self.check(unsafe { rejoin_load(self.0, &mut version, &mut model, &mut bytes) });
        version
    }

    pub fn number(&self) -> u32 {
        // SAFETY: the handle is open.
        unsafe { rejoin_rank(self.0) }
    }

    pub fn allreduce<T>(&self, buffer: &mut [T], element: i32, reduction: i32, site: &CStr) -> i32 {
        let data = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: the elements are of this type.
        unsafe { rejoin_allreduce(self.0, data, buffer.len(), element, reduction, site.as_ptr(), null()) }
    }

    pub fn finish(&self, model: &[u8]) -> i32 {
        // SAFETY: the bytes are there.
        unsafe { rejoin_finish(self.0, model.as_ptr().cast(), model.len()) }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        // SAFETY: it is closed once.
        unsafe { rejoin_close(self.0) };
    }
}

/// The inputs of a call without options.
pub fn no_options() -> RejoinOptions {
    let size = std::mem::size_of::<RejoinOptions>();
    RejoinOptions { size, order: 0, boot: 0, boot_name: null(), prepare: None, prepare_user: null_mut() }
}

impl Job {
    pub fn new(world: u32) -> Job {
        let number = u128::from(random_u64()) << 64 | u128::from(random_u64());
        let secret: [u8; 32] = std::array::from_fn(|_| random_u64() as u8);
        let timing =
            Timing { heartbeat_millis: 50, lost_after_millis: 2_000, lease_millis: 10_000, members_millis: 20_000 };
        let rules = TrackerConfig {
            world,
            spares: 0,
            elastic: None,
            epoch: 1,
            timing,
            deaths: DeathLimit::new(20, "a setting"),
            start: JobStart::Fresh,
            faults: Vec::new(),
            wants_result: false,
        };
        let tracker = TrackerServer::start(TrackerServerConfig {
            job: JobId(number.to_be_bytes()),
            secret: Secret::new(secret),
            encrypt: false,
            listen: [127, 0, 0, 1].into(),
            ports: PortRange::EPHEMERAL,
            rules,
        });
        let name = CString::new(format!("{number:032x}")).expect("digits");
        Job { tracker: tracker.expect("a tracker"), name, secret, world }
    }

    /// Waits for an event of the tracker.
    pub fn until(&self, what: &str, wanted: impl Fn(&Event) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            let reported = self.tracker.poll(Duration::from_millis(50)).expect("the tracker lives");
            if matches!(&reported, Some(TrackerNotice::Event(event)) if wanted(event)) {
                return;
            }
        }
        panic!("never happened: {what}");
    }

    /// A process's handle.
    pub fn process(&self, executor: &CStr) -> *mut RejoinProcess {
        self.process_with(executor, |_| {})
    }

    /// One with other settings.
    pub fn process_with(&self, executor: &CStr, change: impl FnOnce(&mut RejoinConfig)) -> *mut RejoinProcess {
        self.with_config(executor, change, |config| {
            let mut process = null_mut();
            // SAFETY: texts and bytes are there.
            assert_eq!(unsafe { rejoin_process_start(config, &mut process) }, 0);
            process
        })
    }

    /// What a process is started with, for as long as `start` takes.
    pub fn with_config<T>(
        &self,
        executor: &CStr,
        change: impl FnOnce(&mut RejoinConfig),
        start: impl FnOnce(&RejoinConfig) -> T,
    ) -> T {
        let tracker = CString::new(self.tracker.address().to_string()).expect("an address");
        let mut config = RejoinConfig {
            size: std::mem::size_of::<RejoinConfig>(),
            job: self.name.as_ptr(),
            secret: self.secret.as_ptr(),
            tracker: tracker.as_ptr(),
            listen: null(),
            ports: null(),
            host: null(),
            executor: executor.as_ptr(),
            encrypt: 0,
            tracker_timeout_millis: 0,
            log_memory: 0,
            log_disk: 0,
            spill: null(),
            durable: null(),
            durable_every: 0,
            own_copies: 0,
        };
        change(&mut config);
        start(&config)
    }

    pub fn join(&self, process: *mut RejoinProcess, rank: u32, task: u32) -> (Rank, i32) {
        let limits = RejoinLimits {
            size: std::mem::size_of::<RejoinLimits>(),
            join_millis: 20_000,
            call_millis: 20_000,
            finish_millis: 20_000,
        };
        let mut handle = null_mut();
        // SAFETY: the process is open.
        let status = unsafe { rejoin_join(process, rank, 0, task, c"a test".as_ptr(), &limits, &mut handle) };
        let rank = Rank(handle);
        if status == 0 {
            rank.load();
        }
        (rank, status)
    }

    /// Runs every rank's work, all in one process. Results in rank order.
    pub fn all<T: Send>(&self, work: impl Fn(&Rank) -> T + Sync) -> Vec<T> {
        let process = self.process(c"the only one") as usize;
        let results = std::thread::scope(|scope| {
            let work = &work;
            let begin = |rank| {
                scope.spawn(move || {
                    let (rank, status) = self.join(process as *mut RejoinProcess, rank, 0);
                    rank.check(status);
                    work(&rank)
                })
            };
            let threads: Vec<_> = (0..self.world).map(begin).collect();
            threads.into_iter().map(|thread| thread.join().expect("a rank's thread")).collect()
        });
        // SAFETY: it is closed once.
        unsafe { rejoin_process_close(process as *mut RejoinProcess) };
        results
    }
}

/// A prepare function that counts its calls and fills ones.
pub unsafe extern "C" fn ones(user: *mut c_void, buffer: *mut c_void, bytes: usize) -> i32 {
    // SAFETY: the test hands a counter over.
    unsafe { *user.cast::<u32>() += 1 };
    // SAFETY: the library hands a buffer of f64 over, which need not be aligned.
    (0..bytes / 8).for_each(|at| unsafe { buffer.cast::<f64>().add(at).write_unaligned(1.0) });
    0
}

/// One that fails.
pub unsafe extern "C" fn fails(_: *mut c_void, _: *mut c_void, _: usize) -> i32 {
    7
}

pub fn text(text: *const c_char) -> String {
    // SAFETY: the library gives texts that end.
    unsafe { CStr::from_ptr(text) }.to_str().expect("UTF-8").to_string()
}
