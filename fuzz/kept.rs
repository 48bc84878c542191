//! The kept corpus, for the crates' own tests. Each of those crates is two folders below the repository.

/// All kept inputs of a fuzz target.
///
/// # Panics
/// When there are fewer than three: then the folder isn't the right one.
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
    let folder: std::path::PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz", "corpus", target].iter().collect();
    let files = std::fs::read_dir(&folder).unwrap_or_else(|cause| panic!("{}: {cause}", folder.display()));
    let inputs: Vec<_> = files
        .map(|file| std::fs::read(file.expect("a folder that is there").path()).expect("a file that is there"))
        .collect();
    assert!(inputs.len() >= 3, "{} inputs for {target}", inputs.len());
    inputs
}
