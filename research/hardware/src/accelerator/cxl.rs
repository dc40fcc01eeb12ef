//! Pulse's study of memory that is attached by CXL (section 7): the slowdown of traversals compared
//! with local DRAM, without and with accelerators, without bandwidth and waits. It is computed from
//! the accesses of traversals, and from their means as in the model of the paper's published
//! artifact. That model is the source of the constants.

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

/// An access of a traversal to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CxlAccess {
    /// True if the caller's cache has the node.
    pub is_cached: bool,
    /// True if the node is on another memory node than the one before it.
    pub crosses: bool,
}

/// The times of a traversal in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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

impl CxlParameters {
    /// Returns the times of a traversal with these accesses. The caller walks cached nodes. With
    /// accelerators the first other node takes the rest of the traversal there.
    pub fn times_of(&self, accesses: &[CxlAccess]) -> CxlTimes {
        let mut times = CxlTimes::default();
        let mut is_away = false;
        for access in accesses {
            let CxlAccess { is_cached, crosses } = *access;
            let hops = 1.0 + f64::from(u8::from(crosses));
            let (dram, cxl) = match is_cached {
                true => (self.cache, self.cache),
                false => (self.dram, self.cxl * hops),
            };
            times.dram += dram + self.processor_logic;
            times.cxl += cxl + self.processor_logic;
            if is_cached && !is_away {
                times.pulse += self.cache + self.processor_logic;
                continue;
            }
            // Moving on from another memory node takes half an access, leaving the caller a whole
            // one.
            times.pulse += match (is_away, crosses) {
                (false, _) => self.cxl,
                (true, true) => self.cxl / 2.0,
                (true, false) => 0.0,
            };
            times.pulse += self.dram + self.accelerator_logic;
            is_away = true;
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Traversals without and with all nodes in the cache have the times of the formulas.
    #[test]
    fn accesses_agree_with_the_formulas() {
        for (is_cached, hit_rate) in [(false, 0.0), (true, 1.0)] {
            let mut accesses = [CxlAccess {
                is_cached,
                crosses: false,
            }; 25];
            let nodes = 25.0;
            for crossings in [0_u8, 5] {
                // The first node is not on another node than one before it.
                for access in &mut accesses[1..=usize::from(crossings)] {
                    access.crosses = true;
                }
                let load = CxlWorkload {
                    nodes,
                    hit_rate,
                    crossings: crossings.into(),
                };
                let formula = CxlParameters::PAPER.times(&load);
                let own = CxlParameters::PAPER.times_of(&accesses);
                for (own, formula) in [
                    (own.dram, formula.dram),
                    (own.cxl, formula.cxl),
                    (own.pulse, formula.pulse),
                ] {
                    assert!((own - formula).abs() < 1e-6, "{load:?}: {own} {formula}");
                }
            }
        }
    }

    #[test]
    fn a_cached_start_is_walked_by_the_caller() {
        let [cached, other] = [true, false].map(|is_cached| CxlAccess {
            is_cached,
            crosses: false,
        });
        let times = CxlParameters::PAPER.times_of(&[cached, other, cached]);
        // An access of the caller, then two of the accelerator.
        assert_eq!(times.pulse, 12.0 + 300.0 + 2.0 * 57.0);
        assert_eq!(times.cxl, 12.0 + 302.0 + 12.0);
    }

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
