//! Geospatial commands: places on the earth as members of sorted sets (see `cell.rs`).

mod area;
mod cell;
mod query;
mod search;

use super::sorted_set::{self, Options};
use super::{Answer, Call, Command, Group, Planned, Touch, is};
use crate::error::CommandError;
use crate::number::parse_double;
use crate::object::SortedSet;
use crate::resp::Reply;
use cell::Place;
use nearfield_tiers::Heap;

const GROUP: Group = Group::Geo;
const EACH: &str = "O(1) for each member";
const SEARCH: &str = "O(N + log M) for N members in the cells around the area, of M";

/// The family's rows of the command table.
pub const COMMANDS: &[Command] = &[
    Command::planned("geoadd", -5, Touch::Change, geoadd)
        .grows()
        .key(1)
        .about(GROUP, "3.2.0", "O(log N) for each member")
        .summary("Adds members that are places, or moves them."),
    Command::new("geohash", -2, geohash)
        .reads()
        .key(1)
        .about(GROUP, "3.2.0", EACH)
        .summary("Returns places as geohashes."),
    Command::new("geopos", -2, geopos)
        .reads()
        .key(1)
        .about(GROUP, "3.2.0", EACH)
        .summary("Returns the longitudes and latitudes of places."),
    Command::new("geodist", -4, geodist)
        .reads()
        .key(1)
        .about(GROUP, "3.2.0", "O(1)")
        .summary("Returns the distance between two places."),
    Command::new("geosearch", -7, search::geosearch)
        .reads()
        .key(1)
        .about(GROUP, "6.2.0", SEARCH)
        .summary("Returns the places within a circle or a box."),
    Command::new("geosearchstore", -8, search::geosearchstore)
        .grows()
        .keys_at(1, 2, 1)
        .about(GROUP, "6.2.0", SEARCH)
        .summary("Stores the places within a circle or a box."),
    Command::new("georadius", -6, search::georadius)
        .grows()
        .keys_found(query::keys)
        .about(GROUP, "3.2.0", SEARCH)
        .summary("Returns or stores the places within a circle around a place."),
    Command::new("georadiusbymember", -5, search::georadiusbymember)
        .grows()
        .keys_found(query::keys)
        .about(GROUP, "3.2.0", SEARCH)
        .summary("Returns or stores the places within a circle around a member."),
    Command::new("georadius_ro", -6, search::georadius_ro)
        .reads()
        .key(1)
        .about(GROUP, "3.2.10", SEARCH)
        .summary("Returns the places within a circle around a place."),
    Command::new("georadiusbymember_ro", -5, search::georadiusbymember_ro)
        .reads()
        .key(1)
        .about(GROUP, "3.2.10", SEARCH)
        .summary("Returns the places within a circle around a member."),
];

/// Parses a longitude and a latitude.
fn place([longitude, latitude]: [&[u8]; 2]) -> Result<Place, CommandError> {
    let degrees = |text| parse_double(text).ok_or(CommandError::NotFloat);
    let place = Place {
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
    let units = [("m", 1.0), ("km", 1000.0), ("ft", 0.3048), ("mi", 1609.34)];
    let unit = units.iter().find(|(unit, _)| is(name, unit));
    unit.map(|(_, metres)| *metres).ok_or(CommandError::text(
        "ERR unsupported unit provided. please use M, KM, FT, MI",
    ))
}

/// Writes a distance in the form of Redis.
fn distance(reply: &mut Reply, units: f64) {
    reply.bulk(format!("{units:.4}").as_bytes());
}

fn longitude_and_latitude(reply: &mut Reply, place: Place) {
    reply.array(2);
    reply.plain_double(place.longitude);
    reply.plain_double(place.latitude);
}

fn geoadd(planned: &mut Planned<'_>) -> Answer {
    let (mut options, mut arguments) = (Options::default(), planned.rest(2));
    while let [option, rest @ ..] = arguments {
        let option = match option {
            _ if is(option, "nx") => &mut options.absent,
            _ if is(option, "xx") => &mut options.present,
            _ if is(option, "ch") => &mut options.changed,
            _ => break,
        };
        *option = true;
        arguments = rest;
    }
    let (triples, rest) = arguments.as_chunks::<3>();
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
fn each(call: &mut Call<'_>, write: fn(&mut Reply, Place), absent: fn(&mut Reply)) -> Answer {
    let members = call.rest(2);
    let reply = &mut *call.reply;
    call.keys.read::<SortedSet<Heap>, _>(call.args[1], |set| {
        reply.array(members.len());
        for member in members {
            match set.and_then(|set| set.score(member)) {
                Some(score) => write(reply, Place::of_score(score)),
                None => absent(reply),
            }
        }
    })
}

fn geohash(call: &mut Call<'_>) -> Answer {
    let write = |reply: &mut Reply, place: Place| reply.bulk(&place.geohash());
    each(call, write, Reply::null)
}

fn geopos(call: &mut Call<'_>) -> Answer {
    each(call, longitude_and_latitude, Reply::null_array)
}

fn geodist(call: &mut Call<'_>) -> Answer {
    let unit_m = match *call.rest(4) {
        [] => 1.0,
        [unit] => unit_m(unit)?,
        _ => return Err(CommandError::Syntax),
    };
    let (one, other) = (call.args[2], call.args[3]);
    let metres = call.keys.read::<SortedSet<Heap>, _>(call.args[1], |set| {
        let place = |member| Some(Place::of_score(set?.score(member)?));
        Some(place(one)?.distance(place(other)?))
    })?;
    match metres {
        Some(metres) => distance(call.reply, metres / unit_m),
        None => call.reply.null(),
    }
    Ok(())
}
