//! Claims of papers and goals of this project, compared with the results.

use super::row::{PaperClaim, Row};
use crate::report::NumberOrigin;

/// A claim before any run; `S` describes how our number follows from rows.
pub(super) struct ClaimTemplate<S: 'static> {
    pub id: &'static str,
    pub text: &'static str,
    pub paper: Option<f64>,
    pub unit: &'static str,
    pub source: S,
}

impl<S> ClaimTemplate<S> {
    pub(super) fn claim(&self, ours: Option<f64>, kind: NumberOrigin) -> PaperClaim {
        PaperClaim {
            id: self.id.to_owned(),
            text: self.text.to_owned(),
            paper: self.paper,
            ours,
            unit: self.unit.to_owned(),
            kind,
        }
    }
}

/// Creates a table of claims: a name, the paper's number with its unit, the source of our number,
/// and the text.
macro_rules! stated {
    ($($id:literal ($paper:expr, $unit:literal) $source:expr => $text:expr;)*) => {
        &[$(ClaimTemplate { id: $id, text: $text, paper: $paper, unit: $unit, source: $source }),*]
    };
}

pub(super) use stated;

/// Returns the rows of a peer in a figure.
pub(super) fn of<'r>(
    rows: &'r [Row],
    figure: &'r str,
    peer: &'r str,
) -> impl Iterator<Item = &'r Row> {
    let of_figure = rows.iter().filter(move |row| row.detail.figure == figure);
    of_figure.filter(move |row| row.peer == peer)
}

/// Returns true if a claim of this name may have a number from the paper. Claims about our designs
/// and about varied models have none.
#[cfg(test)]
pub(super) fn is_stated_by_paper(id: &str) -> bool {
    let of_ours = ["ours.", "lowest.", "highest."];
    !of_ours.iter().any(|first| id.starts_with(first)) && !id.contains(".varied")
}
