//! The packages of the workspace and of `fuzz/`, as cargo understands their manifests.

use cargo_metadata::{DependencyKind, MetadataCommand, TargetKind};
use std::path::{Path, PathBuf};

/// The facts about a package that the checks need.
pub struct Package {
    pub name: String,
    /// Path of the manifest, relative to the root of the repository.
    pub manifest: PathBuf,
    pub dependencies: Vec<Dependency>,
    pub targets: Vec<CargoTarget>,
}

pub struct Dependency {
    pub name: String,
    /// True for a dependency of tests, benches and examples only.
    pub development: bool,
    /// True if only a feature enables it.
    pub optional: bool,
    /// The features of it that are enabled.
    pub features: Vec<String>,
}

pub struct CargoTarget {
    /// Path of the root module, relative to the root of the repository.
    pub path: PathBuf,
    /// True for a library or a program, false for tests, benches, examples and build scripts.
    pub shipped: bool,
}

/// Reads the manifests below `root`.
pub fn read(root: &Path) -> anyhow::Result<Vec<Package>> {
    let mut packages = Vec::new();
    // The fuzz targets are a workspace of their own.
    for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
        let manifest = root.join(manifest);
        if !manifest.exists() {
            continue;
        }
        let metadata = MetadataCommand::new()
            .manifest_path(&manifest)
            // Only our own manifests matter, and resolving others could need the network.
            .no_deps()
            .exec()?;
        for package in metadata.packages {
            packages.push(convert(root, package)?);
        }
    }
    Ok(packages)
}

fn convert(root: &Path, package: cargo_metadata::Package) -> anyhow::Result<Package> {
    let relative = |path: &Path| path.strip_prefix(root).map(Path::to_owned);
    let dependencies = package.dependencies.iter().map(|dependency| Dependency {
        name: dependency.name.clone(),
        development: dependency.kind == DependencyKind::Development,
        optional: dependency.optional,
        features: dependency.features.clone(),
    });
    let targets = package.targets.iter().map(|target| {
        let shipped = [TargetKind::Lib, TargetKind::Bin, TargetKind::ProcMacro];
        Ok(CargoTarget {
            path: relative(target.src_path.as_std_path())?,
            shipped: target.kind.iter().any(|kind| shipped.contains(kind)),
        })
    });
    Ok(Package {
        name: package.name.to_string(),
        manifest: relative(package.manifest_path.as_std_path())?,
        dependencies: dependencies.collect(),
        targets: targets.collect::<anyhow::Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_package_is_read() {
        let packages = read(crate::root()).unwrap();
        let xtask = packages.iter().find(|package| package.name == "xtask");
        let xtask = xtask.unwrap();
        assert_eq!(xtask.manifest, Path::new("xtask/Cargo.toml"));
        assert!(xtask.dependencies.iter().any(|it| it.name == "syn"));
        assert_eq!(xtask.targets[0].path, Path::new("xtask/src/main.rs"));
        assert!(xtask.targets[0].shipped);
    }
}
