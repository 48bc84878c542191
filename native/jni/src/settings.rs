//! Settings that arrive as key, value, key, value, …: every key must be known and every value readable.

use rejoin_agent::protocol::error::{Code, Error};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Settings by key.
pub(crate) struct Settings {
    owner: &'static str,
    values: BTreeMap<String, String>,
}

impl Settings {
    /// Reads pairs.
    pub(crate) fn new(owner: &'static str, pairs: Vec<String>) -> Result<Self, Error> {
        if !pairs.len().is_multiple_of(2) {
            return Err(Error::new(
                Code::BadArgument,
                format!("{owner}: a key without a value ({} texts)", pairs.len()),
            ));
        }
        let mut values = BTreeMap::new();
        let mut pairs = pairs.into_iter();
        while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
            values.insert(key, value);
        }
        Ok(Settings { owner, values })
    }

    /// Takes a value that must be there.
    pub(crate) fn take<T: FromStr>(&mut self, key: &str, expected: &str) -> Result<T, Error> {
        self.optional(key, expected)?.ok_or_else(|| {
            Error::new(Code::BadArgument, format!("{}: setting {key} is missing; expected {expected}", self.owner))
        })
    }

    /// Takes a value, or the default.
    pub(crate) fn or<T: FromStr>(&mut self, key: &str, expected: &str, default: T) -> Result<T, Error> {
        Ok(self.optional(key, expected)?.unwrap_or(default))
    }

    /// Takes a value that may be there.
    pub(crate) fn optional<T: FromStr>(&mut self, key: &str, expected: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.values.remove(key) else { return Ok(None) };
        match value.parse() {
            Ok(parsed) => Ok(Some(parsed)),
            Err(_) => Err(Error::new(
                Code::BadArgument,
                format!("{}: setting {key} is {value:?}; expected {expected}", self.owner),
            )),
        }
    }

    /// Refuses what is left over.
    pub(crate) fn done(self) -> Result<(), Error> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => Err(Error::new(Code::BadArgument, format!("{}: setting {key} is unknown", self.owner))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[&str]) -> Settings {
        Settings::new("tracker", pairs.iter().map(|text| text.to_string()).collect()).unwrap()
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named_with_what_was_expected() {
        let error = settings(&["world", "many"]).take::<u32>("world", "a number of ranks").unwrap_err();
        assert_eq!(error.message, "tracker: setting world is \"many\"; expected a number of ranks");
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let mut settings = settings(&["world", "3", "wrold", "4"]);
        assert_eq!(settings.take::<u32>("world", "a number").unwrap(), 3);
        assert_eq!(settings.done().unwrap_err().message, "tracker: setting wrold is unknown");
    }
}
