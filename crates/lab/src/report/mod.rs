//! What people and programs are told about measurements: [rows](Row) in JSON, tables, and pages
//! with plots. An experiment brings its rows and its words; how they are shown is here.

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
