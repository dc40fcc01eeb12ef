//! The arguments of a geospatial search.

use super::area::{GeoArea, GeoAreaShape};
use super::cell::GeoPoint;
use super::{place, unit_m};
use crate::command::{integer, is};
use crate::error::{CommandError, shown};
use crate::number::parse_double;
use crate::object::SortedSet;

/// The kinds of commands that search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeoSearchKind {
    /// A search in a circle around a place.
    Radius { may_store: bool },
    /// A search in a circle around a member.
    RadiusByMember { may_store: bool },
    /// A search in any area around either.
    Search { stores: bool },
}

/// The parsed arguments of a search.
#[derive(Debug, Default)]
pub(super) struct GeoSearchQuery<'a> {
    /// The area, or `None` if its middle is a member of a missing key.
    pub(super) area: Option<GeoArea>,
    pub(super) distances: bool,
    pub(super) scores: bool,
    pub(super) places: bool,
    pub(super) order: Option<GeoSearchOrder>,
    /// The largest number of members in the reply; `None` for all.
    pub(super) count: Option<usize>,
    /// True if the first members that are found suffice.
    pub(super) any: bool,
    pub(super) target: Option<&'a [u8]>,
    /// True if the distances become the scores in the stored result.
    pub(super) stores_distances: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeoSearchOrder {
    Nearest,
    Farthest,
}

type Words<'a> = &'a [&'a [u8]];

/// The middle and the form, as far as they were given. A member of a missing key is a middle
/// without a place.
#[derive(Debug, Default)]
struct GeoSearchParts {
    member: Option<Option<GeoPoint>>,
    place: Option<GeoPoint>,
    circle: Option<(GeoAreaShape, f64)>,
    rectangle: Option<(GeoAreaShape, f64)>,
}

/// Returns the place of a member, or `None` if the key does not exist.
fn place_of(set: Option<&SortedSet>, member: &[u8]) -> Result<Option<GeoPoint>, CommandError> {
    let Some(set) = set else { return Ok(None) };
    match set.score(member) {
        Some(score) => Ok(Some(GeoPoint::of_score(score))),
        None => Err(CommandError::text(
            "ERR could not decode requested zset member",
        )),
    }
}

/// Parses a length.
fn length(text: &[u8], no_number: &'static str) -> Result<f64, CommandError> {
    parse_double(text).ok_or(CommandError::text(no_number))
}

fn circle([radius, unit]: [&[u8]; 2]) -> Result<(GeoAreaShape, f64), CommandError> {
    let radius = length(radius, "ERR need numeric radius")?;
    // NaN does not parse, so that any other number is a radius.
    if radius < 0.0 {
        return Err(CommandError::text("ERR radius cannot be negative"));
    }
    Ok((GeoAreaShape::Circle { radius }, unit_m(unit)?))
}

fn rectangle([width, height, unit]: [&[u8]; 3]) -> Result<(GeoAreaShape, f64), CommandError> {
    let width = length(width, "ERR need numeric width")?;
    let height = length(height, "ERR need numeric height")?;
    if width < 0.0 || height < 0.0 {
        return Err(CommandError::text("ERR height or width cannot be negative"));
    }
    Ok((GeoAreaShape::Box { width, height }, unit_m(unit)?))
}

/// Returns the positions of the keys of `GEORADIUS` and `GEORADIUSBYMEMBER`: the key that is
/// searched, and the targets of the result. Only the last target is written to.
pub(super) fn keys(args: &[&[u8]]) -> Vec<usize> {
    const OPTIONS: usize = 5;
    let behind = |name: &'static str| {
        let words = (OPTIONS..args.len()).filter(move |&at| is(args[at], name));
        words.map(|at| at + 1).filter(|&at| at < args.len())
    };
    let targets = behind("store").chain(behind("storedist"));
    std::iter::once(1).chain(targets).collect()
}

