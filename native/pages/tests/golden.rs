//! What the JVM has written (jvm-spark, GoldenPagesTest) is read as it was meant, and nothing else is.

use rejoin_pages::{Buffer, Code, Features, Input, Kind, Page, PageList, Sha256Digest};
use std::path::{Path, PathBuf};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn input(name: &str) -> Input {
    Input::open(&golden(), name).expect("the golden list is read")
}

/// A copy of the golden folder that a test may damage.
fn copy() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in std::fs::read_dir(golden()).expect("the golden folder") {
        let file = file.expect("an entry");
        std::fs::copy(file.path(), folder.path().join(file.file_name())).expect("a copy");
    }
    folder
}

#[test]
fn an_input_has_the_digest_the_rows_and_the_features_that_the_jvm_has_written() {
    let digests = std::fs::read_to_string(golden().join("digests")).expect("digests");
    for line in digests.lines() {
        let (digest, name) = line.split_once(' ').expect("digest and name");
        assert_eq!(input(name).list().digest().to_string(), digest, "{name}");
    }
    let training = input("training");
    let list = training.list();
    assert_eq!((list.rows(), list.pages(), list.partitions().len()), (8, 3, 3));
    assert_eq!(list.feature_names(), ["age", "größe", "color", "d", "e", "f"]);
    assert_eq!(list.feature_types(), ["int", "q", "c", "q", "q", "q"]);
    // Which the writer's zeros are, so that pages may be of either kind.
    assert_eq!(list.missing(), 0.0);
    let first: Vec<_> = (0..5).map(|partition| list.first_page(partition)).collect();
    assert_eq!(first, [Some(0), Some(2), Some(2), Some(3), None]);
    let evaluation = input("evaluation");
    assert_eq!((evaluation.list().rows(), evaluation.list().pages()), (2, 1));
    assert!(evaluation.list().feature_names().is_empty() && evaluation.list().feature_types().is_empty());
    assert!(evaluation.list().missing().is_nan());
}

