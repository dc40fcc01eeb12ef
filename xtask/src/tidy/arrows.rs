//! Arrows between crates point down, as ARCHITECTURE.md draws them.

use super::packages::{Dependency, Package};
use crate::finding::TidyFinding;

/// The crates of the repository on which each crate may depend. Others are refused, so that a new
/// arrow is a decision and not an accident.
const ALLOWED: &[(&str, &[&str])] = &[
    ("nearfield-core", &[]),
    ("nearfield-hotness", &["nearfield-core"]),
    ("nearfield-radix", &["nearfield-core", "nearfield-hotness"]),
    (MODELS, &["nearfield-core"]),
    ("nearfield-fabric", &[MODELS]),
    ("nearfield-offload", &["nearfield-fabric", MODELS]),
    (
        "nearfield-pool",
        &[
            "nearfield-core",
            "nearfield-fabric",
            MODELS,
            "nearfield-hotness",
            "nearfield-offload",
        ],
    ),
    (
        "nearfield-pool-rivals",
        &[
            "nearfield-fabric",
            MODELS,
            "nearfield-hotness",
            "nearfield-pool",
        ],
    ),
    ("nearfield-pim", &["nearfield-core", MODELS]),
    (
        "nearfield-learned",
        &["nearfield-core", MODELS, "nearfield-pim"],
    ),
    (
        "nearfield-pim-rivals",
        &["nearfield-core", MODELS, "nearfield-pim"],
    ),
    ("nearfield-testkit", &["nearfield-core"]),
    (
        FABRIC_TESTKIT,
        &["nearfield-fabric", MODELS, "nearfield-pool", TESTKIT],
    ),
    (
        "nearfield",
        &[
            "nearfield-core",
            "nearfield-fabric",
            "nearfield-offload",
            "nearfield-pim",
            "nearfield-pool",
            "nearfield-radix",
            "nearfield-tiers",
        ],
    ),
    // Trees from papers, which share the lock and the probes of ours.
    (RADIX_RIVALS, &["nearfield-core", "nearfield-radix"]),
    (PEERS, &["nearfield-core", RADIX_RIVALS]),
    (
        "nearfield-lab",
        &[
            "nearfield",
            "nearfield-core",
            "nearfield-fabric",
            MODELS,
            "nearfield-hotness",
            "nearfield-learned",
            "nearfield-offload",
            "nearfield-pim",
            "nearfield-pim-rivals",
            "nearfield-pool",
            "nearfield-pool-rivals",
            "nearfield-radix",
            // A figure serves indexes by the server's protocol, whose parser it uses.
            "nearfield-server",
            "nearfield-tiers",
            PEERS,
            RADIX_RIVALS,
            // Measurements over a network run on its machines, which are network namespaces.
            TESTKIT,
        ],
    ),
    ("nearfield-tiers", &["nearfield-core", "nearfield-hotness"]),
    (
        "nearfield-server",
        &[
            "nearfield",
            "nearfield-core",
            "nearfield-hotness",
            "nearfield-tiers",
        ],
    ),
    (SERVER_TESTKIT, &["nearfield-server", "nearfield-tiers"]),
    // This is a program for tests.
    (ATTACK, &["nearfield-server", SERVER_TESTKIT]),
    (
        "nearfield-cli",
        &[
            "nearfield",
            "nearfield-core",
            "nearfield-fabric",
            "nearfield-offload",
            "nearfield-server",
            "nearfield-tiers",
        ],
    ),
    (
        "nearfield-bench",
        &[
            "nearfield",
            "nearfield-core",
            "nearfield-fabric",
            MODELS,
            "nearfield-lab",
            "nearfield-server",
            "nearfield-tiers",
        ],
    ),
    (
        "nearfield-fuzz",
        &[
            "nearfield-core",
            "nearfield-fabric",
            MODELS,
            "nearfield-offload",
            "nearfield-radix",
            "nearfield-server",
            "nearfield-tiers",
            SERVER_TESTKIT,
            TESTKIT,
        ],
    ),
    ("xtask", &[]),
];

/// Models of hardware, which no product compiles.
const MODELS: &str = "nearfield-hardware";
/// The feature of products that brings parts on models of hardware, for research and tests.
const MODEL_FEATURE: &str = "model";
const FABRIC_TESTKIT: &str = "nearfield-fabric-testkit";
/// Third-party programs, on which no embeddable crate may depend.
const PEERS: &str = "nearfield-peers";
/// Trees from papers, on which no embeddable crate may depend.
const RADIX_RIVALS: &str = "nearfield-radix-rivals";
/// The test kit, which the tests of any crate may use.
const TESTKIT: &str = "nearfield-testkit";
/// Shared code of the server's tests.
const SERVER_TESTKIT: &str = "nearfield-server-testkit";
/// Attacks on the server's program, which its tests run for a short time.
const ATTACK: &str = "nearfield-attack";

