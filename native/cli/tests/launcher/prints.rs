//! What ranks print, and what they are given.

use crate::harness::{example, finish, rejoin, run, until};
use std::io::Read;
use std::process::{Child, ChildStdout, Stdio};

#[test]
fn lines_that_can_not_be_written_are_told_once_and_end_the_run_with_status_6() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
    let mut command = rejoin(&["run", "--timeout", "50s", "-n", "2", "--", "sh", "-c", "echo one; echo two"]);
    let output = command.stdout(full).output().expect("the binary can be run");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert_eq!(said.matches("what is printed can't be written").count(), 1, "{said}");
}

#[test]
fn a_run_whose_hosts_are_all_this_machine_listens_where_no_other_one_reaches_it() {
    let ran = run(&["-H", "localhost:2", "--", "sh", "-c", "echo tracker $REJOIN_TRACKER"]).ended(0);
    for prefix in ["[0] ", "[1] "] {
        assert!(ran.lines(prefix).all(|line| line.starts_with("tracker 127.0.0.1:")), "{}", ran.out);
    }
}

/// `rejoin run` with a pipe for its output, and the pipe.
fn piped(arguments: &[&str]) -> (Child, ChildStdout) {
    let mut child = rejoin(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be run");
    let out = child.stdout.take().expect("a pipe");
    (child, out)
}

#[test]
fn a_reader_that_has_stopped_reading_keeps_the_launcher_from_nothing() {
    let many = "i=0; while [ $i -lt 20000 ]; do echo \"$i as one of very many lines\"; i=$((i+1)); done";
    let (child, _unread) = piped(&["run", "--timeout", "3s", "--grace", "1s", "-n", "2", "--", "sh", "-c", many]);
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(ended.status.code(), Some(124), "{said}");
    assert!(said.contains("nobody reads what the ranks have printed"), "{said}");
}

#[test]
fn a_rank_that_dies_is_started_again_although_nobody_reads_what_is_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let again = folder.path().join("again").display().to_string();
    let script = format!(
        "[ $REJOIN_ATTEMPT -gt 0 ] && touch {again} && exit 0; i=0; while [ $i -lt 5000 ]; do echo \"$i of many lines \
         that nobody reads\"; i=$((i+1)); done & sleep 1; kill -9 $$"
    );
    let options = ["run", "--timeout", "60s", "--restart", "-n", "1", "--"];
    // Both outputs are one pipe, as with `2>&1 | less`.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let mut command = rejoin(&[&options[..], &["sh", "-c", &script]].concat());
    let mut child = command.stdout(writer.try_clone().expect("a pipe")).stderr(writer).spawn().expect("it can be run");
    until("the rank runs again", || std::path::Path::new(&again).exists());
    drop(reader);
    child.wait().expect("it ends");
}

