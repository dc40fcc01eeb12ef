//! Tiers as a user specifies them, such as `compressed=8gb`.

use nearfield_core::{ByteSizeError, byte_size};
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One tier: its kind and its capacity.
///
/// ```
/// use nearfield_tiers::{Specification, TierKind};
///
/// let tier: Specification = "file:/mnt/ssd=200gb".parse()?;
/// assert_eq!(tier.kind, TierKind::File("/mnt/ssd".into()));
/// assert_eq!(tier.capacity_bytes, 200 << 30);
/// # Ok::<(), nearfield_tiers::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Specification {
    /// The kind of memory that stores the tier's values.
    pub kind: TierKind,
    /// Number of bytes that it may use.
    pub capacity_bytes: u64,
}

/// The kind of memory that stores the values of a tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TierKind {
    /// The memory of this machine, uncompressed.
    Memory,
    /// The memory of a NUMA node of this machine, uncompressed. As the first tier it is the memory
    /// of the store itself.
    Node(u32),
    /// The memory of this machine, compressed.
    Compressed,
    /// Files in a folder.
    File(PathBuf),
}

/// Reason for which a word does not specify a tier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The capacity is missing.
    #[error(
        "tier '{0}': write KIND=SIZE, such as memory=4gb, compressed=8gb or file:/mnt/ssd=200gb"
    )]
    NoCapacity(String),
    /// The capacity does not parse.
    #[error("tier '{tier}': '{size}' is not a size; {ByteSizeError}")]
    BadSize {
        /// The whole word.
        tier: String,
        /// The part that does not parse.
        size: String,
    },
    /// The capacity is below the minimum of a tier.
    #[error("tier '{tier}': the least size is {}mb", MIN_BYTES >> 20)]
    TooSmall {
        /// The whole word.
        tier: String,
    },
    /// The kind of tier is unknown.
    #[error(
        "tier '{tier}': '{kind}' is not a kind of tier; use memory, memory@numa:NODE, compressed \
         or file:FOLDER"
    )]
    UnknownKind {
        /// The whole word.
        tier: String,
        /// The part that is not a kind.
        kind: String,
    },
    /// The tiers are in an order that is not allowed.
    #[error("{0}")]
    Order(&'static str),
}

/// Minimum capacity of a tier.
pub const MIN_BYTES: u64 = 1 << 20;

impl FromStr for Specification {
    type Err = ParseError;

    fn from_str(word: &str) -> Result<Specification, ParseError> {
        // From the right, because the name of a folder may contain the character.
        let Some((kind, size)) = word.rsplit_once('=') else {
            return Err(ParseError::NoCapacity(word.to_owned()));
        };
        let capacity_bytes = byte_size(size).map_err(|_| ParseError::BadSize {
            tier: word.to_owned(),
            size: size.to_owned(),
        })?;
        if capacity_bytes < MIN_BYTES {
            let tier = word.to_owned();
            return Err(ParseError::TooSmall { tier });
        }
        let kind = match kind.split_once(':') {
            None if kind == "memory" => TierKind::Memory,
            Some(("memory@numa", node)) if node.parse::<u32>().is_ok() => {
                TierKind::Node(node.parse().unwrap_or_default())
            }
            None if kind == "compressed" => TierKind::Compressed,
            Some(("file", folder)) if !folder.is_empty() => TierKind::File(folder.into()),
            _ => {
                return Err(ParseError::UnknownKind {
                    tier: word.to_owned(),
                    kind: kind.to_owned(),
                });
            }
        };
        Ok(Specification {
            kind,
            capacity_bytes,
        })
    }
}

impl Specification {
    /// Creates a tier in the memory of this machine.
    pub fn memory(capacity_bytes: u64) -> Specification {
        Specification {
            kind: TierKind::Memory,
            capacity_bytes,
        }
    }

    /// Creates a tier in the memory of this machine, compressed.
    pub fn compressed(capacity_bytes: u64) -> Specification {
        Specification {
            kind: TierKind::Compressed,
            capacity_bytes,
        }
    }

    /// Creates a tier in files of a folder.
    pub fn file(folder: impl Into<PathBuf>, capacity_bytes: u64) -> Specification {
        Specification {
            kind: TierKind::File(folder.into()),
            capacity_bytes,
        }
    }

