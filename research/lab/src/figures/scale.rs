//! The size of a run and its paper.

use super::adm;
use super::chime;
use super::dcart;
use super::paper::ScaledPaper;
use super::pulse;
use super::radar;
use serde::{Deserialize, Serialize};

/// A paper, and the size of a run of its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PaperScale {
    /// CHIME.
    Chime(chime::ChimeScale),
    /// RADAR.
    Radar(radar::RadarScale),
    /// ADM.
    Adm(adm::AdmScale),
    /// pulse.
    Pulse(pulse::PulseScale),
    /// DCART.
    Dcart(dcart::DcartScale),
}

impl PaperScale {
    pub(super) fn paper(&self) -> &dyn ScaledPaper {
        match self {
            PaperScale::Chime(scale) => scale,
            PaperScale::Radar(scale) => scale,
            PaperScale::Adm(scale) => scale,
            PaperScale::Pulse(scale) => scale,
            PaperScale::Dcart(scale) => scale,
        }
    }
}
