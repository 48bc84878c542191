//! The slots through which a loaded library calls functions of the C library (ELF's relocations of kind "jump slot" and
//! "global data": System V ABI, chapter 5; glibc's `dl_iterate_phdr`).

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A function that is to be called instead, and the one of the C library.
pub(crate) struct Swap {
    pub(crate) name: &'static str,
    pub(crate) original: usize,
    pub(crate) ours: usize,
}

/// A library's slots for all of the functions.
#[derive(Debug)]
struct Found {
    library: String,
    /// By function, in the order of the swaps; a function may have several slots.
    slots: Vec<Vec<usize>>,
    /// Addresses of the library's code: a slot that wasn't used yet points to a stub there.
    code: Vec<std::ops::Range<usize>>,
    /// Made read-only by the loader.
    sealed: Vec<std::ops::Range<usize>>,
}

#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const PT_GNU_RELRO: u32 = 0x6474_e552;

/// Kinds of relocations that hold a function's address: global data, jump slot.
#[cfg(target_arch = "x86_64")]
const KINDS: [u32; 2] = [6, 7];
#[cfg(target_arch = "aarch64")]
const KINDS: [u32; 2] = [1025, 1026];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const KINDS: [u32; 0] = [];

/// Puts our functions into the slots of every loaded library whose file has `word` in its name. A library that has them
/// already is left as it is. Returns how many libraries have them now.
///
/// # Errors
/// What was unexpected; then nothing was changed in the library that it is about.
pub(crate) fn swap(word: &str, swaps: &[Swap]) -> Result<usize, String> {
    let mut search = Search { word, swaps, found: Vec::new() };
    // SAFETY: the callback is given the pointer that stands here, for the length of the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    let found = std::mem::take(&mut search.found);
    for library in &found {
        library.swap(swaps)?;
    }
    Ok(found.len())
}

struct Search<'a> {
    word: &'a str,
    swaps: &'a [Swap],
    found: Vec<Found>,
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: libc::size_t, search: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid description for the length of this call; `search` is what `swap` has given.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_>>()) };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names end with a zero.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or_default();
    if file.contains(search.word) && file.contains(".so") {
        // SAFETY: the library is loaded while the loader calls us.
        if let Some(found) = unsafe { read(info, name.into_owned(), search.swaps) } {
            search.found.push(found);
        }
    }
    0
}

/// # Safety
/// `info` describes a library that is loaded and stays so.
unsafe fn read(info: &libc::dl_phdr_info, library: String, swaps: &[Swap]) -> Option<Found> {
    let base = info.dlpi_addr as usize;
    // SAFETY: the loader gives that many headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
    let range = |header: &libc::Elf64_Phdr| {
        let start = base + header.p_vaddr as usize;
        start..start + header.p_memsz as usize
    };
    let of_kind = |kind: u32| headers.iter().filter(move |header| header.p_type == kind);
    let code = of_kind(libc::PT_LOAD).filter(|header| header.p_flags & libc::PF_X != 0).map(range).collect();
    let sealed = of_kind(PT_GNU_RELRO).map(range).collect();
    let mut entry = range(of_kind(libc::PT_DYNAMIC).next()?).start as *const Dynamic;
    let (mut strings, mut symbols, mut tables) = (0, 0, [(0, 0), (0, 0)]);
    // SAFETY: a dynamic section ends with an entry of tag 0.
    while let Some(Dynamic { tag, value }) = Some(unsafe { &*entry }).filter(|entry| entry.tag != 0) {
        // glibc puts addresses here, others leave offsets.
        let value = *value as usize;
        let address = if value < base { base + value } else { value };
        match *tag {
            DT_STRTAB => strings = address,
            DT_SYMTAB => symbols = address,
            DT_JMPREL => tables[0].0 = address,
            DT_PLTRELSZ => tables[0].1 = value,
            DT_RELA => tables[1].0 = address,
            DT_RELASZ => tables[1].1 = value,
            _ => {}
        }
        // SAFETY: as above.
        entry = unsafe { entry.add(1) };
    }
    if strings == 0 || symbols == 0 {
        return None;
    }
    let mut slots = vec![Vec::new(); swaps.len()];
    for (start, bytes) in tables.into_iter().filter(|(start, _)| *start != 0) {
        // SAFETY: the dynamic section gives place and size of the table.
        let table = unsafe {
            std::slice::from_raw_parts(start as *const Relocation, bytes / std::mem::size_of::<Relocation>())
        };
        for relocation in table.iter().filter(|relocation| KINDS.contains(&(relocation.info as u32))) {
            // SAFETY: a relocation names a symbol of the table, and a symbol a string of its.
            let name = unsafe {
                let symbol = &*(symbols as *const libc::Elf64_Sym).add((relocation.info >> 32) as usize);
                CStr::from_ptr((strings + symbol.st_name as usize) as *const c_char)
            };
            if let Some(index) = swaps.iter().position(|swap| swap.name.as_bytes() == name.to_bytes()) {
                slots[index].push(base + relocation.offset as usize);
            }
        }
    }
    Some(Found { library, slots, code, sealed })
}

