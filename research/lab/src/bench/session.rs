//! One call of `nearfield-bench bench`, from the plan to the last report.

use super::conductor::{Conductor, ConductorEvent};
use super::plan::BenchPlan;
use super::reading::reading;
use super::report::{BenchReport, TableResult};
use super::{page, show};
use crate::error::LabError;
use crate::harness::{Completion, MachineProperties, commit};
use crate::report::{MeasurementProgress, OutputError, ReportSink};
use crate::text::display_bytes;
use std::io::{self, Write};
use std::path::Path;

/// The reports, which are written again after each table.
#[derive(Debug)]
pub struct BenchSession {
    report: BenchReport,
    results: Vec<TableResult>,
    sink: ReportSink,
}

/// Reason why a session ended early.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A request that cannot be measured.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A report that cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl BenchSession {
    /// Makes sure that the reports can be written, before anything is measured.
    ///
    /// # Errors
    /// `OutputError` for a path that cannot be written.
    pub fn open(json: Option<&Path>, html: Option<&Path>) -> Result<Self, OutputError> {
        Ok(BenchSession {
            report: BenchReport::new(commit(), MachineProperties::here()),
            results: Vec::new(),
            sink: ReportSink::open(json, html)?,
        })
    }

    /// Measures a plan, prints each table as it is finished and brings the reports up to date.
    ///
    /// # Errors
    /// As [`Conductor::run`], or a report that can no longer be written. The reports hold what
    /// was measured until then.
    pub fn run(
        &mut self,
        conductor: &Conductor<'_>,
        plan: &BenchPlan,
    ) -> Result<Completion, SessionError> {
        self.print_head(plan);
        self.write()?;
        let mut progress = MeasurementProgress::new("table", plan.tables.len());
        let mut written = Ok(());
        let completion = conductor.run(plan, &mut |event| match event {
            ConductorEvent::Step(step) => progress.step(step),
            ConductorEvent::Slice(done, total) => progress.slice(done, total),
            ConductorEvent::Note(note) => progress.aside(|| print(&format!("note: {note}"))),
            ConductorEvent::Table(result) => {
                progress.table();
                progress.aside(|| print(&format!("{}{}\n", show::render(result), reading(result))));
                self.report.add(result);
                self.results.push(result.clone());
                // After an error the measurement goes on, because its tables are printed as well.
                if written.is_ok() {
                    written = self.write();
                }
            }
        })?;
        drop(progress);
        written?;
        self.report.complete = completion == Completion::Finished;
        self.write()?;
        Ok(completion)
    }

    fn write(&self) -> Result<(), OutputError> {
        let page = || page::page(&self.report, &self.results);
        self.sink.write(&self.report, page)
    }

    fn print_head(&self, plan: &BenchPlan) {
        let machine = &self.report.machine;
        print(&format!(
            "{}, {} cores, {}, {}, huge pages: {}\ncommit {}",
            machine.cpu,
            machine.cores,
            display_bytes(machine.memory_bytes),
            machine.kernel,
            machine.huge_pages,
            self.report.commit
        ));
        print("Rates are millions of operations for each second of CPU time.");
        plan.notes
            .iter()
            .for_each(|note| print(&format!("note: {note}")));
        print("");
    }
}

/// Prints a line.
fn print(line: &str) {
    // A reader that has gone away, such as `head`, is no reason to stop: the reports are still
    // wanted.
    let _ = writeln!(io::stdout(), "{line}");
}
