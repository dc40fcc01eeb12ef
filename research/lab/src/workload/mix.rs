//! Mixes: the operations of a workload and their shares.

use std::fmt;
use std::str::FromStr;

use super::Distribution;
use crate::error::LabError;
use crate::text::shortened;

/// A mix of operations, as written on a command line (in upper or lower case).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mix {
    /// `load`: insert keys in the order of the set, nothing else.
    Load,
    /// `A`: 50 % reads, 50 % updates ("session store"). This and the next five: core workloads of
    /// Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010, section 4.
    YcsbA,
    /// `B`: 95 % reads, 5 % updates ("photo tagging").
    YcsbB,
    /// `C`: reads only ("user profile cache").
    YcsbC,
    /// `D`: 95 % reads of the latest keys, 5 % insertions ("user status updates").
    YcsbD,
    /// `E`: 95 % scans of 1 to 100 keys, lengths uniform, 5 % insertions ("threaded
    /// conversations").
    YcsbE,
    /// `F`: 50 % reads, 50 % read-modify-writes ("user database").
    YcsbF,
    /// `dcart-A`: reads only. This and the next four: DCART's mixes A to E of reads and writes. The
    /// paper does not define a write; here it updates an existing key, because the paper's trees
    /// keep their size while it measures. For insertions there are `load`, `D` and `E`.
    DcartA,
    /// `dcart-B`: 75 % reads, 25 % updates.
    DcartB,
    /// `dcart-C`: 50 % reads, 50 % updates, the paper's default.
    DcartC,
    /// `dcart-D`: 25 % reads, 75 % updates.
    DcartD,
    /// `dcart-E`: updates only.
    DcartE,
}

/// The shares of operations in a mix, in percent; they add up to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MixShares {
    /// Lookups of one key.
    pub read: u32,
    /// Updates of the value of an existing key.
    pub update: u32,
    /// Insertions of a key.
    pub insert: u32,
    /// Scans of 1 to 100 keys in order.
    pub scan: u32,
    /// Reads of the value of a key, followed by an update.
    pub read_modify_write: u32,
}

/// The accepted names, as an error lists them.
const ALLOWED: &str = "load, A, B, C, D, E, F (YCSB), dcart-A, dcart-B, dcart-C, dcart-D, dcart-E";

impl Mix {
    /// All mixes.
    pub const ALL: [Mix; 12] = [
        Mix::Load,
        Mix::YcsbA,
        Mix::YcsbB,
        Mix::YcsbC,
        Mix::YcsbD,
        Mix::YcsbE,
        Mix::YcsbF,
        Mix::DcartA,
        Mix::DcartB,
        Mix::DcartC,
        Mix::DcartD,
        Mix::DcartE,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mix::Load => "load",
            Mix::YcsbA => "A",
            Mix::YcsbB => "B",
            Mix::YcsbC => "C",
            Mix::YcsbD => "D",
            Mix::YcsbE => "E",
            Mix::YcsbF => "F",
            Mix::DcartA => "dcart-A",
            Mix::DcartB => "dcart-B",
            Mix::DcartC => "dcart-C",
            Mix::DcartD => "dcart-D",
            Mix::DcartE => "dcart-E",
        }
    }

    /// Returns the shares of its operations.
    #[must_use]
    pub fn shares(self) -> MixShares {
        let none = MixShares::default();
        // The operations that are not reads are updates.
        let reads = |read| MixShares {
            read,
            update: 100 - read,
            ..none
        };
        match self {
            Mix::Load => MixShares {
                insert: 100,
                ..none
            },
            Mix::YcsbA | Mix::DcartC => reads(50),
            Mix::YcsbB => reads(95),
            Mix::YcsbC | Mix::DcartA => reads(100),
            Mix::YcsbD => MixShares {
                read: 95,
                insert: 5,
                ..none
            },
            Mix::YcsbE => MixShares {
                scan: 95,
                insert: 5,
                ..none
            },
            Mix::YcsbF => MixShares {
                read: 50,
                read_modify_write: 50,
                ..none
            },
            Mix::DcartB => reads(75),
            Mix::DcartD => reads(25),
            Mix::DcartE => reads(0),
        }
    }

    /// Returns its default distribution of keys: as published for YCSB's mixes; uniform for
    /// DCART's.
    #[must_use]
    pub fn distribution_default(self) -> Distribution {
        match self {
            Mix::YcsbA | Mix::YcsbB | Mix::YcsbC | Mix::YcsbE | Mix::YcsbF => Distribution::ZIPF,
            Mix::YcsbD => Distribution::Latest,
            // DCART's reported load of one prefix agrees with that prefix's share of the keys.
            Mix::Load | Mix::DcartA | Mix::DcartB | Mix::DcartC | Mix::DcartD | Mix::DcartE => {
                Distribution::Uniform
            }
        }
    }

    /// Returns the number of `keys` that may be held out of the load, to be inserted.
    #[must_use]
    pub fn inserts_max(self, keys: u64) -> u64 {
        match self.shares().insert {
            0 => 0,
            100 => keys,
            // Half stay, so that there is an index to work on.
            _ => keys / 2,
        }
    }
}

impl FromStr for Mix {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Mix::ALL
            .into_iter()
            .find(|mix| mix.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| LabError::UnknownName {
                subject: "mix",
                given: shortened(text),
                allowed: ALLOWED,
            })
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        for mix in Mix::ALL {
            let MixShares {
                read,
                update,
                insert,
                scan,
                read_modify_write,
            } = mix.shares();
            assert_eq!(
                read + update + insert + scan + read_modify_write,
                100,
                "{mix}"
            );
        }
    }

    #[test]
    fn names_are_given_back_and_listed() {
        for mix in Mix::ALL {
            assert_eq!(mix.to_string().parse::<Mix>().unwrap(), mix);
            assert_eq!(mix.name().to_lowercase().parse::<Mix>().unwrap(), mix);
            assert!(ALLOWED.contains(mix.name()));
        }
        for bad in ["", "G", "dcart-F", "ycsb"] {
            let error = bad.parse::<Mix>().unwrap_err().to_string();
            assert!(error.contains(ALLOWED), "{error}");
        }
    }
}
