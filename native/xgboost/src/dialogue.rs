//! What a worker says to its tracker, without the socket: magic number, then length-prefixed JSON texts.
//!
//! Source: `src/collective/protocol.h` of XGBoost, the same from 2.1 to 3.4. A worker opens one connection per command.

use serde_json::{json, Value};

/// Both sides begin with this.
const MAGIC: i32 = 0xff99;

/// Longest text that is accepted; the longest that a worker sends is an error report.
const TEXT_LIMIT: usize = 1 << 20;

/// Most of an error report or a message that is kept for a log line.
const PRINTED_LIMIT: usize = 2000;

/// One thing that a worker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerMessage {
    /// Its name: the token that it was given as its task id.
    Hello {
        /// The token.
        task_id: String,
    },
    /// It wants to be connected; its own listener is at this port.
    Start { port: u16 },
    /// It is about to leave.
    Shutdown,
    /// It failed.
    Error {
        /// With this report.
        message: String,
    },
    /// It wants this in the tracker's log.
    Print {
        /// The text.
        message: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Magic,
    Hello,
    Command,
    Over,
}

/// The reading side of one connection of a worker to its tracker.
#[derive(Debug)]
pub(crate) struct Dialogue {
    stage: Stage,
    bytes: Vec<u8>,
}

impl Dialogue {
    /// Nothing heard yet.
    pub(crate) fn new() -> Self {
        Dialogue { stage: Stage::Magic, bytes: Vec::new() }
    }

    /// Bytes came in.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next thing said; `None` until more comes in. An error in words means that this is no worker.
    pub(crate) fn next(&mut self) -> Result<Option<WorkerMessage>, String> {
        if self.stage == Stage::Magic {
            let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
            let magic = i32::from_le_bytes(*head);
            if magic != MAGIC {
                return Err(format!("expected the magic number {MAGIC:#x}, saw {magic:#x}"));
            }
            self.bytes.drain(..4);
            self.stage = Stage::Hello;
        }
        if self.stage == Stage::Over {
            return Ok(None);
        }
        let Some(text) = self.text()? else { return Ok(None) };
        if self.stage == Stage::Hello {
            self.stage = Stage::Command;
            let task_id = text["task_id"].as_str().ok_or("expected a task_id in the greeting")?.to_owned();
            return Ok(Some(WorkerMessage::Hello { task_id }));
        }
        self.stage = Stage::Over;
        match text["cmd"].as_i64() {
            Some(1) => {
                let port = text["port"].as_u64().and_then(|p| u16::try_from(p).ok()).filter(|p| *p > 0);
                Ok(Some(WorkerMessage::Start { port: port.ok_or("expected the port of the worker's listener")? }))
            }
            Some(2) => Ok(Some(WorkerMessage::Shutdown)),
            Some(3) => Ok(Some(WorkerMessage::Error { message: printable(&text["msg"]) })),
            Some(4) => Ok(Some(WorkerMessage::Print { message: printable(&text["msg"]) })),
            _ => Err(format!("expected a command from 1 to 4, saw {}", text["cmd"])),
        }
    }

    fn text(&mut self) -> Result<Option<Value>, String> {
        let Some(head) = self.bytes.first_chunk::<4>() else { return Ok(None) };
        let length = i32::from_le_bytes(*head);
        let length = usize::try_from(length).ok().filter(|l| *l <= TEXT_LIMIT);
        let length = length.ok_or_else(|| format!("text of more than {TEXT_LIMIT} bytes announced"))?;
        let Some(text) = self.bytes.get(4..4 + length) else { return Ok(None) };
        let value = serde_json::from_slice(text).map_err(|cause| format!("text that is no JSON: {cause}"))?;
        self.bytes.drain(..4 + length);
        Ok(Some(value))
    }
}

/// What the tracker sends first.
pub(crate) fn magic() -> [u8; 4] {
    MAGIC.to_le_bytes()
}

/// The answer to a start: how many ranks there are, and which is next on the ring. A worker's own rank is the one
/// before.
pub(crate) fn welcome(world: u32, next_port: u16, next_rank: u32) -> Vec<u8> {
    let mut bytes = framed(&json!({ "world_size": world }));
    bytes.extend(framed(&json!({ "host": "127.0.0.1", "port": next_port, "rank": next_rank })));
    bytes
}

