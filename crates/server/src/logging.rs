//! Messages to the operator: lines of text or of JSON, on standard error or in a file.

use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::{Layer, reload};

/// The form of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLineFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// The destination of lines. Clones are the same destination.
#[derive(Clone, Debug)]
pub struct LogLineTarget {
    /// The path of the file; `None`: the standard error.
    path: Option<PathBuf>,
    file: Arc<Mutex<Option<File>>>,
}

/// A line that clients can cause as often as they want, and that is written once a minute at most.
#[derive(Debug)]
pub struct SparseLine {
    state: Mutex<SparseState>,
}

#[derive(Debug)]
struct SparseState {
    written: Option<Instant>,
    left_out: u64,
}

impl Default for SparseLine {
    fn default() -> SparseLine {
        SparseLine::new()
    }
}

impl SparseLine {
    const EVERY: Duration = Duration::from_secs(60);

    /// Returns a line that was not written yet.
    pub const fn new() -> SparseLine {
        SparseLine {
            state: Mutex::new(SparseState {
                written: None,
                left_out: 0,
            }),
        }
    }

    /// Returns the number of lines that were left out since the last one, if a line must be written
    /// now.
    pub fn next(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let is_early = |written: Instant| written.elapsed() < Self::EVERY;
        if state.written.is_some_and(is_early) {
            state.left_out += 1;
            return None;
        }
        state.written = Some(Instant::now());
        Some(std::mem::take(&mut state.left_out))
    }
}

type Filter = reload::Handle<LevelFilter, Registry>;
static FILTER: OnceLock<Filter> = OnceLock::new();

/// Begins to write lines of `level` (a value of `loglevel`) and of higher importance, to the end of
/// the file at `path` if it is given.
///
/// # Errors
/// The file cannot be opened, or lines are already written.
pub fn start(format: LogLineFormat, level: &str, path: Option<&Path>) -> io::Result<LogLineTarget> {
    let target = LogLineTarget {
        path: path.map(Path::to_owned),
        file: Arc::default(),
    };
    target.reopen()?;
    let (filter, handle) = reload::Layer::new(filter_of(level));
    let lines = tracing_subscriber::fmt::layer().with_target(false);
    let lines = match format {
        LogLineFormat::Text => lines.with_ansi(false).with_writer(target.clone()).boxed(),
        LogLineFormat::Json => lines.json().with_writer(target.clone()).boxed(),
    };
    let subscriber = Registry::default().with(filter).with(lines);
    tracing::subscriber::set_global_default(subscriber).map_err(io::Error::other)?;
    // Only one subscriber can be global, so the filter is set once.
    let _ = FILTER.set(handle);
    Ok(target)
}

/// Changes the level of the lines that are written from now on.
pub fn set_level(level: &str) {
    if let Some(filter) = FILTER.get() {
        // This fails only if no more lines are written.
        let _ = filter.modify(|filter| *filter = filter_of(level));
    }
}

fn filter_of(level: &str) -> LevelFilter {
    match level {
        "debug" => LevelFilter::TRACE,
        "verbose" => LevelFilter::DEBUG,
        "warning" => LevelFilter::WARN,
        _ => LevelFilter::INFO,
    }
}

impl LogLineTarget {
    /// Opens the file again, because it may have been moved.
    ///
    /// # Errors
    /// It cannot be opened; lines are still written to the old one.
    pub fn reopen(&self) -> io::Result<()> {
        if let Some(path) = &self.path {
            let file = OpenOptions::new().append(true).create(true).open(path)?;
            // The old file is replaced only after the new one was opened, so that lines are never
            // lost.
            *self.file.lock() = Some(file);
        }
        Ok(())
    }
}

impl Write for LogLineTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.file.lock() {
            Some(file) => file.write(bytes),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogLineTarget {
    type Writer = LogLineTarget;

    fn make_writer(&self) -> LogLineTarget {
        self.clone()
    }
}
