//! The join file: where processes of other hosts find the job's tracker, and what proves that they belong to the job.
//!
//! The secret stands in it, or in a file of the user's that it names. It is this user's alone, and one that others can
//! read isn't used.

use rejoin_protocol::error::{Code, Error};
use rejoin_transport::{JobId, Secret};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longer files aren't read.
const LONGEST: u64 = 1 << 20;

/// What a join file says.
#[derive(Clone, Debug)]
pub struct JoinFile {
    /// The job's name.
    pub name: String,
    /// By which the tracker knows who belongs to it.
    pub job: JobId,
    /// What processes prove that they belong to the job with, or the file that has it.
    pub secret: JobSecret,
    /// Number of ranks.
    pub world: u32,
    /// Where the tracker is.
    pub tracker: SocketAddr,
    /// Which life of the tracker that is; the first is 1.
    pub life: u32,
    /// The most ranks that there may be; `None`: their number is fixed.
    pub max: Option<u32>,
    /// What ranks send each other is encrypted.
    pub encrypt: bool,
    /// No other launcher starts ranks of the job: the file is there to ask how it is.
    pub is_for_status: bool,
    /// Where all ranks write durable checkpoints, whoever starts them; `None`: nowhere.
    pub durable: Option<DurablePlace>,
}

/// Where a job's secret stands.
#[derive(Clone, Debug)]
pub enum JobSecret {
    /// In the join file itself.
    Here(Secret),
    /// In this file of the user's, which each host has under this name.
    In(PathBuf),
}

impl JobSecret {
    /// The secret: of a file what it holds now.
    ///
    /// # Errors
    /// `Io` when the file can't be read; `BadArgument` when it is a third user's, others can read it, or it holds none.
    pub fn read(&self) -> Result<Secret, Error> {
        match self {
            JobSecret::Here(secret) => Ok(secret.clone()),
            JobSecret::In(file) => secret_in(file),
        }
    }

    /// Where it stands, if that isn't the join file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            JobSecret::Here(_) => None,
            JobSecret::In(file) => Some(file),
        }
    }
}

/// Durable checkpoints of a job whose ranks are started by several launchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurablePlace {
    /// A folder that all hosts see by this name, which is whole.
    pub folder: PathBuf,
    /// Every how many versions one is written.
    pub every: NonZeroU32,
    /// What the job's files are marked with.
    pub identity: JobId,
}

/// How a launcher finds its job's tracker.
#[derive(Clone, Debug)]
pub enum JoinSource {
    /// By this file, whenever it looks for it.
    File(PathBuf),
    /// It was told, and there is no other place.
    Told(Box<JoinFile>),
}

impl JoinSource {
    /// Where the tracker is now; `None` where no file says it.
    ///
    /// # Errors
    /// As [`JoinFile::read`].
    pub fn read(&self) -> Result<Option<JoinFile>, Error> {
        match self {
            JoinSource::File(path) => JoinFile::read(path),
            JoinSource::Told(join) => Ok(Some((**join).clone())),
        }
    }
}

impl fmt::Display for JoinSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinSource::File(path) => write!(formatter, "{}", path.display()),
            JoinSource::Told(_) => write!(formatter, "-"),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    job: String,
    id: String,
    world: u32,
    tracker: SocketAddr,
    life: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    encrypt: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_for_status: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    durable: Option<WrittenPlace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct WrittenPlace {
    folder: PathBuf,
    every: NonZeroU32,
    identity: String,
}

impl JoinFile {
    /// Reads a join file, and not that of its secret; `None` where there is none.
    ///
    /// # Errors
    /// `Io` when it can't be read; `BadArgument` when it is another user's, others can read it, or it is no join file.
    pub fn read(path: &Path) -> Result<Option<JoinFile>, Error> {
        let what = format!("the join file {}", path.display());
        let Some((text, facts)) = text_of(path, &what)? else { return Ok(None) };
        let bad = |text: String| Error::new(Code::BadArgument, format!("{what} {text}"));
        if facts.uid() != user() {
            return Err(bad(format!(
                "belongs to user {} and this process to user {}; only its owner's processes may join",
                facts.uid(),
                user()
            )));
        }
        if facts.mode() & 0o077 != 0 {
            return Err(bad(format!(
                "has mode {:03o}, so others can read what joins the job; expected 600. End the job, remove the file \
                 and start the tracker again: the job's secret may be known",
                facts.mode() & 0o777
            )));
        }
        let none = |cause: String| bad(format!("is none ({cause}); `rejoin tracker --join` writes one"));
        JoinFile::parse(&text).map(Some).map_err(none)
    }

