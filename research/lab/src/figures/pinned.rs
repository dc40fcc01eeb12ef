//! Tests that a change does not move figures unnoticed. Small runs in virtual time give the same
//! numbers on every machine, and `pinned.txt` has those of the last commit. A change that moves one
//! has to write them again (`NEARFIELD_UPDATE_PINS=1`, `docs/testing.md`), so its commit shows
//! which ones, and by how much. Measured numbers are not among them.

use super::claim::is_stated_by_paper;
use super::job::FigureJob;
use super::paper::ScaledPaper;
use super::report::FigureReport;
use super::result_cache::ResultCache;
use super::row::{ModuleWorkCounts, PaperClaim, Row};
use super::tests::{all_of_tiers, all_of_traversals};
use super::{AdmScale, DcartScale, PulseScale, chime, radar};
use crate::harness::Interrupt;
use crate::report::NumberOrigin;
use std::collections::VecDeque;
use std::sync::Mutex;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/figures/pinned.txt");
const UPDATE: &str = "NEARFIELD_UPDATE_PINS";
const HEAD: &str = "\
# Numbers of small runs of the models, for research/lab/src/figures/pinned.rs.
# NEARFIELD_UPDATE_PINS=1 cargo test -p nearfield-lab pinned writes them again.
";

/// The small runs of a paper's figures.
struct PinnedRuns {
    paper: Box<dyn ScaledPaper + Sync>,
    jobs: Vec<FigureJob>,
    /// A run of all figures at the same scale, if another test has one. It takes the place of jobs.
    whole: Option<fn() -> &'static FigureReport>,
    /// True if each point is pinned, too, besides the claims.
    has_points: bool,
}

fn all_runs() -> Vec<PinnedRuns> {
    let chime = chime::pinned_scale();
    let radar = radar::pinned_scale();
    let (adm, pulse, dcart) = (AdmScale::tiny(), PulseScale::tiny(), DcartScale::tiny());
    vec![
        PinnedRuns {
            jobs: chime::pinned(&chime),
            whole: None,
            paper: Box::new(chime),
            has_points: true,
        },
        PinnedRuns {
            jobs: radar::pinned(&radar),
            whole: None,
            paper: Box::new(radar),
            has_points: true,
        },
        PinnedRuns {
            jobs: Vec::new(),
            whole: Some(all_of_tiers),
            paper: Box::new(adm),
            has_points: false,
        },
        PinnedRuns {
            jobs: Vec::new(),
            whole: Some(all_of_traversals),
            paper: Box::new(pulse),
            has_points: false,
        },
        PinnedRuns {
            // The other figures have rivals that are measured.
            jobs: dcart.jobs(&["10", "units"]),
            whole: None,
            paper: Box::new(dcart),
            has_points: true,
        },
    ]
}

/// Runs the jobs and returns a line for each number, by name.
fn lines(runs: Vec<PinnedRuns>) -> Vec<String> {
    let (mut papers, mut queue) = (Vec::new(), VecDeque::new());
    for (
        number,
        PinnedRuns {
            paper,
            jobs,
            whole,
            has_points,
        },
    ) in runs.into_iter().enumerate()
    {
        queue.extend(jobs.into_iter().map(|job| (number, job)));
        let rows = whole.map_or_else(Vec::new, |report| report().rows.clone());
        papers.push((paper, has_points, rows));
    }
    let count = queue.len();
    let queue = Mutex::new(queue.into_iter().enumerate().collect::<VecDeque<_>>());
    let ended = Mutex::new(vec![None; count]);
    let results = ResultCache::new(usize::MAX);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().pop_front();
                    let Some((place, (number, job))) = next else {
                        break;
                    };
                    let title = job.title();
                    let (rows, done) = job.run(&Interrupt::default(), &results, || {});
                    done.unwrap_or_else(|error| panic!("{title}: {error}"));
                    ended.lock().unwrap()[place] = Some((number, rows));
                }
            });
        }
    });
    for (number, rows) in ended.into_inner().unwrap().into_iter().flatten() {
        papers[number].2.extend(rows);
    }
    let mut lines = Vec::new();
    for (paper, has_points, rows) in &papers {
        let name = paper.name();
        let claims = paper.claims(rows);
        lines.extend(claims.iter().filter_map(|claim| line_of_claim(name, claim)));
        if *has_points {
            lines.extend(rows.iter().filter_map(|row| line_of_row(name, row)));
        }
    }
    lines
}

fn line_of_claim(paper: &str, claim: &PaperClaim) -> Option<String> {
    let ours = claim
        .ours
        .filter(|_| claim.kind != NumberOrigin::Measured)?;
    Some(format!(
        "{paper} | claim {} | {} {}",
        claim.id,
        digits(ours),
        claim.unit
    ))
}

