//! The records of memory nodes in etcd, and their changes.
//!
//! | key | value | lease |
//! |---|---|---|
//! | `nearfield/name/NAME` | the number of the node, in decimal | none |
//! | `nearfield/number/NNNNN` | the name of the node with this number | none |
//! | `nearfield/node/NAME` | a [`MemberNodeRecord`](super::node::MemberNodeRecord) | the node's |
//!
//! The first two are written together and stay, so that a name keeps its number while no process
//! serves the node. The third exists while a process serves it. All changes are transactions that
//! compare the revisions of the entries that they rely on. If several nodes want one name or
//! number, one of them gets it.

use super::error::MembershipError;
use super::gateway::{Gateway, decoded, encoded, end_of, is_not_found, unsigned};
use super::node::LeasedMember;
use crate::address::NodeId;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const NAMES: &str = "nearfield/name/";
const NUMBERS: &str = "nearfield/number/";
pub(super) const NODES: &str = "nearfield/node/";
/// Interval of checks if the former owner of the name has gone.
const LOOK: Duration = Duration::from_millis(200);
/// Time for which etcd may keep a record beyond its lease: etcd checks twice a second, and a new
/// leader grants each lease its whole time again.
const SLACK: Duration = Duration::from_secs(2);
/// Number of tries of a change before it may be given up because others were faster.
const TRIES_MIN: u32 = 3;
/// Multiple of the patience after which it is given up. Many nodes may start at once, and each
/// success of one is a failed try of all others.
const CONTENTION: u32 = 10;

/// The number of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseId(u64);

/// The registrations in etcd.
#[derive(Debug)]
pub(super) struct RegistryListing {
    /// The revision of etcd's state.
    pub revision: u64,
    pub nodes: Vec<LeasedMember>,
    /// The reasons why other registrations cannot be read.
    pub refused: Vec<MembershipError>,
}

/// A key, its value, and its revision.
struct EtcdEntry {
    key: String,
    value: Vec<u8>,
    mod_revision: u64,
    lease: LeaseId,
}

/// Reads and changes the records. Each request takes at most `patience` and 2 s for each member. A
/// change that etcd does not accept, because other clients are faster, is tried for ten times the
/// patience.
#[derive(Debug)]
pub(super) struct NodeRegistry<'g> {
    pub gateway: &'g Gateway,
    pub patience: Duration,
}

