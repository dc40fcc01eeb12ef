//! The report of figures as a file for programs.

use super::row::{Claim, Device, Network, Omitted, Row};
use super::scale::Scale;
use crate::harness::Machine;
use serde::{Deserialize, Serialize};

/// A report: all figures that were run by one call of `nearfield figures`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureReport {
    /// The commit, with `-dirty` when files differed from it.
    pub commit: String,
    /// The machine that computed the models, which has no influence on them.
    pub machine: Machine,
    /// True if all points of all figures were run.
    pub complete: bool,
    /// The size of the run.
    pub scale: Scale,
    /// Models of networks, if there are any.
    pub networks: Vec<Network>,
    /// Models of modules, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<Device>,
    /// The points of the figures.
    pub rows: Vec<Row>,
    /// Claims of the paper, with the results here.
    pub claims: Vec<Claim>,
    /// Points that failed.
    pub failed: Vec<Omitted>,
    /// Contenders that could not take part.
    pub skipped: Vec<Omitted>,
}

impl FigureReport {
    /// Creates an empty report.
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
