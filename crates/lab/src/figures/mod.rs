//! The figures of papers, from models of their hardware.
//!
//! What has to be done is cut into *jobs*, which are independent of each other and of the machine:
//! the same scale and seed give the same rows, whatever runs beside. Each paper says what its
//! figures are, what it claims, and how large its experiments are (`paper::Paper`).

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
