//! Tests of tiers that cannot be opened, and of their error messages.

use nearfield_tiers::{Specification, Tiers};

/// Returns the error of parsing or opening tiers of these words.
fn error_of(words: &[&str]) -> String {
    let parsed: Result<Vec<Specification>, _> = words.iter().map(|word| word.parse()).collect();
    match parsed {
        Err(error) => error.to_string(),
        Ok(tiers) => match Tiers::open(&tiers) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{words:?} are opened"),
        },
    }
}

#[test]
fn each_reason_is_told_and_names_the_tier() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().display().to_string();
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let no_folder = format!("file:{}=1mb", file.display());
    let large = format!("file:{here}=1000000tb");
    for (words, parts) in [
        (["memory=0", "compressed=1mb"], ["memory=0", "least size"]),
        (
            ["memory=1mb", "compressed=0"],
            ["compressed=0", "least size"],
        ),
        (["memory=1mb", "file:/tmp=0"], ["file:/tmp=0", "least size"]),
        (
            ["memory=9000tb", "compressed=1mb"],
            ["memory tiers", "this machine has"],
        ),
        (
            ["memory=1mb", "compressed=9000tb"],
            ["memory tiers", "this machine has"],
        ),
        (
            ["memory=1mb", "file:/no/such=1mb"],
            ["file:/no/such", "No such file"],
        ),
        (
            ["memory=1mb", &no_folder],
            [&no_folder[..10], "Not a directory"],
        ),
        (["memory=1mb", &large], [&here, "bytes free"]),
    ] {
        let error = error_of(&words);
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{words:?}: {error}"
        );
    }
    // Nothing is left in the folder of a tier.
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 1);
}
