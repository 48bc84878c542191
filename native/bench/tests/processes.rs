//! The ranks of a bench as processes: they find each other's memory, and check their results.

use std::process::Command;

fn lines(arguments: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_rejoin-bench")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().skip(1).map(str::to_string).collect()
}

#[test]
fn processes_that_share_memory_get_right_sums_of_all_sizes() {
    let lines = lines(&["shared", "--worlds", "2,3,5", "--sizes", "4,1000,20004,1000000", "--budget-ms", "5"]);
    assert_eq!(lines.len(), 12, "{lines:?}");
    assert!(lines[11].starts_with("segments,5,1000000,"), "{lines:?}");
}

#[test]
fn processes_on_bare_sockets_get_right_sums_by_every_algorithm() {
    let lines = lines(&["floor", "--worlds", "2,5", "--sizes", "4,20004,1000000", "--budget-ms", "5"]);
    assert_eq!(lines.len(), 30, "{lines:?}");
}

#[test]
fn threads_get_the_same_as_processes() {
    let lines = lines(&["shared", "--threads", "--worlds", "1,4", "--sizes", "8,300000", "--budget-ms", "5"]);
    assert_eq!(lines.len(), 4, "{lines:?}");
}
