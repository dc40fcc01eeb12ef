//! Known memories: one file each, with the source of its figures.
//!
//! If a file says *DRAMsim3*, the figure is that of the named file in `configs/` of
//! <https://github.com/umd-memsys/DRAMsim3>, or the default of its reader for omitted values. Each
//! preset has one rank; set `ranks` for a channel with more.

mod ddr4_3200_x16;
mod ddr4_3200_x8;
mod ddr5_4800;
mod hbm1;
mod hbm2;
mod hbm2_paper;
mod hbm2e;
mod hbm3;

use super::DramParameters;

/// The known memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DramPreset {
    /// DDR4-3200 of 8 Gb devices with 16 bits, two channels.
    Ddr4X16,
    /// DDR4-3200 of 8 Gb devices with 8 bits, two channels.
    Ddr4X8,
    /// DDR5-4800 of 16 Gb devices with 8 bits: the two channels of one module.
    Ddr5,
    /// HBM of the first generation, 1 Gb/s per pin.
    Hbm1,
    /// HBM2, 2 Gb/s per pin.
    Hbm2,
    /// HBM with the parameters of ADM's authors: the clock of HBM2 and the latencies, in clocks, of
    /// HBM1.
    Hbm2Paper,
    /// HBM2E, 3.2 Gb/s per pin, in pseudo channels.
    Hbm2e,
    /// HBM3, 6.4 Gb/s per pin, in pseudo channels.
    Hbm3,
}

impl DramPreset {
    /// All presets.
    pub const ALL: [DramPreset; 8] = [
        DramPreset::Ddr4X16,
        DramPreset::Ddr4X8,
        DramPreset::Ddr5,
        DramPreset::Hbm1,
        DramPreset::Hbm2,
        DramPreset::Hbm2Paper,
        DramPreset::Hbm2e,
        DramPreset::Hbm3,
    ];

    /// Returns the name by which users select it, such as `ddr4-3200-x16`.
    pub const fn name(self) -> &'static str {
        match self {
            DramPreset::Ddr4X16 => "ddr4-3200-x16",
            DramPreset::Ddr4X8 => "ddr4-3200-x8",
            DramPreset::Ddr5 => "ddr5-4800",
            DramPreset::Hbm1 => "hbm1",
            DramPreset::Hbm2 => "hbm2",
            DramPreset::Hbm2Paper => "hbm2-paper",
            DramPreset::Hbm2e => "hbm2e",
            DramPreset::Hbm3 => "hbm3",
        }
    }

    /// Returns the parameters.
    pub fn parameters(self) -> DramParameters {
        match self {
            DramPreset::Ddr4X16 => ddr4_3200_x16::PARAMETERS,
            DramPreset::Ddr4X8 => ddr4_3200_x8::PARAMETERS,
            DramPreset::Ddr5 => ddr5_4800::PARAMETERS,
            DramPreset::Hbm1 => hbm1::PARAMETERS,
            DramPreset::Hbm2 => hbm2::PARAMETERS,
            DramPreset::Hbm2Paper => hbm2_paper::PARAMETERS,
            DramPreset::Hbm2e => hbm2e::PARAMETERS,
            DramPreset::Hbm3 => hbm3::PARAMETERS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_consistent_and_named() {
        for preset in DramPreset::ALL {
            let parameters = preset.parameters();
            assert_eq!(parameters.name, preset.name());
            assert!(parameters.source.len() > 10);
            parameters.check().unwrap();
        }
    }

    #[test]
    fn rows_and_devices_are_as_large_as_published() {
        let row_bytes = |preset: DramPreset| preset.parameters().columns * 64;
        assert_eq!(row_bytes(DramPreset::Ddr4X16), 8 << 10);
        assert_eq!(row_bytes(DramPreset::Ddr4X8), 8 << 10);
        assert_eq!(row_bytes(DramPreset::Ddr5), 4 << 10);
        assert_eq!(row_bytes(DramPreset::Hbm2), 2 << 10);
        assert_eq!(row_bytes(DramPreset::Hbm3), 1 << 10);
        for (preset, gib) in [
            (DramPreset::Ddr4X16, 8),
            (DramPreset::Ddr4X8, 16),
            (DramPreset::Ddr5, 16),
            (DramPreset::Hbm1, 4),
            (DramPreset::Hbm2, 8),
            (DramPreset::Hbm2Paper, 4),
            (DramPreset::Hbm2e, 8),
            (DramPreset::Hbm3, 16),
        ] {
            assert_eq!(preset.parameters().bytes() >> 30, gib, "{}", preset.name());
        }
    }
}
