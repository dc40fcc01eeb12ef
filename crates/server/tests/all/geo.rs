//! Searches around random places find the same as Debian's redis-server, in the same order.
//!
//! No two places have the same distance from a third one, because the order of such places is not
//! specified. `NEARFIELD_SEED` sets the seed, and `NEARFIELD_SEARCHES` the number of searches.
//! Without redis-server the test reports that and checks nothing.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::saving::saving_into;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const PLACES: usize = 1500;
const SEARCHES: usize = 900;

/// Returns a place: most are near each other, and some at the ends of the grid.
fn place(random: &mut SmallRng) -> [String; 2] {
    let (longitude, latitude) = match random.random_range(0..10) {
        0 => (
            random.random_range(179.0..180.0),
            random.random_range(-85.0..85.0),
        ),
        1 => (
            random.random_range(-180.0..-179.0),
            random.random_range(-85.0..85.0),
        ),
        2 => (
            random.random_range(-180.0..180.0),
            random.random_range(84.0..85.0),
        ),
        3 => (
            random.random_range(-180.0..180.0),
            random.random_range(-85.0..-84.0),
        ),
        4 | 5 => (
            random.random_range(-180.0..180.0),
            random.random_range(-85.0..85.0),
        ),
        _ => (
            random.random_range(10.0..11.0),
            random.random_range(50.0..51.0),
        ),
    };
    [f64::to_string(&longitude), f64::to_string(&latitude)]
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Returns a search, with options of any of the commands.
fn search(random: &mut SmallRng) -> Vec<String> {
    let unit = ["m", "km", "ft", "mi"].choose(random).unwrap();
    let member = random.random_range(0..PLACES);
    let [longitude, latitude] = place(random);
    // From a metre to more than the size of the earth.
    let mut length =
        || 10_f64.powf(random.random_range(0.0..5.0)) * if *unit == "m" { 100.0 } else { 1.0 };
    let (radius, width, height) = (length(), length(), length());
    let middle = match random.random_bool(0.5) {
        true => format!("FROMMEMBER {member}"),
        false => format!("FROMLONLAT {longitude} {latitude}"),
    };
    let mut command = words(&match random.random_range(0..6) {
        0 => format!("GEORADIUS k {longitude} {latitude} {radius} {unit}"),
        1 => format!("GEORADIUSBYMEMBER k {member} {radius} {unit}"),
        2 | 3 => format!("GEOSEARCH k {middle} BYRADIUS {radius} {unit}"),
        _ => format!("GEOSEARCH k {middle} BYBOX {width} {height} {unit}"),
    });
    for option in ["WITHDIST", "WITHHASH", "WITHCOORD", "ASC", "DESC"] {
        if random.random_bool(0.3) {
            command.push(option.to_owned());
        }
    }
    if random.random_bool(0.5) {
        command.extend(words(&format!("COUNT {}", random.random_range(1..50))));
        if random.random_bool(0.5) {
            command.push("ANY".to_owned());
        }
    }
    command
}

fn ask(connection: &mut TestkitConnection, words: &[String]) -> String {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    connection.command(&words).unwrap().to_string()
}

#[test]
fn searches_find_what_redis_finds() {
    let Some(redis) = RedisPeerProcess::start(&[]) else {
        return;
    };
    let seed = std::env::var("NEARFIELD_SEED").map_or(1, |text| text.parse().unwrap());
    let searches = std::env::var("NEARFIELD_SEARCHES");
    let searches = searches.map_or(SEARCHES, |text| text.parse().unwrap());
    let mut random = SmallRng::seed_from_u64(seed);
    let folder = TestkitFolder::new();
    let ours = Nearfield::start(saving_into(&folder, 1));
    let mut both = [
        ours.connect(),
        TestkitConnection::open(redis.address).unwrap(),
    ];
    let mut found = 0;
    let mut same = |command: &[String]| {
        let [ours, redis] = both.each_mut().map(|connection| ask(connection, command));
        assert!(
            ours == redis,
            "seed {seed}: {}\nours:\n{ours}\nredis:\n{redis}",
            command.join(" ")
        );
        found += usize::from(ours.contains('\n'));
    };
    for member in 0..PLACES {
        let [longitude, latitude] = place(&mut random);
        same(&words(&format!("GEOADD k {longitude} {latitude} {member}")));
    }
    for _ in 0..searches {
        same(&search(&mut random));
        let members = [0; 2].map(|_| random.random_range(0..PLACES));
        let [one, other] = members;
        for command in ["GEODIST", "GEOHASH", "GEOPOS"] {
            same(&words(&format!("{command} k {one} {other}")));
        }
    }
    // Most searches find several places.
    assert!(found > searches, "{found}");
}
