//! Runs the binary and reads what it printed. Waits end at events; a deadline is reached only when something is broken.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait of any step. The launcher has a limit of its own in each test, so that nothing is left behind.
pub const LIMIT: Duration = Duration::from_secs(60);

/// By then a launcher has ended by its own limit.
const OVERDUE: Duration = Duration::from_secs(90);

/// What a run came to.
pub struct Ran {
    /// The exit status; `None` after a signal.
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The example of this name, which cargo has built beside the binary.
pub fn example(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_rejoin"));
    let path = folder.parent().expect("the binary is in a folder").join("examples").join(name);
    assert!(path.exists(), "{} is built by cargo test with this package", path.display());
    path.display().to_string()
}

/// `rejoin` with these arguments.
pub fn rejoin(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rejoin"));
    command.args(arguments);
    command
}

/// `rejoin run` with a limit, to its end.
pub fn run(arguments: &[&str]) -> Ran {
    run_with("5s", arguments)
}

/// The same with another time after which silence is a death.
pub fn run_with(lost_after: &str, arguments: &[&str]) -> Ran {
    finish(rejoin(&["run", "--timeout", "50s", "--lost-after", lost_after]).args(arguments))
}

pub fn finish(command: &mut Command) -> Ran {
    // Files, which don't stay open for whoever has inherited them.
    let folder = tempfile::tempdir().expect("a folder");
    let mut background = Background::spawn(command, folder);
    let status = background.status().code();
    Ran { status, out: background.out(), err: background.err() }
}

impl Ran {
    /// Fails unless the run ended with this status.
    pub fn ended(self, status: i32) -> Ran {
        assert_eq!(self.status, Some(status), "standard output:\n{}\nstandard error:\n{}", self.out, self.err);
        self
    }

    pub fn says(&self, text: &str) -> &Ran {
        assert!(self.err.contains(text), "{text:?} was expected in:\n{}", self.err);
        self
    }

    /// The lines of standard output that begin with this.
    pub fn lines<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.out.lines().filter_map(move |line| line.strip_prefix(prefix))
    }

    /// What stands behind a word in the output of every rank; it has to be the same everywhere.
    pub fn common(&self, word: &str, world: usize) -> String {
        let mut found: Vec<&str> = self.out.lines().filter_map(|line| line.split_once(word)).map(|(_, x)| x).collect();
        assert_eq!(found.len(), world, "every rank prints {word:?} once:\n{}\n{}", self.out, self.err);
        let first = found[0].split(' ').next().unwrap_or_default().to_string();
        found.retain(|text| text.split(' ').next() != Some(&first));
        assert!(found.is_empty(), "all ranks agree about {word:?}:\n{}", self.out);
        first
    }
}

/// A run in the background, whose output is written to files.
pub struct Background {
    pub child: Child,
    pub folder: tempfile::TempDir,
}

impl Background {
    pub fn start(arguments: &[&str]) -> Background {
        Background::of(&mut rejoin(&[]), arguments)
    }

    /// The same for a launcher, and processes, that may have so many files open.
    pub fn start_with_files(arguments: &[&str], most: u64) -> Background {
        let script = format!("ulimit -n {most}; exec \"$@\"");
        Background::of(Command::new("sh").args(["-c", &script, "sh", env!("CARGO_BIN_EXE_rejoin")]), arguments)
    }

    fn of(command: &mut Command, arguments: &[&str]) -> Background {
        let folder = tempfile::tempdir().expect("a folder");
        Background::spawn(command.args(["run", "--timeout", "50s"]).args(arguments), folder)
    }

    fn spawn(command: &mut Command, folder: tempfile::TempDir) -> Background {
        let file = |name: &str| std::fs::File::create(folder.path().join(name)).expect("a file");
        let (out, err) = (Stdio::from(file("out")), Stdio::from(file("err")));
        let child = command.stdout(out).stderr(err).spawn().expect("the binary can be run");
        Background { child, folder }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).expect("the output is text")
    }

    pub fn out(&self) -> String {
        self.read("out")
    }

    pub fn err(&self) -> String {
        self.read("err")
    }

    /// Waits until so many lines of the output have this word, and gives what stands behind it.
    pub fn printed(&self, word: &str, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        until(&format!("{count} lines with {word:?}"), || {
            let out = self.out();
            found = out.lines().filter_map(|line| Some(line.split_once(word)?.1.to_string())).collect();
            found.len() >= count && out.ends_with('\n')
        });
        found
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    pub fn status(&mut self) -> std::process::ExitStatus {
        let deadline = Instant::now() + OVERDUE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the launcher is this process's child") {
                return status;
            }
            if Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("it doesn't end; standard output:\n{}\nstandard error:\n{}", self.out(), self.err());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Sends a signal, as a user would.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill is there");
    assert!(sent.success());
}

/// Waits for something that has to come.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process is there and not a zombie.
pub fn lives(pid: &str) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
}