impl NodeRegistry<'_> {
    pub fn list(&self) -> Result<RegistryListing, MembershipError> {
        let (revision, entries) = self.range(NODES, Some(&end_of(NODES)))?;
        let mut listing = RegistryListing {
            revision,
            nodes: Vec::new(),
            refused: Vec::new(),
        };
        for entry in entries {
            let name = entry.key.strip_prefix(NODES).unwrap_or_default();
            match LeasedMember::from_json(&entry.key, name, &entry.value) {
                Ok(registered) => listing.nodes.push(registered),
                Err(error) => listing.refused.push(error),
            }
        }
        Ok(listing)
    }

    /// Reserves the number of the node `name`: the one that it has, or otherwise `wanted`, or the
    /// lowest free one.
    ///
    /// # Errors
    /// `OtherNumber`, `NumberTaken`, `NoNumberLeft`, `Contended`, and those of the gateway.
    pub fn reserve(&self, name: &str, wanted: Option<NodeId>) -> Result<NodeId, MembershipError> {
        let began = Instant::now();
        for tries in 1_u32.. {
            let name_key = format!("{NAMES}{name}");
            if let Some(entry) = self.get(&name_key)? {
                let recorded = number_of(&entry)?;
                return match wanted {
                    Some(wanted) if wanted != recorded => Err(MembershipError::OtherNumber {
                        name: name.to_owned(),
                        recorded,
                        wanted,
                    }),
                    _ => Ok(recorded),
                };
            }
            let (_, taken) = self.range(NUMBERS, Some(&end_of(NUMBERS)))?;
            let taken_key = |number: &NodeId| {
                let key = number_key(*number);
                taken.iter().find(|entry| entry.key == key)
            };
            let number = match wanted {
                Some(wanted) => match taken_key(&wanted) {
                    Some(entry) => {
                        return Err(MembershipError::NumberTaken {
                            node: wanted,
                            name: String::from_utf8_lossy(&entry.value).into_owned(),
                            other: name.to_owned(),
                        });
                    }
                    None => wanted,
                },
                None => lowest_free(&taken).ok_or_else(|| MembershipError::NoNumberLeft {
                    name: name.to_owned(),
                })?,
            };
            let key = number_key(number);
            let done = self.transaction(
                // Both must still be absent, so that a name has one number and a number one name.
                &[(&name_key, 0), (&key, 0)],
                json!([
                    put(&name_key, &number.0.to_string(), None),
                    put(&key, name, None)
                ]),
            )?;
            if done {
                return Ok(number);
            }
            // Another client was faster, or this request was executed twice: read again.
            if self.gives_up(tries, began) {
                break;
            }
        }
        Err(MembershipError::Contended {
            name: name.to_owned(),
        })
    }

    /// Returns true if a change that was tried in vain since `began` is not tried again. A server
    /// that refuses each change would be asked without end.
    fn gives_up(&self, tries: u32, began: Instant) -> bool {
        tries >= TRIES_MIN && began.elapsed() >= self.patience.saturating_mul(CONTENTION)
    }

    /// Waits until no process except that of `incarnation` is registered as `name`, which may take
    /// until the lease of a dead one expires.
    ///
    /// # Errors
    /// `NameTaken` as soon as the other process proves to be alive, or when its lease should have
    /// expired.
    pub fn wait_for_name(&self, name: &str, incarnation: u64) -> Result<(), MembershipError> {
        let key = format!("{NODES}{name}");
        let began = Instant::now();
        let mut least = u64::MAX;
        loop {
            let Some(entry) = self.get(&key)? else {
                return Ok(());
            };
            let registered = LeasedMember::from_json(&key, name, &entry.value)?;
            if registered.node.incarnation == incarnation {
                return Ok(());
            }
            let left = self.time_left(entry.lease)?;
            if left > least || began.elapsed() > registered.lease + SLACK {
                return Err(MembershipError::NameTaken {
                    name: name.to_owned(),
                    address: registered.node.address.to_string(),
                });
            }
            least = left;
            std::thread::sleep(LOOK);
        }
    }

    /// Registers a node for as long as a new lease is renewed.
    ///
    /// # Errors
    /// `NameTaken`, and those of [`reserve`](NodeRegistry::reserve).
    pub fn announce(&self, registered: &LeasedMember) -> Result<LeaseId, MembershipError> {
        let node = &registered.node;
        // The reservation exists unless etcd has lost its data.
        self.reserve(&node.name, Some(node.number))?;
        let lease = self.grant(registered.lease)?;
        let key = format!("{NODES}{}", node.name);
        let began = Instant::now();
        for tries in 1_u32.. {
            let present = self.get(&key)?;
            let mut revision = 0;
            if let Some(entry) = present {
                let other = LeasedMember::from_json(&key, &node.name, &entry.value)?;
                // The own record of an earlier try, whose confirmation was lost, may be replaced.
                if other.node.incarnation != node.incarnation {
                    return Err(MembershipError::NameTaken {
                        name: node.name.clone(),
                        address: other.node.address.to_string(),
                    });
                }
                revision = entry.mod_revision;
            }
            let put = put(&key, &registered.to_json(), Some(lease));
            // Compares the revision that was read: another process may have registered meanwhile.
            if self.transaction(&[(&key, revision)], json!([put]))? {
                return Ok(lease);
            }
            if self.gives_up(tries, began) {
                break;
            }
        }
        Err(MembershipError::Contended {
            name: node.name.clone(),
        })
    }

    /// Renews a lease for its whole time. Returns true if it still existed.
    pub fn keep_alive(&self, lease: LeaseId) -> Result<bool, MembershipError> {
        let body = json!({"ID": lease.0.to_string()});
        let answer = self.call("lease/keepalive", &body)?;
        // The gateway wraps the replies of streams.
        let result = answer.get("result").unwrap_or(&answer);
        Ok(unsigned(result, "TTL") > 0)
    }

    /// Ends a lease and the registration with it.
    pub fn revoke(&self, lease: LeaseId) -> Result<(), MembershipError> {
        let body = json!({"ID": lease.0.to_string()});
        match self.call("lease/revoke", &body) {
            Err(error) if !is_not_found(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn grant(&self, lease: Duration) -> Result<LeaseId, MembershipError> {
        let body = json!({"TTL": lease.as_secs().to_string()});
        let answer = self.call("lease/grant", &body)?;
        Ok(LeaseId(unsigned(&answer, "ID")))
    }

    /// Returns the remaining time of a lease in whole seconds; 0 if it has expired.
    fn time_left(&self, lease: LeaseId) -> Result<u64, MembershipError> {
        let body = json!({"ID": lease.0.to_string()});
        match self.call("lease/timetolive", &body) {
            Ok(answer) => Ok(unsigned(&answer, "TTL")),
            Err(error) if is_not_found(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    fn get(&self, key: &str) -> Result<Option<EtcdEntry>, MembershipError> {
        Ok(self.range(key, None)?.1.pop())
    }

    /// Reads the entries of a key, or of all keys from it to `end`, and their revision. A read is
    /// never older than a completed write, no matter which member responds.
    fn range(
        &self,
        key: &str,
        end: Option<&str>,
    ) -> Result<(u64, Vec<EtcdEntry>), MembershipError> {
        let mut body = json!({"key": encoded(key)});
        if let Some(end) = end {
            body["range_end"] = encoded(end).into();
        }
        let answer = self.call("kv/range", &body)?;
        let revision = answer
            .get("header")
            .map_or(0, |header| unsigned(header, "revision"));
        let entries = answer.get("kvs").and_then(Value::as_array);
        let entry = |entry: &Value| EtcdEntry {
            key: String::from_utf8_lossy(&decoded(entry, "key")).into_owned(),
            value: decoded(entry, "value"),
            mod_revision: unsigned(entry, "mod_revision"),
            lease: LeaseId(unsigned(entry, "lease")),
        };
        let entries = entries.map(|entries| entries.iter().map(entry).collect());
        Ok((revision, entries.unwrap_or_default()))
    }

    /// Makes changes if keys were last changed at these revisions, 0 if they must be absent.
    /// Returns true if they were.
    fn transaction(
        &self,
        expected: &[(&str, u64)],
        changes: Value,
    ) -> Result<bool, MembershipError> {
        let compare = |&(key, revision): &(&str, u64)| {
            json!({
                "key": encoded(key),
                "target": "MOD",
                "result": "EQUAL",
                "mod_revision": revision.to_string(),
            })
        };
        let compare: Vec<_> = expected.iter().map(compare).collect();
        let answer = self.call("kv/txn", &json!({"compare": compare, "success": changes}))?;
        Ok(answer.get("succeeded").and_then(Value::as_bool) == Some(true))
    }

    fn call(&self, request: &'static str, body: &Value) -> Result<Value, MembershipError> {
        self.gateway.call(request, body, self.patience)
    }
}

fn put(key: &str, value: &str, lease: Option<LeaseId>) -> Value {
    let lease = lease.map_or(0, |lease| lease.0);
    json!({"request_put": {
        "key": encoded(key),
        "value": encoded(value),
        "lease": lease.to_string(),
    }})
}

/// Returns the key of a number. Keys sort in the order of the numbers.
fn number_key(number: NodeId) -> String {
    format!("{NUMBERS}{:05}", number.0)
}

fn number_of(entry: &EtcdEntry) -> Result<NodeId, MembershipError> {
    let text = String::from_utf8_lossy(&entry.value);
    let number = text.parse().map_err(|_| MembershipError::Foreign {
        key: MembershipError::shortened(&entry.key),
        problem: format!("{:?} is not a number", MembershipError::shortened(&text)),
    });
    number.map(NodeId)
}

fn lowest_free(taken: &[EtcdEntry]) -> Option<NodeId> {
    // A set, because there may be tens of thousands.
    let taken: BTreeSet<_> = taken.iter().map(|entry| entry.key.as_str()).collect();
    (0..=u16::MAX)
        .map(NodeId)
        .find(|&number| !taken.contains(number_key(number).as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::node::MemberNode;
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Replies to a request as an etcd that has a number of the node "old", and in which another
    /// client is faster than each change.
    fn reply(stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut length = 0_usize;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body)?;
        let is_old = decoded(&request, "key") == format!("{NAMES}old").into_bytes();
        let entries = is_old.then(|| json!([{"value": encoded("3"), "mod_revision": "4"}]));
        let answer = json!({
            "header": {"revision": "5"},
            "ID": "7",
            "TTL": "10",
            "kvs": entries,
            "succeeded": false,
        });
        let answer = answer.to_string();
        let length = answer.len();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
        write!(reader.get_mut(), "{head}\r\n\r\n{answer}")
    }

    #[test]
    fn a_change_that_etcd_never_accepts_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let members = format!("http://{}", listener.local_addr().unwrap());
        // The thread waits for requests until the process ends.
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                // A client that has hung up does not matter.
                let _ = reply(stream);
            }
        });
        let gateway = Gateway::new(&members.parse().unwrap());
        let registry = NodeRegistry {
            gateway: &gateway,
            patience: Duration::from_millis(20),
        };
        let error = registry.reserve("new", None).unwrap_err();
        let name = "new".to_owned();
        assert_eq!(error, MembershipError::Contended { name });
        let name = "old".to_owned();
        let registered = LeasedMember {
            node: MemberNode {
                number: NodeId(3),
                name: name.clone(),
                address: "shm:old".parse().unwrap(),
                bytes: Some(1 << 20),
                incarnation: 1,
            },
            lease: Duration::from_secs(10),
        };
        let error = registry.announce(&registered).unwrap_err();
        assert_eq!(error, MembershipError::Contended { name });
    }
}
