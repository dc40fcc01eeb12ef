//! The surveyed server: its reports on itself and its keys. Nothing is written.

use super::advice::HotBy;
use super::error::AdviseError;
use super::kind::SurveyedValueKind;
use super::pace::SurveyPacing;
use crate::client::{CliClient, CliReply};
use nearfield_server::resp::encode;
use std::time::Instant;

/// The facts that a server reports about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The kind and version, such as `valkey 9.1.2`.
    pub version: String,
    /// The eviction policy, such as `allkeys-lfu`.
    pub policy: String,
    /// True if the server is a node of a cluster.
    pub in_cluster: bool,
    /// Databases that have keys, with their numbers of keys.
    pub databases: Vec<(u32, u64)>,
}

impl Facts {
    /// Reads the pages of `INFO`.
    pub fn parse(pages: &str) -> Facts {
        let field = |name: &str| {
            let line = pages.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.strip_prefix(':')).map(str::trim)
        };
        // All except Redis report Redis's version, too.
        let version = ["nearfield", "valkey", "redis"].iter().find_map(|kind| {
            let version = field(&format!("{kind}_version"))?;
            Some(format!("{kind} {version}"))
        });
        let database = |line: &str| {
            let (number, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
            let keys = rest.split(',').next()?;
            Some((number.parse().ok()?, keys.trim().parse().ok()?))
        };
        Facts {
            version: version.unwrap_or_else(|| "unknown".to_owned()),
            policy: field("maxmemory_policy").unwrap_or("unknown").to_owned(),
            in_cluster: field("cluster_enabled") == Some("1"),
            databases: pages.lines().filter_map(database).collect(),
        }
    }

    /// Returns the measure of hotness.
    pub fn hot_by(&self) -> HotBy {
        // A server counts uses only if it evicts by LFU.
        match self.policy.contains("lfu") {
            true if self.version.starts_with("nearfield") => HotBy::NearfieldCounter,
            true => HotBy::RedisCounter,
            false => HotBy::IdleSeconds,
        }
    }

    /// Returns the number of keys in all databases.
    pub fn keys(&self) -> u64 {
        self.databases.iter().map(|(_, keys)| keys).sum()
    }
}

/// The facts that a server reports about a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurveyedKeyFacts {
    /// The type of its value.
    pub kind: SurveyedValueKind,
    /// The bytes of the key.
    pub key_bytes: u64,
    /// Bytes of key and value together, as the server counts them.
    pub memory_bytes: u64,
    /// The counter of uses, or the seconds since the last one.
    pub heat: u64,
}

/// A server whose keys are surveyed.
#[derive(Debug)]
pub struct SurveyedServer {
    client: CliClient,
    /// The facts that it reports about itself.
    pub facts: Facts,
    /// True if reading a value can be kept from counting as a use.
    pub without_touch: bool,
    /// The pacing of requests.
    pub pace: SurveyPacing,
}

impl SurveyedServer {
    /// Queries the facts about a server.
    pub fn query(mut client: CliClient) -> Result<SurveyedServer, AdviseError> {
        let pages = match client.exchange(&["INFO"])? {
            CliReply::Text(pages) => pages,
            CliReply::Error(reply) => return Err(AdviseError::refusal("INFO", &reply)),
            _ => return Err(strange("INFO")),
        };
        let facts = Facts::parse(&String::from_utf8_lossy(&pages));
        if facts.in_cluster {
            // A replica lists its keys only after this. Others reply with an error, which does no
            // harm.
            client.exchange(&["READONLY"])?;
        }
        let touch = client.exchange(&["CLIENT", "NO-TOUCH", "ON"])?;
        Ok(SurveyedServer {
            client,
            facts,
            without_touch: matches!(touch, CliReply::Text(_)),
            pace: SurveyPacing::default(),
        })
    }