fn framed(value: &Value) -> Vec<u8> {
    let text = value.to_string();
    let mut bytes = (text.len() as i32).to_le_bytes().to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn printable(value: &Value) -> String {
    let text = value.as_str().unwrap_or("");
    text.chars().take(PRINTED_LIMIT).collect()
}

#[cfg(test)]
#[path = "../../../fuzz/kept.rs"]
mod kept;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn said(parts: &[Value]) -> Vec<u8> {
        let mut bytes = magic().to_vec();
        parts.iter().for_each(|part| bytes.extend(framed(part)));
        bytes
    }

    fn heard(bytes: &[u8], step: usize) -> Result<Vec<WorkerMessage>, String> {
        let mut dialogue = Dialogue::new();
        let mut all = Vec::new();
        for piece in bytes.chunks(step) {
            dialogue.feed(piece);
            while let Some(one) = dialogue.next()? {
                all.push(one);
            }
        }
        Ok(all)
    }

    #[test]
    fn a_start_is_understood_however_its_bytes_arrive() {
        let bytes = said(&[
            json!({"world_size": -1, "rank": -1, "task_id": "secret"}),
            json!({"cmd": 1, "port": 4711, "error_port": 1}),
        ]);
        let want = [WorkerMessage::Hello { task_id: "secret".into() }, WorkerMessage::Start { port: 4711 }];
        for step in [1, 2, 3, 5, 1000] {
            assert_eq!(heard(&bytes, step).unwrap(), want, "in pieces of {step}");
        }
    }

    #[test]
    fn the_other_commands_are_understood() {
        let hello = json!({"world_size": 2, "rank": 0, "task_id": "t"});
        let last = |command: Value| heard(&said(&[hello.clone(), command]), 7).unwrap().pop().unwrap();
        assert_eq!(last(json!({"cmd": 2})), WorkerMessage::Shutdown);
        assert_eq!(last(json!({"cmd": 3, "msg": "bad", "code": 5})), WorkerMessage::Error { message: "bad".into() });
        assert_eq!(last(json!({"cmd": 4, "msg": "[0] rmse"})), WorkerMessage::Print { message: "[0] rmse".into() });
    }

    #[test]
    fn a_stranger_is_told_by_its_first_bytes() {
        assert!(heard(b"GET / HTTP/1.1\r\n", 16).unwrap_err().contains("magic number"));
        let mut long = magic().to_vec();
        long.extend(i32::MAX.to_le_bytes());
        assert!(heard(&long, 8).unwrap_err().contains("announced"));
        let mut negative = magic().to_vec();
        negative.extend((-1i32).to_le_bytes());
        assert!(heard(&negative, 8).unwrap_err().contains("announced"));
        let mut text = magic().to_vec();
        text.extend(3i32.to_le_bytes());
        text.extend(b"abc");
        assert!(heard(&text, 11).unwrap_err().contains("no JSON"));
        assert!(heard(&said(&[json!({"task_id": "t"}), json!({"cmd": 9})]), 99).unwrap_err().contains("command"));
        assert!(heard(&said(&[json!({"task_id": "t"}), json!({"cmd": 1, "port": 0})]), 99)
            .unwrap_err()
            .contains("port"));
    }

    /// Whatever is said is heard in the same way however its bytes arrive, and is not kept beyond the longest text.
    fn any_pieces(bytes: &[u8]) {
        let whole = heard(bytes, bytes.len().max(1));
        for step in [1, 3, 64] {
            match (&whole, heard(bytes, step)) {
                (Ok(whole), Ok(pieces)) => assert_eq!(*whole, pieces, "in pieces of {step}"),
                (Err(whole), Err(pieces)) => assert_eq!(*whole, pieces, "in pieces of {step}"),
                (whole, pieces) => panic!("{whole:?} at once, {pieces:?} in pieces of {step}"),
            }
        }
    }

    #[test]
    fn the_kept_corpus_of_the_fuzz_target_runs_through() {
        kept::inputs("worker_dialogue").iter().for_each(|bytes| any_pieces(bytes));
    }

    proptest! {
        #[test]
        fn anything_said_is_heard_or_refused_however_it_arrives(
            bytes in vec(any::<u8>(), 0..200), texts in vec("\\PC{0,40}", 0..3), command: i64, port: u64, at: usize,
            byte: u8,
        ) {
            any_pieces(&bytes);
            any_pieces(&[&magic()[..], &bytes].concat());
            let strings: Vec<Value> = texts.into_iter().map(Value::from).collect();
            any_pieces(&said(&strings));
            let mut bytes = said(&[json!({"task_id": "t"}), json!({"cmd": command % 6, "port": port, "msg": "m"})]);
            any_pieces(&bytes);
            let length = bytes.len();
            bytes[at % length] = byte;
            any_pieces(&bytes);
        }
    }
}
