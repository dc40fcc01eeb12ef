//! Pulse's study of memory that is attached by CXL (section 7): how much slower traversals are than
//! in local DRAM, without and with accelerators. Formulas, without bandwidth and waits. Source of
//! formulas and constants: the model in the paper's published artifact.

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// An access that the cache answers.
    pub cache: f64,
    /// An access to local DRAM, and of an accelerator to the DRAM beside it.
    pub dram: f64,
    /// An access to memory attached by CXL.
    pub cxl: f64,
    /// The logic of an iteration in an accelerator.
    pub accelerator_logic: f64,
    /// The logic of an iteration in a processor.
    pub processor_logic: f64,
}

/// Traversals of an application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Nodes of a traversal.
    pub nodes: f64,
    /// The part of accesses that the cache answers.
    pub hit_rate: f64,
    /// How often a traversal goes from one memory node to another.
    pub crossings: f64,
}

/// Nanoseconds of a traversal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// In local DRAM.
    pub dram: f64,
    /// In memory attached by CXL.
    pub cxl: f64,
    /// There, with accelerators. A traversal whose nodes are in the cache stays with the processor,
    /// and going to another memory node takes half an access.
    pub pulse: f64,
}

impl Parameters {
    /// Those of the artifact.
    pub const PAPER: Parameters = Parameters {
        cache: 10.0,
        dram: 50.0,
        cxl: 300.0,
        accelerator_logic: 7.0,
        processor_logic: 2.0,
    };

    /// How long a traversal takes.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::cxl::{Load, Parameters};
    /// let hash_table = Load { nodes: 64.0, hit_rate: 0.2, crossings: 0.0 };
    /// let times = Parameters::PAPER.times(&hash_table);
    /// assert_eq!(format!("{:.2}", times.cxl / times.dram), "5.55");
    /// assert_eq!(format!("{:.2}", times.pulse / times.dram), "1.18");
    /// ```
    pub fn times(&self, load: &Load) -> Times {
        let Load {
            nodes,
            hit_rate,
            crossings,
        } = *load;
        let missed = 1.0 - hit_rate;
        let hits = nodes * self.cache * hit_rate;
        let logic = nodes * self.processor_logic;
        let accelerated =
            self.cxl + (self.dram + self.accelerator_logic) * nodes + self.cxl / 2.0 * crossings;
        Times {
            dram: hits + nodes * self.dram * missed + logic,
            cxl: hits + missed * self.cxl * (nodes + crossings) + logic,
            pulse: (hits + logic * hit_rate) + missed * accelerated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Slowdowns beside DRAM, without and with accelerators, as the artifact plots them.
    #[test]
    fn the_artifact_s_numbers_come_out_again() {
        let load = |nodes, hit_rate, crossings| Load {
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
            let times = Parameters::PAPER.times(&load);
            let (cxl, pulse) = (times.cxl / times.dram, times.pulse / times.dram);
            assert_eq!(format!("{cxl:.2} {pulse:.2}"), expected, "{load:?}");
        }
    }
}
