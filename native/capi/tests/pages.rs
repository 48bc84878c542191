//! Pages as a program in C sees them: what the JVM has written (jvm-spark, GoldenPagesTest).

use rejoin::*;
use std::ffi::{c_char, CStr, CString};
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::slice::from_raw_parts;

const OK: i32 = 0;
const BAD_ARGUMENT: i32 = 1;
const BAD_STATE: i32 = 2;
const INCOMPATIBLE: i32 = 12;
const INPUT_LOST: i32 = 16;

fn golden() -> CString {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pages/tests/golden");
    CString::new(folder.to_str().expect("text")).expect("no zero byte")
}

fn text(from: *const c_char) -> Option<String> {
    // SAFETY: the library's texts end with a zero byte.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) }.to_str().expect("UTF-8").to_string())
}

/// A handle, which is closed at the end.
struct Input(*mut RejoinInput, i32);

impl Input {
    fn open(folder: *const c_char, name: *const c_char) -> Input {
        let mut handle = null_mut();
        // SAFETY: texts or NULL; the handle is open, here and below.
        let status = unsafe { rejoin_input_open(folder, name, &mut handle) };
        Input(handle, status)
    }

    fn message(&self) -> String {
        // SAFETY: see above.
        text(unsafe { rejoin_input_message(self.0) }).expect("a message")
    }

    fn page(&self, number: u64) -> Page {
        let mut page = null_mut();
        // SAFETY: see above.
        let status = unsafe { rejoin_page_read(self.0, number, &mut page) };
        Page(page, status)
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        // SAFETY: it is closed once.
        unsafe { rejoin_input_close(self.0) };
    }
}

struct Page(*mut RejoinPage, i32);

impl Page {
    fn copy(bytes: &[u8], sha256: &CStr) -> Page {
        let mut page = null_mut();
        // SAFETY: so many bytes are there.
        let status = unsafe { rejoin_page_copy(bytes.as_ptr().cast(), bytes.len(), sha256.as_ptr(), &mut page) };
        Page(page, status)
    }

    fn message(&self) -> String {
        // SAFETY: the page is there, here and below.
        text(unsafe { rejoin_page_message(self.0) }).expect("a message")
    }

    fn view(&self) -> RejoinPageView {
        let mut view = empty(size_of::<RejoinPageView>());
        // SAFETY: see above.
        let status = unsafe { rejoin_page_get(self.0, &mut view) };
        assert_eq!(status, OK, "{}", self.message());
        view
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: it is freed once.
        unsafe { rejoin_page_free(self.0) };
    }
}

fn empty(size: usize) -> RejoinPageView {
    RejoinPageView {
        size,
        kind: 0,
        from_sparse: 0,
        rows: 0,
        columns: 0,
        values: 0,
        number: 0,
        partition: 0,
        labels: null(),
        weights: null(),
        margins: null(),
        groups: null(),
        features: null(),
        row_ends: null(),
        value_columns: null(),
        spark_rows: null(),
        spark_rows_bytes: 0,
        data: null(),
        bytes: 0,
        sha256: null(),
    }
}

fn array<'a, T>(from: *const T, count: usize) -> &'a [T] {
    assert!(!from.is_null());
    // SAFETY: the header says so of the view's arrays, and the page outlives them in each test.
    unsafe { from_raw_parts(from, count) }
}

#[test]
fn an_input_has_the_digest_rows_pages_and_features_that_the_jvm_has_written() {
    let digests = std::fs::read_to_string(format!("{}/digests", golden().to_str().expect("text"))).expect("digests");
    for line in digests.lines() {
        let (digest, name) = line.split_once(' ').expect("digest and name");
        let name = CString::new(name).expect("text");
        let input = Input::open(golden().as_ptr(), name.as_ptr());
        assert_eq!(input.1, OK, "{}", input.message());
        // SAFETY: the handle is open, here and below.
        assert_eq!(text(unsafe { rejoin_input_digest(input.0) }).as_deref(), Some(digest));
    }
    let input = Input::open(golden().as_ptr(), c"training".as_ptr());
    // SAFETY: see above.
    unsafe {
        assert_eq!((rejoin_input_rows(input.0), rejoin_input_pages(input.0)), (8, 3));
        assert_eq!(rejoin_input_partitions(input.0), 3);
        let first = [0, 1, 2, 3, 4, u32::MAX].map(|partition| rejoin_input_first_page(input.0, partition));
        assert_eq!(first, [0, 2, 2, 3, 3, 3]);
        assert_eq!(text(rejoin_input_feature_name(input.0, 1)).as_deref(), Some("größe"));
        assert_eq!(text(rejoin_input_feature_type(input.0, 0)).as_deref(), Some("int"));
        assert!(rejoin_input_feature_name(input.0, 6).is_null() && rejoin_input_feature_type(input.0, 6).is_null());
    }
}

