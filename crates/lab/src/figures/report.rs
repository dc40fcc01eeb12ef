//! The report of figures for programs.

use super::row::{Claim, Device, Network, Omitted, Row};
use super::scale::Scale;
use crate::harness::Machine;
use serde::{Deserialize, Serialize};

/// A report: all figures that were run by one call of `nearfield figures`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureReport {
    /// The commit, with `-dirty` when files differed from it.
    pub commit: String,
    /// Where the models were computed, which has no influence on them.
    pub machine: Machine,
    /// Whether all points of all figures were run.
    pub complete: bool,
    /// How large it was.
    pub scale: Scale,
    /// What the networks are modelled by, where there are some.
    pub networks: Vec<Network>,
    /// What modules are modelled by, where there are some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// The points of the figures.
    pub rows: Vec<Row>,
    /// What the paper says, and what came out here.
    pub claims: Vec<Claim>,
    /// Points that did not get through.
    pub failed: Vec<Omitted>,
    /// Who could not take part.
    pub skipped: Vec<Omitted>,
}

impl FigureReport {
    /// A report of nothing yet.
    #[must_use]
    pub fn new(commit: String, machine: Machine, scale: Scale) -> FigureReport {
        let paper = scale.paper();
        FigureReport {
            commit,
            machine,
            complete: false,
            networks: paper.networks(),
            devices: paper.devices(),
            rows: Vec::new(),
            claims: paper.claims(&[]),
            failed: Vec::new(),
            skipped: Vec::new(),
            scale,
        }
    }
}
