//! Reports of measurements for people and programs: [rows](ReportRow) in JSON, tables, and pages
//! with plots. An experiment provides its rows and its words; this module formats them.

mod html;
mod output;
mod plot;
mod progress;
mod row;
mod sink;
mod table;

pub(crate) use html::{escaped, frame};
pub use output::{OutputError, ReportFile};
pub(crate) use plot::{LIMIT, Lines, bar_chart, line_chart, span_chart};
pub(crate) use progress::MeasurementProgress;
pub use row::{MeasurementSetting, NumberOrigin, ReportRow};
pub use sink::ReportSink;
pub(crate) use table::table;