#[test]
fn what_was_printed_is_passed_on_as_slowly_as_it_is_read() {
    let many = "i=0; while [ $i -lt 7000 ]; do echo \"$i as one of very many lines\"; i=$((i+1)); done";
    let (mut child, mut out) = piped(&["run", "--timeout", "60s", "-n", "1", "--", "sh", "-c", many]);
    // In small pieces, for longer than last lines are waited for of which nobody knows who will write them.
    let (mut text, mut piece) = (Vec::<u8>::new(), [0; 512]);
    while let Some(count) = Some(out.read(&mut piece).expect("it can be read")).filter(|count| *count > 0) {
        text.extend(&piece[..count]);
        std::thread::sleep(std::time::Duration::from_millis(10)); // it reads slowly
    }
    assert_eq!(text.split(|byte| *byte == b'\n').count(), 7_001, "all lines, and nothing behind the last");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn every_line_is_whole_and_has_its_rank_before_it() {
    let long = "x".repeat(3000);
    let script = format!(
        "i=0; while [ $i -lt 200 ]; do echo \"$REJOIN_RANK says $i {long}\"; echo \"$REJOIN_RANK errs $i {long}\" >&2; \
         i=$((i+1)); done; printf 'no end'"
    );
    let ran = run(&["-n", "4", "--", "sh", "-c", &script]).ended(0);
    for rank in 0..4 {
        let lines: Vec<&str> = ran.out.lines().filter_map(|line| line.strip_prefix(&format!("[{rank}] "))).collect();
        let mut wanted: Vec<String> = (0..200).map(|i| format!("{rank} says {i} {long}")).collect();
        wanted.push("no end".into());
        assert!(lines == wanted, "rank {rank} printed {} lines", lines.len());
        let errors = ran.err.lines().filter_map(|line| line.strip_prefix(&format!("[{rank}] ")));
        assert!(errors.eq((0..200).map(|i| format!("{rank} errs {i} {long}"))));
    }
    assert_eq!(ran.out.lines().count(), 4 * 201);
}

#[test]
fn a_rank_is_told_who_it_is_and_its_arguments_are_passed_on() {
    let script = "echo \"$REJOIN_RANK of $REJOIN_WORLD, attempt $REJOIN_ATTEMPT: $0 $1\"";
    let ran = run(&["-n", "3", "--", "sh", "-c", script, "a b", "-n"]).ended(0);
    for rank in 0..3 {
        assert!(ran.lines(&format!("[{rank}] ")).eq([format!("{rank} of 3, attempt 0: a b -n")]));
    }
}

#[test]
fn the_secret_comes_through_a_descriptor_and_stands_in_no_environment_and_no_argument() {
    let script = "secret=$(od -An -v -tx1 /proc/self/fd/$REJOIN_SECRET_FD | tr -d ' \\n'); echo bits\": $secret\"; tr \
                  '\\0' '\\n' </proc/$$/environ | sed 's/^/given /'; tr '\\0' ' ' </proc/$PPID/cmdline | sed \
                  's/^/launcher /'; (echo changed >/proc/self/fd/$REJOIN_SECRET_FD) 2>/dev/null || echo it can not be \
                  changed";
    let ran = run(&["-n", "2", "--", "sh", "-c", script]).ended(0);
    let secret = ran.common("bits: ", 2);
    assert_eq!(secret.len(), 64, "256 bits: {secret}");
    let others = ran.out.lines().filter(|line| !line.contains("] bits: "));
    assert!(others.clone().any(|line| line.contains("given REJOIN_SECRET_FD=")));
    assert!(others.clone().all(|line| !line.contains(&secret)), "{}", ran.out);
    assert_eq!(others.filter(|line| line.ends_with("it can not be changed")).count(), 2, "{}", ran.out);
    let again = run(&["-n", "1", "--", "sh", "-c", script]).ended(0).common("bits: ", 1);
    assert_ne!(secret, again, "every job has its own");
}

#[test]
fn calls_are_told_on_wish_and_are_the_same_at_all_ranks() {
    let ran = run(&["-n", "3", "--calls", "--", &example("scenario"), "1"]).ended(0);
    let calls = |rank: u32| -> Vec<&str> {
        let of_rank = ran.err.lines().filter(|line| line.contains(&format!("call rank {rank}.0 | ")));
        of_rank.filter_map(|line| line.split_once(" | ")).map(|(_, call)| call).collect()
    };
    // Boot, max, 8 broadcasts, sum, allgather, checkpoint, finish.
    assert_eq!(calls(0).len(), 14, "{}", ran.err);
    assert_eq!(calls(0), calls(1));
    assert_eq!(calls(0), calls(2));
    assert!(calls(0)[10].starts_with("version 0 | collective 9 | allreduce(10000 f32, sum) at "), "{}", ran.err);
}

#[test]
fn the_environment_says_where_a_rank_is_among_the_ranks_of_its_machine_unless_the_world_may_change() {
    let script = "echo $REJOIN_LOCAL_RANK of $REJOIN_LOCAL_SIZE, $REJOIN_CROSS_RANK of $REJOIN_CROSS_SIZE";
    let ran = run(&["-n", "2", "--", "sh", "-c", script]).ended(0);
    for line in ["[0] 0 of 2, 0 of 1\n", "[1] 1 of 2, 0 of 1\n"] {
        assert!(ran.out.contains(line), "{}", ran.out);
    }
    let ran = run(&["-n", "1", "--min", "1", "--", "sh", "-c", script]).ended(0);
    assert_eq!(ran.out, "[0] of , of\n");
}

#[test]
fn a_run_that_a_rank_of_another_job_starts_has_nothing_of_that_one() {
    let script = "echo \"join=$REJOIN_JOIN. address=$REJOIN_ADDRESS. host=$REJOIN_HOST.\"";
    let mut command = rejoin(&["run", "--timeout", "50s", "-n", "1", "--", "sh", "-c", script]);
    let outer = [("REJOIN_JOIN", "/outer/join"), ("REJOIN_ADDRESS", "10.0.0.7"), ("REJOIN_HOST", "outer")];
    let ran = finish(command.envs(outer)).ended(0);
    assert!(ran.lines("[0] ").eq(["join=. address=. host=.".to_string()]), "{}", ran.out);
}
