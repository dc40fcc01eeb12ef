//! The energy of requests: of the accelerator, of the accelerator as an ASIC, and of processors
//! instead.
//!
//! The paper measured all rails of its card and the package and DRAM of its processor; its numbers
//! are lost except for the ratio. So each power here is *assumed* unless a source is named.

use super::PulseDesign;
use super::area::PulseArea;

/// The power of an accelerator: half of the paper's card.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceleratorPower {
    /// Watts that do not depend on the design: half of those of a card with its interfaces.
    pub rest: f64,
    /// Watts for each percent of the card's lookup tables and block memories.
    pub per_percent: f64,
    /// The power of the pipelines as an ASIC, as a share of that.
    pub asic: f64,
}

/// The power of a processor that executes traversals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessorPower {
    /// The processor's name.
    pub name: &'static str,
    /// Watts that do not depend on the cores in use.
    pub rest: f64,
    /// Watts of a core in use.
    pub per_core: f64,
}

/// Joules per byte between DRAM and its reader: 8 pJ per bit. *Assumed*; DDR4 takes 5 to 10 by its
/// currents and a full bus.
pub const DRAM_JOULES_PER_BYTE: f64 = 64e-12;

impl AcceleratorPower {
    /// The power of the paper's card. `rest` and `per_percent` are *assumed*: 26 W for a card
    /// without a design, and 0.1 W for each percent. An ASIC takes a twelfth of the dynamic power
    /// of the same logic in an FPGA (Kuon and Rose, FPGA 2006), the method that the paper names.
    pub const PAPER: AcceleratorPower = AcceleratorPower {
        rest: 13.0,
        per_percent: 0.1,
        asic: 1.0 / 12.0,
    };

    /// Returns the watts of a design, without DRAM.
    pub fn watts(&self, design: PulseDesign) -> f64 {
        self.rest + self.pipelines(design)
    }

    /// Returns the watts with the pipelines as an ASIC, and the rest unchanged.
    pub fn watts_as_asic(&self, design: PulseDesign) -> f64 {
        self.rest + self.asic * self.pipelines(design)
    }

    fn pipelines(&self, design: PulseDesign) -> f64 {
        // The table has measured designs. The fit only fills its gaps.
        let area = PulseArea::published(design).unwrap_or_else(|| PulseArea::fitted(design));
        self.per_percent * area.sum()
    }
}

impl ProcessorPower {
    /// A Xeon Gold 6240: 150 W with 18 cores in use (Intel's data sheet: its thermal design power).
    /// It is *assumed* that a third of them is taken without any core in use.
    pub const XEON: ProcessorPower = ProcessorPower {
        name: "Xeon Gold 6240",
        rest: 50.0,
        per_core: 100.0 / 18.0,
    };

    /// The cores of a BlueField-2. *Assumed*: 1.5 W for a Cortex-A72 at 2.5 GHz, and 12 W for the
    /// rest.
    pub const ARM: ProcessorPower = ProcessorPower {
        name: "BlueField-2, Cortex-A72",
        rest: 12.0,
        per_core: 1.5,
    };

    /// Returns the watts with `cores` cores in use, without DRAM.
    pub fn watts(&self, cores: usize) -> f64 {
        self.rest + self.per_core * cores as f64
    }
}

/// Returns the microjoules of a request, from a power, a rate of requests per second, and its bytes
/// of DRAM.
pub fn microjoules(watts: f64, requests_per_second: f64, bytes: f64) -> f64 {
    (watts / requests_per_second + bytes * DRAM_JOULES_PER_BYTE) * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asic_takes_less_by_its_pipelines_only() {
        let power = AcceleratorPower::PAPER;
        let saved =
            power.watts(PulseDesign::PROTOTYPE) - power.watts_as_asic(PulseDesign::PROTOTYPE);
        let area = PulseArea::published(PulseDesign::PROTOTYPE).unwrap().sum();
        assert!((saved - 0.1 * area * 11.0 / 12.0).abs() < 1e-9);
    }

    #[test]
    fn a_request_takes_its_part_of_the_power_and_its_bytes() {
        // 20 W at a million per second, and 12,500 bytes at 64 pJ.
        let energy = microjoules(20.0, 1e6, 12_500.0);
        assert!((energy - 20.8).abs() < 1e-9, "{energy}");
    }
}
