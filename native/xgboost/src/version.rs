//! Which XGBoost is loaded, and what may be assumed of it.

use crate::topology::WireVariant;
use rejoin_protocol::error::{Code, Error};
use std::fmt;
use std::str::FromStr;

/// The minor versions of XGBoost 3 that are known.
const KNOWN: std::ops::RangeInclusive<u32> = 0..=4;

/// A version of XGBoost that is supported, read from its name (`3.4.0`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XgboostVersion {
    text: String,
    minor: u32,
}

impl XgboostVersion {
    /// How it speaks.
    pub fn wire(&self) -> WireVariant {
        match self.keeps_booster() {
            true => WireVariant::From33,
            false => WireVariant::Until32,
        }
    }

    /// Whether a Booster that was kept trains on exactly as one that was loaded from a checkpoint.
    /// Up to 3.2 the samplers' state lives outside the model, so there all ranks have to load at
    /// the same rounds.
    pub fn keeps_booster(&self) -> bool {
        self.minor >= 3
    }
}

impl fmt::Display for XgboostVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for XgboostVersion {
    type Err = Error;

    /// # Errors
    /// `Incompatible` for one that isn't supported.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.trim().split(['.', '-', '+']);
        let minor = match (parts.next(), parts.next().and_then(|minor| minor.parse().ok())) {
            (Some("3"), Some(minor)) if KNOWN.contains(&minor) => minor,
            _ => {
                let known: Vec<String> = KNOWN.map(|minor| format!("3.{minor}")).collect();
                let (before, last) = known.split_at(known.len() - 1);
                let text = format!(
                    "XGBoost {text:?} is not supported; use a version of {} or {}",
                    before.join(", "),
                    last.concat()
                );
                return Err(Error::new(Code::Incompatible, text));
            }
        };
        Ok(XgboostVersion { text: text.trim().to_string(), minor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_version_says_how_it_speaks_and_whether_it_keeps_its_booster() {
        let of = |text: &str| text.parse::<XgboostVersion>().map(|known| (known.wire(), known.keeps_booster()));
        assert_eq!(of("3.0.5"), Ok((WireVariant::Until32, false)));
        assert_eq!(of("3.1.1"), Ok((WireVariant::Until32, false)));
        assert_eq!(of("3.2.0"), Ok((WireVariant::Until32, false)));
        assert_eq!(of("3.3.0-rc1"), Ok((WireVariant::From33, true)));
        assert_eq!(of(" 3.4.1\n"), Ok((WireVariant::From33, true)));
    }

    #[test]
    fn an_unknown_version_is_refused_by_name_with_those_that_are_known() {
        for text in ["2.1.4", "2.9.0", "3.5.0", "3", "", "three"] {
            let error = text.parse::<XgboostVersion>().unwrap_err();
            assert_eq!(error.code, Code::Incompatible);
            let expected = format!("XGBoost {text:?} is not supported; use a version of 3.0, 3.1, 3.2, 3.3 or 3.4");
            assert_eq!(error.message, expected);
        }
    }
}
