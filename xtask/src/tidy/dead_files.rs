//! Every Rust file is a module of some target. A file that no `mod` reaches is never compiled.

use super::packages::Package;
use crate::finding::TidyFinding;
use crate::source::RustSource;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::{Expr, Item, Lit, Meta};

pub fn check(packages: &[Package], sources: &[RustSource]) -> Vec<TidyFinding> {
    let by_path: BTreeMap<&Path, &RustSource> = sources
        .iter()
        .map(|source| (source.path.as_path(), source))
        .collect();
    let mut reached = BTreeSet::new();
    for target in packages.iter().flat_map(|package| &package.targets) {
        let folder = target.path.parent().unwrap_or(Path::new(""));
        reach(&target.path, folder, &by_path, &mut reached);
    }
    sources
        .iter()
        .filter(|source| !reached.contains(&source.path))
        .map(|source| TidyFinding::new(&source.path, 1, "no mod declaration reaches this file"))
        .collect()
}

/// Marks `path` and the modules that it declares, with files in `folder`.
fn reach(
    path: &Path,
    folder: &Path,
    sources: &BTreeMap<&Path, &RustSource>,
    reached: &mut BTreeSet<PathBuf>,
) {
    let Some(source) = sources.get(path) else {
        return;
    };
    // A file may be a module of several targets.
    if reached.insert(path.to_owned()) {
        reach_items(path, &source.syntax.items, folder, sources, reached);
    }
}

fn reach_items(
    path: &Path,
    items: &[Item],
    folder: &Path,
    sources: &BTreeMap<&Path, &RustSource>,
    reached: &mut BTreeSet<PathBuf>,
) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        let name = module.ident.to_string();
        let inner = folder.join(&name);
        if let Some((_, items)) = &module.content {
            reach_items(path, items, &inner, sources, reached);
        } else if let Some(given) = path_attribute(module) {
            let file = path.parent().unwrap_or(Path::new("")).join(given);
            let folder = file.parent().unwrap_or(Path::new("")).to_owned();
            reach(&file, &folder, sources, reached);
        } else {
            // One of the two exists. The path of the other is no source, and is passed over.
            reach(&folder.join(format!("{name}.rs")), &inner, sources, reached);
            reach(&inner.join("mod.rs"), &inner, sources, reached);
        }
    }
}

/// Returns the value of `#[path = ".."]`.
fn path_attribute(module: &syn::ItemMod) -> Option<String> {
    module.attrs.iter().find_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else {
            return None;
        };
        match &meta.value {
            Expr::Lit(value) if meta.path.is_ident("path") => match &value.lit {
                Lit::Str(path) => Some(path.value()),
                _ => None,
            },
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::packages::CargoTarget;
    use super::*;

    /// Returns the files of `tree` that are dead, if its first file is the root of the only target.
    fn dead(tree: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<RustSource> = tree
            .iter()
            .map(|(path, text)| RustSource::parse(Path::new(path), (*text).to_owned()).unwrap())
            .collect();
        let package = Package {
            name: "snippet".to_owned(),
            manifest: "Cargo.toml".into(),
            dependencies: Vec::new(),
            targets: vec![CargoTarget {
                path: tree[0].0.into(),
                shipped: true,
            }],
        };
        let findings = check(&[package], &sources);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_dead_file_is_found() {
        assert_eq!(
            dead(&[
                ("src/lib.rs", "mod alive;"),
                ("src/alive.rs", ""),
                ("src/dead.rs", "")
            ]),
            ["src/dead.rs:1: no mod declaration reaches this file"]
        );
    }

    #[test]
    fn all_ways_to_declare_a_module_are_followed() {
        let tree = [
            (
                "src/lib.rs",
                "mod a; mod b; mod inline { mod c; } #[path = \"odd/d.rs\"] mod e;",
            ),
            ("src/a.rs", "mod below;"),
            ("src/a/below.rs", ""),
            ("src/b/mod.rs", "mod beside;"),
            ("src/b/beside.rs", ""),
            ("src/inline/c.rs", ""),
            ("src/odd/d.rs", ""),
        ];
        assert_eq!(dead(&tree), [""; 0]);
    }

    #[test]
    fn a_module_of_a_dead_module_is_dead() {
        let tree = [
            ("src/lib.rs", ""),
            ("src/a.rs", "mod b;"),
            ("src/a/b.rs", ""),
        ];
        assert_eq!(dead(&tree).len(), 2);
    }
}
