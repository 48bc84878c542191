//! What the ranks print: whole lines, each with its rank before it, never one inside another.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// A line without an end is passed on in pieces of this many bytes.
const LINE_LIMIT: u64 = 1 << 20;

/// A line of the program itself on standard error. Where nobody takes it nothing else is left to be done: a job isn't
/// ended for it.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Where lines go: standard output and standard error of the launcher. Both may be the same
/// terminal, so one lock is for both.
#[derive(Clone, Default)]
pub struct Sink {
    /// Whether lines were lost, which is said once.
    has_lost_lines: Arc<Mutex<bool>>,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Sink {
    /// Passes on what comes, line by line, until there is no more.
    pub fn pump(&self, from: impl Read, prefix: &str, stream: Stream) {
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
            self.write(&line, stream);
        }
    }

    /// A line of the launcher itself.
    pub fn say(&self, text: &str) {
        self.write(format!("rejoin: {text}\n").as_bytes(), Stream::Err);
    }

    fn write(&self, line: &[u8], stream: Stream) {
        // Nothing is left half done by a thread that panicked while it held the lock.
        let mut has_lost_lines = self.has_lost_lines.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match stream {
            Stream::Out => io::stdout().lock().write_all(line).and_then(|()| io::stdout().lock().flush()),
            Stream::Err => io::stderr().lock().write_all(line),
        };
        match written {
            Ok(()) => {}
            // There is no reader any more: the ranks go on all the same, and their exit status says how they ended.
            Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => {}
            Err(_) if *has_lost_lines => {}
            Err(cause) => {
                *has_lost_lines = true;
                let text =
                    format!("rejoin: what the ranks print can't be written, and is lost from here on: {cause}\n");
                let _ = io::stderr().lock().write_all(text.as_bytes()); // there is no other place to say it
            }
        }
    }

    /// Whether something that was printed could not be written, though there may be a reader.
    pub fn has_lost_lines(&self) -> bool {
        *self.has_lost_lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stands before a rank's lines: `[3] `, and `[3.1] ` after its first restart.
pub fn prefix(rank: u32, attempt: u32) -> String {
    if attempt == 0 {
        format!("[{rank}] ")
    } else {
        format!("[{rank}.{attempt}] ")
    }
}
