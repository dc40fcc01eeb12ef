//! Figure `tuning`, which is not in the paper: the sizes that suit the budget of caches best, for
//! each index.

use super::contender::{ChimeContender, ContenderSizes};
use super::point::{FigurePhase, warming};
use super::scale::{ChimeScale, Figure};
use super::simulate::{CacheWarming, ChimePhase, ChimeSetup};
use crate::figures::job::FigureJob;
use crate::figures::row::Quantity;
use crate::workload::Mix;

/// Number of clients of the paper.
const CLIENTS: usize = 640;
/// Numbers of entries of leaves of trees.
const SPANS: [usize; 4] = [8, 16, 32, 64];
/// Numbers of entries of leaves of ROLEX. The next constant has the error bounds of its
/// predictions, in positions.
const LEARNED_SPANS: [usize; 2] = [8, 16];
const ERRORS: [(u32, &str); 4] = [
    (2, LEARNED[0]),
    (4, LEARNED[1]),
    (8, LEARNED[2]),
    (16, LEARNED[3]),
];
/// Names that claims refer to, too: those of ROLEX, and of ours if it is packed.
pub(super) const LEARNED: &[&str] = &[
    "rolex, error 2",
    "rolex, error 4",
    "rolex, error 8",
    "rolex, error 16",
];
pub(super) const NEARFIELD_PACKED: &str = "nearfield, packed";

/// Share of the nodes of a packed tree that is filled, in percent. ROLEX fills its leaves whole,
/// and puts keys that are inserted later into further leaves.
const PACKED_PERCENT: usize = 80;

/// Creates the jobs of reads and scans, by entries of a leaf.
pub(super) fn jobs(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = ContenderSizes::of_paper(scale);
    let trees = [
        ChimeContender::chime(&sizes),
        ChimeContender::ours(&sizes),
        ChimeContender::sherman(&sizes),
    ];
    // Random inserts leave leaves three fifths full. These are loaded in order, as ROLEX is.
    let packed = [
        ChimeContender::chime(&sizes).packed("chime, packed", PACKED_PERCENT),
        ChimeContender::ours(&sizes).packed(NEARFIELD_PACKED, PACKED_PERCENT),
    ];
    let trees = trees
        .into_iter()
        .chain(packed)
        .flat_map(|tree| SPANS.map(|span| (span, tree.clone().of_span(span))));
    let learned = LEARNED_SPANS.into_iter().flat_map(|span| {
        ERRORS.map(|(error, name)| {
            let contender = ChimeContender::rolex(&sizes).of_span(span).of_error(error);
            (span, contender.named(name))
        })
    });
    let job = |(span, contender): (usize, ChimeContender)| {
        let x = Quantity::new("entries of a leaf", "", span as f64);
        let warming = warming(&contender, scale, scale.keys * scale.warming);
        let point = |mix: Mix, warming: CacheWarming| {
            let phase = ChimePhase::of(scale, mix, CLIENTS).warmed(warming);
            FigurePhase::rate(mix.name(), x.clone(), phase)
        };
        let points = vec![
            point(Mix::YcsbC, warming),
            point(Mix::YcsbE, CacheWarming::None),
        ];
        let setup = ChimeSetup::of_paper(scale, &sizes);
        FigureJob::simulate(figure.name, scale, contender, setup, points)
    };
    trees.chain(learned).map(job).collect()
}