#[test]
fn a_dense_page_is_given_as_its_arrays() {
    let input = Input::open(golden().as_ptr(), c"training".as_ptr());
    let page = input.page(0);
    let view = page.view();
    assert_eq!((view.kind, view.rows, view.columns, view.values), (1, 3, 6, 18));
    assert_eq!((view.number, view.partition, view.from_sparse), (0, 0, 1));
    assert_eq!(array(view.labels, 3), [1.0, 0.0, 2.0]);
    assert_eq!(array(view.weights, 3), [0.5, 1.5, 2.5]);
    assert_eq!(array(view.margins, 3), [0.25, -0.25, 0.0]);
    assert_eq!(array(view.groups, 3), [7, 7, -8]);
    let features = array(view.features, 18);
    assert!(features[7].is_nan());
    assert_eq!(features[8..], [0.0, 1e-3, 1e9, 0.1, 9.0, 0.0, 0.0, 0.0, 0.0, 10.0]);
    assert!(view.row_ends.is_null() && view.value_columns.is_null() && view.spark_rows.is_null());
    assert_eq!(array(view.data.cast::<u8>(), view.bytes)[..4], *b"RJPG");
    assert_eq!((view.bytes, text(view.sha256).map(|sha256| sha256.len())), (24 + 3 * 16 + 72, Some(64)));
}

#[test]
fn a_page_of_few_values_is_given_with_the_ends_of_its_rows() {
    let input = Input::open(golden().as_ptr(), c"training".as_ptr());
    let page = input.page(2);
    let view = page.view();
    assert_eq!((view.kind, view.rows, view.columns, view.values), (2, 4, 6, 6));
    assert_eq!((view.number, view.partition), (2, 2));
    assert_eq!(array(view.groups, 4), [10, 10, 11, 11]);
    assert_eq!(array(view.row_ends, 4), [2, 2, 3, 6]);
    assert_eq!(array(view.value_columns, 6), [0, 5, 3, 1, 2, 4]);
    let values = array(view.features, 6);
    assert!(values[2].is_nan());
    assert_eq!((&values[..2], &values[3..]), (&[0.5, -2.0][..], &[1.0, 2.0, 3.0][..]));
}

#[test]
fn what_the_input_has_not_is_null_and_a_page_outlives_its_input() {
    let input = Input::open(golden().as_ptr(), c"evaluation".as_ptr());
    let page = input.page(0);
    drop(input);
    let view = page.view();
    assert!(view.weights.is_null() && view.margins.is_null() && view.groups.is_null());
    assert_eq!((array(view.labels, 2), view.from_sparse), (&[0.5, -1.0][..], 0));
}

#[test]
fn a_page_with_any_byte_changed_or_cut_off_anywhere_is_refused() {
    let input = Input::open(golden().as_ptr(), c"training".as_ptr());
    let page = input.page(2);
    let view = page.view();
    let bytes = array(view.data.cast::<u8>(), view.bytes).to_vec();
    let sha256 = CString::new(text(view.sha256).expect("digits")).expect("text");
    let same = Page::copy(&bytes, &sha256);
    assert_eq!((same.1, same.view().rows, same.message().as_str()), (OK, 4, ""));
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let refused = Page::copy(&changed, &sha256);
        assert_eq!(refused.1, INPUT_LOST, "byte {at}");
        assert!(refused.message().contains("read them again"), "{}", refused.message());
        assert_eq!(Page::copy(&bytes[..at], &sha256).1, INPUT_LOST, "{at} bytes");
    }
}

