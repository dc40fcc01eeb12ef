//! The outputs of a report: a file for programs, and a page for people.

use super::output::{OutputError, ReportFile};
use serde::Serialize;
use std::path::Path;

/// The files of a report. Each is replaced as a whole whenever there are new results.
#[derive(Debug)]
pub struct ReportSink {
    json: Option<ReportFile>,
    html: Option<ReportFile>,
}

impl ReportSink {
    /// Checks that the reports can be written, before anything is measured.
    ///
    /// # Errors
    /// `OutputError` for a path that cannot be written.
    pub fn open(json: Option<&Path>, html: Option<&Path>) -> Result<Self, OutputError> {
        Ok(ReportSink {
            json: json.map(ReportFile::open).transpose()?,
            html: html.map(ReportFile::open).transpose()?,
        })
    }

    /// Writes the results so far; `page` renders the page, if one is wanted.
    ///
    /// # Errors
    /// `OutputError`; the file is unchanged.
    pub fn write(
        &self,
        report: &impl Serialize,
        page: impl FnOnce() -> String,
    ) -> Result<(), OutputError> {
        if let Some(json) = &self.json {
            let text = serde_json::to_string_pretty(report);
            json.write(&(text.expect("a report has string keys") + "\n"))?;
        }
        match &self.html {
            Some(html) => html.write(&page()),
            None => Ok(()),
        }
    }
}
