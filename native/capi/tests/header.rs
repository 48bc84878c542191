//! The header says the same as the library.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::mem::{offset_of, size_of};
use std::path::PathBuf;
use std::process::{Command, Stdio};

const HEADER: &str = include_str!("../include/rejoin.h");

/// The header without its comments.
fn code() -> String {
    let mut code = String::new();
    for part in HEADER.split("/*") {
        code.push_str(part.split_once("*/").map_or(part, |(_, after)| after));
    }
    code
}

#[test]
fn every_constant_of_the_header_is_the_librarys_and_every_one_of_the_library_is_there() {
    let code = code();
    let assigned = code.lines().filter_map(|line| {
        let (name, value) = line.trim().strip_prefix("REJOIN_")?.split_once(" = ")?;
        Some((name.to_string(), value.trim().trim_end_matches(',').parse::<i64>().expect("a number")))
    });
    let written: BTreeMap<String, i64> = assigned.collect();
    let known: BTreeMap<String, i64> = rejoin::constants().into_iter().collect();
    assert!(known.len() > 35, "{known:?}");
    assert_eq!(written, known);
}

#[test]
fn every_function_of_the_header_is_exported_and_every_exported_one_is_there() {
    let code = code();
    let names = |text: &str, before: &str| -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for piece in text.split(before).skip(1) {
            let name: String = piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            if piece[name.len()..].starts_with('(') {
                found.insert(name);
            }
        }
        found
    };
    let mut sources = String::new();
    for file in std::fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")).expect("sources") {
        sources.push_str(&std::fs::read_to_string(file.expect("a file").path()).expect("text"));
    }
    let declared: BTreeSet<String> = names(&code, "rejoin_").into_iter().map(|name| format!("rejoin_{name}")).collect();
    let exported = names(&sources, "extern \"C\" fn ");
    assert!(exported.len() > 25, "{exported:?}");
    assert_eq!(declared, exported);
}

/// Compiles C from standard input with all warnings as errors, and gives what the program prints
/// (nothing without `run`).
fn compile(compiler: &str, language: &[&str], source: &str, run: bool) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let mut command = Command::new(compiler);
    command.args(language).args(["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]);
    command.arg("-I").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include")).arg("-").arg("-o").arg(&program);
    if !run {
        command.arg("-fsyntax-only");
    }
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the compiler is there");
    child.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("the compiler reads");
    let output = child.wait_with_output().expect("the compiler ends");
    assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    if !run {
        return String::new();
    }
    let ran = Command::new(&program).output().expect("the program runs");
    String::from_utf8(ran.stdout).expect("text")
}

#[test]
fn the_header_is_clean_as_c99_and_as_cpp() {
    let source = "#include <rejoin.h>\n#include <rejoin.h>\n\
                  rejoin_options options = REJOIN_OPTIONS_INIT;\nrejoin_limits limits = REJOIN_LIMITS_INIT;\n\
                  rejoin_config config = REJOIN_CONFIG_INIT;\n\
                  rejoin_tracker_config tracker = REJOIN_TRACKER_CONFIG_INIT;\n\
                  rejoin_page_view view = REJOIN_PAGE_VIEW_INIT;\n\
                  rejoin_xgboost_options xgboost = REJOIN_XGBOOST_OPTIONS_INIT;\nconst char *here = REJOIN_HERE;\n";
    compile("cc", &["-x", "c", "-std=c99"], source, false);
    compile("cc", &["-x", "c", "-std=c17"], source, false);
    compile("c++", &["-x", "c++", "-std=c++11"], source, false);
    compile("c++", &["-x", "c++", "-std=c++20"], source, false);
}

#[test]
fn structs_lie_in_memory_as_the_library_reads_them() {
    use rejoin::{RejoinConfig as Config, RejoinLimits as Limits, RejoinOptions as Options};
    use rejoin::{RejoinTrackerConfig, RejoinXgboostOptions};
    let mut source = "#include <rejoin.h>\n#include <stdio.h>\nint main(void) {\n".to_string();
    let mut expected = Vec::new();
    let mut check = |text: String, value: usize| {
        source.push_str(&format!("printf(\"%zu\\n\", {text});\n"));
        expected.push(value.to_string());
    };
    macro_rules! layout {
        ($name:literal, $type:ty, $($field:ident),*) => {
            check(concat!("sizeof(", $name, ")").into(), size_of::<$type>());
            $(check(format!("offsetof({}, {})", $name, stringify!($field)), offset_of!($type, $field));)*
        };
    }
    layout!("rejoin_options", Options, size, order, boot, boot_name, prepare, prepare_user);
    layout!("rejoin_xgboost_options", RejoinXgboostOptions, size, version, hook);
    layout!("rejoin_placement", rejoin::RejoinPlacement, local_rank, local_size, cross_rank, cross_size);
    layout!(
        "rejoin_page_view",
        rejoin::RejoinPageView,
        size,
        kind,
        from_sparse,
        rows,
        columns,
        values,
        number,
        partition,
        labels,
        weights,
        margins,
        groups,
        features,
        row_ends,
        value_columns,
        spark_rows,
        spark_rows_bytes,
        data,
        bytes,
        sha256
    );
    layout!("rejoin_limits", Limits, size, join_millis, call_millis, finish_millis);
    layout!(
        "rejoin_tracker_config",
        RejoinTrackerConfig,
        size,
        world,
        job,
        secret,
        listen,
        ports,
        encrypt,
        name,
        join_file,
        deaths,
        lost_after_millis,
        members_millis,
        min,
        max,
        elastic_timeout_millis,
        resize_interval_millis,
        most_resizes,
        own_may_be_lost
    );
    layout!(
        "rejoin_config",
        Config,
        size,
        job,
        secret,
        tracker,
        listen,
        ports,
        host,
        executor,
        encrypt,
        tracker_timeout_millis,
        log_memory,
        log_disk,
        spill,
        durable,
        durable_every,
        own_copies
    );
    source.push_str("return 0;\n}\n");
    let printed = compile("cc", &["-x", "c", "-std=c99"], &source, true);
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}