    /// Sends requests together and sleeps as the pace demands.
    fn exchange(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<Vec<CliReply>, AdviseError> {
        let mut bytes = Vec::new();
        for request in requests {
            encode::command(&mut bytes, request);
        }
        let start = Instant::now();
        let replies = self.client.pipeline(&bytes, requests.len())?;
        self.pace.rest(start.elapsed(), requests.len());
        for (request, reply) in requests.iter().zip(&replies) {
            // An error that concerns a single key is a normal reply.
            if let CliReply::Error(text) = reply
                && !is_of_one_key(text)
            {
                return Err(AdviseError::refusal(&named(request), text));
            }
        }
        Ok(replies)
    }

    /// Selects a database.
    pub fn select(&mut self, database: u32) -> Result<(), AdviseError> {
        self.exchange(&[words(&["SELECT", &database.to_string()])])
            .map(drop)
    }

    /// Returns the next keys of the database from a cursor, and the cursor after them, `0` at the
    /// end.
    pub fn scan(&mut self, cursor: &str) -> Result<(String, Vec<Vec<u8>>), AdviseError> {
        let replies = self.exchange(&[words(&["SCAN", cursor, "COUNT", "500"])])?;
        let strange = || strange("SCAN");
        let [cursor, keys] = replies.first().map_or(&[][..], CliReply::elements) else {
            return Err(strange());
        };
        let cursor = std::str::from_utf8(cursor.text().ok_or_else(strange)?);
        let keys = keys.elements().iter().filter_map(CliReply::text);
        let keys = keys.map(<[u8]>::to_vec).collect();
        Ok((cursor.map_err(|_| strange())?.to_owned(), keys))
    }

    /// Returns the reported facts of keys; `None` for those that no longer exist.
    pub fn key_facts(
        &mut self,
        keys: &[Vec<u8>],
    ) -> Result<Vec<Option<SurveyedKeyFacts>>, AdviseError> {
        // Nearfield reports 5 for a key that was used once, as Redis does, and one more for each
        // further use.
        let (heat, shown_before_uses) = match self.facts.hot_by() {
            HotBy::IdleSeconds => ("IDLETIME", 0),
            HotBy::RedisCounter => ("FREQ", 0),
            HotBy::NearfieldCounter => ("FREQ", 4),
        };
        let requests = keys.iter().flat_map(|key| {
            [
                with_key(&["TYPE"], key, &[]),
                // Redis samples five elements of a value, which limits the cost of large ones.
                with_key(&["MEMORY", "USAGE"], key, &[]),
                with_key(&["OBJECT", heat], key, &[]),
            ]
        });
        let replies = self.exchange(&requests.collect::<Vec<_>>())?;
        let seen = keys.iter().zip(replies.chunks(3)).map(|(key, replies)| {
            let [kind, memory, heat] = replies else {
                return None;
            };
            Some(SurveyedKeyFacts {
                // A key that expires between these requests has errors or nulls for replies, and is
                // left out.
                kind: SurveyedValueKind::named(kind.text()?)?,
                key_bytes: key.len() as u64,
                memory_bytes: memory.number()?,
                heat: heat.number::<u64>()?.saturating_sub(shown_before_uses),
            })
        });
        Ok(seen.collect())
    }

    /// Returns the elements of each value, or a sample of them; `None` for values that no longer
    /// exist.
    pub fn values(
        &mut self,
        keys: &[(Vec<u8>, SurveyedKeyFacts)],
    ) -> Result<Vec<Option<Vec<u8>>>, AdviseError> {
        let lengths = keys.iter().map(|(key, seen)| {
            let large = seen.kind.length_command().filter(|_| seen.is_large());
            large.map(|command| with_key(&[command], key, &[]))
        });
        let lengths: Vec<Option<_>> = lengths.collect();
        let length_requests: Vec<_> = lengths.iter().flatten().cloned().collect();
        let mut length_replies = self.exchange(&length_requests)?.into_iter();
        let mut requests = Vec::new();
        let mut is_requested = Vec::new();
        for ((key, seen), length) in keys.iter().zip(&lengths) {
            let length = length
                .as_ref()
                .and_then(|_| length_replies.next()?.number());
            let request = seen.kind.value_command(key, seen.memory_bytes, length);
            is_requested.push(request.is_some());
            requests.extend(request);
        }
        let mut replies = self.exchange(&requests)?.into_iter();
        let value = |is_requested: bool| {
            let reply = is_requested.then(|| replies.next())??;
            let mut value = Vec::new();
            flatten(&reply, &mut value);
            (!value.is_empty()).then_some(value)
        };
        Ok(is_requested.into_iter().map(value).collect())
    }
}

impl SurveyedKeyFacts {
    /// Returns true if only a part of the value is read.
    pub fn is_large(&self) -> bool {
        self.memory_bytes > super::kind::WHOLE_BYTES
    }
}

/// Appends a string, or all elements, each after a byte for its length.
fn flatten(reply: &CliReply, out: &mut Vec<u8>) {
    match reply {
        CliReply::Text(text) => out.extend_from_slice(text),
        CliReply::Array(elements) => {
            for element in elements {
                if let CliReply::Text(text) = element {
                    // Tiers pack elements like this, which changes how well they compress.
                    out.push(text.len() as u8);
                }
                flatten(element, out);
            }
        }
        CliReply::Null | CliReply::Error(_) => {}
    }
}

fn strange(command: &str) -> AdviseError {
    AdviseError::Strange {
        command: command.to_owned(),
    }
}

/// Returns true if an error concerns the key alone: another node has it, or its type has changed.
fn is_of_one_key(error: &str) -> bool {
    ["MOVED ", "ASK ", "TRYAGAIN", "CROSSSLOT", "WRONGTYPE"]
        .iter()
        .any(|kind| error.starts_with(kind))
        || error.contains("no such key")
}

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Returns a request of a key with words before and after it.
pub fn with_key(before: &[&str], key: &[u8], behind: &[&str]) -> Vec<Vec<u8>> {
    let mut request = words(before);
    request.push(key.to_vec());
    request.extend(words(behind));
    request
}

/// Returns the name of a request's command, for an error.
fn named(request: &[Vec<u8>]) -> String {
    let word = |at: usize| String::from_utf8_lossy(request.get(at).map_or(&[], Vec::as_slice));
    match &*word(0) {
        "MEMORY" | "OBJECT" => format!("{} {}", word(0), word(1)),
        first => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_info() {
        let pages = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:9.0.1\r\n\
                     # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:volatile-lfu\r\n\
                     # Cluster\r\ncluster_enabled:1\r\n\
                     # Keyspace\r\ndb0:keys=12,expires=0,avg_ttl=0\r\ndb11:keys=3,expires=1\r\n";
        let facts = Facts::parse(pages);
        assert_eq!(facts.version, "valkey 9.0.1");
        assert!(facts.in_cluster);
        assert_eq!(facts.hot_by(), HotBy::RedisCounter);
        assert_eq!(facts.databases, [(0, 12), (11, 3)]);
        assert_eq!(facts.keys(), 15);
        let none = Facts::parse("");
        assert!(none.databases.is_empty() && !none.in_cluster);
        assert_eq!(none.hot_by(), HotBy::IdleSeconds);
    }

    #[test]
    fn errors_of_one_key_are_distinguished_from_others() {
        assert!(is_of_one_key("MOVED 3999 127.0.0.1:6381"));
        assert!(is_of_one_key("ERR no such key"));
        assert!(!is_of_one_key("NOPERM this user has no permissions"));
        assert!(!is_of_one_key("ERR unknown command 'MEMORY'"));
    }
}
