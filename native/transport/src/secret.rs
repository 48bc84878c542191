//! What a process must have to take part in a job.

use rejoin_protocol::error::{Code, Error};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The 256 random bits that every process of a job has, and nothing else. Clones share one copy, which is overwritten
/// with zeros when the last one is dropped. Never printed.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<[u8; 32]>>);

impl Secret {
    /// The secret of a job that exists already.
    pub fn new(bytes: [u8; 32]) -> Self {
        Secret(Arc::new(Zeroizing::new(bytes)))
    }

    /// A new job's secret, from the operating system's generator.
    ///
    /// # Errors
    /// `IO` when the operating system has no randomness to give.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        fill(bytes.as_mut_slice())?;
        Ok(Secret(Arc::new(bytes)))
    }

    /// The bytes, for handing them to a task by the framework's own authenticated way.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Name of a job; not secret. Links of different jobs never come about, even if the secrets were equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub [u8; 16]);

impl JobId {
    /// A new job's name.
    ///
    /// # Errors
    /// `IO` when the operating system has no randomness to give.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        fill(&mut bytes)?;
        Ok(JobId(bytes))
    }
}

/// 32 hexadecimal digits.
impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

/// What every link of a job starts from.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The job that both ends have to belong to.
    pub job: JobId,
    /// What both ends prove to have.
    pub secret: Secret,
    /// Whether all links are encrypted. Links to the tracker are in any case.
    pub encrypt: bool,
}

/// A number for a name that must be unlike others, an agent's for instance. Not for secrets: it is random even where
/// the operating system's generator fails, but may be guessed there.
pub fn random_u64() -> u64 {
    getrandom::u64().unwrap_or_else(|_| RandomState::new().hash_one(std::process::id()))
}

fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|cause| {
        Error::new(
            Code::Io,
            format!("the operating system gave no random bytes ({cause}), without which no job can be started"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let keys = Keys { job: JobId([0xab; 16]), secret: Secret::new([0x5a; 32]), encrypt: false };
        let text = format!("{keys:?}");
        assert!(text.contains("Secret(..)"), "{text}");
        assert!(!text.contains("90") && !text.contains("5a"), "{text}");
        assert!(text.contains("abababababababababababababababab"), "{text}");
    }

    #[test]
    fn two_random_secrets_and_job_ids_differ() -> Result<(), Error> {
        assert_ne!(Secret::random()?.expose(), Secret::random()?.expose());
        assert_ne!(JobId::random()?, JobId::random()?);
        Ok(())
    }
}
