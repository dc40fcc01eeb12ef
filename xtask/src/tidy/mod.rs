//! All checks, one a file, over the whole tree.
//!
//! A check is a function from sources, manifests or documents to findings, so that its tests can
//! show it a snippet that it must object to.

mod arrows;
mod attributes;
mod dead_files;
mod links;
mod names;
mod packages;
mod safety;
mod sizes;
mod stray;

use crate::finding::Finding;
use crate::source::Source;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs every check and answers the findings in the order of the paths.
pub fn tidy(root: &Path) -> anyhow::Result<Vec<Finding>> {
    let files = files(root)?;
    let with_extension = |extension: &str| {
        let extension = OsStr::new(extension).to_owned();
        files
            .iter()
            .filter(move |path| path.extension() == Some(&extension))
    };
    let sources: Vec<Source> = with_extension("rs")
        .map(|path| Source::read(root, path))
        .collect::<Result<_, _>>()?;
    let packages = packages::read(root)?;

    let mut findings = Vec::new();
    for source in &sources {
        findings.extend(attributes::check_dead_code(source));
        findings.extend(names::check(source));
        findings.extend(safety::check(source));
        findings.extend(stray::check(source));
    }
    findings.extend(sizes::check(&sources, sizes::EXCEPTIONS));
    findings.extend(arrows::check(&packages));
    findings.extend(attributes::check_forbid_unsafe(&packages, &sources));
    findings.extend(dead_files::check(&packages, &sources));
    for path in with_extension("md") {
        let text = fs::read_to_string(root.join(path))?;
        findings.extend(links::check(path, &text, |target| {
            root.join(target).exists()
        }));
    }
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// All files that version control does not ignore, relative to `root`, in order.
fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let walk = ignore::WalkBuilder::new(root)
        .hidden(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    for entry in walk {
        let entry = entry?;
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            files.push(entry.path().strip_prefix(root)?.to_owned());
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_tree_is_tidy() {
        let findings = super::tidy(crate::root()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
