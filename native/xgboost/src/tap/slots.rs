//! The slots through which a loaded library calls functions of the C library (ELF's relocations of kind "jump slot" and
//! "global data": System V ABI, chapter 5; glibc's `dl_iterate_phdr`).

use crate::loaded::{libraries, protect, Library};
use std::ffi::{c_char, CStr};
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
    library: Library,
    /// By function, in the order of the swaps; a function may have several slots.
    slots: Vec<Vec<usize>>,
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
    // SAFETY: XGBoost's library is in use by those who ask, and stays loaded meanwhile.
    let found: Vec<Found> = libraries(word).into_iter().filter_map(|library| unsafe { read(library, swaps) }).collect();
    for library in &found {
        library.swap(swaps)?;
    }
    Ok(found.len())
}

/// # Safety
/// The library is loaded and stays so.
unsafe fn read(library: Library, swaps: &[Swap]) -> Option<Found> {
    let base = library.base;
    if library.dynamic == 0 {
        return None;
    }
    let mut entry = library.dynamic as *const Dynamic;
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
    Some(Found { library, slots })
}

impl Found {
    fn swap(&self, swaps: &[Swap]) -> Result<(), String> {
        let holds = |slot: &usize| {
            // SAFETY: a slot is an aligned word of the loaded library, which the loader itself writes like this.
            unsafe { &*(*slot as *const AtomicUsize) }.load(SeqCst)
        };
        for (slots, swap) in self.slots.iter().zip(swaps) {
            let (name, library) = (swap.name, self.library.text());
            if slots.is_empty() {
                return Err(format!("{library} doesn't call {name} through a slot"));
            }
            for value in slots.iter().map(holds) {
                let is_stub = self.library.code.iter().any(|code| code.contains(&value));
                if value != swap.original && value != swap.ours && !is_stub {
                    return Err(format!(
                        "the slot of {library} for {name} holds an unknown function: it is hooked by others"
                    ));
                }
            }
        }
        for (slots, swap) in self.slots.iter().zip(swaps) {
            for slot in slots.iter().filter(|slot| holds(slot) != swap.ours) {
                let sealed = self.library.is_sealed(*slot);
                if sealed {
                    protect(*slot, libc::PROT_READ | libc::PROT_WRITE).map_err(|cause| {
                        format!("the slot of {} for {} can't be written: {cause}", self.library.text(), swap.name)
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