#[test]
fn another_version_and_an_unknown_kind_are_incompatible() {
    // Heads of 24 bytes, and what sha256sum says of them.
    for (at, byte, sha256, said) in [
        (4, 2, c"51fd9f02353b67bb91035fe63982227604f890f252348691a925eafc1a903bed", "layout version 2"),
        (6, 9, c"ebfeed132fcd8ebc3f300f385ea8a12098fabfabbdd552f9f85f91df26d774a9", "kind 9"),
    ] {
        let mut head = *b"RJPG\x01\0\x01\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        head[at] = byte;
        let refused = Page::copy(&head, sha256);
        assert_eq!(refused.1, INCOMPATIBLE, "{}", refused.message());
        assert!(refused.message().contains(said), "{}", refused.message());
        let mut view = empty(size_of::<RejoinPageView>());
        // SAFETY: the page is there.
        assert_eq!(unsafe { rejoin_page_get(refused.0, &mut view) }, BAD_STATE);
        assert!(view.labels.is_null() && view.rows == 0);
    }
}

#[test]
fn what_is_null_or_missing_is_refused_and_says_so() {
    let there = golden();
    for (folder, name, said) in [
        (null(), c"training".as_ptr(), "folder is NULL"),
        (there.as_ptr(), null(), "name is NULL"),
        (c"/nowhere".as_ptr(), c"training".as_ptr(), "/nowhere/training.pages; saw none"),
        (c"\xff".as_ptr(), c"training".as_ptr(), "not UTF-8"),
    ] {
        let input = Input::open(folder, name);
        assert_eq!(input.1, BAD_ARGUMENT);
        assert!(input.message().contains(said), "{}", input.message());
        // SAFETY: the handle is there, though nothing was opened.
        unsafe {
            assert!(rejoin_input_digest(input.0).is_null() && rejoin_input_feature_name(input.0, 0).is_null());
            assert_eq!((rejoin_input_pages(input.0), rejoin_input_first_page(input.0, 0)), (0, 0));
        }
        assert_eq!(input.page(0).1, BAD_STATE);
    }
    let input = Input::open(there.as_ptr(), c"training".as_ptr());
    let none = input.page(3);
    assert_eq!(none.1, BAD_ARGUMENT);
    assert!(none.message().contains("has 3 pages"), "{}", none.message());
    assert_eq!(Page::copy(b"", c"abc").1, BAD_ARGUMENT);
    let page = input.page(0);
    // SAFETY: NULL is allowed, or refused.
    unsafe {
        assert_eq!(rejoin_input_open(there.as_ptr(), c"training".as_ptr(), null_mut()), BAD_ARGUMENT);
        assert_eq!(rejoin_page_read(input.0, 0, null_mut()), BAD_ARGUMENT);
        assert_eq!(rejoin_page_copy(null(), 0, c"".as_ptr(), null_mut()), BAD_ARGUMENT);
        assert_eq!(rejoin_page_get(null(), null_mut()), BAD_ARGUMENT);
        assert_eq!(rejoin_page_get(page.0, null_mut()), BAD_ARGUMENT);
        rejoin_input_close(null_mut());
        rejoin_page_free(null_mut());
        let mut none = null_mut();
        assert_eq!(rejoin_page_read(null(), 0, &mut none), BAD_ARGUMENT);
        drop(Page(none, 0));
        assert_eq!((rejoin_input_rows(null()), rejoin_input_partitions(null())), (0, 0));
    }
}

#[test]
fn a_view_of_an_older_header_is_filled_as_far_as_it_goes() {
    let input = Input::open(golden().as_ptr(), c"training".as_ptr());
    let page = input.page(0);
    let mut older = empty(offset_of!(RejoinPageView, weights));
    // SAFETY: the view is there, here and below.
    assert_eq!(unsafe { rejoin_page_get(page.0, &mut older) }, OK);
    assert_eq!((older.rows, older.size), (3, offset_of!(RejoinPageView, weights)));
    assert!(!older.labels.is_null() && older.weights.is_null() && older.sha256.is_null());
    let mut cut = empty(3);
    // SAFETY: see above.
    assert_eq!(unsafe { rejoin_page_get(page.0, &mut cut) }, BAD_ARGUMENT);
    assert!(page.message().contains("REJOIN_PAGE_VIEW_INIT"), "{}", page.message());
}
