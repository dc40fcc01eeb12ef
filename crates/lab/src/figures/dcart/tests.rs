//! The figures in seconds, and the model in a placement's tests.

use super::*;
use crate::harness::Interrupt;

fn rows(scale: &Scale, figures: &[&'static str]) -> Vec<Row> {
    let interrupt = Interrupt::default();
    let mut rows = Vec::new();
    for job in scale.jobs(figures) {
        let title = job.title();
        let (more, done) = job.run(&interrupt, || {});
        done.unwrap_or_else(|error| panic!("{title}: {error}"));
        rows.extend(more);
    }
    rows
}

#[test]
fn all_figures_have_points_and_all_claims_numbers() {
    let scale = Scale::tiny();
    let names: Vec<&'static str> = scale.titles().iter().map(|title| title.name).collect();
    let rows = rows(&scale, &names);
    for name in names {
        let points = rows.iter().filter(|row| row.detail.figure == name).count();
        assert!(points > 0, "figure {name} has no points");
    }
    for row in &rows {
        assert!(row.detail.y.value.is_finite(), "{row:?}");
    }
    let missing = ["dcart.contentions", "dcart.contentions.most"];
    for claim in scale.claims(&rows) {
        // Two threads on few keys may never meet.
        let may_miss = missing.contains(&&*claim.id);
        assert!(
            claim.ours.is_some() || may_miss,
            "{} has no number",
            claim.id
        );
    }
}

#[test]
fn modelled_points_are_the_same_in_each_run() {
    let scale = Scale::tiny();
    let figures = ["10", "units", "3b"];
    let once = rows(&scale, &figures);
    assert_eq!(once, rows(&scale, &figures));
}
