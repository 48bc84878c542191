//! Numbers for native objects that the JVM holds.
//!
//! The one thing of this crate that a process has once. It holds no job's state, only names of objects: a
//! number that is closed or was never given is an error with a text, where a pointer would be a
//! crash.

use parking_lot::Mutex;
use rejoin_agent::protocol::error::{Code, Error};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects of one kind by number.
pub(crate) struct Table<T> {
    what: &'static str,
    entries: Mutex<(i64, BTreeMap<i64, Arc<T>>)>,
}

impl<T> Table<T> {
    pub(crate) const fn new(what: &'static str) -> Self {
        Table { what, entries: Mutex::new((0, BTreeMap::new())) }
    }

    /// Gives an object a number that was never used before.
    pub(crate) fn add(&self, object: T) -> i64 {
        let mut entries = self.entries.lock();
        entries.0 += 1;
        let handle = entries.0;
        entries.1.insert(handle, Arc::new(object));
        handle
    }

    /// The object. It stays alive while the caller uses it, even if it is closed meanwhile.
    pub(crate) fn find(&self, handle: i64) -> Result<Arc<T>, Error> {
        self.entries.lock().1.get(&handle).cloned().ok_or_else(|| {
            Error::new(
                Code::BadState,
                format!("this {} is closed (handle {handle}); it can't be used any more", self.what),
            )
        })
    }

    /// Takes the object out; `None` when it is closed already.
    pub(crate) fn remove(&self, handle: i64) -> Option<Arc<T>> {
        self.entries.lock().1.remove(&handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_handle_is_an_error_that_says_so_and_never_another_object() {
        let table = Table::new("tracker");
        let first = table.add("first");
        table.remove(first);
        let second = table.add("second");
        assert_ne!(first, second);
        let error = table.find(first).unwrap_err();
        assert_eq!(error.code, Code::BadState);
        assert!(error.message.contains("tracker is closed"));
        assert_eq!(*table.find(second).unwrap(), "second");
        assert!(table.remove(first).is_none());
    }
}
