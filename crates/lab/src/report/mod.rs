//! What people and programs are told about measurements: [rows](row) in JSON, tables with a
//! [reading](reading) under each, and a page with plots.

mod html;
mod output;
mod plot;
mod progress;
mod reading;
mod row;
mod session;
pub mod statistics;
mod table;

pub use output::{Output, OutputError};
pub use row::{Failed, Report, Row, Skipped};
pub use session::{Session, SessionError};
