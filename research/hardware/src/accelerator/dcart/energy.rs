//! The energy of a run: of the card by events and by time, and of machines by time.
//!
//! The paper measured its machines with their own meters and states only ratios. So each power is a
//! range: the minimum, the likely value and the maximum.

use super::DcartReport;

/// The minimum, the likely value and the maximum.
pub type Range = [f64; 3];

/// The power of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// The name of the machine.
    pub name: &'static str,
    /// The power in watts.
    pub watts: Range,
}

/// The power of the card without its memory's accesses: clock, interfaces, leakage. *Assumed*; the
/// data sheet of the U280 (DS963) allows 225 W, and shells idle at 25 to 30 W.
pub const CARD: Power = Power {
    name: "Alveo U280",
    watts: [30.0, 45.0, 75.0],
};

/// The power of two Xeon Platinum 8468: 350 W each (Intel's data sheet: thermal design power). It
/// is *assumed* that they take at least 70 % of it and at most 110 %.
pub const HOST: Power = Power {
    name: "two Xeon Platinum 8468",
    watts: [490.0, 700.0, 770.0],
};

/// Number of cores of [`HOST`].
pub const HOST_CORES: f64 = 96.0;

/// The power of an A100: 250 W with PCIe and 400 W with SXM (NVIDIA's data sheet). The paper does
/// not say which; the likely value of 300 W is *assumed*.
pub const GPU: Power = Power {
    name: "A100",
    watts: [250.0, 300.0, 400.0],
};

/// Picojoules per access to a line of 64 bytes in block memory: eight memories of 72 bits.
/// *Assumed*.
pub const BUFFER_PICOJOULES: Range = [150.0, 350.0, 700.0];

/// Picojoules per step of logic: a hash, a match, an operation. *Assumed*.
pub const STEP_PICOJOULES: Range = [20.0, 100.0, 400.0];

/// Picojoules per bit between the memory and the card, besides the energy of the memory itself,
/// which the model of DRAM has. *Assumed*; published figures of HBM2 are 3.9 to 7 pJ for both.
pub const PORT_PICOJOULES_PER_BIT: Range = [0.5, 1.0, 3.0];

/// Returns the nanojoules per operation on the card.
pub fn of_card(report: &DcartReport) -> Range {
    let operations = report.operations.max(1) as f64;
    let seconds = report.time.as_seconds();
    let energy = &report.memory.energy_uj;
    let memory = energy.activate + energy.read + energy.write + energy.refresh + energy.background;
    // A miss looks the line up, too, so it takes the same energy.
    let buffers = report.tree_buffer.hits + report.tree_buffer.misses;
    let buffers = buffers + report.shortcut_buffer.hits + report.shortcut_buffer.misses;
    // Each operation has a hash, its execution and its shortcut as further steps.
    let steps = report.matches + report.leaves + 3 * report.operations;
    let bits = (report.lines[0] + report.lines[1]) as f64 * 512.0;
    std::array::from_fn(|end| {
        let dynamic = buffers as f64 * BUFFER_PICOJOULES[end]
            + steps as f64 * STEP_PICOJOULES[end]
            + bits * PORT_PICOJOULES_PER_BIT[end];
        let joules = CARD.watts[end] * seconds + memory * 1e-6 + dynamic * 1e-12;
        joules / operations * 1e9
    })
}

/// Returns the nanojoules per operation on a machine that executes `rate` operations per second.
pub fn of_machine(power: &Power, rate: f64) -> Range {
    power.watts.map(|watts| watts / rate * 1e9)
}

/// Returns the ratio of the first to the second: the minimum, the likely value and the maximum.
pub fn ratio(more: Range, less: Range) -> Range {
    // The extremes combine the minimum of one with the maximum of the other.
    [more[0] / less[2], more[1] / less[1], more[2] / less[0]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VirtualTime;

    #[test]
    fn a_machine_takes_its_power_for_the_time_of_an_operation() {
        assert_eq!(of_machine(&GPU, 1e9), [250.0, 300.0, 400.0]);
        assert_eq!(ratio([2.0, 3.0, 4.0], [1.0, 2.0, 4.0]), [0.5, 1.5, 4.0]);
    }

    #[test]
    fn a_card_takes_power_and_energy_of_events() {
        let mut report = DcartReport::new(1000);
        report.time = VirtualTime::from_nanoseconds(10_000);
        report.lines = [1000, 1000];
        report.memory.energy_uj.read = 1.0;
        let likely = of_card(&report)[1];
        // 45 W for 10 ns per operation, 1 nJ of memory, three steps, and two lines of 512 bits.
        assert!(
            (likely - (450.0 + 1.0 + 0.3 + 1.024)).abs() < 1e-9,
            "{likely}"
        );
    }
}
