//! How a process is started on another host: by ssh, or a command that is used as it, and `rejoin run --join -` there.

use super::order::Order;
use super::Options;
use rejoin_agent::join_file::JoinFile;
use rejoin_agent::protocol::error::{Code, Error};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

/// The status of ssh when it has no connection, or has it no more.
pub const NO_CONNECTION: i32 = 255;

/// What is the same for all processes on other hosts.
pub struct Ssh {
    /// The command and its options.
    words: Vec<String>,
    /// Folder, `rejoin` and options, quoted for the shell of the other host.
    before: OsString,
    /// The program and its arguments.
    after: OsString,
    join: JoinFile,
    order: Order,
}

impl Ssh {
    /// Of this run.
    ///
    /// # Errors
    /// `Io` when this program's path or folder can't be told, `BadArgument` for a command without a word.
    pub fn new(options: &Options, join: JoinFile) -> Result<Ssh, Error> {
        let io = |what: &str, cause: std::io::Error| {
            Error::new(Code::Io, format!("the launcher can't tell {what}, which other hosts need: {cause}"))
        };
        let rejoin = std::env::current_exe().map_err(|cause| io("where `rejoin` is", cause))?;
        let folder = std::env::current_dir().map_err(|cause| io("which folder it is in", cause))?;
        let words = shlex::split(&options.ssh).filter(|words| !words.is_empty()).ok_or_else(|| {
            let seen =
                format!("--ssh is {:?}; expected a command, as a shell would read it: \"ssh -p 2222\"", options.ssh);
            Error::new(Code::BadArgument, seen)
        })?;
        let mut before = OsString::from("cd ");
        before.push(quoted(folder.as_os_str()));
        before.push(" && exec ");
        before.push(quoted(rejoin.as_os_str()));
        before.push(" run --join -");
        let number = |name: &str, number: u64| format!(" {name} {number}");
        before.push(format!(" --grace {}ms --log {}", options.limits.grace.as_millis(), options.log));
        before.push(number("--log-memory", options.logs.memory));
        before.push(number("--log-disk", options.logs.disk));
        before.push(number("--own-copies", u64::from(options.own_copies)));
        before.push(if options.shares_memory { "" } else { " --no-shared-memory" });
        before.push(if options.calls { " --calls" } else { "" });
        if let Some(spill) = &options.logs.spill {
            before.push(" --spill ");
            before.push(quoted(spill.as_os_str()));
        }
        let mut after = OsString::from(" --");
        for word in &options.command {
            after.push(" ");
            after.push(quoted(word));
        }
        let details = options.events.is_some();
        let lost_after_millis = options.limits.lost_after.as_millis() as u64;
        let order = Order { attempt: 0, lost_after_millis, placement: None, details };
        Ok(Ssh { words, before, after, join, order })
    }

    /// The command's name.
    pub fn program(&self) -> &str {
        &self.words[0]
    }

    /// The command that starts a rank's process on a host.
    pub fn command(&self, host: &str, rank: u32) -> Command {
        let mut line = self.before.clone();
        line.push(format!(" --rank {rank} --host "));
        line.push(quoted(OsStr::new(host)));
        line.push(&self.after);
        let mut command = Command::new(PathBuf::from(&self.words[0]));
        command.args(&self.words[1..]).arg(host).arg(line);
        command
    }

    /// What it is told on its standard input.
    pub fn order(&self, attempt: u32, placement: Option<[u32; 4]>) -> String {
        Order { attempt, placement, ..self.order.clone() }.lines(&self.join)
    }
}

/// A word that a shell takes as it is.
fn quoted(word: &OsStr) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = vec![b'\''];
    for byte in word.as_bytes() {
        match byte {
            b'\'' => bytes.extend_from_slice(b"'\\''"),
            byte => bytes.push(*byte),
        }
    }
    bytes.push(b'\'');
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_quoted_word_as_it_is() {
        for word in ["plain", "two words", "$HOME `id` \"x\"", "it's", "", "a\nb", "*"] {
            let mut line = OsString::from("printf %s ");
            line.push(quoted(OsStr::new(word)));
            let out = Command::new("sh").arg("-c").arg(line).output().expect("a shell is there").stdout;
            assert_eq!(String::from_utf8(out).expect("text"), word);
        }
    }
}
