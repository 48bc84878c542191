//! The libraries that are loaded into this process, as the loader describes them (glibc's
//! `dl_iterate_phdr`), and what the hook does with them.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io;
use std::ops::Range;

/// Kind of the header that says what the loader makes read-only once it has filled it.
const PT_GNU_RELRO: u32 = 0x6474_e552;

/// A library that is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    /// The loader's own name for it.
    pub(crate) name: CString,
    /// Made read-only by the loader.
    pub(crate) sealed: Vec<Range<usize>>,
    /// Where its dynamic section is; 0 if it has none.
    pub(crate) dynamic: usize,
}

impl Library {
    /// Its name, for people.
    pub(crate) fn text(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Whether the loader has made the word at this address read-only.
    pub(crate) fn is_sealed(&self, address: usize) -> bool {
        self.sealed.iter().any(|sealed| sealed.contains(&address))
    }
}

struct Search<'a> {
    word: &'a str,
    found: Vec<Library>,
}

/// Every loaded library whose file has `word` in its name.
pub(crate) fn libraries(word: &str) -> Vec<Library> {
    let mut search = Search { word, found: Vec::new() };
    // SAFETY: the callback is given the pointer that stands here, for the length of the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: libc::size_t, search: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid description for the length of this call; `search` is what `libraries` has given.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names end with a zero.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    let text = name.to_string_lossy();
    let file = text.rsplit('/').next().unwrap_or_default();
    if file.contains(search.word) && file.contains(".so") {
        // SAFETY: the loader gives that many headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        search.found.push(describe(name.to_owned(), info.dlpi_addr as usize, headers));
    }
    0
}

fn describe(name: CString, base: usize, headers: &[libc::Elf64_Phdr]) -> Library {
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let of_kind = |kind: u32| headers.iter().filter(move |header| header.p_type == kind);
    let page = page_bytes();
    let sealed = of_kind(PT_GNU_RELRO).map(|header| in_whole_pages(range(header), page)).collect();
    let dynamic = of_kind(libc::PT_DYNAMIC).next().map_or(0, |header| range(header).start);
    Library { name, sealed, dynamic }
}

/// What the loader really seals of what it was asked to: not the last page, unless all of it. On machines with larger
/// pages than the library was linked for, the rest of that page may hold variables, which must stay writable.
fn in_whole_pages(asked: Range<usize>, page: usize) -> Range<usize> {
    asked.start / page * page..asked.end / page * page
}

fn page_bytes() -> usize {
    // SAFETY: it only asks. Linux always knows.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Changes what may be done with the page of this address.
pub(crate) fn protect(address: usize, how: c_int) -> io::Result<()> {
    let page = page_bytes();
    // SAFETY: the page exists: callers give the address of a word of a loaded library.
    let result = unsafe { libc::mprotect((address / page * page) as *mut c_void, page, how) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Keeps a library loaded for the life of the process, and returns the loader's handle of it.
pub(crate) fn pin(name: &CStr) -> Result<*mut c_void, String> {
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: dlopen is given the name that the loader itself has for the library; nothing is loaded.
    let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if handle.is_null() {
        return Err(format!("{} can't be kept loaded", name.to_string_lossy()));
    }
    Ok(handle)
}

/// Keeps the library that `function` is in loaded for the life of the process: others call into it.
pub(crate) fn pin_own(function: usize) -> Result<(), String> {
    // SAFETY: dladdr fills the structure.
    let name = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(function as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return Err("the loader doesn't know where Rejoin's own functions are".into());
        }
        name_of(info.dli_fname)
    };
    pin(name).map(drop).or_else(|reason| if is_program(name) { Ok(()) } else { Err(reason) })
}

/// # Safety
/// The loader's name of something that stays loaded.
unsafe fn name_of<'a>(name: *const c_char) -> &'a CStr {
    // SAFETY: the loader's names end with a zero.
    unsafe { CStr::from_ptr(name) }
}

/// A program (a test, a launcher) is never unloaded, and can't be opened.
fn is_program(name: &CStr) -> bool {
    let own = std::env::args_os().next().unwrap_or_default();
    name.to_bytes() == own.as_encoded_bytes()
        || std::env::current_exe().is_ok_and(|path| path.as_os_str().as_encoded_bytes() == name.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_only_partly_to_be_sealed_stays_as_it_is() {
        // Linked for pages of 4 KB: on such a machine all of it is sealed.
        let asked = 0x1_2340..0x3_5000;
        assert_eq!(in_whole_pages(asked.clone(), 0x1000), 0x1_2000..0x3_5000);
        // On one with pages of 64 KB the rest of the last page has variables.
        assert_eq!(in_whole_pages(asked, 0x1_0000), 0x1_0000..0x3_0000);
        assert!(in_whole_pages(0x1000..0x2000, 0x1_0000).is_empty());
    }
}
