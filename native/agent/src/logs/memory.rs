//! New memory for a result.

use bytes::BytesMut;

/// From so many bytes on it is worth to ask for huge pages: below, the memory that was touched
/// before is nearly always there, and of a huge page (2 MiB on x86_64, and on aarch64 with pages of
/// 4 KiB) much would stay unused.
const LARGE: usize = 4 << 20;

/// From so many bytes on it is worth to ask for all pages at once.
const SEVERAL_PAGES: usize = 64 << 10;

/// Memory of this length, all zero, which is about to be written. Large ones are in huge pages
/// where the system has some: a level of deep trees is 50 MB in one call, which are 13,000 page
/// faults otherwise, at every rank. The pages of the others are there at once: two thirds of the
/// time that a fault for each takes.
pub(crate) fn zeroed(length: usize) -> BytesMut {
    let mut memory = BytesMut::zeroed(length);
    if length >= LARGE {
        advise(&mut memory, libc::MADV_HUGEPAGE);
    } else if length >= SEVERAL_PAGES {
        advise(&mut memory, libc::MADV_POPULATE_WRITE);
    }
    memory
}

/// Does nothing where the system can't follow it: no huge pages, or none to give; a kernel before 5.14.
fn advise(memory: &mut [u8], advice: libc::c_int) {
    let page = page_bytes();
    let before = memory.as_ptr().align_offset(page);
    let Some(whole) = memory.len().checked_sub(before).map(|rest| rest / page * page).filter(|whole| *whole > 0) else {
        return;
    };
    let start = memory[before..].as_mut_ptr();
    // SAFETY: these are whole pages of memory that is borrowed here alone, and neither advice changes what is in them.
    #[allow(unsafe_code)]
    unsafe {
        libc::madvise(start.cast(), whole, advice);
    }
}

fn page_bytes() -> usize {
    // SAFETY: sysconf has no memory effects.
    #[allow(unsafe_code)]
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_any_length_is_zero_and_can_be_written() {
        for length in [0, 1, SEVERAL_PAGES - 1, SEVERAL_PAGES, LARGE - 1, LARGE, LARGE + 1, 3 * LARGE + 4097] {
            let mut memory = zeroed(length);
            assert_eq!(memory.len(), length);
            assert!(memory.iter().all(|byte| *byte == 0));
            memory.fill(7);
            assert!(memory.iter().all(|byte| *byte == 7));
        }
    }

    #[test]
    fn what_has_no_whole_page_is_left_alone() {
        let mut memory = vec![1; 3 * page_bytes()];
        for (from, to) in [(1, 2), (1, page_bytes()), (0, 0)] {
            advise(&mut memory[from..to], libc::MADV_HUGEPAGE);
        }
        for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE] {
            advise(&mut memory, advice);
        }
        assert!(memory.iter().all(|byte| *byte == 1));
    }

    #[test]
    fn large_memory_is_in_huge_pages_where_the_system_has_some() {
        let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let mut memory = zeroed(8 * LARGE);
        memory.fill(1);
        let advised = advice(memory.as_ptr() as usize + 2 * page_bytes());
        assert_eq!(advised, !enabled.is_empty(), "the kernel says {enabled:?}");
    }

    /// Whether the kernel has the advice for this address: `hg` among its slot's flags.
    fn advice(address: usize) -> bool {
        let slots = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in slots.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let ends = range.map(|(from, to)| (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)));
            if let Some((Ok(from), Ok(to))) = ends {
                is_here = (from..to).contains(&address);
            }
            if is_here && line.starts_with("VmFlags:") {
                return line.split_whitespace().any(|flag| flag == "hg");
            }
        }
        panic!("no slot has the address {address:#x}");
    }
}
