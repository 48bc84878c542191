//! C and C++.

use crate::rust_example::rust_example;
use crate::{data, digest, libraries, root, run, same_digest_whoever_dies, K_MEANS_KILLS, LOGISTIC_KILLS};
use std::path::{Path, PathBuf};
use std::process::Command;

const WARNINGS: &[&str] = &["-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];

fn compile(compiler: &str, arguments: &[&str], source: &str, program: &Path) {
    let mut command = Command::new(compiler);
    command.args(WARNINGS).arg(root().join(source)).args(arguments).arg("-o").arg(program);
    let output = command.output().expect("the compiler is there");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn example(compiler: &str, standard: &str, source: &str) -> (tempfile::TempDir, PathBuf) {
    built(compiler, standard, source, "native/capi/include")
}

/// Compiles a program with the header of a folder and this build's library, whatever else cargo's
/// own LD_LIBRARY_PATH leads to; the folder that is returned holds the program.
pub fn built(compiler: &str, standard: &str, source: &str, headers: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, libraries) = (folder.path().join("program"), libraries().display().to_string());
    let include = format!("-I{}", root().join(headers).display());
    let (search, path) = (format!("-L{libraries}"), format!("-Wl,--disable-new-dtags,-rpath,{libraries}"));
    compile(compiler, &[standard, &include, &search, &path, "-lrejoin", "-lm"], source, &program);
    (folder, program)
}

fn survives(compiler: &str, standard: &str, source: &str, kills: &[&[&str]]) -> String {
    let (_folder, program) = example(compiler, standard, source);
    same_digest_whoever_dies(&[&program.display().to_string(), &data()], kills)
}

/// What the example in Rust prints undisturbed.
fn in_rust(name: &str) -> String {
    digest(&run(&["-n", "4", "--", &rust_example(name), &data()]).ended(0))
}

/// What an example prints in every language: Python's and Java's tests compare with it, too.
fn noted(name: &str) -> String {
    let noted = std::fs::read_to_string(root().join(format!("examples/{name}.digest"))).expect("it is there");
    noted.trim().to_string()
}

#[test]
fn k_means_in_c_and_in_cpp_prints_rusts_digest_whoever_dies() {
    let in_c = survives("cc", "-std=c99", "examples/c/kmeans.c", K_MEANS_KILLS);
    let in_cpp = survives("c++", "-std=c++17", "examples/cpp/kmeans.cpp", K_MEANS_KILLS);
    assert_eq!((&in_c, &in_cpp), (&in_rust("kmeans"), &in_c));
    assert_eq!(in_c, noted("kmeans"));
}

#[test]
fn logistic_regression_in_cpp_prints_rusts_digest_whoever_dies() {
    let in_cpp = survives("c++", "-std=c++17", "examples/cpp/logistic.cpp", LOGISTIC_KILLS);
    assert_eq!(in_cpp, in_rust("logistic"));
    assert_eq!(in_cpp, noted("logistic"));
}

#[test]
fn a_program_in_c_prints_nothing_of_rejoins_but_what_it_prints_itself() {
    let (_folder, program) = example("cc", "-std=c99", "examples/c/kmeans.c");
    let output = Command::new(&program).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.starts_with("BAD_STATE: this process was expected to be started as a rank of a job"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// As `make install` does it, with what this build has made.
pub fn install(prefix: &Path) {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_rejoin"));
    let mut install = Command::new(root().join("scripts/install.sh"));
    install.arg(prefix).env("BUILT_LIBRARIES", libraries()).env_remove("DESTDIR");
    install.env("BUILT_PROGRAMS", binary.parent().expect("the binary is in a folder"));
    assert!(install.status().expect("bash is there").success());
}

#[test]
fn an_installed_library_is_found_by_pkg_config_shared_and_static() {
    let folder = tempfile::tempdir().expect("a folder");
    install(folder.path());
    let flags = |options: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(options).arg("rejoin").env("PKG_CONFIG_PATH", folder.path().join("lib/pkgconfig"));
        let output = command.output().expect("pkg-config is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        text.split_whitespace().map(String::from).collect::<Vec<String>>()
    };
    assert_eq!(flags(&["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let path = format!("-Wl,--disable-new-dtags,-rpath,{}", folder.path().join("lib").display());
    for (kind, options) in [("shared", &["--cflags", "--libs"][..]), ("static", &["--static", "--cflags", "--libs"])] {
        let mut arguments = vec!["-std=c99".to_string(), path.clone()];
        arguments.extend(flags(options));
        if kind == "static" {
            let archive = folder.path().join("lib/librejoin.a").display().to_string();
            arguments.iter_mut().filter(|word| *word == "-lrejoin").for_each(|word| word.clone_from(&archive));
        }
        arguments.push("-lm".into());
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let program = folder.path().join(kind);
        compile("cc", &words, "examples/c/kmeans.c", &program);
        let launcher = folder.path().join("bin/rejoin");
        let mut command = Command::new(launcher);
        command.args(["run", "--timeout", "50s", "-n", "2", "--"]).arg(&program).arg(data());
        digest(&crate::harness::finish(&mut command).ended(0));
    }
}
