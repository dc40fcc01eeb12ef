//! The tenants of a memory node: their keys, and their parts of its memory.

use crate::node::{NodeRange, Tenant, TenantPermission};
use crate::wire::AuthenticationKey;
use std::collections::HashMap;

/// The part of a line that grants all memory which no other part has.
const REST: &str = "rest";

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

    /// Returns the tenants that have no range, in ascending order: their programs reach no memory.
    pub fn without_ranges(&self, ranges: &[NodeRange]) -> Vec<Tenant> {
        let has_range = |tenant: &Tenant| ranges.iter().any(|range| range.tenant == *tenant);
        let mut tenants: Vec<Tenant> = self.keys.keys().copied().collect();
        tenants.retain(|tenant| !has_range(tenant));
        tenants.sort_unstable();
        tenants
    }

    /// Reads lines of a tenant's number and key, followed by the parts of the node's memory that
    /// the line grants: `START-END`, which are offsets in bytes, or `rest` for all memory that no
    /// other part has, and `:read` behind either if the tenant's programs may not store there. A
    /// line without parts grants nothing. Lines that begin with `#` are ignored.
    ///
    /// `base` is the address of offset 0. Memory extends from the offset `start` to the offset
    /// `end`.
    ///
    /// ```
    /// use nearfield_offload::net::TenantKeys;
    /// use nearfield_offload::node::Tenant;
    ///
    /// let key = "0a".repeat(32);
    /// let text = format!("1 {key} rest\n2 {key} 4096-8192:read\n3 {key}");
    /// let (keys, ranges) = TenantKeys::read(&text, 1 << 48, 4096, 1 << 20)?;
    /// assert!(keys.get(Tenant(3)).is_some() && keys.get(Tenant(4)).is_none());
    /// assert_eq!((ranges[0].tenant, ranges[0].start), (Tenant(2), (1 << 48) + 4096));
    /// assert_eq!((ranges[1].tenant, ranges[1].offset), (Tenant(1), 8192));
    /// assert_eq!(keys.without_ranges(&ranges), [Tenant(3)]);
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
        // Each range has its line, which an error names.
        let mut granted: Vec<(usize, NodeRange)> = Vec::new();
        let mut rest: Option<(usize, Tenant, TenantPermission)> = None;
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let wrong = |reason: String| KeysError { line, reason };
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
            for word in words {
                let (extent, permission) = match word.strip_suffix(":read") {
                    Some(extent) => (extent, TenantPermission::Read),
                    None => (word, TenantPermission::Write),
                };
                if extent == REST {
                    if let Some((other, ..)) = rest.replace((line, tenant, permission)) {
                        return Err(wrong(format!("line {other} grants the {REST} already")));
                    }
                    continue;
                }
                let (from, to) = bounds(word, extent, start, end).map_err(wrong)?;
                let overlaps =
                    |range: &NodeRange| range.offset < to && from < range.offset + range.bytes;
                if let Some((other, _)) = granted.iter().find(|(_, range)| overlaps(range)) {
                    return Err(wrong(format!("{word} overlaps a part of line {other}")));
                }
                let range = NodeRange {
                    start: base + from,
                    bytes: to - from,
                    offset: from,
                    tenant,
                    permission,
                };
                granted.push((line, range));
            }
        }
        let mut ranges: Vec<NodeRange> = granted.into_iter().map(|(_, range)| range).collect();
        if let Some((_, tenant, permission)) = rest {
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
                        permission,
                    });
                }
                at = at.max(to);
            }
        }
        Ok((keys, ranges))
    }
}

/// Returns the offsets of a part's first byte and of its end. `word` is the part as it is written,
/// with its permission, and `extent` is the part without that.
fn bounds(word: &str, extent: &str, start: u64, end: u64) -> Result<(u64, u64), String> {
    let bounds = extent
        .split_once('-')
        .and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    let Some((from, to)) = bounds else {
        return Err(format!(
            "{word} is not a part such as 4096-8192, 4096-8192:read or {REST}"
        ));
    };
    if from < start || to > end || from >= to {
        return Err(format!("{word} is not between {start} and {end}"));
    }
    Ok((from, to))
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
        for part in ["5", "all", "rest:write", "4096-8192:write"] {
            let (_, why) = reason(&format!("1 {key} {part}"));
            assert!(why.contains("not a part such as"), "{why}");
        }
        let twice = (2, "line 1 grants the rest already".to_owned());
        assert_eq!(reason(&format!("1 {key} rest\n2 {key} rest:read")), twice);
        for part in ["8191-8200", "5000-6000", "4096-16384"] {
            let text = format!("1 {key} 4096-8192\n# comment\n2 {key} 16384-20480 {part}:read");
            let why = format!("{part}:read overlaps a part of line 1");
            assert_eq!(reason(&text), (3, why));
        }
        let (line, why) = reason(&format!("1 {key} 4096-8192 8000-9000"));
        assert_eq!(
            (line, why.as_str()),
            (1, "8000-9000 overlaps a part of line 1")
        );
        for part in ["0-4097", "4096-2000000", "5000-5000", "6000-5000"] {
            let (_, why) = reason(&format!("1 {key} {part}"));
            assert!(why.contains("is not between"), "{why}");
        }
    }

    #[test]
    fn a_line_without_parts_grants_nothing() {
        let key = "00".repeat(32);
        let text = format!("3 {key}\n1 {key}\n2 {key} 4096-8192");
        let (keys, ranges) = TenantKeys::read(&text, 0, 4096, 1 << 20).expect("tenants");
        let granted: Vec<(u16, u64)> = ranges
            .iter()
            .map(|range| (range.tenant.0, range.bytes))
            .collect();
        assert_eq!(granted, [(2, 4096)]);
        assert!(keys.get(Tenant(1)).is_some());
        assert_eq!(keys.without_ranges(&ranges), [Tenant(1), Tenant(3)]);
    }

    #[test]
    fn the_rest_may_be_granted_for_reads_only() {
        let text = format!("1 {} rest:read", "00".repeat(32));
        let (_, ranges) = TenantKeys::read(&text, 0, 4096, 1 << 20).expect("tenants");
        let [range] = ranges[..] else {
            panic!("{ranges:?}");
        };
        assert_eq!(range.permission, TenantPermission::Read);
        assert_eq!((range.offset, range.bytes), (4096, (1 << 20) - 4096));
    }

    #[test]
    fn the_rest_goes_to_the_tenant_whose_line_has_it() {
        let key = "00".repeat(32);
        let text = format!("7 {key} rest\n1 {key} 8192-12288 20480-24576:read");
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
