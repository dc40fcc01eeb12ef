//! Pulse's study of memory that is attached by CXL (section 7): the slowdown of traversals compared
//! with local DRAM, without and with accelerators. Formulas, without bandwidth and waits. Source of
//! formulas and constants: the model in the paper's published artifact.

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CxlParameters {
    /// An access that hits the cache.
    pub cache: f64,
    /// An access to local DRAM, and an access of an accelerator to its own DRAM.
    pub dram: f64,
    /// An access to memory attached by CXL.
    pub cxl: f64,
    /// The logic of an iteration in an accelerator.
    pub accelerator_logic: f64,
    /// The logic of an iteration in a processor.
    pub processor_logic: f64,
}

/// The traversals of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CxlWorkload {
    /// Number of nodes of a traversal.
    pub nodes: f64,
    /// The share of accesses that hit the cache.
    pub hit_rate: f64,
    /// Number of times that a traversal moves from one memory node to another.
    pub crossings: f64,
}

/// The times of a traversal in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CxlTimes {
    /// Time in local DRAM.
    pub dram: f64,
    /// Time in memory attached by CXL.
    pub cxl: f64,
    /// Time in memory attached by CXL with accelerators. A traversal whose nodes are in the cache
    /// stays with the processor, and moving to another memory node takes half an access.
    pub pulse: f64,
}

impl CxlParameters {
    /// The parameters of the artifact.
    pub const PAPER: CxlParameters = CxlParameters {
        cache: 10.0,
        dram: 50.0,
        cxl: 300.0,
        accelerator_logic: 7.0,
        processor_logic: 2.0,
    };

    /// Returns the times of a traversal.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::cxl::{CxlWorkload, CxlParameters};
    /// let hash_table = CxlWorkload { nodes: 64.0, hit_rate: 0.2, crossings: 0.0 };
    /// let times = CxlParameters::PAPER.times(&hash_table);
    /// assert_eq!(format!("{:.2}", times.cxl / times.dram), "5.55");
    /// assert_eq!(format!("{:.2}", times.pulse / times.dram), "1.18");
    /// ```
    pub fn times(&self, load: &CxlWorkload) -> CxlTimes {
        let CxlWorkload {
            nodes,
            hit_rate,
            crossings,
        } = *load;
        debug_assert!((0.0..=1.0).contains(&hit_rate));
        let missed = 1.0 - hit_rate;
        let hits = nodes * self.cache * hit_rate;
        let logic = nodes * self.processor_logic;
        // A traversal that is sent away takes one access to get there, and its nodes are then local
        // to the accelerator.
        let accelerated =
            self.cxl + (self.dram + self.accelerator_logic) * nodes + self.cxl / 2.0 * crossings;
        CxlTimes {
            dram: hits + nodes * self.dram * missed + logic,
            cxl: hits + missed * self.cxl * (nodes + crossings) + logic,
            pulse: (hits + logic * hit_rate) + missed * accelerated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slowdowns compared with DRAM, without and with accelerators, equal those that the
    /// artifact plots.
    #[test]
    fn the_artifact_s_numbers_come_out_again() {
        let load = |nodes, hit_rate, crossings| CxlWorkload {
            nodes,
            hit_rate,
            crossings,
        };
        let cases = [
            // Four memory nodes, then one.
            (load(64.0, 0.2, 0.0), "5.55 1.18"),
            (load(25.0, 0.0, 15.0), "9.27 3.06"),
            (load(25.0, 0.2, 15.0), "8.82 2.95"),
            (load(38.0, 0.001, 3.0), "6.26 1.48"),
            (load(65.0, 0.001, 3.0), "6.07 1.32"),
            (load(119.0, 0.001, 3.0), "5.95 1.22"),
            (load(227.0, 0.001, 3.0), "5.88 1.16"),
            (load(25.0, 0.0, 0.0), "5.81 1.33"),
            (load(25.0, 0.2, 0.0), "5.55 1.31"),
            (load(38.0, 0.001, 0.0), "5.81 1.25"),
            (load(65.0, 0.001, 0.0), "5.81 1.18"),
            (load(119.0, 0.001, 0.0), "5.81 1.14"),
            (load(227.0, 0.001, 0.0), "5.81 1.12"),
        ];
        for (load, expected) in cases {
            let times = CxlParameters::PAPER.times(&load);
            let (cxl, pulse) = (times.cxl / times.dram, times.pulse / times.dram);
            assert_eq!(format!("{cxl:.2} {pulse:.2}"), expected, "{load:?}");
        }
    }
}
