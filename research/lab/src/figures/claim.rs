//! Claims of papers and goals of this project, compared with the results.

use super::row::{ClaimBasis, ClaimDirection, PaperClaim, Quantity, Row};
use crate::report::NumberOrigin;

/// A claim before any run, with the query that computes our number.
pub(super) struct ClaimTemplate {
    pub id: &'static str,
    pub text: &'static str,
    pub paper: Option<f64>,
    pub unit: &'static str,
    pub origin: NumberOrigin,
    pub direction: ClaimDirection,
    pub basis: ClaimBasis,
    pub query: ClaimQuery,
}

impl ClaimTemplate {
    /// Makes the paper's number a lower bound.
    pub(super) const fn at_least(mut self) -> ClaimTemplate {
        self.direction = ClaimDirection::AtLeast;
        self
    }

    /// Makes the paper's number an upper bound.
    pub(super) const fn at_most(mut self) -> ClaimTemplate {
        self.direction = ClaimDirection::AtMost;
        self
    }

    /// Marks a number that an input of the model decides.
    pub(super) const fn calibrated(mut self) -> ClaimTemplate {
        self.basis = ClaimBasis::Calibrated;
        self
    }
}

/// Creates a table of claims: a name, the paper's number with its unit, the origin of our number
/// unless it is modelled, marks (`@at_least`, `@at_most`, `@calibrated`), the query of our number,
/// and the text.
macro_rules! claims {
    ($(
        $id:literal ($paper:expr, $unit:literal $(, $kind:ident)?) $(@ $mark:ident)*
        $query:expr => $text:expr;
    )*) => {
        &[$(ClaimTemplate {
            id: $id,
            text: $text,
            paper: $paper,
            unit: $unit,
            origin: claims!(@origin $($kind)?),
            direction: $crate::figures::row::ClaimDirection::Equal,
            basis: $crate::figures::row::ClaimBasis::Predicted,
            query: $query,
        }$(.$mark())*),*]
    };
    (@origin) => { crate::report::NumberOrigin::Modelled };
    (@origin $origin:ident) => { crate::report::NumberOrigin::$origin };
}

pub(super) use claims;

/// The computation of a claim's number from rows: a reduction of the points of a query, or a
/// function for what these cannot express.
#[derive(Clone, Copy)]
pub(super) enum ClaimQuery {
    /// Also the number of a single point.
    Least(PointQuery),
    Greatest(PointQuery),
    Mean(PointQuery),
    Computed(fn(&[Row]) -> Option<f64>),
}

/// A reduction of numbers to one.
type Reduce = fn(Vec<f64>) -> Option<f64>;

/// A query of a contender's points in a figure, each compared with a peer's point in the same panel
/// at the same x.
#[derive(Clone, Copy)]
pub(super) struct PointQuery {
    figure: &'static str,
    /// The figure with the points of peers.
    pub peer_figure: &'static str,
    /// The contender; empty for all.
    ours: &'static str,
    /// The peers. Without any, our points are compared with nothing.
    peers: &'static [&'static str],
    pub panels: PanelFilter,
    pub x: Option<f64>,
    /// The quantity on the vertical axis; `None` for any.
    quantity: Option<&'static str>,
    number: fn(&Row) -> Option<f64>,
    /// The rank of a point, if only the point of the highest rank represents its panel. It is
    /// compared with a peer's at any x.
    pub rank: Option<fn(&ClaimPoint<'_>) -> f64>,
    /// The comparison of our number with the peer's. A ratio to zero does not count.
    pub compare: fn(f64, f64) -> f64,
    /// The function that converts the reduced number to the claim's unit.
    pub convert: fn(f64) -> f64,
}

/// The panels of a figure that count.
#[derive(Clone, Copy)]
pub(super) enum PanelFilter {
    /// Panels with names that begin with this text.
    Beginning(&'static str),
    One(&'static str),
    Except(&'static [&'static str]),
    /// These panels. If one has no point, the claim has no number.
    Each(&'static [&'static str]),
}

/// A point that a query has found, or the comparison of two.
#[derive(Clone, Copy)]
pub(super) struct ClaimPoint<'r> {
    /// The peer that the point is compared with, or the contender.
    pub peer: &'r str,
    pub panel: &'r str,
    pub x: &'r Quantity,
    pub number: f64,
}

/// Returns a query of the ratios of a contender's rates to those of each of its peers.
pub(super) const fn rates(
    figure: &'static str,
    ours: &'static str,
    peers: &'static [&'static str],
) -> PointQuery {
    PointQuery {
        figure,
        peer_figure: figure,
        ours,
        peers,
        panels: PanelFilter::Beginning(""),
        x: None,
        quantity: None,
        number: |row| row.rate_mops,
        rank: None,
        compare: |ours, peer| ours / peer,
        convert: |number| number,
    }
}

/// Returns a query of the ratios of vertical coordinates.
pub(super) const fn heights(
    figure: &'static str,
    ours: &'static str,
    peers: &'static [&'static str],
) -> PointQuery {
    let mut query = rates(figure, ours, peers);
    query.number = |row| Some(row.detail.y.value);
    query
}

