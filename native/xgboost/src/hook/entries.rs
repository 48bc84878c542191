//! All entries are swapped, or none.

use super::arguments::Form;
use super::library::{self, Found, Table};
use crate::loaded::{libraries, pin_own, protect, Library};
use parking_lot::RwLock;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A library whose entries hold our functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookedLibrary {
    pub(crate) form: Form,
    pub(crate) originals: [usize; 4],
    of_objects: usize,
}

/// Never shrinks: nothing is swapped back, and the libraries are never unloaded. It is `static`
/// because a virtual function has no other way to find anything.
static HOOKED: RwLock<Vec<HookedLibrary>> = RwLock::new(Vec::new());

/// The library whose table an object with this first word has.
pub(crate) fn find(of_objects: usize) -> Option<HookedLibrary> {
    HOOKED.read().iter().find(|hooked| hooked.of_objects == of_objects).copied()
}

/// Puts our functions into the entries of every loaded XGBoost whose file has `word` in its name;
/// those that have them already are left as they are.
///
/// # Errors
/// What was unexpected. Then no library was changed by this call.
pub(crate) fn swap(word: &str, ours: [usize; 4]) -> Result<(), String> {
    // One at a time.
    let mut hooked = HOOKED.write();
    let found = libraries(word);
    if found.is_empty() {
        return Err(format!("no library with {word:?} in its name is loaded"));
    }
    let mut tables = Vec::new();
    for library in found {
        let handle = library::pin(&library)?;
        match library::examine(library, handle, ours)? {
            Found::Known(table) => tables.push(table),
            Found::Hooked => {}
        }
    }
    if !tables.is_empty() {
        // Not before: where all belongs to another copy of this code, nothing ever calls into this one.
        pin_own(ours[0])?;
    }
    let mut opened: Vec<(&Library, usize)> = Vec::new();
    for table in &tables {
        // The page of the first and of the last entry.
        for entry in [table.entries[0], table.entries[3]] {
            if let Err(cause) = open(&table.library, entry) {
                opened.into_iter().for_each(|(library, entry)| close(library, entry));
                return Err(format!(
                    "the collective's functions of {} can't be replaced: {cause}",
                    table.library.text()
                ));
            }
            opened.push((&table.library, entry));
        }
    }
    for table in &tables {
        let Table { form, originals, of_objects, .. } = *table;
        hooked.push(HookedLibrary { form, originals, of_objects });
    }
    for (entry, function) in tables.iter().flat_map(|table| table.entries.iter().zip(ours)) {
        // SAFETY: an aligned word of a pinned library, just made writable; our function takes every
        // call that the one before took, and hands on what isn't ours.
        unsafe { &*(*entry as *const AtomicUsize) }.store(function, SeqCst);
    }
    opened.into_iter().for_each(|(library, entry)| close(library, entry));
    Ok(())
}

/// Makes an entry writable.
fn open(library: &Library, entry: usize) -> io::Result<()> {
    if library.is_sealed(entry) {
        protect(entry, libc::PROT_READ | libc::PROT_WRITE)?;
    }
    Ok(())
}

/// Makes an entry read-only again, if it was.
fn close(library: &Library, entry: usize) {
    if library.is_sealed(entry) {
        // If it can't be sealed again it stays writable: no harm to what it does.
        let _ = protect(entry, libc::PROT_READ);
    }
}
