//! The accounts of the tiers, compared with a count of all values.

use nearfield_server::keyspace::{Databases, Keyspace};
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::steps::eventually;
use std::ops::Bound;
use std::time::Duration;

/// Returns the keys of all databases.
pub(super) fn keys_of(databases: &Databases) -> Vec<(usize, Vec<u8>, Vec<u8>)> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut keys = Vec::new();
    for (number, database) in databases.iter().enumerate() {
        let entries = database.entries().into_iter();
        for entry in entries.flat_map(|entries| entries.range(all)) {
            let (key, stored) = entry.unwrap();
            keys.push((number, key, stored));
        }
    }
    keys
}

/// Compares the accounts of the tiers with a count of all values.
pub(super) fn check(server: &Nearfield) -> Result<(), String> {
    const TRIES: usize = 50;
    let mut result = Ok(());
    // A thread of the server may be freeing memory that was given up; it does so after its phase.
    for _ in 0..TRIES {
        let still = server.server.tiering.pause();
        result = check_still(&server.server.keyspace);
        drop(still);
        if result.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    result
}

pub(super) fn check_still(keyspace: &Keyspace) -> Result<(), String> {
    let mut databases = keyspace.exclude();
    drop(keyspace.reclaim(&mut databases));
    let counted = keyspace.recount(&databases);
    let counted = counted.map_err(|error| error.to_string())?;
    let heap = keyspace.heap.used_bytes() as u64;
    if heap != counted.bytes[0] {
        return Err(format!(
            "the heap has {heap} bytes, and objects {}",
            counted.bytes[0]
        ));
    }
    let tiers = keyspace.cold.tiers().unwrap();
    for tier in 1..tiers.count() {
        let usage = tiers.usage(tier).unwrap();
        let accounted = (usage.values, usage.value_bytes);
        let found = (counted.values[tier], counted.bytes[tier]);
        if accounted != found || usage.used_bytes > usage.capacity_bytes {
            return Err(format!(
                "tier {tier} has {usage:?}, and there are {found:?}"
            ));
        }
        // A dictionary for the next values, or the segment to which the next are appended.
        let left = match tiers.folder(tier) {
            Some(_) => usage.capacity_bytes / 16,
            None => 2 << 20,
        };
        if found.0 == 0 && usage.used_bytes > left {
            return Err(format!("the empty tier {tier} has {usage:?}"));
        }
    }
    Ok(())
}

pub(super) fn check_settled(keyspace: &Keyspace) {
    let mut why = Ok(());
    eventually("all accounts are exact", || {
        why = check_still(keyspace);
        why.is_ok()
    });
}
