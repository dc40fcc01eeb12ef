//! The search for places within an area: in the ranges of scores of the cells that cover it.

use super::cell::GeoPoint;
use super::query::{GeoSearchKind, GeoSearchOrder, GeoSearchQuery};
use super::{distance, longitude_and_latitude};
use crate::command::{Answer, CommandCall};
use crate::commands::sorted_set::range::store;
use crate::error::CommandError;
use crate::keyspace::KeyView;
use crate::object::{Container, SortedSet};
use crate::resp::RespReply;
use std::ops::Bound;

pub(super) fn georadius(call: &mut CommandCall<'_>) -> Answer {
    search(call, 1, GeoSearchKind::Radius { may_store: true })
}

pub(super) fn georadius_ro(call: &mut CommandCall<'_>) -> Answer {
    search(call, 1, GeoSearchKind::Radius { may_store: false })
}

pub(super) fn georadiusbymember(call: &mut CommandCall<'_>) -> Answer {
    search(call, 1, GeoSearchKind::RadiusByMember { may_store: true })
}

pub(super) fn georadiusbymember_ro(call: &mut CommandCall<'_>) -> Answer {
    search(call, 1, GeoSearchKind::RadiusByMember { may_store: false })
}

pub(super) fn geosearch(call: &mut CommandCall<'_>) -> Answer {
    search(call, 1, GeoSearchKind::Search { stores: false })
}

pub(super) fn geosearchstore(call: &mut CommandCall<'_>) -> Answer {
    search(call, 2, GeoSearchKind::Search { stores: true })
}

/// A member within the area.
#[derive(Debug)]
struct Hit {
    member: Vec<u8>,
    score: f64,
    place: GeoPoint,
    /// The distance from the middle, in the unit of the area.
    distance: f64,
}

/// Searches the key that is argument `source`.
fn search(call: &mut CommandCall<'_>, source: usize, kind: GeoSearchKind) -> Answer {
    let args = call.args;
    let (query, hits) = call.keys.read::<SortedSet, _>(call.arg(source)?, |set| {
        // The middle may be a member, so the arguments are parsed while the set is read.
        let query = GeoSearchQuery::parse(kind, args, set)?;
        let hits = set.map_or_else(Vec::new, |set| find(&query, set));
        Ok::<_, CommandError>((query, hits))
    })??;
    let Some(target) = query.target else {
        answer(call.reply, &query, &hits);
        return Ok(());
    };
    call.check_room_of(hits.iter().map(|hit| &hit.member[..]))?;
    let limits = call.keys.limits();
    let mut result = SortedSet::create(&call.keys.keyspace().heap.clone());
    for hit in &hits {
        let score = match query.stores_distances {
            true => hit.distance,
            false => hit.score,
        };
        result.insert(&limits, &hit.member, score);
    }
    let event = match kind {
        GeoSearchKind::Search { .. } => "geosearchstore",
        GeoSearchKind::Radius { .. } | GeoSearchKind::RadiusByMember { .. } => "georadiusstore",
    };
    store(call, target, result, event)?;
    call.reply.count(hits.len());
    Ok(())
}

/// Returns the requested members in the requested order.
fn find(query: &GeoSearchQuery<'_>, set: &SortedSet) -> Vec<Hit> {
    let Some(area) = &query.area else {
        return Vec::new();
    };
    let most = query.count.unwrap_or(usize::MAX);
    let enough = if query.any { most } else { usize::MAX };
    let cells = area.cells().into_iter();
    let members = cells.flat_map(|cell| {
        // The cells differ, so no member is found twice.
        let (first, end) = cell.scores();
        let ranks = set.score_ranks(Bound::Included(first), Bound::Excluded(end));
        set.range(ranks, false)
    });
    let hits = members.filter_map(|(member, score)| {
        let place = GeoPoint::of_score(score);
        let distance = area.distance_within(place)? / area.unit_m;
        Some((member, score, place, distance))
    });
    let mut hits: Vec<Hit> = hits
        .take(enough)
        .map(|(member, score, place, distance)| Hit {
            member: member.to_vec(),
            score,
            place,
            distance,
        })
        .collect();
    // The nearest members are kept, unless any will do.
    let is_cut = query.count.is_some() && !query.any;
    match query.order.or(is_cut.then_some(GeoSearchOrder::Nearest)) {
        Some(GeoSearchOrder::Nearest) => {
            hits.sort_by(|one, other| one.distance.total_cmp(&other.distance))
        }
        Some(GeoSearchOrder::Farthest) => {
            hits.sort_by(|one, other| other.distance.total_cmp(&one.distance))
        }
        None => {}
    }
    hits.truncate(most);
    hits
}

fn answer(reply: &mut RespReply, query: &GeoSearchQuery<'_>, hits: &[Hit]) {
    reply.array(hits.len());
    let parts = [query.distances, query.scores, query.places];
    let parts = parts.iter().filter(|is_wanted| **is_wanted).count();
    for hit in hits {
        if parts > 0 {
            reply.array(1 + parts);
        }
        reply.bulk(&hit.member);
        if query.distances {
            distance(reply, hit.distance);
        }
        if query.scores {
            // The scores of cells are below 2^53, up to which each integer is exact.
            reply.integer(hit.score as i64);
        }
        if query.places {
            longitude_and_latitude(reply, hit.place);
        }
    }
}