/// Formats a point: its figure, panel, peer and x, and the numbers that explain its y.
fn line_of_row(paper: &str, row: &Row) -> Option<String> {
    let detail = &row.detail;
    if row.kind == NumberOrigin::Measured {
        return None;
    }
    let clients = row.setting.as_ref().map_or(0, |setting| setting.threads);
    // In a plot of latency over throughput both coordinates are results, so the number of clients
    // identifies the point.
    let place = match (&*detail.x.name, &*detail.x.unit) {
        (_, "Mops") => format!("clients {clients}"),
        (name, _) => format!("{name} {}", digits(detail.x.value)),
    };
    let mut numbers = Vec::new();
    let mut add = |number: f64, unit: &str| numbers.push(format!("{} {unit}", digits(number)));
    add(detail.y.value, &detail.y.unit);
    if let Some(rate) = row.rate_mops.filter(|_| detail.y.unit != "Mops") {
        add(rate, "Mops");
    }
    if let Some([reads, writes, atomics]) = detail.messages_per_operation {
        add(reads, "reads");
        add(writes, "writes");
        add(atomics, "atomics");
    }
    if let Some(bytes) = detail.bytes_per_operation {
        add(bytes, "bytes");
    }
    if let Some(work) = &detail.work {
        let ModuleWorkCounts {
            copies,
            rounds,
            moved_bytes: [to_modules, from_modules],
            ..
        } = *work;
        add(rounds, "rounds");
        add(copies, "copies");
        add(to_modules, "bytes there");
        add(from_modules, "bytes back");
    }
    let (figure, panel, peer) = (&detail.figure, &detail.panel, &row.peer);
    let numbers = numbers.join(", ");
    Some(format!(
        "{paper} | {figure} {panel}, {peer}, {place} | {numbers}"
    ))
}

/// Formats a number with four digits, which show any change of a model.
fn digits(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let whole = number.abs().log10().floor() as i32;
    format!("{number:.*}", (3 - whole).max(0) as usize)
}

/// Returns the name of a line: all except its numbers.
fn name(line: &str) -> &str {
    line.rsplit_once(" | ").map_or(line, |(name, _)| name)
}

/// Returns the lines that differ, pinned and found.
fn differences(pinned: &[String], found: &[String]) -> Vec<String> {
    let missing = |ours: &[String], line: &String| !ours.contains(line);
    let gone = pinned.iter().filter(|line| missing(found, line));
    let come = found.iter().filter(|line| missing(pinned, line));
    let gone = gone.map(|line| format!("- {line}"));
    let mut all: Vec<String> = gone.chain(come.map(|line| format!("+ {line}"))).collect();
    all.sort_by(|one, other| name(&one[2..]).cmp(name(&other[2..])));
    all
}

fn pinned() -> Vec<String> {
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn pinned_figures_are_those_of_the_commit_before() {
    let found = lines(all_runs());
    if std::env::var_os(UPDATE).is_some() {
        let text = format!("{HEAD}{}\n", found.join("\n"));
        std::fs::write(FILE, text).unwrap();
        return;
    }
    let differences = differences(&pinned(), &found);
    assert!(
        differences.is_empty(),
        "figures have moved; if they should, {UPDATE}=1 cargo test -p nearfield-lab pinned writes \
         them again:\n{}",
        differences.join("\n")
    );
}

#[test]
fn pinned_figures_show_a_constant_that_has_changed() {
    let pinned = pinned();
    let scale = chime::pinned_scale();
    let found = |part: f64| {
        let job = chime::reads_at(&scale, part);
        let (rows, done) = job.run_by_itself(&Interrupt::default());
        done.unwrap();
        let line = rows.iter().find_map(|row| line_of_row(scale.name(), row));
        line.unwrap()
    };
    assert!(pinned.contains(&found(1.0)), "{}", found(1.0));
    let changed = found(1.01);
    let differences = differences(&pinned, std::slice::from_ref(&changed));
    let same_name = |line: &&String| name(&line[2..]) == name(&changed);
    assert_eq!(differences.iter().filter(same_name).count(), 2, "{changed}");
}

/// The pinned runs of tiers are long enough that policies act: if these move nothing, each claim
/// about one has another number.
#[test]
fn pinned_figures_of_tiers_show_policies_that_move_nothing() {
    let idle = AdmScale::tiny().with_idle_policies();
    let mut figures: Vec<&'static str> = idle.titles().iter().map(|title| title.name).collect();
    // No claim is about these two figures.
    figures.retain(|name| !["thresholds", "1b"].contains(name));
    let run = PinnedRuns {
        jobs: idle.jobs(&figures),
        whole: None,
        paper: Box::new(idle),
        has_points: false,
    };
    let found = lines(vec![run]);
    let pinned = pinned();
    let of_adm = pinned.iter().filter(|line| line.starts_with("ADM | "));
    let same: Vec<&str> = of_adm
        .filter(|line| found.contains(line))
        .map(|line| name(line))
        .collect();
    // First come needs no policy.
    let of_first_come = [
        "ADM | claim adm.size.first-come",
        "ADM | claim adm.large.size.first-come",
    ];
    assert_eq!(same, of_first_come, "{found:#?}");
}

#[test]
fn lines_that_come_or_go_or_change_are_reported() {
    let lines = |all: &[&str]| all.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
    let before = lines(&["a | x | 1.000", "a | y | 2.000", "a | z | 3.000"]);
    let after = lines(&["a | x | 1.000", "a | y | 2.001", "a | w | 3.000"]);
    let expected = [
        "+ a | w | 3.000",
        "- a | y | 2.000",
        "+ a | y | 2.001",
        "- a | z | 3.000",
    ];
    assert_eq!(differences(&before, &after), expected);
    assert!(differences(&before, &before).is_empty());
    let rounded = [0.0, 0.012_344_9, 1.234_49, 123_456.7].map(digits);
    assert_eq!(rounded, ["0", "0.01234", "1.234", "123457"]);
}

/// The field `paper` is a number of a paper. Claims about our designs and about varied models have
/// none.
#[test]
fn papers_numbers_are_of_papers() {
    for run in all_runs() {
        for claim in run.paper.claims(&[]) {
            assert!(
                claim.paper.is_none() || is_stated_by_paper(&claim.id),
                "{claim:?}"
            );
        }
    }
}
