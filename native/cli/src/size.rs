//! Numbers of bytes as people write them.

/// `4096`, `64k`, `256m`, `1g`, `2t`: powers of 1024.
///
/// # Errors
/// In words, what was expected.
pub fn bytes(text: &str) -> Result<u64, String> {
    let bad = || format!("expected a number of bytes as 4096, 64k, 256m or 1g, seen {text:?}");
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        Some((at, 't' | 'T')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(1 << shift).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them_and_others_are_refused() {
        for (text, expected) in [("0", 0), ("4096", 4096), ("64k", 65_536), ("256M", 256 << 20), ("1g", 1 << 30)] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for text in ["", "m", "-1", "1.5g", "12q", "99999999999t", "é"] {
            assert!(bytes(text).unwrap_err().contains("256m"), "{text}");
        }
    }
}
