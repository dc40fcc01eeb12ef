//! Reports of measurements for people and programs: [rows](Row) in JSON, tables, and pages with
//! plots. An experiment provides its rows and its words; this module formats them.

mod html;
mod output;
mod plot;
mod progress;
mod row;
mod sink;
mod table;

pub(crate) use html::{escaped, frame};
pub use output::{Output, OutputError};
pub(crate) use plot::{LIMIT, Lines, bar_chart, line_chart, span_chart};
pub(crate) use progress::Progress;
pub use row::{Kind, Row, Setting};
pub use sink::Sink;
pub(crate) use table::table;
