//! The figures of papers, from models of their hardware.
//!
//! The work is cut into *jobs*, which are independent of each other and of the machine: the same
//! scale and seed give the same rows, whatever runs at the same time. Each paper defines its
//! figures, its claims, and the size of its experiments (`paper::Paper`).

mod adm;
mod chime;
mod claim;
mod dcart;
mod job;
mod kept;
mod page;
mod paper;
#[cfg(test)]
mod pinned;
mod pulse;
mod radar;
mod report;
mod row;
mod scale;
mod session;
mod show;
#[cfg(test)]
mod tests;

pub use adm::Scale as AdmScale;
pub use chime::Scale as ChimeScale;
pub use dcart::Scale as DcartScale;
pub use job::PointError;
pub use pulse::Scale as PulseScale;
pub use radar::{Scale as RadarScale, skip_list};
pub use report::FigureReport;
pub use row::{Claim, Device, Network, Omitted, Point, Quantity, Row, Work};
pub use scale::Scale;
pub use session::{FigureSession, Request};
