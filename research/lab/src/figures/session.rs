//! One call of `nearfield-bench figures`, from the request to the last report.

use super::job::{FigureJob, PointError};
use super::page;
use super::paper::Title;
use super::report::FigureReport;
use super::result_cache::ResultCache;
use super::row::{MissingFigurePoint, Row};
use super::scale::PaperScale;
use super::show;
use crate::error::LabError;
use crate::harness::{Completion, Interrupt, MachineProperties, commit};
use crate::memory::available_bytes;
use crate::report::{MeasurementProgress, OutputError, ReportSink};
use crate::text::shortened;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock, mpsc};

/// The most bytes of results that jobs keep for later jobs.
const RESULT_BYTES_MAX: usize = 1 << 30;

/// A request: figures of a paper, at a scale.
pub struct FigureRequest {
    figures: Vec<Title>,
    scale: PaperScale,
}

impl FigureRequest {
    /// Creates a request of the figures of these names, in the order of the paper; of all figures
    /// if there are no names. `3` means all parts of figure 3.
    ///
    /// # Errors
    /// `UnknownName` for a figure that does not exist.
    pub fn new(names: &[String], scale: PaperScale) -> Result<FigureRequest, LabError> {
        let is_named = |figure: &Title, name: &str| {
            // A digit would continue the number: `1` names 1b, and not 12.
            let part = figure.name.strip_prefix(name);
            part.is_some_and(|part| !part.starts_with(|first: char| first.is_ascii_digit()))
        };
        let mut figures = scale.paper().titles();
        for name in names {
            if name.is_empty() || !figures.iter().any(|figure| is_named(figure, name)) {
                return Err(LabError::UnknownName {
                    subject: "figure",
                    given: shortened(name),
                    allowed: scale.paper().allowed(),
                });
            }
        }
        let is_wanted =
            |figure: &Title| names.is_empty() || names.iter().any(|name| is_named(figure, name));
        figures.retain(is_wanted);
        Ok(FigureRequest { figures, scale })
    }

    /// Returns the names of the figures.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.figures.iter().map(|figure| figure.name).collect()
    }
}

/// A report that is written again after each figure.
#[derive(Debug)]
pub struct FigureSession {
    sink: ReportSink,
}

/// A message of a worker.
enum News {
    Begins(String),
    Phase,
    Ends(usize, Vec<Row>, Result<(), PointError>),
}

impl FigureSession {
    /// Makes sure that the reports can be written, before anything is run.
    ///
    /// # Errors
    /// `OutputError` for a path that cannot be written.
    pub fn open(json: Option<&Path>, html: Option<&Path>) -> Result<Self, OutputError> {
        Ok(FigureSession {
            sink: ReportSink::open(json, html)?,
        })
    }

    /// Runs figures, prints each as it is finished, and brings the reports up to date.
    ///
    /// # Errors
    /// A report can no longer be written.
    pub fn run(
        &self,
        request: &FigureRequest,
        interrupt: &Interrupt,
        print: &mut dyn FnMut(&str),
    ) -> Result<(FigureReport, Completion), OutputError> {
        let paper = request.scale.paper();
        let mut report =
            FigureReport::new(commit(), MachineProperties::here(), request.scale.clone());
        print(&paper.head(&report.commit));
        self.write(&report)?;
        let mut waiting = VecDeque::new();
        for job in paper.jobs(&request.names()) {
            match &job.missing {
                Some(reason) => report
                    .skipped
                    .extend(omitted(&job.figures, &job.peer, reason)),
                None => waiting.push_back((waiting.len(), job)),
            }
        }
        let mut board = Board::new(&waiting);
        let workers = workers(&waiting);
        let mut progress =
            MeasurementProgress::new("phase", waiting.iter().map(|(_, job)| job.phases).sum());
        let waiting = Queue {
            jobs: Mutex::new(waiting),
            alone: RwLock::new(()),
            results: ResultCache::new(RESULT_BYTES_MAX),
        };
        let (sender, news) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..workers {
                let (sender, waiting) = (sender.clone(), &waiting);
                scope.spawn(move || work(waiting, interrupt, &sender));
            }
            // Only workers have senders left, so the loop ends with the last worker.
            drop(sender);
            let mut figures = request.figures.iter().copied().peekable();
            loop {
                // Prints the figures with no job left, in the order of the figures.
                while let Some(figure) = figures.next_if(|figure| board.has_ended(figure.name)) {
                    board.collect(figure.name, &mut report);
                    report.claims = paper.claims(&report.rows);
                    progress.aside(|| print(&show::figure(figure, &report)));
                    self.write(&report)?;
                }
                match news.recv() {
                    Ok(News::Begins(title)) => progress.step(title),
                    Ok(News::Phase) => progress.part(),
                    Ok(News::Ends(number, rows, done)) => board.end(number, rows, done),
                    Err(mpsc::RecvError) => break,
                }
            }
            // After an interrupt, figures have the points of the jobs that were run.
            for figure in figures {
                board.collect(figure.name, &mut report);
            }
            Ok(())
        })?;
        drop(progress);
        report.claims = paper.claims(&report.rows);
        report.complete = !interrupt.is_raised();
        print(&show::claims(&report));
        self.write(&report)?;
        let completion = match report.complete {
            true => Completion::Finished,
            false => Completion::Interrupted,
        };
        Ok((report, completion))
    }

    fn write(&self, report: &FigureReport) -> Result<(), OutputError> {
        self.sink.write(report, || page::page(report))
    }
}

