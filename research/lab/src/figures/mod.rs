//! The figures of papers, from models of their hardware.
//!
//! The work is cut into *jobs*, which are independent of each other and of the machine: the same
//! scale and seed give the same rows, whatever runs at the same time. Each paper defines its
//! figures, its claims, and the size of its experiments (`paper::ScaledPaper`).

mod adm;
mod chime;
mod claim;
mod dcart;
#[cfg(test)]
mod fidelity;
mod job;
mod page;
mod paper;
#[cfg(test)]
mod pinned;
mod pulse;
mod radar;
mod report;
mod result_cache;
mod row;
mod scale;
mod session;
mod show;
#[cfg(test)]
mod tests;

pub use adm::{AdmCommands, AdmScale};
pub use chime::ChimeScale;
pub use dcart::DcartScale;
pub use job::PointError;
pub use pulse::PulseScale;
pub use radar::{RadarScale, skip_list};
pub use report::FigureReport;
pub use row::{
    ClaimBasis, ClaimDirection, FigurePoint, MissingFigurePoint, ModuleSystemModel,
    ModuleWorkCounts, NetworkModel, PaperClaim, Quantity, Row,
};
pub use scale::PaperScale;
pub use session::{FigureRequest, FigureSession};
