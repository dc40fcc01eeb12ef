//! Where reports go: a file for programs, and a page for people.

use super::output::{Output, OutputError};
use serde::Serialize;
use std::path::Path;

/// The files of a report, each written anew as a whole whenever there is more to say.
#[derive(Debug)]
pub struct Sink {
    json: Option<Output>,
    html: Option<Output>,
}

impl Sink {
    /// Makes sure that the reports can be written, before anything is measured.
    ///
    /// # Errors
    /// `OutputError` for a path that cannot be written.
    pub fn open(json: Option<&Path>, html: Option<&Path>) -> Result<Self, OutputError> {
        Ok(Sink {
            json: json.map(Output::open).transpose()?,
            html: html.map(Output::open).transpose()?,
        })
    }

    /// Writes what there is by now; `page` makes the page, if one is wanted.
    ///
    /// # Errors
    /// `OutputError`; the file is as it was.
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