impl PointQuery {
    /// Selects a quantity on the vertical axis.
    pub(super) const fn quantity(mut self, name: &'static str) -> PointQuery {
        self.quantity = Some(name);
        self
    }

    /// Selects a panel.
    pub(super) const fn in_panel(mut self, name: &'static str) -> PointQuery {
        self.panels = PanelFilter::One(name);
        self
    }

    /// Selects the points with this horizontal coordinate.
    pub(super) const fn at(mut self, x: f64) -> PointQuery {
        self.x = Some(x);
        self
    }

    /// Returns our points, compared with those of all peers.
    pub(super) fn points<'r>(&self, rows: &'r [Row]) -> Vec<ClaimPoint<'r>> {
        let ours = self.chosen(rows, self.figure, self.ours);
        if self.peers.is_empty() {
            return ours;
        }
        let mut compared = Vec::new();
        for peer in self.peers {
            let theirs = self.chosen(rows, self.peer_figure, peer);
            for point in &ours {
                let same = theirs.iter().find(|other| {
                    let is_at_same_x = self.rank.is_some() || other.x == point.x;
                    other.panel == point.panel && is_at_same_x
                });
                compared.extend(same.map(|same| ClaimPoint {
                    peer: same.peer,
                    number: (self.compare)(point.number, same.number),
                    ..*point
                }));
            }
        }
        compared.retain(|point| point.number.is_finite());
        compared
    }

    /// Returns the points of a contender in a figure, or one for each panel.
    fn chosen<'r>(&self, rows: &'r [Row], figure: &str, peer: &str) -> Vec<ClaimPoint<'r>> {
        let mut points: Vec<ClaimPoint<'r>> = Vec::new();
        for row in rows {
            let (panel, x) = (&*row.detail.panel, &row.detail.x);
            let is_wanted = row.detail.figure == figure
                && (peer.is_empty() || row.peer == peer)
                && self.panels.has(panel)
                && self.quantity.is_none_or(|name| row.detail.y.name == name)
                && self.x.is_none_or(|wanted| x.value == wanted);
            let Some(number) = (self.number)(row).filter(|_| is_wanted) else {
                continue;
            };
            let point = ClaimPoint {
                peer: &row.peer,
                panel,
                x,
                number,
            };
            let other = points.iter_mut().find(|other| other.panel == panel);
            match self.rank.zip(other) {
                Some((rank, other)) if rank(&point) <= rank(other) => {}
                Some((_, other)) => *other = point,
                None => points.push(point),
            }
        }
        points
    }

    /// Returns the numbers of all points; `None` if there are none, or a panel is missing.
    fn numbers(&self, rows: &[Row]) -> Option<Vec<f64>> {
        let points = self.points(rows);
        let has = |panel: &&str| points.iter().any(|point| point.panel == *panel);
        let is_complete = match self.panels {
            PanelFilter::Each(panels) => panels.iter().all(has),
            _ => !points.is_empty(),
        };
        is_complete.then(|| points.iter().map(|point| point.number).collect())
    }
}

impl ClaimQuery {
    /// Computes the number, if it follows from `rows`.
    pub(super) fn value(&self, rows: &[Row]) -> Option<f64> {
        let (query, reduce): (_, Reduce) = match self {
            ClaimQuery::Computed(compute) => return compute(rows),
            ClaimQuery::Least(query) => (query, least),
            ClaimQuery::Greatest(query) => (query, greatest),
            ClaimQuery::Mean(query) => (query, mean),
        };
        reduce(query.numbers(rows)?).map(query.convert)
    }
}

pub(super) fn least(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    numbers.into_iter().min_by(f64::total_cmp)
}

pub(super) fn greatest(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    numbers.into_iter().max_by(f64::total_cmp)
}

pub(super) fn mean(numbers: impl IntoIterator<Item = f64>) -> Option<f64> {
    let numbers: Vec<f64> = numbers.into_iter().collect();
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

impl PanelFilter {
    fn has(self, panel: &str) -> bool {
        match self {
            PanelFilter::Beginning(text) => panel.starts_with(text),
            PanelFilter::One(name) => panel == name,
            PanelFilter::Except(names) => !names.contains(&panel),
            PanelFilter::Each(names) => names.contains(&panel),
        }
    }
}

/// Returns all claims of a table, with our numbers if they follow from `rows`.
pub(super) fn evaluate(claims: &[ClaimTemplate], rows: &[Row]) -> Vec<PaperClaim> {
    let claim = |claim: &ClaimTemplate| PaperClaim {
        id: claim.id.to_owned(),
        text: claim.text.to_owned(),
        paper: claim.paper,
        ours: claim.query.value(rows),
        unit: claim.unit.to_owned(),
        kind: claim.origin,
        direction: claim.direction,
        basis: claim.basis,
    };
    claims.iter().map(claim).collect()
}

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
