//! Geospatial commands: places on the earth as members of sorted sets (see `cell.rs`).

mod area;
mod cell;
mod query;
mod search;

use crate::command::{
    Answer, CommandCall, CommandDefinition, CommandGroup, PlannedCommand, Touch, is,
};
use crate::commands::sorted_set::{self, ZaddOptions};
use crate::error::CommandError;
use crate::keyspace::KeyView;
use crate::number::parse_double;
use crate::object::SortedSet;
use crate::resp::RespReply;
use cell::GeoPoint;

const GROUP: CommandGroup = CommandGroup::Geo;
const EACH: &str = "O(1) for each member";
const SEARCH: &str = "O(N + log M) for N members in the cells around the area, of M";

/// The family's rows of the command table.
pub const COMMANDS: &[CommandDefinition] = &[
    CommandDefinition::planned("geoadd", -5, Touch::Change, geoadd)
        .grows()
        .key(1)
        .about(GROUP, "3.2.0", "O(log N) for each member")
        .summary("Adds members with a place, or changes their places."),
    CommandDefinition::new("geohash", -2, geohash)
        .reads()
        .key(1)
        .about(GROUP, "3.2.0", EACH)
        .summary("Returns places as geohashes."),
    CommandDefinition::new("geopos", -2, geopos)
        .reads()
        .key(1)
        .about(GROUP, "3.2.0", EACH)
        .summary("Returns the longitudes and latitudes of places."),
    CommandDefinition::new("geodist", -4, geodist)
        .reads()
        .key(1)
        .about(GROUP, "3.2.0", "O(1)")
        .summary("Returns the distance between two places."),
    CommandDefinition::new("geosearch", -7, search::geosearch)
        .reads()
        .key(1)
        .about(GROUP, "6.2.0", SEARCH)
        .summary("Returns the places within a circle or a box."),
    CommandDefinition::new("geosearchstore", -8, search::geosearchstore)
        .grows()
        .keys_at(1, 2, 1)
        .about(GROUP, "6.2.0", SEARCH)
        .summary("Stores the places within a circle or a box."),
    CommandDefinition::new("georadius", -6, search::georadius)
        .grows()
        .keys_found(query::keys)
        .about(GROUP, "3.2.0", SEARCH)
        .summary("Returns or stores the places within a circle around a place."),
    CommandDefinition::new("georadiusbymember", -5, search::georadiusbymember)
        .grows()
        .keys_found(query::keys)
        .about(GROUP, "3.2.0", SEARCH)
        .summary("Returns or stores the places within a circle around a member."),
    CommandDefinition::new("georadius_ro", -6, search::georadius_ro)
        .reads()
        .key(1)
        .about(GROUP, "3.2.10", SEARCH)
        .summary("Returns the places within a circle around a place."),
    CommandDefinition::new("georadiusbymember_ro", -5, search::georadiusbymember_ro)
        .reads()
        .key(1)
        .about(GROUP, "3.2.10", SEARCH)
        .summary("Returns the places within a circle around a member."),
];

/// Parses a longitude and a latitude.
fn place([longitude, latitude]: [&[u8]; 2]) -> Result<GeoPoint, CommandError> {
    let degrees = |text| parse_double(text).ok_or(CommandError::NotFloat);
    let place = GeoPoint {
        longitude: degrees(longitude)?,
        latitude: degrees(latitude)?,
    };
    if !place.is_on_grid() {
        return Err(CommandError::owned(format!(
            "ERR invalid longitude,latitude pair {:.6},{:.6}",
            place.longitude, place.latitude
        )));
    }
    Ok(place)
}

/// Returns the metres of a unit.
fn unit_m(name: &[u8]) -> Result<f64, CommandError> {
    // The mile is rounded as in Redis, because clients compare distances.
    let units = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let unit = units.iter().find(|(unit, _)| is(name, unit));
    unit.map(|(_, metres)| *metres).ok_or(CommandError::text(
        "ERR unsupported unit provided. please use M, KM, FT, MI",
    ))
}

/// Writes a distance in the form of Redis.
fn distance(reply: &mut RespReply, units: f64) {
    reply.bulk(format!("{units:.4}").as_bytes());
}

fn longitude_and_latitude(reply: &mut RespReply, place: GeoPoint) {
    reply.array(2);
    reply.plain_double(place.longitude);
    reply.plain_double(place.latitude);
}

fn geoadd(planned: &mut PlannedCommand<'_>) -> Answer {
    let (mut options, mut arguments) = (ZaddOptions::default(), planned.rest(2));
    while let [option, rest @ ..] = arguments {
        let option = match option {
            _ if is(option, "nx") => &mut options.absent,
            _ if is(option, "xx") => &mut options.present,
            _ if is(option, "ch") => &mut options.changed,
            // The first word that is no option is a longitude.
            _ => break,
        };
        *option = true;
        arguments = rest;
    }
    let (triples, rest) = arguments.as_chunks::<3>();
    // As in Redis, NX with XX is a syntax error here, but has a text of its own in ZADD.
    if !rest.is_empty() || options.absent && options.present || triples.is_empty() {
        return Err(CommandError::Syntax);
    }
    // All places are parsed before any is set.
    let scores = triples.iter().map(|&[longitude, latitude, member]| {
        let place = place([longitude, latitude])?;
        Ok((member, place.score()))
    });
    let scores: Vec<_> = scores.collect::<Result<_, CommandError>>()?;
    sorted_set::add(planned, options, scores.into_iter())
}

/// Replies with a value for each member's place. `absent` writes the value of a missing member.
fn each(
    call: &mut CommandCall<'_>,
    write: fn(&mut RespReply, GeoPoint),
    absent: fn(&mut RespReply),
) -> Answer {
    let members = call.rest(2);
    let reply = &mut *call.reply;
    call.keys.read::<SortedSet, _>(call.args[1], |set| {
        reply.array(members.len());
        for member in members {
            match set.and_then(|set| set.score(member)) {
                Some(score) => write(reply, GeoPoint::of_score(score)),
                None => absent(reply),
            }
        }
    })
}

fn geohash(call: &mut CommandCall<'_>) -> Answer {
    let write = |reply: &mut RespReply, place: GeoPoint| reply.bulk(&place.geohash());
    each(call, write, RespReply::null)
}

fn geopos(call: &mut CommandCall<'_>) -> Answer {
    // As in Redis, an absent member is a null array here and a null string in GEOHASH.
    each(call, longitude_and_latitude, RespReply::null_array)
}

fn geodist(call: &mut CommandCall<'_>) -> Answer {
    let unit_m = match *call.rest(4) {
        [] => 1.0,
        [unit] => unit_m(unit)?,
        _ => return Err(CommandError::Syntax),
    };
    let (one, other) = (call.args[2], call.args[3]);
    let metres = call.keys.read::<SortedSet, _>(call.args[1], |set| {
        let place = |member| Some(GeoPoint::of_score(set?.score(member)?));
        Some(place(one)?.distance(place(other)?))
    })?;
    match metres {
        Some(metres) => distance(call.reply, metres / unit_m),
        None => call.reply.null(),
    }
    Ok(())
}
