//! What is known of a page before it is read.

use rejoin_protocol::error::{Code, Error};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const SHOWN_BYTES: usize = 8;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Sha256Digest {
        Sha256Digest(Sha256::digest(bytes).into())
    }
}

/// All 64 hexadecimal digits, in lower case.
impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha256Digest {
    type Err = Error;

    /// Of 64 hexadecimal digits, in any case.
    fn from_str(text: &str) -> Result<Sha256Digest, Error> {
        let mut digest = [0; 32];
        let is_right = text.len() == 2 * digest.len()
            && digest.iter_mut().zip(text.as_bytes().chunks_exact(2)).all(|(byte, pair)| {
                let digits = pair.iter().map(|digit| char::from(*digit).to_digit(16));
                let number = digits.reduce(|high, low| Some(high? << 4 | low?)).flatten();
                number.and_then(|number| u8::try_from(number).ok()).map(|number| *byte = number).is_some()
            });
        is_right.then_some(Sha256Digest(digest)).ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            let expected = "expected 64 hexadecimal digits, as the list of pages has them";
            Error::new(Code::BadArgument, format!("the SHA-256 of a page is {shown:?}; {expected}"))
        })
    }
}

/// What a page has to be: how many rows, how many bytes, and the SHA-256 of all its bytes, the head
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// How many rows.
    pub rows: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Of all of them.
    pub sha256: Sha256Digest,
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} bytes, SHA-256 ", self.rows, self.bytes)?;
        self.sha256.0[..SHOWN_BYTES].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("...")
    }
}
