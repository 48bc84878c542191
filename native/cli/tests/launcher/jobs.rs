//! A job whose tracker is a process of its own, and what a test starts for it: programs in the background, whose output
//! goes to files.

use crate::harness::{example, rejoin, run, signal, until, Ran, LIMIT};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

/// Iterations of the scenario: so many that whatever is killed while the first ones run is killed in the middle.
pub const ITERATIONS: &str = "300";
pub const WORLD: &str = "4";

/// A program in the background, whose output goes to files. Killed if the test leaves it behind.
pub struct Started {
    pub child: Child,
    name: String,
    folder: PathBuf,
}

impl Started {
    pub fn text(&self, stream: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("{}.{stream}", self.name))).expect("it is text")
    }

    pub fn ended(&mut self) -> Ran {
        let began = Instant::now();
        let status: ExitStatus = loop {
            match self.child.try_wait().expect("it is this process's child") {
                Some(status) => break status,
                None => assert!(began.elapsed() < LIMIT, "{} never ends:\n{}", self.name, self.text("err")),
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        Ran { status: status.code(), out: self.text("out"), err: self.text("err") }
    }

    /// Waits until so many lines of its output have this.
    pub fn printed(&self, text: &str, lines: usize) {
        until(&format!("{lines} lines with {text:?} of {}", self.name), || {
            self.text("out").lines().filter(|line| line.contains(text)).count() >= lines
        });
    }

    pub fn kill(&mut self) {
        signal(self.child.id(), "KILL");
        self.child.wait().expect("it is this process's child");
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It has ended where a test passes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A job, and where its files are.
pub struct Job {
    pub folder: tempfile::TempDir,
}

impl Job {
    pub fn new() -> Job {
        Job { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn start(&self, name: &str, arguments: &[&str]) -> Started {
        self.start_command(name, &mut rejoin(arguments))
    }

    /// Any program.
    pub fn start_command(&self, name: &str, command: &mut Command) -> Started {
        let folder = self.folder.path().to_path_buf();
        let file = |stream: &str| Stdio::from(File::create(folder.join(format!("{name}.{stream}"))).expect("a file"));
        let command = command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let child = command.spawn().unwrap_or_else(|cause| panic!("{command:?} can't be run: {cause}"));
        Started { child, name: name.into(), folder }
    }

    /// A tracker at this loopback address; returns when it can be joined.
    pub fn tracker(&self, name: &str, address: &str) -> Started {
        let (join, events) = (self.path("join"), self.events());
        let tracker = self.start(
            name,
            &["tracker", "--job", "training", "-n", WORLD, "--join", &join, "--listen", address, "--events", &events],
        );
        until("the tracker is ready", || tracker.text("out").contains("join file"));
        tracker
    }

    /// A tracker of an elastic job, with these bounds and times.
    pub fn elastic_tracker(&self, name: &str, address: &str, options: &[&str]) -> Started {
        let (join, events) = (self.path("join"), self.events());
        let job = ["tracker", "--job", "training", "--join", &join, "--listen", address, "--events", &events];
        let tracker = self.start(name, &[&job[..], &["--lost-after", "5s"], options].concat());
        until("the tracker is ready", || tracker.text("out").contains("join file"));
        tracker
    }

    /// A host of such a job with so many slots, whose program ends when the world has had these sizes.
    pub fn slots(&self, name: &str, slots: &str, sizes: &[&str]) -> Started {
        let (join, program) = (self.path("join"), example("elastic"));
        let options = ["run", "--join", &join, "--slots", slots, "--host", name, "--timeout", "50s", "--restart"];
        self.start(name, &[&options[..], &["--", &program], sizes].concat())
    }

    /// A host with these ranks.
    pub fn host(&self, name: &str, address: &str, ranks: &str) -> Started {
        let (join, program) = (self.path("join"), example("scenario"));
        let options = ["run", "--join", &join, "--ranks", ranks, "--host", name, "--address", address];
        self.start(name, &[&options[..], &["--restart", "--timeout", "50s", "--", &program, ITERATIONS]].concat())
    }

    /// The event log, of all lives of the tracker.
    pub fn events(&self) -> String {
        self.path("events.jsonl")
    }

    /// Waits until a rank has entered version 3, by the tracker's event log: all have the model of version 1 then.
    pub fn is_under_way(&self) {
        let log = self.events();
        until("version 3 is entered", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            text.lines().any(|line| line.contains("VersionEntered") && line.contains("\"version\":3,"))
        });
    }

    pub fn processes(&self, host: &Started) -> Vec<u32> {
        children(host.child.id())
    }
}

/// The processes that this one has started and not reaped.
pub fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
}

pub fn digest(ran: &[&Ran]) -> String {
    let lines = ran.iter().flat_map(|ran| ran.out.lines());
    let mut found: Vec<&str> = lines.filter_map(|line| Some(line.split_once("digest ")?.1)).collect();
    assert!(!found.is_empty(), "no rank prints a digest");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 1, "all ranks end with one model");
    found[0].to_string()
}

/// Every version's sum has to be that of the world that has made it; the sizes of the worlds, in order.
pub fn worlds(ran: &[&Ran]) -> Vec<u64> {
    let lines = ran.iter().flat_map(|ran| ran.out.lines());
    let made: Vec<&str> = lines.filter_map(|line| Some(line.split_once("made ")?.1)).collect();
    let mut worlds = Vec::new();
    for (version, line) in made.into_iter().enumerate() {
        let (world, sum) = line.split_once(' ').expect("a world and a sum");
        let world: u64 = world.parse().expect("a world");
        let whole: u64 = (1..=world).map(|rank| rank * 1000 + version as u64).sum();
        assert_eq!(sum, whole.to_string(), "version {version} of a world of {world}");
        worlds.push(world);
    }
    worlds.dedup();
    worlds
}

/// The model of a run on one machine, without a fault.
pub fn undisturbed() -> String {
    let ran = run(&["-n", WORLD, "--", &example("scenario"), ITERATIONS]).ended(0);
    digest(&[&ran])
}