impl Found {
    fn swap(&self, swaps: &[Swap]) -> Result<(), String> {
        let holds = |slot: &usize| {
            // SAFETY: a slot is an aligned word of the loaded library, which the loader itself writes like this.
            unsafe { &*(*slot as *const AtomicUsize) }.load(SeqCst)
        };
        for (slots, swap) in self.slots.iter().zip(swaps) {
            let (name, library) = (swap.name, &self.library);
            if slots.is_empty() {
                return Err(format!("{library} doesn't call {name} through a slot"));
            }
            for value in slots.iter().map(holds) {
                let is_stub = self.code.iter().any(|code| code.contains(&value));
                if value != swap.original && value != swap.ours && !is_stub {
                    return Err(format!(
                        "the slot of {library} for {name} holds an unknown function: it is hooked by others"
                    ));
                }
            }
        }
        for (slots, swap) in self.slots.iter().zip(swaps) {
            for slot in slots.iter().filter(|slot| holds(slot) != swap.ours) {
                let sealed = self.sealed.iter().any(|sealed| sealed.contains(slot));
                if sealed {
                    protect(*slot, libc::PROT_READ | libc::PROT_WRITE).map_err(|cause| {
                        format!("the slot of {} for {} can't be written: {cause}", self.library, swap.name)
                    })?;
                }
                // SAFETY: as above; both functions have the same signature, so whoever calls finds what he expects.
                unsafe { &*(*slot as *const AtomicUsize) }.store(swap.ours, SeqCst);
                if sealed {
                    // If it can't be sealed again, it stays writable: no harm to what it does.
                    let _ = protect(*slot, libc::PROT_READ);
                }
            }
        }
        Ok(())
    }
}

fn protect(slot: usize, how: c_int) -> std::io::Result<()> {
    // SAFETY: the page exists, since the slot is in it.
    let result = unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE) as usize;
        libc::mprotect((slot / page * page) as *mut c_void, page, how)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

/// Keeps the library that `function` is in loaded for the life of the process: slots point into it.
pub(crate) fn pin(function: usize) -> Result<(), String> {
    // SAFETY: dladdr fills the structure; dlopen is given the name that the loader itself has for the library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(function as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return Err("the loader doesn't know where Rejoin's own functions are".into());
        }
        let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        if libc::dlopen(info.dli_fname, flags).is_null() && !is_program(info.dli_fname) {
            let name = CStr::from_ptr(info.dli_fname).to_string_lossy().into_owned();
            return Err(format!("{name} can't be kept loaded"));
        }
    }
    Ok(())
}

/// A program (a test, a launcher) is never unloaded, and can't be opened.
fn is_program(name: *const c_char) -> bool {
    // SAFETY: the loader's names end with a zero.
    let name = unsafe { CStr::from_ptr(name) };
    let own = std::env::args_os().next().unwrap_or_default();
    name.to_bytes() == own.as_encoded_bytes()
        || std::env::current_exe().is_ok_and(|path| path.as_os_str().as_encoded_bytes() == name.to_bytes())
}
