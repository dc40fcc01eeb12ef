//! Transfers of data to modules and back.

use super::{Bandwidth, ModuleParameters};
use crate::VirtualTime;

/// The direction in which data is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModuleTransferDirection {
    /// Transfer from the host to modules.
    In,
    /// Transfer from modules to the host.
    Out,
}

impl ModuleParameters {
    /// Returns the bytes that the host moves for modules with these bytes each: for each module
    /// that takes part, as many as for the one with the most.
    pub fn moved(&self, bytes: &[u64]) -> u64 {
        let most = bytes.iter().copied().max().unwrap_or(0);
        most * bytes.len() as u64
    }

    /// Returns the time of a transfer in which each of the modules that take part has these bytes.
    /// Modules of the set without data are padded like the others. It is the longer of the time for
    /// all bytes, and the time for the fullest module alone.
    pub fn transfer(&self, way: ModuleTransferDirection, bytes: &[u64]) -> VirtualTime {
        let moved = self.moved(bytes) as f64;
        // A transfer of nothing is not started, so it has no fixed cost.
        if moved == 0.0 {
            return VirtualTime::ZERO;
        }
        let most = bytes.iter().copied().max().unwrap_or(0) as f64;
        let seconds = match self.bandwidth {
            Bandwidth::Total(rate) => moved / rate,
            Bandwidth::Ranks {
                base,
                per_rank,
                ranks_max,
                back,
                alone,
            } => {
                let ranks = bytes.len().div_ceil(self.modules_per_rank) as f64;
                let into = base + per_rank * ranks.min(ranks_max);
                let (rate, alone) = match way {
                    ModuleTransferDirection::In => (into, alone[0]),
                    ModuleTransferDirection::Out => (into * back, alone[1]),
                };
                (moved / rate).max(most / alone)
            }
        };
        self.transfer + VirtualTime::from_picoseconds((seconds * 1e12).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ModulePreset;
    use super::*;

    fn gigabytes(preset: ModulePreset, way: ModuleTransferDirection, modules: usize) -> f64 {
        let bytes = vec![8 << 20; modules];
        let parameters = preset.parameters();
        let seconds = parameters.transfer(way, &bytes).as_seconds();
        (modules as f64 * f64::from(8 << 20)) / seconds / 1e9
    }

    #[test]
    fn published_rates_come_out_again() {
        // Published: 13.2 GB/s with 32 ranks, 0.33 and 0.12 GB/s for one module.
        let all = gigabytes(
            ModulePreset::UpmemMeasured,
            ModuleTransferDirection::In,
            2048,
        );
        assert!((13.0..13.4).contains(&all), "{all}");
        let back = gigabytes(
            ModulePreset::UpmemMeasured,
            ModuleTransferDirection::Out,
            2048,
        );
        assert!((9.2..9.5).contains(&back), "{back}");
        let one = gigabytes(ModulePreset::UpmemMeasured, ModuleTransferDirection::In, 1);
        assert!((0.32..0.331).contains(&one), "{one}");
        let one = gigabytes(ModulePreset::UpmemMeasured, ModuleTransferDirection::Out, 1);
        assert!((0.119..0.121).contains(&one), "{one}");
        let paper = gigabytes(ModulePreset::RadarPaper, ModuleTransferDirection::Out, 2048);
        assert!((24.9..25.1).contains(&paper), "{paper}");
    }

    #[test]
    fn who_has_little_is_moved_as_who_has_most() {
        let parameters = ModulePreset::UpmemMeasured.parameters();
        let mut bytes = vec![8; 64];
        let even = parameters.transfer(ModuleTransferDirection::In, &bytes);
        bytes[3] = 4096;
        assert_eq!(parameters.moved(&bytes), 64 * 4096);
        assert!(parameters.transfer(ModuleTransferDirection::In, &bytes) > even);
        assert_eq!(
            parameters.transfer(ModuleTransferDirection::In, &[0; 64]),
            VirtualTime::ZERO
        );
        assert_eq!(
            parameters.transfer(ModuleTransferDirection::In, &[]),
            VirtualTime::ZERO
        );
    }
}
