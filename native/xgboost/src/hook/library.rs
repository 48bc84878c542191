//! XGBoost's library as it is loaded: its table of the collectives' functions, and the proof that
//! they are the known ones.

use super::arguments::Form;
use crate::loaded::{self, Library};
use std::ffi::{c_void, CStr, CString};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// The table of virtual functions of `xgboost::collective::Coll`.
const TABLE: &CStr = c"_ZTVN7xgboost10collective4CollE";

/// What it says that its objects are.
const TYPE: &CStr = c"_ZTIN7xgboost10collective4CollE";

/// Words of the table: offset to the top, type, two destructors, `MakeCUDAVar`, and the four.
const WORDS: usize = 9;

/// The first of the four entries.
const FIRST: usize = 5;

/// Functions by entry: Allreduce, Broadcast, Allgather, AllgatherV. Their mangled names hold the
/// types of all parameters.
const PLAIN: [&CStr; 4] = [
    c"_ZN7xgboost10collective4Coll9AllreduceERKNS0_4CommENS_6common4SpanIaLm18446744073709551615EEENS_21ArrayInterfaceHandler4TypeENS0_2OpE",
    c"_ZN7xgboost10collective4Coll9BroadcastERKNS0_4CommENS_6common4SpanIaLm18446744073709551615EEEi",
    c"_ZN7xgboost10collective4Coll9AllgatherERKNS0_4CommENS_6common4SpanIaLm18446744073709551615EEE",
    c"_ZN7xgboost10collective4Coll10AllgatherVERKNS0_4CommENS_6common4SpanIKaLm18446744073709551615EEENS6_IKlLm18446744073709551615EEENS6_IlLm18446744073709551615EEENS6_IaLm18446744073709551615EEENS0_14AllgatherVAlgoE",
];

/// The same with a context before the communicator.
const WITH_CONTEXT: [&CStr; 4] = [
    c"_ZN7xgboost10collective4Coll9AllreduceEPKNS_7ContextERKNS0_4CommENS_6common4SpanIaLm18446744073709551615EEENS_21ArrayInterfaceHandler4TypeENS0_2OpE",
    c"_ZN7xgboost10collective4Coll9BroadcastEPKNS_7ContextERKNS0_4CommENS_6common4SpanIaLm18446744073709551615EEEi",
    c"_ZN7xgboost10collective4Coll9AllgatherEPKNS_7ContextERKNS0_4CommENS_6common4SpanIaLm18446744073709551615EEE",
    c"_ZN7xgboost10collective4Coll10AllgatherVEPKNS_7ContextERKNS0_4CommENS_6common4SpanIKaLm18446744073709551615EEENS9_IKlLm18446744073709551615EEENS9_IlLm18446744073709551615EEENS9_IaLm18446744073709551615EEENS0_14AllgatherVAlgoE",
];

/// A table that may be changed: each of its four entries holds the function that belongs there.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) library: Library,
    pub(crate) form: Form,
    /// What an object's first word is.
    pub(crate) of_objects: usize,
    /// The four entries.
    pub(crate) entries: [usize; 4],
    /// What is in them.
    pub(crate) originals: [usize; 4],
}

/// What a loaded library turns out to be.
#[derive(Debug)]
pub(crate) enum Found {
    /// Its functions are the known ones.
    Known(Table),
    /// Its entries hold our functions.
    Hooked,
}

/// A symbol, as the loader gives it for an address.
struct Symbol {
    name: CString,
    address: usize,
    /// Where the file begins.
    base: usize,
}

/// The symbol at or before this address.
fn symbol(address: usize) -> Option<Symbol> {
    // SAFETY: dladdr fills the structure, with names that end with a zero and stay as long as the library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const c_void, &mut info) == 0 || info.dli_sname.is_null() {
            return None;
        }
        Some(Symbol {
            name: CStr::from_ptr(info.dli_sname).to_owned(),
            address: info.dli_saddr as usize,
            base: info.dli_fbase as usize,
        })
    }
}

/// The file that this address is in: its name, and where it begins.
fn file_of(address: usize) -> Option<(CString, usize)> {
    // SAFETY: dladdr fills the structure, with a name that ends with a zero and stays as long as the library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let is_known = libc::dladdr(address as *const c_void, &mut info) != 0 && !info.dli_fname.is_null();
        is_known.then(|| (CStr::from_ptr(info.dli_fname).to_owned(), info.dli_fbase as usize))
    }
}

