//! Progress on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A progress bar, with the number of the table or phase.
pub(crate) struct MeasurementProgress {
    bar: ProgressBar,
    noun: &'static str,
    done: usize,
    total: usize,
}

impl MeasurementProgress {
    /// Creates a bar for `total` tables, or whatever `noun` names; hidden if standard error is no
    /// terminal.
    pub(crate) fn new(noun: &'static str, total: usize) -> Self {
        let bar = ProgressBar::new(1);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:24}] {msg} {elapsed}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(Duration::from_millis(250));
        let progress = MeasurementProgress {
            bar,
            noun,
            done: 0,
            total,
        };
        progress.show_prefix();
        progress
    }

    pub(crate) fn step(&self, step: String) {
        self.bar.set_message(step);
    }

    pub(crate) fn slice(&self, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message("measuring");
    }

    pub(crate) fn table(&mut self) {
        self.done += 1;
        self.bar.set_position(0);
        self.show_prefix();
    }

    /// Counts one part as done.
    pub(crate) fn part(&mut self) {
        self.done += 1;
        self.bar.set_length(self.total as u64);
        self.bar.set_position(self.done as u64);
        self.show_prefix();
    }

    /// Calls `print` while the bar is hidden.
    pub(crate) fn aside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    fn show_prefix(&self) {
        let current = (self.done + 1).min(self.total);
        self.bar
            .set_prefix(format!("{} {current} of {}", self.noun, self.total));
    }
}

impl Drop for MeasurementProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
