//! Pages of the right length by their own word, but wrong elsewhere; and pages that only Spark reads.

use rejoin_pages::{Buffer, Code, Features, Kind, Page, Sha256Digest, HEAD_BYTES};

/// A head, and numbers of 4 bytes behind it.
fn page(version: u16, kind: u8, flags: u8, shape: (u32, u32, u64), content: &[u32]) -> Buffer {
    let (rows, columns, values) = shape;
    let mut bytes = b"RJPG".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend([kind, flags]);
    bytes.extend(rows.to_le_bytes());
    bytes.extend(columns.to_le_bytes());
    bytes.extend(values.to_le_bytes());
    assert_eq!(bytes.len(), HEAD_BYTES);
    content.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    Buffer::copy_of(&bytes).expect("memory")
}

#[track_caller]
fn refused(page: &Buffer, said: &str) {
    let error = Page::of(page).expect_err("it is refused");
    assert_eq!(error.code, Code::Incompatible);
    assert!(error.message.contains(said), "{said} in {}", error.message);
    // With the right digest, too.
    assert_eq!(Page::verified(page, Sha256Digest::of(page)), Err(error));
}

#[test]
fn another_version_kind_or_flag_is_refused_by_its_number() {
    assert!(Page::of(&page(1, 1, 0, (1, 1, 1), &[0; 2])).is_ok());
    refused(&page(2, 1, 0, (1, 1, 1), &[0; 2]), "layout version 2");
    refused(&page(0, 1, 0, (1, 1, 1), &[0; 2]), "layout version 0");
    refused(&page(1, 0, 0, (1, 1, 1), &[0; 2]), "kind 0");
    refused(&page(1, 4, 0, (1, 1, 1), &[0; 2]), "kind 4");
    refused(&page(1, 1, 16, (1, 1, 1), &[0; 2]), "0x10 are unknown");
    refused(&page(1, 3, 1, (1, 1, 1), &[0; 2]), "0x01 are unknown");
    let mut other = page(1, 1, 0, (1, 1, 1), &[0; 2]).to_vec();
    other[0] = b'r';
    refused(&Buffer::copy_of(&other).expect("memory"), "don't begin with RJPG");
    refused(&Buffer::copy_of(b"RJPG").expect("memory"), "its head alone has 24");
}

#[test]
fn lengths_that_contradict_each_other_are_refused_however_large() {
    refused(&page(1, 1, 0, (0, 1, 0), &[]), "no rows");
    refused(&page(1, 1, 0, (1, 1, 2), &[0; 3]), "1 rows of 1 columns have 2 values");
    refused(&page(1, 1, 0, (1, 1, 1), &[0; 3]), "by its head it has 32 bytes, but it has 36");
    refused(&page(1, 1, 1, (1, 1, 1), &[0; 2]), "by its head it has 36 bytes, but it has 32");
    let all = u64::from(u32::MAX) * u64::from(u32::MAX);
    refused(&page(1, 1, 7, (u32::MAX, u32::MAX, all), &[0; 3]), "by its head");
    refused(&page(1, 2, 7, (u32::MAX, u32::MAX, u64::MAX), &[0; 3]), "by its head");
    // 4 bytes × this, in 64 bits, is 8.
    refused(&page(1, 2, 0, (1, 1, (1 << 62) + 1), &[0; 4]), "by its head");
    refused(&page(1, 3, 0, (1, 1, 1), &[]), "before its rows");
}

#[test]
fn rows_that_end_before_they_begin_or_behind_the_values_are_refused() {
    let csr = |ends: [u32; 2], columns: [u32; 2]| {
        page(1, 2, 0, (2, 3, 2), &[0, 0, ends[0], ends[1], columns[0], columns[1], 0, 0])
    };
    assert!(Page::of(&csr([0, 2], [2, 0])).is_ok());
    refused(&csr([2, 1], [0, 1]), "row 1 ends at value 1, before it begins at 2");
    refused(&csr([1, 1], [0, 1]), "its last row ends at value Some(1) of 2");
    refused(&csr([1, 3], [0, 1]), "its last row ends at value Some(3) of 2");
    refused(&csr([u32::MAX, 2], [0, 1]), "before it begins");
    refused(&csr([1, 2], [0, 3]), "column 3 of 3");
    refused(&csr([1, 2], [u32::MAX, 1]), "column 4294967295 of 3");
}

#[test]
fn each_flag_alone_stands_for_its_own_array() {
    let with = |flags| page(1, 1, flags, (1, 1, 1), &[1_f32.to_bits(), 2_f32.to_bits(), 3_f32.to_bits()]);
    let (weights, margins, groups) = (with(1), with(2), with(4));
    let arrays = |bytes: &Buffer| {
        let page = Page::of(bytes).expect("one row");
        assert_eq!((page.labels(), page.features()), (&[1.0][..], Features::Dense(&[3.0])));
        (page.weights().map(<[f32]>::to_vec), page.margins().map(<[f32]>::to_vec), page.groups().map(<[i32]>::to_vec))
    };
    assert_eq!(arrays(&weights), (Some(vec![2.0]), None, None));
    assert_eq!(arrays(&margins), (None, Some(vec![2.0]), None));
    assert_eq!(arrays(&groups), (None, None, Some(vec![2_f32.to_bits() as i32])));
}

#[test]
fn a_page_without_columns_or_without_values_is_read() {
    let dense = page(1, 1, 0, (2, 0, 0), &[0; 2]);
    assert_eq!(Page::of(&dense).expect("two labels").features(), Features::Dense(&[]));
    let csr = page(1, 2, 0, (2, 9, 0), &[0; 4]);
    let read = Page::of(&csr).expect("two rows");
    assert_eq!(read.features(), Features::Csr { ends: &[0, 0], columns: &[], values: &[] });
}

#[test]
fn rows_of_sparks_are_given_as_their_bytes() {
    let opaque = page(1, 3, 0, (5, 2, 100), &[1, 2]);
    let read = Page::of(&opaque).expect("rows of Spark's");
    assert_eq!((read.kind(), read.rows(), read.columns(), read.values()), (Kind::SparkRows, 5, 2, 100));
    assert_eq!(read.features(), Features::SparkRows(&[1, 0, 0, 0, 2, 0, 0, 0]));
    assert!(read.labels().is_empty());
}

#[test]
fn bytes_that_begin_between_numbers_are_refused_with_what_to_do() {
    let good = page(1, 1, 0, (1, 1, 1), &[0; 2]);
    let shifted = Buffer::copy_of(&[&[0][..], &good].concat()).expect("memory");
    let error = Page::of(&shifted[1..]).expect_err("no numbers are there");
    assert_eq!(error.code, Code::BadArgument);
    assert!(error.message.contains("copy them into a Buffer"), "{}", error.message);
}

#[test]
fn a_digest_is_read_as_it_is_written_and_anything_else_refused() {
    let digest = Sha256Digest::of(b"abc");
    let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!((digest.to_string(), text.parse()), (text.to_string(), Ok(digest)));
    assert_eq!(text.to_uppercase().parse(), Ok(digest));
    let almost = [
        &text[..63],
        &format!("{}g", &text[..63]),
        &format!("{text}0"),
        &format!("+{}", &text[1..]),
        "",
        &"ß".repeat(32),
    ]
    .map(String::from);
    for other in almost {
        assert_eq!(other.parse::<Sha256Digest>().map_err(|error| error.code), Err(Code::BadArgument), "{other}");
    }
}
