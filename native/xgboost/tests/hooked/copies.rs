//! Copies of a library in which something isn't as the hook expects it.

use std::path::{Path, PathBuf};

/// A copy of `file` in `folder`, with its bytes changed.
pub fn copy(file: &Path, folder: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(file).expect("the library can be read");
    change(&mut bytes);
    let copy = folder.join("libxgboost4j-changed.so");
    std::fs::write(&copy, bytes).expect("the folder can be written");
    copy
}

/// Gives the dynamic symbols in whose name `name` stands another one, under which the loader finds
/// them all the same: changing the first two letters of `word` in it like this leaves the name's
/// hash as it was (h = 33 h + c).
pub fn rename(bytes: &mut [u8], name: &str, word: &str) {
    let within = name.find(word).expect("the word is part of the name");
    let places: Vec<usize> =
        (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name.as_bytes())).collect();
    assert!(!places.is_empty(), "{name} isn't in the library");
    for at in places {
        bytes[at + within] += 1;
        bytes[at + within + 1] -= 33;
    }
}

fn word(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// Exchanges what the loader puts into two entries of the table of `xgboost::collective::Coll`.
pub fn exchange_entries(bytes: &mut [u8], one: usize, other: usize) {
    let table = table(bytes);
    let places = [one, other].map(|entry| relocation(bytes, table + entry * 8));
    // Which symbol, and what is added.
    for byte in 8..24 {
        bytes.swap(places[0] + byte, places[1] + byte);
    }
}

/// The sections of this kind: place and length in the file, and the number of the section that they go with.
fn sections(bytes: &[u8], kind: usize) -> Vec<(usize, usize, usize)> {
    let (headers, size, count) = (word(bytes, 0x28, 8), word(bytes, 0x3a, 2), word(bytes, 0x3c, 2));
    let header = |number: usize| headers + number * size;
    let place = move |at: usize| (word(bytes, at + 0x18, 8), word(bytes, at + 0x20, 8), word(bytes, at + 0x28, 4));
    (0..count).map(header).filter(|at| word(bytes, at + 4, 4) == kind).map(place).collect()
}

/// The address of the table.
fn table(bytes: &[u8]) -> usize {
    let name = b"_ZTVN7xgboost10collective4CollE\0";
    let (headers, size) = (word(bytes, 0x28, 8), word(bytes, 0x3a, 2));
    let [(symbols, length, strings)] = sections(bytes, 11)[..] else { panic!("one table of dynamic symbols") };
    let strings = word(bytes, headers + strings * size + 0x18, 8);
    let found = (symbols..symbols + length)
        .step_by(24)
        .find(|symbol| bytes[strings + word(bytes, *symbol, 4)..].starts_with(name))
        .expect("the table is exported");
    word(bytes, found + 8, 8)
}

/// Where the relocation of this address stands in the file.
fn relocation(bytes: &[u8], address: usize) -> usize {
    let tables = sections(bytes, 4);
    let mut all = tables.iter().flat_map(|(place, length, _)| (*place..place + length).step_by(24));
    all.find(|at| word(bytes, *at, 8) == address).expect("the entry is relocated")
}
