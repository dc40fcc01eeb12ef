//! The preliminary study: requests that the hottest objects get.

use super::scale::{AdmScale, Figure};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use crate::report::NumberOrigin;
use crate::workload::{Gaussian, random};

/// The paper's deviations, as parts of the number of objects.
const DEVIATIONS: [(&str, f64); 3] = [
    ("deviation 1", 0.1),
    ("deviation 2", 0.125),
    ("deviation 3", 1.0 / 6.0),
];

const STUDY: u64 = 3;

pub(super) fn jobs(figure: &Figure, scale: &AdmScale) -> Vec<FigureJob> {
    let job = |(name, deviation): (&'static str, f64)| {
        let (figure, scale) = (figure.name, scale.clone());
        FigureJob::count(figure, name, move || rows(figure, name, deviation, &scale))
    };
    DEVIATIONS.map(job).into()
}

fn rows(figure: &'static str, name: &str, deviation: f64, scale: &AdmScale) -> Vec<Row> {
    let mut requests = vec![0_u64; scale.objects];
    let keys = Gaussian::new(scale.objects as u64, deviation);
    let mut random = random(scale.seed, STUDY);
    for _ in 0..scale.requests() {
        requests[keys.draw(&mut random) as usize] += 1;
    }
    // Sorted by the requests that they got, because the paper counts so.
    requests.sort_unstable_by(|one, other| other.cmp(one));
    let row = |tenth: usize| {
        let hottest = scale.objects * tenth / 10;
        let share = requests[..hottest].iter().sum::<u64>() as f64 / scale.requests() as f64;
        let x = Quantity::new("hottest objects", "%", 10.0 * tenth as f64);
        let mut row = Row::counted(
            figure,
            name,
            x,
            Quantity::new("requests", "%", 100.0 * share),
        );
        row.kind = NumberOrigin::Modelled;
        row
    };
    (1..=10).map(row).collect()
}