pub fn check(packages: &[Package]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for package in packages {
        let row = ALLOWED.iter().find(|(name, _)| *name == package.name);
        let Some((_, allowed)) = row else {
            let reason = format!(
                "{} is missing in the table of arrows of xtask",
                package.name
            );
            findings.push(TidyFinding::new(&package.manifest, 1, reason));
            continue;
        };
        debug_assert!(
            allowed
                .iter()
                .all(|name| ALLOWED.iter().any(|(other, _)| other == name)),
            "an arrow ends at a crate of the table"
        );
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let ours = packages.iter().any(|other| other.name == name);
            // A crate may depend on itself to enable its features in its tests.
            let is_for_tests = dependency.development
                && [
                    TESTKIT,
                    SERVER_TESTKIT,
                    FABRIC_TESTKIT,
                    ATTACK,
                    package.name.as_str(),
                ]
                .contains(&name);
            if ours && !is_for_tests && !allowed.contains(&name) {
                let reason = format!("{} may not depend on {name}", package.name);
                findings.push(TidyFinding::new(&package.manifest, 1, reason));
            }
            if is_product(package) && brings_models(dependency) {
                let reason = format!(
                    "{} may use {MODELS} only with its feature {MODEL_FEATURE:?}",
                    package.name
                );
                findings.push(TidyFinding::new(&package.manifest, 1, reason));
            }
        }
    }
    findings
}

/// Returns true for a crate that programs embed, or a program for users.
fn is_product(package: &Package) -> bool {
    let tools = [TESTKIT, SERVER_TESTKIT, FABRIC_TESTKIT, ATTACK];
    package.manifest.starts_with("crates") && !tools.contains(&package.name.as_str())
}

/// Returns true if a package with this dependency compiles models of hardware by default.
fn brings_models(dependency: &Dependency) -> bool {
    let has_feature = dependency.features.iter().any(|name| name == MODEL_FEATURE);
    let is_always = dependency.name == MODELS && !dependency.optional;
    !dependency.development && (is_always || has_feature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependencies = dependencies.iter().map(|&(name, development)| Dependency {
            name: name.to_owned(),
            development,
            optional: false,
            features: Vec::new(),
        });
        Package {
            name: name.to_owned(),
            manifest: Path::new(name).join("Cargo.toml"),
            dependencies: dependencies.collect(),
            targets: Vec::new(),
        }
    }

    fn reasons(package: Package) -> Vec<String> {
        let mut packages = vec![package];
        for (name, _) in ALLOWED {
            packages.push(self::package(name, &[]));
        }
        check(&packages).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_up_is_found() {
        let radix = package("nearfield-radix", &[("nearfield", false)]);
        assert_eq!(
            reasons(radix),
            ["nearfield-radix/Cargo.toml:1: nearfield-radix may not depend on nearfield"]
        );
    }

    #[test]
    fn peers_are_for_the_lab_only() {
        assert_eq!(
            reasons(package("nearfield-cli", &[(PEERS, false)])).len(),
            1
        );
        assert_eq!(
            reasons(package("nearfield-radix", &[(PEERS, true)])).len(),
            1
        );
        assert_eq!(
            reasons(package("nearfield-lab", &[(PEERS, false)])).len(),
            0
        );
    }

    #[test]
    fn testkit_is_for_tests_only() {
        assert_eq!(
            reasons(package("nearfield-radix", &[(TESTKIT, true)])).len(),
            0
        );
        assert_eq!(
            reasons(package("nearfield-radix", &[(TESTKIT, false)])).len(),
            1
        );
    }

    #[test]
    fn models_are_behind_a_feature_of_products() {
        let product = |name: &str, dependency: Dependency| {
            reasons(Package {
                manifest: Path::new("crates").join(name).join("Cargo.toml"),
                dependencies: vec![dependency],
                ..package(name, &[])
            })
            .len()
        };
        let models = |development, optional| Dependency {
            name: MODELS.to_owned(),
            development,
            optional,
            features: Vec::new(),
        };
        assert_eq!(product("nearfield-fabric", models(false, false)), 1);
        assert_eq!(product("nearfield-fabric", models(false, true)), 0);
        assert_eq!(product("nearfield-pool", models(true, false)), 0);
        assert_eq!(product(FABRIC_TESTKIT, models(false, false)), 0);
        let fabric = |development| Dependency {
            name: "nearfield-fabric".to_owned(),
            development,
            optional: false,
            features: vec![MODEL_FEATURE.to_owned()],
        };
        assert_eq!(product("nearfield-pool", fabric(false)), 1);
        assert_eq!(product("nearfield-pool", fabric(true)), 0);
    }

    #[test]
    fn a_package_without_a_row_is_found() {
        assert_eq!(
            reasons(package("nearfield-new", &[("serde", false)])).len(),
            1
        );
    }

    #[test]
    fn foreign_crates_are_not_ours_to_judge() {
        assert_eq!(
            reasons(package("nearfield-core", &[("thiserror", false)])).len(),
            0
        );
    }
}
