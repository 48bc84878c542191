//! What has to hold for any bytes that are read as a page or as a list. Run by this crate's tests,
//! and by fuzz targets through the feature `check`.

use crate::buffer::Buffer;
use crate::fingerprint::Sha256Digest;
use crate::list::PageList;
use crate::page::{Features, Page};

/// A check of one decoder.
pub type Check = fn(&[u8]);

/// Each decoder's corpus folder, and its check.
pub const ALL: [(&str, Check); 2] = [("page", page), ("page_list", page_list)];

/// A page that is read has as many elements as its head says, all of them within its bytes, and is
/// refused when it ends earlier or later.
///
/// # Panics
/// When that doesn't hold.
pub fn page(bytes: &[u8]) {
    let Ok(buffer) = Buffer::copy_of(bytes) else { return };
    let Ok(page) = Page::of(&buffer) else { return };
    let rows = page.rows() as usize;
    assert!(rows > 0);
    for array in [page.weights(), page.margins()].into_iter().flatten() {
        assert_eq!(array.len(), rows);
    }
    assert!(page.groups().is_none_or(|groups| groups.len() == rows));
    match page.features() {
        Features::Dense(values) => {
            assert_eq!((page.labels().len(), values.len()), (rows, rows * page.columns() as usize));
        }
        Features::Csr { ends, columns, values } => {
            assert_eq!((page.labels().len(), ends.len(), columns.len()), (rows, rows, values.len()));
            let mut begins = 0;
            for end in ends {
                // Any row is there.
                assert!(columns[begins..*end as usize].iter().all(|column| *column < page.columns()));
                begins = *end as usize;
            }
            assert_eq!(begins, values.len());
        }
        Features::SparkRows(content) => return assert_eq!(content.len() + crate::HEAD_BYTES, bytes.len()),
    }
    assert!(Page::of(&buffer[..buffer.len() - 1]).is_err());
    let longer = Buffer::copy_of(&[bytes, &[0]].concat()).expect("memory for one more");
    assert!(Page::of(&longer).is_err());
}

/// A list that is read finds each of its pages, and none behind them. Most bytes are no list for
/// their digest alone: they are tried with the right one, too.
///
/// # Panics
/// When that doesn't hold.
pub fn page_list(bytes: &[u8]) {
    list(bytes);
    list(&[bytes, &Sha256Digest::of(bytes).0].concat());
}

fn list(bytes: &[u8]) {
    let Ok(list) = PageList::of(bytes) else { return };
    let mut number = 0;
    for (partition, pages) in list.partitions().iter().enumerate() {
        assert_eq!(list.first_page(partition), Some(number));
        for within in 0..pages.pages.len() {
            assert_eq!(list.place(number), Some((partition, within)));
            number += 1;
        }
    }
    assert_eq!((list.pages(), list.first_page(list.partitions().len())), (number, Some(number)));
    assert_eq!((list.place(number), list.place(u64::MAX)), (None, None));
    let _ = list.rows();
}

#[cfg(test)]
#[path = "../../../fuzz/kept.rs"]
mod kept;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn head(kind: u8, flags: u8, rows: u32, columns: u32, values: u64) -> Vec<u8> {
        let mut bytes = b"RJPG\x01\0".to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(rows.to_le_bytes());
        bytes.extend(columns.to_le_bytes());
        bytes.extend(values.to_le_bytes());
        bytes
    }

    #[test]
    fn the_kept_corpus_of_every_fuzz_target_runs_through() {
        for (name, check) in ALL {
            kept::inputs(name).iter().for_each(|bytes| check(bytes));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_page_is_read_or_refused(
            bytes in vec(any::<u8>(), 0..200), kind in 0..5_u8, flags: u8, rows: u32, columns: u32, values: u64,
            small in (0..6_u32, 0..6_u32, 0..20_u64), csr: [u8; 16],
        ) {
            page(&bytes);
            page(&[head(kind, flags, rows, columns, values), bytes.clone()].concat());
            let (few, wide, some) = small;
            page(&[head(kind, flags & 15, few, wide, some), bytes].concat());
            // The right length, and any small numbers for ends and columns.
            let (count, numbers) = (some.min(8), csr.map(|byte| u32::from(byte % 9)));
            let mut content = head(2, 0, few, wide, count);
            (0..few).for_each(|_| content.extend([0; 4]));
            let behind = few as usize + 2 * count as usize;
            numbers.iter().cycle().take(behind).for_each(|number| content.extend(number.to_le_bytes()));
            page(&content);
        }

        #[test]
        fn any_list_is_read_or_refused(bytes in vec(any::<u8>(), 0..300), at: usize, byte: u8, cut: usize) {
            page_list(&bytes);
            page_list(&[&[0, 0, 0, 2][..], &bytes].concat());
            page_list(&[&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &bytes].concat());
            let mut good = include_bytes!("../tests/golden/training.pages").to_vec();
            good.truncate(good.len() - 32);
            page_list(&good);
            let length = good.len();
            good[at % length] = byte;
            page_list(&good);
            page_list(&good[..cut % length]);
        }
    }
}
