//! The area of designs: the parts of a card's lookup tables and block memories that they take.
//! Source: pulse, Table 4, whose card is an Alveo U250.

use super::PulseDesign;

/// The parts of the card, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PulseArea {
    /// Percent of the lookup tables.
    pub lut: f64,
    /// Percent of the block memories.
    pub bram: f64,
}

/// The figures of Table 4 for a design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PulseDesignFigures {
    /// The design.
    pub design: PulseDesign,
    /// Its area.
    pub area: PulseArea,
    /// Millions of operations per second, of the hash table of WebService on one node.
    pub mops: f64,
    /// Their latency, in microseconds.
    pub latency_us: f64,
}

const fn coupled(
    cores: usize,
    lut: f64,
    bram: f64,
    mops: f64,
    latency_us: f64,
) -> PulseDesignFigures {
    PulseDesignFigures {
        design: PulseDesign::Coupled { cores },
        area: PulseArea { lut, bram },
        mops,
        latency_us,
    }
}

const fn pulse(
    pipelines: [usize; 2],
    area: [f64; 2],
    mops: f64,
    latency_us: f64,
) -> PulseDesignFigures {
    let [logic, memory] = pipelines;
    let [lut, bram] = area;
    PulseDesignFigures {
        design: PulseDesign::Disaggregated { logic, memory },
        area: PulseArea { lut, bram },
        mops,
        latency_us,
    }
}

/// Table 4.
pub const TABLE_4: [PulseDesignFigures; 20] = [
    coupled(1, 7.37, 7.29, 0.41, 33.25),
    coupled(2, 10.23, 9.37, 0.63, 33.73),
    coupled(3, 14.33, 15.92, 0.87, 34.66),
    coupled(4, 18.55, 17.09, 1.20, 35.11),
    pulse([1, 1], [5.88, 8.17], 0.51, 37.57),
    pulse([1, 2], [7.44, 9.14], 0.73, 36.74),
    pulse([1, 3], [8.32, 11.19], 1.01, 38.46),
    pulse([1, 4], [9.19, 12.92], 1.24, 38.37),
    pulse([2, 1], [8.87, 10.19], 0.48, 40.27),
    pulse([2, 2], [10.69, 11.19], 0.76, 39.47),
    pulse([2, 3], [13.11, 13.38], 0.99, 41.37),
    pulse([2, 4], [15.07, 15.61], 1.19, 40.37),
    pulse([3, 1], [14.08, 11.93], 0.46, 42.38),
    pulse([3, 2], [15.79, 13.78], 0.69, 43.11),
    pulse([3, 3], [18.61, 15.06], 1.03, 40.98),
    pulse([3, 4], [19.20, 17.47], 1.17, 44.02),
    pulse([4, 1], [18.67, 14.17], 0.37, 42.16),
    pulse([4, 2], [20.37, 16.02], 0.51, 43.00),
    pulse([4, 3], [22.08, 17.86], 1.10, 43.86),
    pulse([4, 4], [23.21, 19.92], 1.14, 41.47),
];

impl PulseArea {
    /// Returns the area that Table 4 states, if it has the design.
    pub fn published(design: PulseDesign) -> Option<PulseArea> {
        let row = TABLE_4.iter().find(|row| row.design == design);
        row.map(|row| row.area)
    }

    /// Returns the fitted area, for designs that the table lacks. It has a part for each logic
    /// pipeline, for each memory pipeline and for the rest, which together come closest to Table 4:
    /// the least sum of squares, separately for both kinds of designs.
    ///
    /// ```
    /// use nearfield_hardware::accelerator::pulse::{PulseDesign, area::PulseArea};
    /// let large = PulseArea::fitted(PulseDesign::Disaggregated { logic: 3, memory: 8 });
    /// assert!(large.lut > PulseArea::fitted(PulseDesign::PROTOTYPE).lut);
    /// ```
    pub fn fitted(design: PulseDesign) -> PulseArea {
        let is_same_kind = |other: PulseDesign| {
            matches!(other, PulseDesign::Coupled { .. })
                == matches!(design, PulseDesign::Coupled { .. })
        };
        // The two kinds have different parts, so neither says anything about the other.
        let rows: Vec<&PulseDesignFigures> = TABLE_4
            .iter()
            .filter(|row| is_same_kind(row.design))
            .collect();
        let fit = |part: fn(&PulseArea) -> f64| {
            let mean = |number: &dyn Fn(&PulseDesignFigures) -> f64| {
                rows.iter().map(|row| number(row)).sum::<f64>() / rows.len() as f64
            };
            let (logic, memory) = (
                mean(&|row| row.design.logic() as f64),
                mean(&|row| row.design.memory() as f64),
            );
            let all = mean(&|row| part(&row.area));
            // The table has all pairs of one to four pipelines, so both numbers can be fitted
            // alone; coupled ones are equal, so one of them is enough.
            let slope = |count: fn(PulseDesign) -> usize, middle: f64| {
                let distance = |row: &PulseDesignFigures| count(row.design) as f64 - middle;
                let products = mean(&|row| distance(row) * (part(&row.area) - all));
                products / mean(&|row| distance(row).powi(2))
            };
            let of_logic = slope(PulseDesign::logic, logic) * (design.logic() as f64 - logic);
            let of_memory = match design {
                PulseDesign::Coupled { .. } => 0.0,
                PulseDesign::Disaggregated { .. } => {
                    slope(PulseDesign::memory, memory) * (design.memory() as f64 - memory)
                }
            };
            all + of_logic + of_memory
        };
        PulseArea {
            lut: fit(|area| area.lut),
            bram: fit(|area| area.bram),
        }
    }

    /// Returns the sum of both parts, by which the paper compares designs.
    pub fn sum(&self) -> f64 {
        self.lut + self.bram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_logic_and_four_memory_pipelines_save_38_percent() {
        let area = |design| PulseArea::published(design).unwrap().sum();
        let one = area(PulseDesign::Disaggregated {
            logic: 1,
            memory: 4,
        });
        let coupled = area(PulseDesign::Coupled { cores: 4 });
        assert!((1.0 - one / coupled - 0.38).abs() < 0.001);
    }

    #[test]
    fn the_fit_is_close_to_the_table() {
        let deviation = |row: &PulseDesignFigures| {
            let fitted = PulseArea::fitted(row.design);
            (fitted.sum() / row.area.sum() - 1.0).abs()
        };
        let worst = TABLE_4.iter().map(deviation).fold(0.0, f64::max);
        let mean = TABLE_4.iter().map(deviation).sum::<f64>() / TABLE_4.len() as f64;
        println!("area: mean deviation {mean:.3}, worst {worst:.3}");
        assert!(worst < 0.13 && mean < 0.06, "{worst} {mean}");
    }
}
