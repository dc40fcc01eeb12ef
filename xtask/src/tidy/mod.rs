//! All checks of the whole tree, one per file.
//!
//! A check is a function from sources, manifests or documents to findings, so that its tests can
//! pass it a snippet that it must reject.

mod arrows;
mod attributes;
mod columns;
mod cycles;
mod dead_files;
mod layout;
mod links;
mod names;
mod packages;
mod safety;
mod sizes;
mod stray;
mod type_names;
mod unclean;
mod words;

use crate::finding::TidyFinding;
use crate::source::RustSource;
use packages::Package;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The checks that some crates do not pass yet, by the names that `unclean.rs` uses.
pub const RATCHETS: [&str; 5] = ["columns", "cycles", "layout", "names", "words"];

/// Runs every check, and returns the findings in the order of the paths.
pub fn tidy(root: &Path) -> anyhow::Result<Vec<TidyFinding>> {
    let files = files(root)?;
    let sources = sources(root, &files)?;
    let packages = packages::read(root)?;

    debug_assert!(
        unclean::UNCLEAN
            .iter()
            .all(|(check, ..)| RATCHETS.contains(check))
    );
    let mut findings = unclean::filter(ratchets(&packages, &sources), unclean::UNCLEAN);
    for source in &sources {
        findings.extend(attributes::check_dead_code(source));
        findings.extend(names::check(source));
        findings.extend(safety::check(source));
        findings.extend(stray::check(source));
        findings.extend(stray::check_servers_of_tests(source));
    }
    findings.extend(stray::check_left_files(&files));
    findings.extend(sizes::check(&sources, sizes::EXCEPTIONS));
    findings.extend(arrows::check(&packages));
    findings.extend(attributes::check_forbid_unsafe(&packages, &sources));
    findings.extend(dead_files::check(&packages, &sources));
    for path in with_extension(&files, "md") {
        let text = fs::read_to_string(root.join(path))?;
        findings.extend(links::check(path, &text, |target| {
            root.join(target).exists()
        }));
    }
    findings.sort();
    findings.dedup();
    Ok(findings)
}

/// Runs one of `RATCHETS` on the files below `folder`, even on those that `unclean.rs` lists.
pub fn only(root: &Path, check: &str, folder: &Path) -> anyhow::Result<Vec<TidyFinding>> {
    debug_assert!(RATCHETS.contains(&check));
    let sources = sources(root, &files(root)?)?;
    let findings = ratchets(&packages::read(root)?, &sources);
    let mut findings: Vec<TidyFinding> = findings
        .into_iter()
        .filter(|(name, finding)| *name == check && finding.path().starts_with(folder))
        .map(|(_, finding)| finding)
        .collect();
    findings.sort();
    Ok(findings)
}

/// Returns the findings of the `RATCHETS`, each with the name of its check.
fn ratchets(packages: &[Package], sources: &[RustSource]) -> Vec<(&'static str, TidyFinding)> {
    let [columns, cycles, layout, names, words] = RATCHETS;
    let mut findings = Vec::new();
    for source in sources {
        findings.extend(columns::check(source).into_iter().map(|it| (columns, it)));
        findings.extend(words::check(source).into_iter().map(|it| (words, it)));
    }
    let found = type_names::check(sources);
    findings.extend(found.into_iter().map(|it| (names, it)));
    findings.extend(layout::check(sources).into_iter().map(|it| (layout, it)));
    // Modules import each other within a crate only, so each crate is searched alone.
    for package in packages {
        let folder = package.manifest.with_file_name("src");
        let of_package = |source: &&RustSource| source.path.starts_with(&folder);
        let sources: Vec<&RustSource> = sources.iter().filter(of_package).collect();
        let found = cycles::check(&folder, &sources);
        findings.extend(found.into_iter().map(|it| (cycles, it)));
    }
    findings
}

/// Returns the shares of openings and names that the ratchets are about, as lines of text.
pub fn shares(root: &Path) -> anyhow::Result<String> {
    let sources = sources(root, &files(root)?)?;
    let (mut blocks, mut openings) = (0, 0);
    for source in &sources {
        let (more, hidden) = words::count_openings(source);
        blocks += more;
        openings += hidden;
    }
    let names = type_names::defined(&sources);
    let (one_word, shared) = type_names::count_shared(&names);
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    Ok(format!(
        "words: {openings} of {blocks} comments ({:.1} %) open without their subject\n\
         names: {one_word} of {} types ({:.0} %) have one word, {shared} ({:.0} %) share their \
         name with two others",
        percent(openings, blocks),
        names.len(),
        percent(one_word, names.len()),
        percent(shared, names.len()),
    ))
}

fn sources(root: &Path, files: &[PathBuf]) -> anyhow::Result<Vec<RustSource>> {
    with_extension(files, "rs")
        .map(|path| RustSource::read(root, path))
        .collect()
}

fn with_extension<'a>(files: &'a [PathBuf], extension: &str) -> impl Iterator<Item = &'a PathBuf> {
    let extension = OsStr::new(extension).to_owned();
    files
        .iter()
        .filter(move |path| path.extension() == Some(&extension))
}

/// Returns all files that version control does not ignore, relative to `root`, in order.
fn files(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let walk = ignore::WalkBuilder::new(root)
        // Folders such as `.ci` belong to the tree, too.
        .hidden(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .build();
    for entry in walk {
        let entry = entry?;
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            files.push(entry.path().strip_prefix(root)?.to_owned());
        }
    }
    // The order in a folder depends on the file system.
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
