//! Memory attached by CXL: figure 12, from formulas.

use super::pipelines::counted;
use super::rows::row;
use super::scale::{Figure, PulseScale};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use nearfield_hardware::accelerator::cxl::{CxlParameters, CxlWorkload};

/// Applications with their nodes, hit rates and crossings between four memory nodes. Source: the
/// artifact's model, which has no hits for WiredTiger in its plots.
const LOADS: [(&str, CxlWorkload); 6] = [
    ("WebService", load(64.0, 0.2, 0.0)),
    ("WiredTiger", load(25.0, 0.0, 15.0)),
    ("BTrDB 1 s", load(38.0, 0.001, 3.0)),
    ("BTrDB 2 s", load(65.0, 0.001, 3.0)),
    ("BTrDB 4 s", load(119.0, 0.001, 3.0)),
    ("BTrDB 8 s", load(227.0, 0.001, 3.0)),
];

const fn load(nodes: f64, hit_rate: f64, crossings: f64) -> CxlWorkload {
    CxlWorkload {
        nodes,
        hit_rate,
        crossings,
    }
}

pub(super) const FOUR: &str = "4 memory nodes";

pub(super) fn jobs(figure: &Figure, _: &PulseScale) -> Vec<FigureJob> {
    let figure = figure.name;
    counted(figure, move || {
        let mut rows: Vec<Row> = Vec::new();
        for (panel, has_crossings) in [(FOUR, true), ("1 memory node", false)] {
            for (number, (name, load)) in LOADS.into_iter().enumerate() {
                let crossings = if has_crossings { load.crossings } else { 0.0 };
                let times = CxlParameters::PAPER.times(&CxlWorkload { crossings, ..load });
                let x = Quantity::new("application", "", number as f64 + 1.0);
                for (suffix, time) in [("CXL", times.cxl), ("CXL and pulse", times.pulse)] {
                    let y = Quantity::new("slowdown relative to DRAM", "x", time / times.dram);
                    rows.push(row(
                        figure,
                        panel,
                        &format!("{name}, {suffix}"),
                        x.clone(),
                        y,
                    ));
                }
            }
        }
        rows
    })
}