impl<'a> GeoSearchQuery<'a> {
    /// Parses the arguments of a command, including its name. `set` is the set to be searched.
    pub(super) fn parse(
        kind: GeoSearchKind,
        args: Words<'a>,
        set: Option<&SortedSet>,
    ) -> Result<GeoSearchQuery<'a>, CommandError> {
        let (mut query, mut parts) = (GeoSearchQuery::default(), GeoSearchParts::default());
        let options = match (kind, args) {
            (
                GeoSearchKind::Radius { .. },
                &[_, _, longitude, latitude, radius, unit, ref options @ ..],
            ) => {
                parts.place = Some(place([longitude, latitude])?);
                parts.circle = Some(circle([radius, unit])?);
                options
            }
            (
                GeoSearchKind::RadiusByMember { .. },
                &[_, _, member, radius, unit, ref options @ ..],
            ) => {
                let place = place_of(set, member)?;
                parts.member = Some(place);
                // Without the key the result is empty, whatever the radius is.
                if place.is_some() {
                    parts.circle = Some(circle([radius, unit])?);
                }
                options
            }
            (GeoSearchKind::Search { stores: false }, [_, _, options @ ..]) => options,
            (GeoSearchKind::Search { stores: true }, &[_, target, _, ref options @ ..]) => {
                query.target = Some(target);
                options
            }
            _ => return Err(CommandError::Syntax),
        };
        query.parse_options(kind, options, &mut parts, set)?;
        query.check(kind, args, &parts)?;
        // At most one of them is there, because each refuses the other.
        let middle = parts.place.or(parts.member.flatten());
        let form = parts.circle.or(parts.rectangle);
        query.area = middle.zip(form).map(|(middle, (form, unit_m))| GeoArea {
            middle,
            form,
            unit_m,
        });
        debug_assert!(
            query.area.is_some() || set.is_none(),
            "only the place of a member can be missing"
        );
        Ok(query)
    }

    fn parse_options(
        &mut self,
        kind: GeoSearchKind,
        mut options: Words<'a>,
        parts: &mut GeoSearchParts,
        set: Option<&SortedSet>,
    ) -> Result<(), CommandError> {
        while let [option, rest @ ..] = options {
            let simple = match option {
                _ if is(option, "withdist") => Some(&mut self.distances),
                _ if is(option, "withhash") => Some(&mut self.scores),
                _ if is(option, "withcoord") => Some(&mut self.places),
                _ if is(option, "any") => Some(&mut self.any),
                _ => None,
            };
            options = if let Some(simple) = simple {
                *simple = true;
                rest
            } else if is(option, "asc") {
                self.order = Some(GeoSearchOrder::Nearest);
                rest
            } else if is(option, "desc") {
                self.order = Some(GeoSearchOrder::Farthest);
                rest
            } else if let (true, [count, rest @ ..]) = (is(option, "count"), rest) {
                let count = usize::try_from(integer(count)?).ok();
                let count = count.filter(|&count| count > 0);
                let refused = CommandError::text("ERR COUNT must be > 0");
                self.count = Some(count.ok_or(refused)?);
                rest
            } else {
                self.parse_of_kind(kind, option, rest, parts, set)?
            };
        }
        Ok(())
    }

    /// Parses an option that only some of the commands have. Returns the arguments after it.
    fn parse_of_kind(
        &mut self,
        kind: GeoSearchKind,
        option: &[u8],
        rest: Words<'a>,
        parts: &mut GeoSearchParts,
        set: Option<&SortedSet>,
    ) -> Result<Words<'a>, CommandError> {
        match (kind, rest) {
            (
                GeoSearchKind::Radius { may_store: true }
                | GeoSearchKind::RadiusByMember { may_store: true },
                &[target, ref rest @ ..],
            ) if is(option, "store") || is(option, "storedist") => {
                self.target = Some(target);
                self.stores_distances = is(option, "storedist");
                Ok(rest)
            }
            (GeoSearchKind::Search { stores: true }, rest) if is(option, "storedist") => {
                // GEOSEARCHSTORE names the target before, so that its option has no argument.
                self.stores_distances = true;
                Ok(rest)
            }
            (GeoSearchKind::Search { .. }, [member, rest @ ..])
                if is(option, "frommember") && parts.place.is_none() =>
            {
                parts.member = Some(place_of(set, member)?);
                Ok(rest)
            }
            (GeoSearchKind::Search { .. }, &[longitude, latitude, ref rest @ ..])
                if is(option, "fromlonlat") && parts.member.is_none() =>
            {
                parts.place = Some(place([longitude, latitude])?);
                Ok(rest)
            }
            (GeoSearchKind::Search { .. }, &[radius, unit, ref rest @ ..])
                if is(option, "byradius") && parts.rectangle.is_none() =>
            {
                parts.circle = Some(circle([radius, unit])?);
                Ok(rest)
            }
            (GeoSearchKind::Search { .. }, &[width, height, unit, ref rest @ ..])
                if is(option, "bybox") && parts.circle.is_none() =>
            {
                parts.rectangle = Some(rectangle([width, height, unit])?);
                Ok(rest)
            }
            // Also an option that excludes one before it, such as BYBOX after BYRADIUS.
            _ => Err(CommandError::Syntax),
        }
    }

    /// Refuses options that exclude each other.
    fn check(
        &self,
        kind: GeoSearchKind,
        args: Words<'_>,
        parts: &GeoSearchParts,
    ) -> Result<(), CommandError> {
        let is_search = matches!(kind, GeoSearchKind::Search { .. });
        // A sorted set cannot hold these.
        if self.target.is_some() && (self.distances || self.scores || self.places) {
            let what = match is_search {
                true => "GEOSEARCHSTORE",
                false => "STORE option in GEORADIUS",
            };
            return Err(CommandError::owned(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let exactly_one = |of: &str| {
            let name = args.first().copied().unwrap_or_default();
            let name = shown(name);
            CommandError::owned(format!(
                "ERR exactly one of {of} can be specified for {name}"
            ))
        };
        // The other commands have the middle and the radius as fixed arguments.
        if is_search && parts.place.is_none() && parts.member.is_none() {
            return Err(exactly_one("FROMMEMBER or FROMLONLAT"));
        }
        if is_search && parts.circle.is_none() && parts.rectangle.is_none() {
            return Err(exactly_one("BYRADIUS and BYBOX"));
        }
        // ANY alone would be all members.
        if self.any && self.count.is_none() {
            return Err(CommandError::text(
                "ERR the ANY argument requires COUNT argument",
            ));
        }
        Ok(())
    }
}
