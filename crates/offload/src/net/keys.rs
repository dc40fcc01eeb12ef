//! The tenants of a memory node: their keys, and their parts of its memory.

use crate::node::{NodeRange, Tenant, TenantPermission};
use crate::wire::AuthenticationKey;
use std::collections::HashMap;

/// The key of each tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantKeys {
    keys: HashMap<Tenant, AuthenticationKey>,
}

/// The reason why a text is not a list of tenants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct KeysError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The fault in it.
    pub reason: String,
}

impl TenantKeys {
    /// Creates a list without tenants.
    pub fn new() -> TenantKeys {
        TenantKeys::default()
    }

    /// Adds a tenant, or changes its key.
    pub fn insert(&mut self, tenant: Tenant, key: AuthenticationKey) {
        self.keys.insert(tenant, key);
    }

    /// Returns a tenant's key.
    pub fn get(&self, tenant: Tenant) -> Option<AuthenticationKey> {
        self.keys.get(&tenant).copied()
    }

    /// Reads lines of a tenant's number and key, followed by any number of its parts of the node's
    /// memory: `START-END`, which are offsets in bytes, and `:read` if its programs may not store
    /// there. A tenant without parts has all memory that no other tenant has, if it is the only
    /// such tenant. Lines that begin with `#` are ignored.
    ///
    /// `base` is the address of offset 0. Memory extends from the offset `start` to the offset
    /// `end`.
    ///
    /// ```
    /// use nearfield_offload::net::TenantKeys;
    /// use nearfield_offload::node::Tenant;
    ///
    /// let text = format!("1 {}\n2 {} 4096-8192:read", "0a".repeat(32), "0b".repeat(32));
    /// let (keys, ranges) = TenantKeys::read(&text, 1 << 48, 4096, 1 << 20)?;
    /// assert!(keys.get(Tenant(2)).is_some() && keys.get(Tenant(3)).is_none());
    /// assert_eq!((ranges[0].tenant, ranges[0].start), (Tenant(2), (1 << 48) + 4096));
    /// assert_eq!((ranges[1].tenant, ranges[1].offset), (Tenant(1), 8192));
    /// # Ok::<(), nearfield_offload::net::KeysError>(())
    /// ```
    ///
    /// # Errors
    /// The line that is wrong, and the reason.
    pub fn read(
        text: &str,
        base: u64,
        start: u64,
        end: u64,
    ) -> Result<(TenantKeys, Vec<NodeRange>), KeysError> {
        let mut keys = TenantKeys::new();
        let mut ranges = Vec::new();
        let mut heir: Option<Tenant> = None;
        for (index, text) in text.lines().enumerate() {
            let wrong = |reason: String| KeysError {
                line: index + 1,
                reason,
            };
            let mut words = text.split_whitespace();
            let Some(number) = words.next().filter(|word| !word.starts_with('#')) else {
                continue;
            };
            let number: u16 = number
                .parse()
                .map_err(|_| wrong(format!("{number} is not a tenant number below 65536")))?;
            let tenant = Tenant(number);
            let key = words.next().unwrap_or_default().parse();
            let key = key.map_err(|error: crate::wire::KeyError| wrong(error.to_string()))?;
            if keys.get(tenant).is_some() {
                return Err(wrong(format!("tenant {number} is listed twice")));
            }
            keys.insert(tenant, key);
            let mut has_part = false;
            for word in words {
                let range = part(word, tenant, base, start, end).map_err(wrong)?;
                // Parts of two tenants may overlap here. `NodeRanges::new` refuses such ranges.
                ranges.push(range);
                has_part = true;
            }
            if !has_part && let Some(other) = heir.replace(tenant) {
                let other = other.0;
                return Err(wrong(format!(
                    "tenants {other} and {number} both have no part of the memory"
                )));
            }
        }
        if let Some(tenant) = heir {
            ranges.sort_by_key(|range: &NodeRange| range.offset);
            let mut at = start;
            let given = ranges.clone();
            let ends = given
                .iter()
                .map(|range| (range.offset, range.offset + range.bytes));
            // The end of the memory closes the last gap.
            for (from, to) in ends.chain([(end, end)]) {
                if from > at {
                    ranges.push(NodeRange {
                        start: base + at,
                        bytes: from - at,
                        offset: at,
                        tenant,
                        permission: TenantPermission::Write,
                    });
                }
                at = at.max(to);
            }
        }
        Ok((keys, ranges))
    }
}

fn part(word: &str, tenant: Tenant, base: u64, start: u64, end: u64) -> Result<NodeRange, String> {
    let (extent, permission) = match word.strip_suffix(":read") {
        Some(extent) => (extent, TenantPermission::Read),
        None => (word, TenantPermission::Write),
    };
    let bounds = extent
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let Some((from, to)) = bounds else {
        return Err(format!(
            "{word} is not a part such as 4096-8192 or 4096-8192:read"
        ));
    };
    if from < start || to > end || from >= to {
        return Err(format!("{word} is not between {start} and {end}"));
    }
    Ok(NodeRange {
        start: base + from,
        bytes: to - from,
        offset: from,
        tenant,
        permission,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_lines_are_named() {
        let key = "00".repeat(32);
        let reason = |text: &str| {
            let error = TenantKeys::read(text, 0, 4096, 1 << 20).expect_err("it is wrong");
            (error.line, error.reason)
        };
        let (line, why) = reason("# comment\n\n1 00");
        assert!(line == 3 && why.contains("64 hexadecimal"), "{why}");
        assert!(reason("x").1.contains("not a tenant number"));
        assert!(reason(&format!("1 {key}\n1 {key}")).1.contains("twice"));
        assert!(
            reason(&format!("1 {key}\n2 {key}"))
                .1
                .contains("both have no part")
        );
        assert!(
            reason(&format!("1 {key} 5"))
                .1
                .contains("not a part such as")
        );
        for part in ["0-4097", "4096-2000000", "5000-5000", "6000-5000"] {
            let (_, why) = reason(&format!("1 {key} {part}"));
            assert!(why.contains("is not between"), "{why}");
        }
    }

    #[test]
    fn the_rest_goes_to_the_tenant_without_parts() {
        let key = "00".repeat(32);
        let text = format!("7 {key}\n1 {key} 8192-12288 20480-24576:read");
        let (_, mut ranges) = TenantKeys::read(&text, 0, 4096, 1 << 20).expect("tenants");
        ranges.sort_by_key(|range| range.offset);
        let all: Vec<(u64, u64, u16)> = ranges
            .iter()
            .map(|range| (range.offset, range.offset + range.bytes, range.tenant.0))
            .collect();
        let expected = [
            (4096, 8192, 7),
            (8192, 12288, 1),
            (12288, 20480, 7),
            (20480, 24576, 1),
            (24576, 1 << 20, 7),
        ];
        assert_eq!(all, expected);
    }
}