/// Returns the number of workers: one for each core, or fewer if memory does not suffice for as
/// many of the largest job.
fn workers(waiting: &VecDeque<(usize, FigureJob)>) -> usize {
    let largest = waiting.iter().map(|(_, job)| job.bytes).max().unwrap_or(1);
    let available = available_bytes().unwrap_or(u64::MAX);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // At least one: the sizes of jobs are estimates, so the largest may still fit.
    cores.min(available as usize / largest.max(1)).max(1)
}

/// Jobs that no worker has started.
struct Queue {
    jobs: Mutex<VecDeque<(usize, FigureJob)>>,
    /// Lock that a job which must run alone holds for writing, and any other for reading.
    alone: RwLock<()>,
    results: ResultCache,
}

impl Queue {
    fn next(&self) -> Option<(usize, FigureJob)> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.pop_front()
    }
}

/// Runs jobs until none is left.
fn work(queue: &Queue, interrupt: &Interrupt, sender: &mpsc::Sender<News>) {
    while !interrupt.is_raised() {
        let Some((number, job)) = queue.next() else {
            return;
        };
        // Other work would disturb a clock. The guards last until the job has ended.
        let _alone = job
            .alone
            .then(|| queue.alone.write().unwrap_or_else(PoisonError::into_inner));
        let _shared =
            (!job.alone).then(|| queue.alone.read().unwrap_or_else(PoisonError::into_inner));
        // The receiver is gone if the reports cannot be written.
        let _ = sender.send(News::Begins(job.title()));
        let phase = || {
            let _ = sender.send(News::Phase);
        };
        let (rows, done) = job.run(interrupt, &queue.results, phase);
        if sender.send(News::Ends(number, rows, done)).is_err() {
            return;
        }
    }
}

/// Creates an entry for each of the figures in which `peer` is missing.
fn omitted(figures: &[&'static str], peer: &str, reason: &str) -> Vec<MissingFigurePoint> {
    let entry = |figure: &&str| MissingFigurePoint {
        figure: (*figure).to_owned(),
        peer: peer.to_owned(),
        reason: reason.to_owned(),
    };
    figures.iter().map(entry).collect()
}

/// The outcomes of jobs, by number. Jobs end in any order.
struct Board(Vec<JobBoardEntry>);

struct JobBoardEntry {
    figures: Vec<&'static str>,
    peer: String,
    /// The rows that no figure has taken yet, and the result; `None` until the job ends.
    end: Option<(Vec<Row>, Result<(), PointError>)>,
}

impl Board {
    fn new(jobs: &VecDeque<(usize, FigureJob)>) -> Board {
        let entry = |(_, job): &(usize, FigureJob)| JobBoardEntry {
            figures: job.figures.clone(),
            peer: job.peer.clone(),
            end: None,
        };
        let is_at = |(place, (number, _)): (usize, &(usize, FigureJob))| place == *number;
        debug_assert!(jobs.iter().enumerate().all(is_at));
        Board(jobs.iter().map(entry).collect())
    }

    fn end(&mut self, number: usize, rows: Vec<Row>, done: Result<(), PointError>) {
        if let Some(entry) = self.0.get_mut(number) {
            debug_assert!(entry.end.is_none(), "a job ends once");
            entry.end = Some((rows, done));
        }
    }

    fn has_ended(&self, figure: &str) -> bool {
        let mut entries = self.0.iter();
        entries.all(|entry| entry.end.is_some() || !entry.figures.contains(&figure))
    }

    /// Moves the rows and the failures of a figure into the report.
    fn collect(&mut self, figure: &'static str, report: &mut FigureReport) {
        let mut own = Vec::new();
        for entry in &mut self.0 {
            if !entry.figures.contains(&figure) {
                continue;
            }
            let Some((rows, done)) = &mut entry.end else {
                continue;
            };
            own.extend(rows.extract_if(.., |row| row.detail.figure == figure));
            match done {
                Ok(()) | Err(PointError::Interrupted) => {}
                Err(error) => {
                    let failed = omitted(&[figure], &entry.peer, &error.to_string());
                    report.failed.extend(failed);
                }
            }
        }
        let own = report.scale.paper().finish(figure, own);
        report.rows.extend(own);
    }
}
