//! The size of a run and its paper.

use super::adm;
use super::chime;
use super::dcart;
use super::paper::Paper;
use super::pulse;
use super::radar;
use serde::{Deserialize, Serialize};

/// A paper, and the size of a run of its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scale {
    /// CHIME.
    Chime(chime::Scale),
    /// RADAR.
    Radar(radar::Scale),
    /// ADM.
    Adm(adm::Scale),
    /// pulse.
    Pulse(pulse::Scale),
    /// DCART.
    Dcart(dcart::Scale),
}

impl Scale {
    pub(super) fn paper(&self) -> &dyn Paper {
        match self {
            Scale::Chime(scale) => scale,
            Scale::Radar(scale) => scale,
            Scale::Adm(scale) => scale,
            Scale::Pulse(scale) => scale,
            Scale::Dcart(scale) => scale,
        }
    }
}
