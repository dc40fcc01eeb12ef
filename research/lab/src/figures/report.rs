//! The report of figures as a file for programs.

use super::row::{MissingFigurePoint, ModuleSystemModel, NetworkModel, PaperClaim, Row};
use super::scale::PaperScale;
use crate::harness::MachineProperties;
use serde::{Deserialize, Serialize};

/// A report: all figures that were run by one call of `nearfield-bench figures`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureReport {
    /// The commit, with `-dirty` when files differed from it.
    pub commit: String,
    /// The machine that computed the models, which has no influence on them.
    pub machine: MachineProperties,
    /// True if all points of all figures were run.
    pub complete: bool,
    /// The size of the run.
    pub scale: PaperScale,
    /// Models of networks, if there are any.
    pub networks: Vec<NetworkModel>,
    /// Models of modules, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<ModuleSystemModel>,
    /// The points of the figures.
    pub rows: Vec<Row>,
    /// Claims of the paper, with the results here.
    pub claims: Vec<PaperClaim>,
    /// Points that failed.
    pub failed: Vec<MissingFigurePoint>,
    /// Contenders that could not take part.
    pub skipped: Vec<MissingFigurePoint>,
}

impl FigureReport {
    /// Creates an empty report.
    #[must_use]
    pub fn new(commit: String, machine: MachineProperties, scale: PaperScale) -> FigureReport {
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
