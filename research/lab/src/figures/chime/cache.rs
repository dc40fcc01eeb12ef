//! Figures of the caches of compute nodes.

use super::contender::{ChimeContender, ContenderSizes};
use super::leaves::leaf_load;
use super::point::{FigurePhase, OutcomePoint};
use super::scale::{ChimeScale, Figure};
use super::simulate::{CacheWarming, ChimePhase, ChimeSetup, PhaseOutcome};
use crate::figures::job::FigureJob;
use crate::figures::row::{Quantity, Row};
use crate::workload::Mix;
use nearfield_pool::layout::PoolIndexShape;

/// Creates a job that warms a compute node with all keys and reports the size of its cache, in
/// megabytes, scaled to the paper's number of keys.
fn cache_size_job(
    figure: &Figure,
    scale: &ChimeScale,
    contender: ChimeContender,
    setup: ChimeSetup,
    x: impl Fn(&PhaseOutcome) -> Quantity + Send + 'static,
) -> FigureJob {
    let setup = ChimeSetup {
        // Others would cache the same.
        compute_nodes: 1,
        ..setup
    };
    let phase = ChimePhase::of(scale, Mix::YcsbC, 80).warmed(CacheWarming::All(0));
    let scale = scale.clone();
    let of_run = scale.clone();
    let places = move |outcome: &PhaseOutcome| {
        vec![OutcomePoint {
            panel: String::new(),
            x: x(outcome),
            y: Quantity::new(
                "cache at the paper's number of keys",
                "MB",
                of_run.paper_megabytes(outcome.cache_bytes),
            ),
        }]
    };
    let point = FigurePhase {
        phase,
        places: Box::new(places),
    };
    FigureJob::simulate(figure.name, &scale, contender, setup, vec![point])
}

/// Returns sizes without a limit for caches, and without hotspots.
fn unlimited(scale: &ChimeScale) -> ContenderSizes {
    ContenderSizes {
        cache_bytes: None,
        hotspot_bytes: 0,
        ..ContenderSizes::of_paper(scale)
    }
}

/// Creates the jobs of figure 3a: bytes that are read for each byte that is wanted, and the size of
/// the cache.
pub(super) fn amplification(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = unlimited(scale);
    let spans = scale.points(&[2, 4, 8, 16, 32, 64, 128]);
    let leaves = scale.points(&[4, 8, 16, 32, 40]);
    let sherman = spans
        .iter()
        .map(|&span| ChimeContender::sherman(&sizes).of_span(span));
    let rolex = leaves
        .iter()
        .map(|&span| ChimeContender::rolex(&sizes).of_span(span));
    let contenders = [
        ChimeContender::smart_opt(&sizes),
        ChimeContender::chime(&sizes),
    ];
    let job = |contender| {
        let wanted = (sizes.key_bytes + sizes.value_bytes) as f64;
        let x = move |outcome: &PhaseOutcome| {
            let read = outcome.bytes_per_operation / wanted;
            Quantity::new("read amplification", "", read)
        };
        cache_size_job(
            figure,
            scale,
            contender,
            ChimeSetup::of_paper(scale, &sizes),
            x,
        )
    };
    contenders
        .into_iter()
        .chain(sherman)
        .chain(rolex)
        .map(job)
        .collect()
}

/// Creates the jobs of figure 14.
pub(super) fn keys(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = unlimited(scale);
    // CHIME reserves memory for hotspots, so its sizes include them.
    let with_hotspots = ContenderSizes {
        hotspot_bytes: scale.megabytes(30),
        ..sizes
    };
    let mut jobs = Vec::new();
    let millions: &[usize] = match scale.coarse {
        // The coarse axis includes the paper's number, 60.
        true => &[40, 60, 120],
        false => &[40, 60, 80, 100, 120],
    };
    for &millions in millions {
        let contenders = [
            ChimeContender::chime(&with_hotspots),
            ChimeContender::sherman(&sizes),
            ChimeContender::rolex(&sizes),
            ChimeContender::smart_opt(&sizes),
        ];
        for contender in contenders {
            let mut setup = ChimeSetup::of_paper(scale, &sizes);
            setup.loaded = scale.keys * millions / 60;
            setup.make_room(setup.loaded, 0);
            let x =
                move |_: &PhaseOutcome| Quantity::new("keys of the paper", "M", millions as f64);
            jobs.push(cache_size_job(figure, scale, contender, setup, x));
        }
    }
    jobs
}

/// Creates the jobs of figure 19a: the size of the cache, and the load factor of leaves.
pub(super) fn span(figure: &Figure, scale: &ChimeScale) -> Vec<FigureJob> {
    let sizes = unlimited(scale);
    let spans = scale.points(&[16, 32, 64, 128, 256, 512]);
    let x = |span: usize| Quantity::new("entries of a leaf", "", span as f64);
    let mut jobs: Vec<FigureJob> = Vec::new();
    for &span in &spans {
        let contender = ChimeContender::chime(&sizes).of_span(span);
        let setup = ChimeSetup::of_paper(scale, &sizes);
        jobs.push(cache_size_job(figure, scale, contender, setup, move |_| {
            x(span)
        }));
    }
    let (name, seed) = (figure.name, scale.seed);
    let leaves = if scale.coarse { 100 } else { 1000 };
    jobs.push(FigureJob::count(name, "chime", move || {
        let row = |&leaf_span: &usize| {
            let shape = PoolIndexShape {
                leaf_span,
                ..PoolIndexShape::default()
            };
            let load = Quantity::new("load factor", "", leaf_load(shape, leaves, seed));
            let panel = "load factor".to_owned();
            Row::counted(name, "chime", x(leaf_span), load).in_panel(panel)
        };
        spans.iter().map(row).collect()
    }));
    jobs
}