#[test]
fn a_dense_page_has_the_labels_weights_margins_groups_and_values_of_its_rows() {
    let read = input("training").read(0).expect("the first page");
    assert_eq!((read.number(), read.partition()), (0, 0));
    let page = read.page().expect("a page");
    assert_eq!((page.kind(), page.rows(), page.columns(), page.values()), (Kind::Dense, 3, 6, 18));
    assert!(page.is_from_sparse());
    assert_eq!(page.labels(), [1.0, 0.0, 2.0]);
    assert_eq!(page.weights(), Some(&[0.5, 1.5, 2.5][..]));
    assert_eq!(page.margins(), Some(&[0.25, -0.25, 0.0][..]));
    assert_eq!(page.groups(), Some(&[7, 7, -8][..]));
    let Features::Dense(values) = page.features() else { panic!("{:?}", page.features()) };
    assert_eq!(values[..6], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(values[7].is_nan());
    assert_eq!(values[6..7], [-1.5]);
    assert_eq!(values[8..], [0.0, 1e-3, 1e9, 0.1, 9.0, 0.0, 0.0, 0.0, 0.0, 10.0]);
}

#[test]
fn a_page_of_few_values_has_the_end_of_each_row_and_the_column_of_each_value() {
    let read = input("training").read(2).expect("the last page");
    assert_eq!((read.number(), read.partition()), (2, 2));
    let page = read.page().expect("a page");
    assert_eq!((page.kind(), page.rows(), page.columns(), page.values()), (Kind::Csr, 4, 6, 6));
    assert_eq!(page.labels(), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(page.weights(), Some(&[1.0, 2.0, 3.0, 4.0][..]));
    assert_eq!(page.margins(), Some(&[0.5, 0.0, -0.5, 1.5][..]));
    assert_eq!(page.groups(), Some(&[10, 10, 11, 11][..]));
    let Features::Csr { ends, columns, values } = page.features() else { panic!("{:?}", page.features()) };
    assert_eq!(ends, [2, 2, 3, 6]);
    assert_eq!(columns, [0, 5, 3, 1, 2, 4]);
    assert!(values[2].is_nan());
    assert_eq!((&values[..2], &values[3..]), (&[0.5, -2.0][..], &[1.0, 2.0, 3.0][..]));
}

#[test]
fn what_an_input_has_not_is_none() {
    let read = input("evaluation").read(0).expect("its page");
    let page = read.page().expect("a page");
    assert_eq!((page.weights(), page.margins(), page.groups()), (None, None, None));
    assert!(!page.is_from_sparse());
    let Features::Dense(values) = page.features() else { panic!("{:?}", page.features()) };
    assert!(values[2].is_nan() && values[3].is_sign_negative() && values[5].is_infinite());
    assert_eq!((page.labels(), values[3]), (&[0.5, -1.0][..], 0.0));
}

#[test]
fn a_page_with_any_byte_changed_or_cut_off_anywhere_is_refused() {
    for (name, number) in [("training", 0), ("training", 2), ("evaluation", 0)] {
        let good = input(name).read(number).expect("a golden page");
        let (sha256, bytes) = (good.sha256(), good.bytes().to_vec());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(Page::verified(&changed, sha256).expect_err("changed").code, Code::InputLost, "byte {at}");
            assert_eq!(Page::verified(&bytes[..at], sha256).expect_err("cut").code, Code::InputLost, "{at} bytes");
            // Not for its digest alone.
            let cut = Buffer::copy_of(&bytes[..at]).expect("memory");
            assert_eq!(Page::of(&cut).expect_err("cut").code, Code::Incompatible, "{at} bytes");
        }
    }
}

#[test]
fn a_list_with_any_byte_changed_or_cut_off_anywhere_is_refused() {
    let bytes = std::fs::read(golden().join("training.pages")).expect("the list");
    PageList::of(&bytes).expect("it is right");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let expected = if at < 4 { Code::Incompatible } else { Code::InputLost };
        assert_eq!(PageList::of(&changed).expect_err("changed").code, expected, "byte {at}");
        assert_eq!(PageList::of(&bytes[..at]).expect_err("cut").code, Code::InputLost, "{at} bytes");
    }
    assert!(PageList::of(&[&bytes[..], &[0]].concat()).is_err(), "something behind it");
}

/// A list with a digest of its own, as a writer with a defect would make it.
fn sealed(written: &[u8]) -> Vec<u8> {
    [written, &Sha256Digest::of(written).0].concat()
}

#[test]
fn lists_whose_digest_is_right_but_whose_numbers_are_not_are_refused() {
    let whole = std::fs::read(golden().join("training.pages")).expect("the list");
    let written = &whole[..whole.len() - 32];
    assert!(PageList::of(&sealed(written)).is_ok());
    assert!(PageList::of(&sealed(&[written, &[0]].concat())).expect_err("longer").message.contains("behind its end"));
    let old = PageList::of(&sealed(&[0, 0, 0, 1, 0, 0, 0, 0])).expect_err("version 1");
    assert_eq!(old.code, Code::Incompatible);
    assert!(old.message.contains("version 3; saw version 1"), "{}", old.message);
    let list = |rest: &[u8]| PageList::of(&sealed(&[&[0, 0, 0, 3][..], rest].concat())).expect_err("refused").message;
    // No names, no types, and the missing value 0.
    let none = [0; 12];
    assert!(list(&[255; 4]).contains("-1 names"));
    assert!(list(&[0, 0, 0, 1, 127, 255, 255, 255]).contains("2147483647 bytes of a text"));
    assert!(list(&[0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0, 0, 0, 0]).contains("no text"));
    assert!(list(&[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0]).contains("no text"), "a zero byte");
    assert!(list(&[&none[..], &[127, 255, 255, 255]].concat()).contains("2147483647 partitions"));
    let partition = |attempt: u8, sparse: u8, pages: u8| {
        let begin = [&none[..], &[0, 0, 0, 1], &[attempt], &[0; 7], &[sparse], &[pages, 0, 0, 0]];
        begin.concat()
    };
    assert!(list(&partition(255, 0, 0)).contains("the number of a try is -"));
    assert!(list(&partition(0, 2, 0)).contains("sparse vectors is 2"));
    assert!(list(&partition(0, 0, 64)).contains("pages of a partition"));
    let page = |rows: i64, bytes: i64| {
        let numbers = [rows.to_be_bytes(), bytes.to_be_bytes()].concat();
        [&none[..], &[0, 0, 0, 1], &[0; 9], &[0, 0, 0, 1], &numbers, &[0; 32]].concat()
    };
    assert!(list(&page(-1, 24)).contains("rows of a page is -1"));
    assert!(list(&page(1, -24)).contains("bytes of a page is -24"));
    let many = [&none[..], &[0, 0, 0, 1], &[0; 9], &[0, 0, 0, 3]];
    let rows = [&i64::MAX.to_be_bytes()[..], &[0; 8], &[0; 32]].concat();
    assert!(list(&[many.concat(), rows.repeat(3)].concat()).contains("more than can be counted"));
}