    /// What a join file says, of its text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<JoinFile, String> {
        let written: Written = serde_json::from_str(text).map_err(|cause| cause.to_string())?;
        let job = from_hex(&written.id).ok_or("its id is not 32 hexadecimal digits")?;
        let here = || written.secret.as_deref().and_then(from_hex).map(|bytes| JobSecret::Here(Secret::new(bytes)));
        let secret = written.secret_file.map(JobSecret::In).or_else(here);
        let secret = secret.ok_or("its secret is not 64 hexadecimal digits")?;
        let place = |WrittenPlace { folder, every, identity }| {
            let identity = from_hex(&identity).ok_or("what its durable checkpoints are marked with is no number")?;
            match folder.is_absolute() {
                true => Ok(DurablePlace { folder, every, identity: JobId(identity) }),
                false => Err("its folder of durable checkpoints is not a whole path"),
            }
        };
        let durable = written.durable.map(place).transpose()?;
        Ok(JoinFile {
            name: written.job,
            job: JobId(job),
            secret,
            world: written.world,
            tracker: written.tracker,
            life: written.life,
            max: written.max,
            encrypt: written.encrypt,
            is_for_status: written.is_for_status,
            durable,
        })
    }

    /// How many ranks there may be at the most.
    pub fn most_ranks(&self) -> u32 {
        self.max.unwrap_or(self.world)
    }

    /// The same on one line, the secret included: for a pipe that nobody else reads.
    pub fn line(&self) -> String {
        // Numbers and texts can always be written.
        serde_json::to_string(&self.written()).unwrap_or_default() + "\n"
    }

    fn written(&self) -> Written {
        Written {
            job: self.name.clone(),
            id: self.job.to_string(),
            world: self.world,
            tracker: self.tracker,
            life: self.life,
            max: self.max,
            encrypt: self.encrypt,
            is_for_status: self.is_for_status,
            durable: self.durable.as_ref().map(|place| WrittenPlace {
                folder: place.folder.clone(),
                every: place.every,
                identity: place.identity.to_string(),
            }),
            secret_file: self.secret.file().map(Path::to_path_buf),
            secret: match &self.secret {
                JobSecret::Here(secret) => Some(secret.expose().iter().map(|byte| format!("{byte:02x}")).collect()),
                JobSecret::In(_) => None,
            },
        }
    }

    /// Writes it whole, for this user alone; whoever reads at the same time gets the old one or this one.
    ///
    /// # Errors
    /// `Io` when it can't be written.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let written = self.written();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let write = || {
            // Made with mode 600.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            serde_json::to_writer_pretty(&mut file, &written)?;
            file.write_all(b"\n")?;
            file.as_file().sync_all()?;
            file.persist(path).map_err(|failed| failed.error)?;
            // Only now a crash of the machine leaves the new one: a tracker that found the former would take the number
            // of a life that agents know already.
            File::open(folder)?.sync_all()
        };
        write().map_err(|cause: io::Error| {
            Error::new(
                Code::Io,
                format!("the join file {} can't be written: {cause}; name one in a folder that can be", path.display()),
            )
        })
    }
}

/// A file's text, with its owner and mode; `None` where there is none.
fn text_of(path: &Path, what: &str) -> Result<Option<(String, Metadata)>, Error> {
    let io = |cause: io::Error| Error::new(Code::Io, format!("{what} can't be read: {cause}"));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(io(cause)),
    };
    // Asked of what was opened, not of what stands there a moment later.
    let facts = file.metadata().map_err(io)?;
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(io)?;
    Ok(Some((text, facts)))
}

fn user() -> u32 {
    // SAFETY: it only asks, and can't fail.
    unsafe { libc::geteuid() }
}

/// A secret that the user has given in a file: 64 hexadecimal digits. It may be root's, and readable by a group, as
/// Kubernetes mounts a Secret.
fn secret_in(path: &Path) -> Result<Secret, Error> {
    let what = format!("the secret's file {}", path.display());
    let missing = || {
        Error::new(Code::Io, format!("{what} isn't there; expected it on each host of the job, under the same name"))
    };
    let (text, facts) = text_of(path, &what)?.ok_or_else(missing)?;
    let bad = |text: String| Error::new(Code::BadArgument, format!("{what} {text}"));
    if ![0, user()].contains(&facts.uid()) {
        return Err(bad(format!("belongs to user {}; expected user {} or root", facts.uid(), user())));
    }
    let others = if facts.uid() == 0 { 0o027 } else { 0o077 };
    if facts.mode() & others != 0 {
        return Err(bad(format!(
            "has mode {:03o}, so others can read it or write to it; expected 600, or 440 if it is root's. Make a new \
             secret: this one may be known",
            facts.mode() & 0o777
        )));
    }
    let digits = "expected 64 hexadecimal digits, as `openssl rand -hex 32` prints";
    from_hex(text.trim()).map(Secret::new).ok_or_else(|| bad(format!("holds none; {digits}")))
}

fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn written() -> (tempfile::TempDir, std::path::PathBuf, JoinFile) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("join");
        let file = JoinFile {
            name: "training".into(),
            job: JobId([7; 16]),
            secret: JobSecret::Here(Secret::new([0xab; 32])),
            world: 8,
            tracker: "10.1.2.3:4711".parse().expect("an address"),
            life: 3,
            max: None,
            encrypt: true,
            is_for_status: false,
            durable: Some(DurablePlace {
                folder: "/shared/checkpoints".into(),
                every: NonZeroU32::new(5).expect("it isn't 0"),
                identity: JobId([9; 16]),
            }),
        };
        file.write(&path).expect("it is written");
        (folder, path, file)
    }

    #[test]
    fn what_is_written_is_read_and_is_this_users_alone() {
        let (_folder, path, file) = written();
        let mode = std::fs::metadata(&path).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = JoinFile::read(&path).expect("it is read").expect("it is there");
        assert_eq!((read.name, read.job, read.world), (file.name, file.job, file.world));
        assert_eq!((read.tracker, read.life), (file.tracker, file.life));
        assert_eq!(read.secret.read().expect("a secret").expose(), &[0xab; 32]);
        assert_eq!(read.durable, file.durable);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let (_folder, path, _) = written();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("a mode");
        let error = JoinFile::read(&path).expect_err("the group can read it");
        assert_eq!(error.code, Code::BadArgument);
        assert!(error.message.contains("mode 640") && error.message.contains("expected 600"), "{error}");
    }

    #[test]
    fn a_join_file_may_name_the_file_of_its_secret_and_has_none_itself_then() {
        let (folder, path, mut file) = written();
        let secret = folder.path().join("secret");
        let digits = "cd".repeat(32);
        let write = |text: &str, mode: u32| {
            std::fs::write(&secret, text).expect("it is written");
            std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).expect("a mode");
        };
        write(&(digits.clone() + "\n"), 0o600);
        file.secret = JobSecret::In(secret.clone());
        file.write(&path).expect("it is written");
        let text = std::fs::read_to_string(&path).expect("it is text");
        assert!(!text.contains(&digits) && !text.contains("abab"), "{text}");
        let read = JoinFile::read(&path).expect("it is read").expect("it is there");
        assert_eq!(read.secret.file(), Some(secret.as_path()));
        assert_eq!(read.secret.read().expect("a secret").expose(), &[0xcd; 32]);
        for (text, mode, expected) in [
            (digits.as_str(), 0o604, "has mode 604"),
            (digits.as_str(), 0o620, "has mode 620"),
            ("a word", 0o600, "expected 64 hexadecimal digits, as `openssl rand -hex 32` prints"),
        ] {
            write(text, mode);
            let error = read.secret.read().expect_err(expected);
            assert_eq!(error.code, Code::BadArgument);
            assert!(error.message.contains("the secret's file") && error.message.contains(expected), "{error}");
        }
        // Root's may be a group's to read, but not to write, and a third user's isn't taken.
        if user() == 0 {
            write(&digits, 0o440);
            read.secret.read().expect("as Kubernetes mounts it");
            std::os::unix::fs::chown(&secret, Some(65534), None).expect("root gives it away");
            let error = read.secret.read().expect_err("nobody's");
            assert!(error.message.contains("belongs to user 65534; expected user 0 or root"), "{error}");
        }
        std::fs::remove_file(&secret).expect("it is removed");
        JoinFile::read(&path).expect("where the tracker is can still be asked").expect("it is there");
        let error = read.secret.read().expect_err("it isn't there");
        assert!(error.message.contains("expected it on each host of the job"), "{error}");
    }

    #[test]
    fn what_is_no_join_file_is_refused_and_one_that_is_not_there_is_none() {
        let (_folder, path, _) = written();
        let text = std::fs::read_to_string(&path).expect("it is text");
        let shorter = text.replace("\"abab", "\"ab");
        std::fs::write(&path, shorter).expect("it is written");
        let error = JoinFile::read(&path).expect_err("a secret of 31 bytes");
        assert!(error.message.contains("64 hexadecimal digits"), "{error}");
        for (was, is) in [("/shared/", "shared/"), ("\"every\": 5", "\"every\": 0"), ("\"0909", "\"09")] {
            assert!(text.contains(was), "{text}");
            std::fs::write(&path, text.replace(was, is)).expect("it is written");
            JoinFile::read(&path).expect_err("no place of durable checkpoints");
        }
        std::fs::write(&path, "no object").expect("it is written");
        assert!(JoinFile::read(&path).expect_err("no object").message.contains("rejoin tracker --join"));
        std::fs::remove_file(&path).expect("it is removed");
        assert!(JoinFile::read(&path).expect("none is no error").is_none());
    }
}
