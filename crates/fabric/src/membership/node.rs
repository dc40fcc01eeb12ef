//! The description of a memory node, and its record in etcd.

use super::address::{NodeAddress, is_name};
use super::error::MembershipError;
use crate::address::NodeId;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The range of leases of a node, in seconds.
pub(super) const LEASE_SECONDS: RangeInclusive<u64> = 2..=3600;

/// The version of registrations, and of the protocol between clients and nodes. It changes when
/// either does.
pub const VERSION: u64 = 1;

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberNode {
    /// Its number in addresses.
    pub number: NodeId,
    /// Its name. A node that comes back with the same name has the same number.
    pub name: String,
    /// The address at which it is reached.
    pub address: NodeAddress,
    /// The size of its memory in bytes; `None` if only the node itself knows it.
    pub bytes: Option<u64>,
    /// Number of its process among all that have served the node. Memory does not outlive its
    /// process, so addresses of another incarnation are invalid. 0 for nodes in a list.
    pub incarnation: u64,
}

/// A [`MemberNode`] in etcd: JSON, so that an operator can read it with etcdctl.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MemberNodeRecord {
    version: u64,
    number: u16,
    address: String,
    bytes: u64,
    /// The incarnation in hexadecimal, because many readers of JSON lose the precision of such
    /// numbers.
    incarnation: String,
    lease_seconds: u64,
}

/// The version alone, which decides if the rest can be read.
#[derive(Deserialize)]
struct MemberRecordVersion {
    version: u64,
}

/// A node, and the lease with which it is registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeasedMember {
    pub node: MemberNode,
    pub lease: Duration,
}

impl LeasedMember {
    pub fn to_json(&self) -> String {
        let record = MemberNodeRecord {
            version: VERSION,
            number: self.node.number.0,
            address: self.node.address.to_string(),
            bytes: self.node.bytes.unwrap_or_default(),
            incarnation: format!("{:016x}", self.node.incarnation),
            lease_seconds: self.lease.as_secs(),
        };
        serde_json::to_string(&record).unwrap_or_default()
    }

    /// Parses the value at `key` for the node `name`.
    pub fn from_json(key: &str, name: &str, json: &[u8]) -> Result<LeasedMember, MembershipError> {
        let foreign = |problem: String| MembershipError::Foreign {
            key: MembershipError::shortened(key),
            problem,
        };
        if !is_name(name) {
            return Err(foreign(
                "the key does not end in a name of a node".to_owned(),
            ));
        }
        let versioned: MemberRecordVersion =
            serde_json::from_slice(json).map_err(|error| foreign(error.to_string()))?;
        if versioned.version != VERSION {
            return Err(MembershipError::Version {
                name: name.to_owned(),
                found: versioned.version,
                known: VERSION,
            });
        }
        let record: MemberNodeRecord =
            serde_json::from_slice(json).map_err(|error| foreign(error.to_string()))?;
        let address: NodeAddress = record
            .address
            .parse()
            .map_err(|error: MembershipError| foreign(error.to_string()))?;
        if !LEASE_SECONDS.contains(&record.lease_seconds) {
            let seconds = record.lease_seconds;
            return Err(foreign(format!("a lease of {seconds} s is invalid")));
        }
        let incarnation = u64::from_str_radix(&record.incarnation, 16)
            .map_err(|error| foreign(format!("incarnation: {error}")))?;
        Ok(LeasedMember {
            node: MemberNode {
                number: NodeId(record.number),
                name: name.to_owned(),
                address,
                bytes: Some(record.bytes),
                incarnation,
            },
            lease: Duration::from_secs(record.lease_seconds),
        })
    }
}