#[test]
fn a_page_that_is_missing_damaged_or_another_one_is_lost_by_its_name() {
    let folder = copy();
    let path = folder.path().join("training-0-5-1.page");
    let read = || Input::open(folder.path(), "training").expect("the list").read(1);
    let good = std::fs::read(&path).expect("the page");
    assert_eq!(read().expect("it is there").bytes(), good);
    let lost = |seen: &str| {
        let error = read().expect_err("it is lost");
        assert_eq!(error.code, Code::InputLost);
        for text in ["training-0-5-1.page", "expected 1 rows, 64 bytes", seen] {
            assert!(error.message.contains(text), "{text} in {}", error.message);
        }
    };
    let mut changed = good.clone();
    changed[60] ^= 128;
    std::fs::write(&path, &changed).expect("written");
    lost("its bytes are others");
    std::fs::write(&path, &good[..63]).expect("written");
    lost("it has 63 bytes");
    std::fs::write(&path, [&good[..], &[0]].concat()).expect("written");
    lost("it has 65 bytes");
    std::fs::remove_file(&path).expect("removed");
    lost("no such file");
}

#[test]
fn a_number_that_no_page_has_and_a_folder_without_a_list_are_refused_with_what_is_there() {
    let error = input("training").read(3).expect_err("there are three");
    assert_eq!(error.code, Code::BadArgument);
    assert!(error.message.contains("page 3") && error.message.contains("has 3 pages"), "{}", error.message);
    for (folder, name, said) in [
        (golden(), "rows", "rows.pages; saw none"),
        (golden().join("digests"), "training", "training.pages; saw none"),
        (golden(), "", "expected training or evaluation"),
        (golden(), "../golden/training", "expected training or evaluation"),
    ] {
        let error = Input::open(&folder, name).expect_err("refused");
        assert_eq!(error.code, Code::BadArgument);
        assert!(error.message.contains(said), "{said} in {}", error.message);
    }
}

#[test]
fn a_page_whose_rows_are_not_those_of_the_list_is_lost() {
    let folder = copy();
    let path = folder.path().join("evaluation.pages");
    let mut list = std::fs::read(&path).expect("the list");
    // Version, no names, no types, the missing value, one partition with its try, its flag and one page: then the rows.
    list[4 + 4 + 4 + 4 + 4 + 8 + 1 + 4 + 7] = 3;
    let sealed = sealed(&list[..list.len() - 32]);
    std::fs::write(&path, sealed).expect("written");
    let error = Input::open(folder.path(), "evaluation").expect("a list").read(0).expect_err("other rows");
    assert_eq!(error.code, Code::InputLost);
    assert!(error.message.contains("expected 3 rows") && error.message.contains("has 2 rows"), "{}", error.message);
}
