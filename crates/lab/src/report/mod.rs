//! What people and programs are told about measurements: [rows](Row) in JSON, tables with a
//! reading under each, and a page with plots.

mod html;
mod output;
mod plot;
mod progress;
mod reading;
mod row;
mod session;
pub mod statistics;
mod table;

pub(crate) use html::{escaped, frame};
pub use output::{Output, OutputError};
pub(crate) use plot::{Lines, bar_chart, line_chart, span_chart};
pub(crate) use progress::Progress;
pub use row::{Failed, Kind, Report, Row, Setting, Skipped};
pub use session::{Session, SessionError};
pub(crate) use table::{STYLE, grouped, rate};