/// The beginning of the file that this address is in.
fn base_of(address: usize) -> Option<usize> {
    file_of(address).map(|(_, base)| base)
}

/// What an entry holds now.
pub(crate) fn held(entry: usize) -> usize {
    // SAFETY: an entry is an aligned word of a loaded library.
    unsafe { &*(entry as *const AtomicUsize) }.load(SeqCst)
}

/// Looks whether a library's table is one of the known ones. `ours` are the functions that would be
/// put there. The caller has pinned the library, and `handle` is the loader's.
///
/// # Errors
/// What was unexpected, with the library's name.
pub(crate) fn examine(library: Library, handle: *mut c_void, ours: [usize; 4]) -> Result<Found, String> {
    let name = library.text();
    // SAFETY: the handle is that of a loaded library.
    let table = unsafe { libc::dlsym(handle, TABLE.as_ptr()) } as usize;
    let unknown = |what: String| format!("{name} is an unknown version of XGBoost: {what}");
    let own = base_of(library.dynamic);
    if table == 0 || own.is_none() || base_of(table) != own {
        return Err(format!(
            "{name} doesn't export the table of its collective's functions (XGBoost's Maven jars do, \
             and PyPI's xgboost-cpu 3.4.1)"
        ));
    }
    let entries = std::array::from_fn(|index| table + (FIRST + index) * size_of::<usize>());
    let held = entries.map(held);
    if held == ours {
        return Ok(Found::Hooked);
    }
    let is_table = |word: usize| {
        let symbol = symbol(table + word * size_of::<usize>());
        symbol.is_some_and(|symbol| symbol.name.as_c_str() == TABLE && symbol.address == table)
    };
    // dladdr knows how long symbols are.
    if !is_table(WORDS - 1) || is_table(WORDS) || !table.is_multiple_of(align_of::<usize>()) {
        return Err(unknown(format!("the table of its collective's functions hasn't {WORDS} words")));
    }
    let [top, kind] = [0, 1].map(|word| self::held(table + word * size_of::<usize>()));
    let is_kind = symbol(kind).is_some_and(|symbol| symbol.name.as_c_str() == TYPE && symbol.address == kind);
    if top != 0 || !is_kind {
        return Err(unknown("the table of its collective's functions doesn't begin as expected".into()));
    }
    for (form, names) in [(Form::Plain, PLAIN), (Form::WithContext, WITH_CONTEXT)] {
        let holds = |(address, name): (&usize, &&CStr)| {
            let known = |symbol: &Symbol| symbol.address == *address && Some(symbol.base) == own;
            symbol(*address).filter(known).is_some_and(|symbol| symbol.name.as_c_str() == *name)
        };
        if held.iter().zip(&names).all(holds) {
            let of_objects = table + 2 * size_of::<usize>();
            return Ok(Found::Known(Table { library, form, of_objects, entries, originals: held }));
        }
    }
    if let Some(file) = held.iter().find_map(|address| foreign(*address, own)) {
        return Err(format!("the collective's functions of {name} were replaced by {file} before"));
    }
    let described = held.iter().zip(FIRST..).map(|(address, entry)| match symbol(*address) {
        Some(symbol) if symbol.address == *address => format!("entry {entry} holds {}", symbol.name.to_string_lossy()),
        _ => format!("entry {entry} holds a function without a name"),
    });
    Err(unknown(format!(
        "the table of its collective's functions doesn't hold the expected ones in the expected order: {}",
        described.collect::<Vec<_>>().join(", ")
    )))
}

/// The file of a function that isn't the library's own. The function need not have a name: another
/// copy of ours has none.
fn foreign(address: usize, own: Option<usize>) -> Option<String> {
    match file_of(address) {
        Some((_, base)) if Some(base) == own => None,
        Some((file, _)) => Some(file.to_string_lossy().into_owned()),
        None => Some("an unknown library".into()),
    }
}

/// Pins a library, so that what was found in it stays true.
///
/// # Errors
/// When the loader doesn't know it any more.
pub(crate) fn pin(library: &Library) -> Result<*mut c_void, String> {
    loaded::pin(&library.name)
}
