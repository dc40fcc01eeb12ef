//! A module with children is `x/mod.rs`, so that all of it is in one folder.

use crate::finding::TidyFinding;
use crate::source::RustSource;
use std::collections::BTreeSet;
use std::path::Path;

pub fn check(sources: &[RustSource]) -> Vec<TidyFinding> {
    let folders: BTreeSet<&Path> = sources
        .iter()
        // The first ancestor is the file itself.
        .flat_map(|source| source.path.ancestors().skip(1))
        .collect();
    sources
        .iter()
        .filter(|source| folders.contains(source.path.with_extension("").as_path()))
        .map(|source| {
            let folder = source.path.with_extension("");
            let reason = format!(
                "is beside its folder: move it to {}/mod.rs",
                folder.display()
            );
            TidyFinding::new(&source.path, 1, reason)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&str]) -> Vec<String> {
        let parse = |path: &&str| RustSource::parse(Path::new(path), String::new()).unwrap();
        let sources: Vec<RustSource> = paths.iter().map(parse).collect();
        check(&sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_beside_its_folder_is_found() {
        assert_eq!(
            found(&["src/a.rs", "src/a/b.rs"]),
            ["src/a.rs:1: is beside its folder: move it to src/a/mod.rs"]
        );
        assert_eq!(found(&["src/a.rs", "src/a/b/c.rs"]).len(), 1);
    }

    #[test]
    fn a_file_in_its_folder_is_not() {
        assert_eq!(found(&["src/a/mod.rs", "src/a/b.rs", "src/ab.rs"]).len(), 0);
    }
}