/// Parses a list of nodes: `[NUMBER=]ADDRESS`, separated by commas. A node without a number has its
/// position in the list, from 0.
///
/// # Errors
/// `Entry`, `Address`; `NumberTaken`, `NameTaken` if two entries have the same number or
/// address.
pub fn parse_list(text: &str) -> Result<Vec<MemberNode>, MembershipError> {
    let mut nodes: Vec<MemberNode> = Vec::new();
    for (place, entry) in text.split(',').map(str::trim).enumerate() {
        let wrong = |problem| MembershipError::Entry {
            text: MembershipError::shortened(entry),
            problem,
        };
        let number = |text: &str| text.parse::<u16>().ok();
        let (number, address) = match entry.split_once('=') {
            Some((text, address)) => (number(text), address),
            None => (u16::try_from(place).ok(), entry),
        };
        let number = NodeId(number.ok_or_else(|| wrong("a number is from 0 to 65535"))?);
        if address.is_empty() {
            return Err(wrong("an address is missing"));
        }
        let address: NodeAddress = address.parse()?;
        let name = address.default_name();
        for other in &nodes {
            if other.number == number {
                return Err(MembershipError::NumberTaken {
                    node: number,
                    name: other.name.clone(),
                    other: name,
                });
            }
            if other.address == address {
                let address = address.to_string();
                return Err(MembershipError::NameTaken { name, address });
            }
        }
        nodes.push(MemberNode {
            number,
            name,
            address,
            bytes: None,
            incarnation: 0,
        });
    }
    nodes.sort_by_key(|node| node.number);
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_have_numbers_by_place_or_as_they_say() {
        let nodes = parse_list("shm:left, 7=ucx:a.example:7000,shm:right").unwrap();
        let seen: Vec<_> = nodes
            .iter()
            .map(|node| (node.number.0, node.address.to_string()))
            .collect();
        let expected = [
            (0, "shm:left".to_owned()),
            (2, "shm:right".to_owned()),
            (7, "ucx:a.example:7000".to_owned()),
        ];
        assert_eq!(seen, expected);
        let refused = |text: &str| parse_list(text).unwrap_err().to_string();
        assert_eq!(
            refused("shm:a,0=shm:b"),
            "node 0 is \"a\" and cannot be \"b\" too"
        );
        assert_eq!(
            refused("shm:a,shm:a"),
            "the name \"a\" is in use by the memory node at shm:a"
        );
        assert_eq!(
            refused("70000=shm:a"),
            "\"70000=shm:a\" is not an entry of a list of nodes: a number is from 0 to 65535"
        );
        assert_eq!(
            refused("shm:a,"),
            "\"\" is not an entry of a list of nodes: an address is missing"
        );
    }

    #[test]
    fn registrations_are_read_as_they_were_written_or_refused() {
        let registered = LeasedMember {
            node: MemberNode {
                number: NodeId(9),
                name: "left".to_owned(),
                address: "ucx:[::1]:7000".parse().unwrap(),
                bytes: Some(1 << 40),
                incarnation: u64::MAX - 1,
            },
            lease: Duration::from_secs(10),
        };
        let json = registered.to_json();
        let read = |json: &str| LeasedMember::from_json("k", "left", json.as_bytes());
        assert_eq!(read(&json), Ok(registered));
        let other = json.replace("\"version\":1", "\"version\":2,\"more\":[]");
        assert_eq!(
            read(&other).unwrap_err().to_string(),
            "memory node \"left\" is registered in version 2, and this program uses version 1"
        );
        for wrong in [
            "",
            "[]",
            "{\"version\":1}",
            &json.replace("ucx:", "tcp:"),
            &json.replace("\"incarnation\":\"f", "\"incarnation\":\"g"),
            &json.replace("\"number\":9", "\"number\":70000"),
            &json.replace("\"lease_seconds\":10", "\"lease_seconds\":0"),
            &json.replace(
                "\"lease_seconds\":10",
                "\"lease_seconds\":18446744073709551615",
            ),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(matches!(error, MembershipError::Foreign { .. }), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_list_brings_it_down(
            text in "([0-9]{0,6}=?(shm|ucx)?:?[a-z0-9:=\\[\\]]{0,12},?){0,5}"
        ) {
            if let Ok(nodes) = parse_list(&text) {
                let mut numbers: Vec<_> = nodes.iter().map(|node| node.number).collect();
                numbers.dedup();
                prop_assert_eq!(numbers.len(), nodes.len());
                prop_assert_eq!(text.split(',').count(), nodes.len());
            }
        }
    }
}
