//! What a launcher is told by the one that has started it on another host: on its standard input,
//! since the job's secret is a part of it. The end of that input is the end of the connection.

use rejoin_agent::join_file::JoinFile;
use rejoin_agent::protocol::error::{Code, Error};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Longer lines aren't read.
const LONGEST: u64 = 1 << 20;

/// What is said beside the join file's text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Which start of the rank's process it is.
    pub attempt: u32,
    /// How long the ranks go on without the tracker when the connection has ended, in milliseconds.
    pub lost_after_millis: u64,
    /// Local rank and size, cross rank and size of the rank, if they are known.
    pub placement: Option<[u32; 4]>,
    /// Whether the job wants to know how each rank spends its time.
    pub details: bool,
}

impl Order {
    /// Two lines: the join file's text, and this.
    pub fn lines(&self, join: &JoinFile) -> String {
        // Numbers can always be written.
        join.line() + &serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads them.
    ///
    /// # Errors
    /// `BadArgument` when something else comes.
    pub fn read(from: &mut impl BufRead) -> Result<(JoinFile, Order), Error> {
        let bad = |seen: String| {
            let text = format!(
                "--join - expected a join file's text and an order, a line each, on standard input; {seen}. It is for \
                 `rejoin run -H`, which starts launchers so; by hand name a file"
            );
            Error::new(Code::BadArgument, text)
        };
        let mut line = || {
            let mut line = String::new();
            let read = from.by_ref().take(LONGEST).read_line(&mut line).map_err(|cause| bad(cause.to_string()))?;
            if read == 0 {
                return Err(bad("it is at its end".into()));
            }
            Ok(line)
        };
        let join = JoinFile::parse(&line()?).map_err(|cause| bad(format!("the first line is none ({cause})")))?;
        let order = serde_json::from_str(&line()?).map_err(|cause| bad(format!("the second one is none ({cause})")))?;
        Ok((join, order))
    }
}

/// Turns true when standard input is at its end: the connection to the launcher that has started
/// this one is gone. It is told then, too.
pub fn has_no_starter(tell: impl FnOnce() + Send + 'static) -> Arc<AtomicBool> {
    let is_alone = Arc::new(AtomicBool::new(false));
    let noted = is_alone.clone();
    std::thread::spawn(move || {
        // Nothing more is said on it.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        noted.store(true, Ordering::Release);
        tell();
    });
    is_alone
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_agent::join_file::JobSecret;
    use rejoin_agent::transport::{JobId, Secret};

    #[test]
    fn what_is_ordered_is_read_and_anything_else_is_refused_with_what_is_expected() {
        let join = JoinFile {
            name: "training".into(),
            job: JobId([7; 16]),
            secret: JobSecret::Here(Secret::new([0xab; 32])),
            world: 2,
            tracker: "10.1.2.3:4711".parse().expect("an address"),
            life: 1,
            max: Some(4),
            encrypt: true,
            is_for_status: false,
            durable: None,
        };
        let order = Order { attempt: 3, lost_after_millis: 1500, placement: Some([1, 2, 0, 2]), details: true };
        let text = order.lines(&join);
        let (read, and) = Order::read(&mut text.as_bytes()).expect("it is read");
        let secret = read.secret.read().expect("a secret");
        assert_eq!((secret.expose(), read.most_ranks(), and), (&[0xab; 32], 4, order));
        for text in ["", "{}\n", &join.line(), &(join.line() + "what\n")] {
            let error = Order::read(&mut text.as_bytes()).expect_err("it is something else");
            assert!(error.message.contains("rejoin run -H"), "{error}");
        }
    }
}