    /// Checks that tiers are in an allowed order, because each must be slower than the one before:
    /// memory first, then that of a NUMA node, compressed memory and files, one of each kind. Also
    /// checks that each has the minimum capacity.
    ///
    /// # Errors
    /// The rule that they break.
    pub fn check_order(tiers: &[Specification]) -> Result<(), ParseError> {
        let rank = |tier: &Specification| match tier.kind {
            TierKind::Memory => 0,
            TierKind::Node(_) => 1,
            TierKind::Compressed => 2,
            TierKind::File(_) => 3,
        };
        if let Some(small) = tiers.iter().find(|it| it.capacity_bytes < MIN_BYTES) {
            let tier = small.to_string();
            return Err(ParseError::TooSmall { tier });
        }
        // The order begins below the first tier, so that both may be memory of NUMA nodes.
        let below = tiers.iter().skip(1).map(rank);
        let is_rising = below
            .clone()
            .zip(below.clone().skip(1))
            .all(|(one, next)| one < next);
        if tiers.first().is_some_and(|first| rank(first) > 1) {
            let rule = "the first tier must be memory, because keys and hot values are there";
            return Err(ParseError::Order(rule));
        }
        if !is_rising || below.into_iter().any(|rank| rank == 0) {
            let rule = "list tiers from fast to slow, one of each kind: memory, memory@numa:NODE, \
                        compressed, file";
            return Err(ParseError::Order(rule));
        }
        if tiers.len() == 1 {
            let rule = "a single tier has no lower tier; use maxmemory instead";
            return Err(ParseError::Order(rule));
        }
        Ok(())
    }

    /// Returns the folder of a file tier.
    pub fn folder(&self) -> Option<&Path> {
        match &self.kind {
            TierKind::File(folder) => Some(folder),
            _ => None,
        }
    }
}

impl fmt::Display for Specification {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.kind, self.capacity_bytes)
    }
}

impl fmt::Display for TierKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TierKind::Memory => out.write_str("memory"),
            TierKind::Node(node) => write!(out, "memory@numa:{node}"),
            TierKind::Compressed => out.write_str("compressed"),
            TierKind::File(folder) => write!(out, "file:{}", folder.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_read_as_they_are_written() {
        for (word, kind, bytes) in [
            ("memory=4gb", TierKind::Memory, 4 << 30),
            ("memory=4G", TierKind::Memory, 4_000_000_000),
            ("compressed=1048576", TierKind::Compressed, 1 << 20),
            ("file:/a=b/c=8m", TierKind::File("/a=b/c".into()), 8_000_000),
            ("memory=2GiB", TierKind::Memory, 2 << 30),
            ("memory@numa:2=16gb", TierKind::Node(2), 16 << 30),
        ] {
            let tier: Specification = word.parse().unwrap();
            assert_eq!((&tier.kind, tier.capacity_bytes), (&kind, bytes));
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
    }

    #[test]
    fn words_that_name_no_tier_are_refused_by_name() {
        for (word, part) in [
            ("memory", "KIND=SIZE"),
            ("memory=", "'' is not a size"),
            ("memory=4X", "'4X' is not a size"),
            ("memory=-1gb", "'-1gb' is not a size"),
            ("memory=99999999999tb", "not a size"),
            ("memory=0", "the least size"),
            ("memory=1M", "the least size is 1mb"),
            ("flash=4G", "'flash' is not a kind"),
            ("file:=4gb", "not a kind"),
            ("memory@numa:=4gb", "not a kind"),
            ("memory@numa:-1=4gb", "not a kind"),
        ] {
            let error = word.parse::<Specification>().unwrap_err().to_string();
            assert!(error.contains(part), "{word}: {error}");
        }
    }

    #[test]
    fn tiers_go_from_fast_to_slow() {
        let check = |words: &[&str]| {
            let tiers: Vec<Specification> =
                words.iter().map(|word| word.parse().unwrap()).collect();
            Specification::check_order(&tiers).is_ok()
        };
        assert!(check(&["memory=1gb", "compressed=1gb", "file:/x=1gb"]));
        assert!(check(&["memory=1gb", "file:/x=1gb"]));
        assert!(!check(&["compressed=1gb", "file:/x=1gb"]));
        assert!(!check(&["memory=1gb", "file:/x=1gb", "compressed=1gb"]));
        assert!(check(&[
            "memory@numa:1=1gb",
            "memory@numa:0=1gb",
            "compressed=1gb"
        ]));
        assert!(!check(&[
            "memory=1gb",
            "compressed=1gb",
            "memory@numa:0=1gb"
        ]));
        assert!(!check(&["memory=1gb", "memory=1gb"]));
        assert!(!check(&["memory=1gb"]));
    }
}
