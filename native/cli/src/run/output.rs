//! What is printed: whole lines, those of a rank with its number before them, never one inside another.
//!
//! The program's own lines have a thread of their own: who reads them may stop reading, and nothing else waits for it.

use crossbeam::channel::{unbounded, Sender};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A line without an end is passed on in pieces of this many bytes.
const LINE_LIMIT: u64 = 1 << 20;
/// So long last lines are waited for that may never come, or that nobody may ever read.
pub const LAST_LINES: Duration = Duration::from_secs(2);

/// Whether lines were lost, which is said once.
static HAS_LOST_LINES: AtomicBool = AtomicBool::new(false);
/// Held while a line is written to standard output, and to standard error. Both may be the same terminal or pipe: the
/// first is for both then. Where they aren't, who doesn't read one of them gets the other.
static LOCKS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
static IS_ONE: LazyLock<bool> = LazyLock::new(|| {
    let which = |descriptor: u32| {
        let facts = std::fs::metadata(format!("/proc/self/fd/{descriptor}")).ok()?;
        Some((facts.dev(), facts.ino()))
    };
    which(1) == which(2)
});
/// Threads that write a rank's line, or wait for their turn.
static WRITERS: AtomicUsize = AtomicUsize::new(0);
/// Lines of the program's own that aren't written yet.
static UNSAID: AtomicUsize = AtomicUsize::new(0);
/// To the thread that writes them; none where it can't be started.
static OWN: LazyLock<Option<Sender<String>>> = LazyLock::new(|| {
    let (own, lines) = unbounded::<String>();
    let write_all = move || {
        while let Ok(line) = lines.recv() {
            write(line.as_bytes(), Stream::Err);
            UNSAID.fetch_sub(1, Ordering::AcqRel);
        }
    };
    thread::Builder::new().name("lines".into()).spawn(write_all).ok().map(|_| own)
});

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// A line of the program itself on standard error. Where nobody takes it nothing else is left to be done: a job isn't
/// ended for it.
pub fn say(text: &str) {
    let line = format!("{text}\n");
    match &*OWN {
        Some(own) => {
            UNSAID.fetch_add(1, Ordering::AcqRel);
            let _ = own.send(line); // the thread lives as long as the program
        }
        None => write(line.as_bytes(), Stream::Err),
    }
}

/// Waits until what the program has said is written, but not for a reader that doesn't read.
pub fn drain() {
    let until = Instant::now() + LAST_LINES;
    while UNSAID.load(Ordering::Acquire) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Passes on what comes, line by line, until there is no more.
pub fn pump(from: impl Read, prefix: &str, stream: Stream) {
    let mut reader = BufReader::with_capacity(64 << 10, from);
    let mut line = prefix.as_bytes().to_vec();
    loop {
        line.truncate(prefix.len());
        match reader.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        WRITERS.fetch_add(1, Ordering::AcqRel);
        write(&line, stream);
        WRITERS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether something that a rank has printed is being written just now, or waits for whoever reads it.
pub fn is_writing() -> bool {
    WRITERS.load(Ordering::Acquire) > 0
}

fn write(line: &[u8], stream: Stream) {
    let lock = usize::from(stream == Stream::Err && !*IS_ONE);
    // Nothing is left half done by a thread that panicked while it held the lock.
    let _held = LOCKS[lock].lock().unwrap_or_else(PoisonError::into_inner);
    let written = match stream {
        Stream::Out => io::stdout().lock().write_all(line).and_then(|()| io::stdout().lock().flush()),
        Stream::Err => io::stderr().lock().write_all(line),
    };
    match written {
        Ok(()) => {}
        // There is no reader any more: the ranks go on all the same, and their exit status says how they ended.
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {}
        Err(cause) => {
            if !HAS_LOST_LINES.swap(true, Ordering::AcqRel) {
                let text = format!("rejoin: what is printed can't be written, and is lost from here on: {cause}\n");
                let _ = io::stderr().lock().write_all(text.as_bytes()); // there is no other place to say it
            }
        }
    }
}

/// Whether something that was printed could not be written, though there may be a reader.
pub fn has_lost_lines() -> bool {
    HAS_LOST_LINES.load(Ordering::Acquire)
}

/// What stands before a rank's lines: `[3] `, and `[3.1] ` after its first restart.
pub fn prefix(rank: u32, attempt: u32) -> String {
    if attempt == 0 {
        format!("[{rank}] ")
    } else {
        format!("[{rank}.{attempt}] ")
    }
}
