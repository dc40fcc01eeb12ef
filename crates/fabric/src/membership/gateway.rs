//! Requests to etcd.
//!
//! etcd accepts them as gRPC and, under `/v3/`, as JSON over HTTP/1.1 (its *gateway*, on by default
//! since 3.4). This module uses the latter: a few requests a second need no more. So the build
//! needs no compiler of protocol buffers, and a blocking client without TLS replaces an async
//! runtime. Keys and values are in base64; whole numbers are strings, and absent if they are 0.

use super::error::MembershipError;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::{BufRead, BufReader, Read};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time for which one member may take to respond before the next one gets the request. etcd takes
/// milliseconds.
const ATTEMPT: Duration = Duration::from_secs(2);
/// The pause before all members get the request again.
const PAUSE: Duration = Duration::from_millis(100);
/// Largest length of a response: 65,536 registrations.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Number of bytes that are read of a watch, of which the first event is enough.
const MAX_WATCH_BYTES: u64 = 1 << 20;
/// The status of gRPC for a missing item, such as an expired lease.
const NOT_FOUND: u64 = 5;

/// The members of an etcd cluster: `http://HOST:PORT`, separated by commas.
///
/// ```
/// use nearfield_fabric::membership::EtcdMembers;
/// let members: EtcdMembers = "http://a:2379,http://b:2379".parse()?;
/// assert_eq!(members.urls(), ["http://a:2379", "http://b:2379"]);
/// # Ok::<_, nearfield_fabric::membership::MembershipError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMembers(Vec<String>);

impl EtcdMembers {
    /// Returns their URLs, in the given order.
    pub fn urls(&self) -> &[String] {
        &self.0
    }
}

impl FromStr for EtcdMembers {
    type Err = MembershipError;

    fn from_str(text: &str) -> Result<EtcdMembers, MembershipError> {
        let url = |url: &str| {
            let url = url.trim().trim_end_matches('/');
            match problem_of(url) {
                None => Ok(url.to_owned()),
                Some(problem) => Err(MembershipError::Url {
                    text: MembershipError::shortened(url),
                    problem,
                }),
            }
        };
        let urls: Result<_, _> = text.split(',').map(url).collect();
        urls.map(EtcdMembers)
    }
}

fn problem_of(url: &str) -> Option<&'static str> {
    if url.starts_with("https://") {
        return Some("TLS is not supported; use http:// in a network that you trust");
    }
    let Some(authority) = url.strip_prefix("http://") else {
        return Some("it must begin with http://");
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    if authority.starts_with(':') || !authority.bytes().all(allowed) {
        return Some("it must be http://HOST:PORT");
    }
    match port.map(str::parse::<u16>) {
        Some(Ok(1..)) => None,
        _ => Some("a port such as :2379 must follow the host"),
    }
}

/// A client of etcd that uses any member that responds.
#[derive(Debug)]
pub(super) struct Gateway {
    agent: ureq::Agent,
    members: EtcdMembers,
    /// The index of the member that responded last.
    preferred: AtomicUsize,
}

/// The reason why a member has not executed a request.
enum EtcdRequestFailure {
    /// A failure after which another member, or the same one later, may execute it.
    Transient(String),
    /// A failure after which no member will execute it.
    Final(MembershipError),
}

impl Gateway {
    pub fn new(members: &EtcdMembers) -> Gateway {
        debug_assert!(!members.0.is_empty(), "a list has at least one entry");
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // Members are neighbours, and a proxy might break a watch.
            .proxy(None)
            .max_redirects(0)
            // A connection that has outlived its server would make the next request fail.
            .max_idle_connections(0)
            .build();
        Gateway {
            agent: config.into(),
            members: members.clone(),
            preferred: AtomicUsize::new(0),
        }
    }

    /// Posts a request to `/v3/{request}`, to every member at least once, and again until
    /// `patience` ends. It returns at the latest 2 s for each member after that. A request may have
    /// been executed even if no member confirmed it.
    ///
    /// # Errors
    /// `Unreachable`, `NotEtcd`, `Refused`.
    pub fn call(
        &self,
        request: &'static str,
        body: &Value,
        patience: Duration,
    ) -> Result<Value, MembershipError> {
        let deadline = Instant::now() + patience;
        loop {
            let mut tried = String::new();
            // Begins with the member that responded last, because each dead one costs two seconds.
            let first = self.preferred.load(Ordering::Relaxed);
            for turn in 0..self.members.0.len() {
                let place = (first + turn) % self.members.0.len();
                let Some(url) = self.members.0.get(place) else {
                    continue;
                };
                match self.ask(url, request, body) {
                    Ok(answer) => {
                        self.preferred.store(place, Ordering::Relaxed);
                        return Ok(answer);
                    }
                    Err(EtcdRequestFailure::Final(error)) => return Err(error),
                    Err(EtcdRequestFailure::Transient(problem)) => {
                        let comma = if tried.is_empty() { "" } else { "; " };
                        // Writing to a string does not fail.
                        let _ = write!(tried, "{comma}{url}: {problem}");
                    }
                }
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(MembershipError::Unreachable { tried });
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn ask(
        &self,
        url: &str,
        request: &'static str,
        body: &Value,
    ) -> Result<Value, EtcdRequestFailure> {
        let transient = |error: ureq::Error| EtcdRequestFailure::Transient(error.to_string());
        let mut response = self.post(url, request, body, ATTEMPT).map_err(transient)?;
        let status = response.status().as_u16();
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER_BYTES)
            .lossy_utf8(true)
            .read_to_string()
            .map_err(transient)?;
        let answer: Option<Value> = serde_json::from_str(&text).ok();
        match (status, answer) {
            (200, Some(answer)) => Ok(answer),
            // A member without a leader, or one that starts: others, or a later try, may succeed.
            (500.., answer) => {
                let message = answer.as_ref().map_or("no reason", message);
                Err(EtcdRequestFailure::Transient(format!(
                    "status {status}, {message}"
                )))
            }
            // The request itself is wrong for etcd, and so it is for all members.
            (400.., Some(answer)) if answer.get("code").is_some() => {
                Err(EtcdRequestFailure::Final(MembershipError::Refused {
                    request,
                    code: unsigned(&answer, "code"),
                    message: message(&answer).to_owned(),
                }))
            }
            _ => Err(EtcdRequestFailure::Final(MembershipError::NotEtcd {
                endpoint: url.to_owned(),
                problem: format!(
                    "it replies to {request} with status {status}, {:?}",
                    MembershipError::shortened(text.trim())
                ),
            })),
        }
    }

    fn post(
        &self,
        url: &str,
        request: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<ureq::http::Response<ureq::Body>, ureq::Error> {
        self.agent
            .post(format!("{url}/v3/{request}"))
            .config()
            .timeout_global(Some(timeout))
            .build()
            .content_type("application/json")
            .send(body.to_string())
    }

    /// Waits until a key that begins with `prefix` has changed at `revision` or later, or until
    /// `most` has passed, or until the member fails. A return is only a hint that a read is
    /// worthwhile.
    ///
    /// # Errors
    /// The member has not responded, so the caller should pause before the next call.
    pub fn wait_for_change(&self, prefix: &str, revision: u64, most: Duration) -> Result<(), ()> {
        let create = json!({"create_request": {
            "key": encoded(prefix),
            "range_end": encoded(&end_of(prefix)),
            "start_revision": revision.to_string(),
        }});
        let place = self.preferred.load(Ordering::Relaxed);
        let url = self.members.0.get(place).ok_or(())?;
        let began = Instant::now();
        let response = self.post(url, "watch", &create, most).map_err(|_| ())?;
        if response.status() != 200 {
            return Err(());
        }
        // A peer may send a line without an end.
        let reader = response.into_body().into_reader().take(MAX_WATCH_BYTES);
        for line in BufReader::new(reader).lines() {
            // The time has passed, or the member has gone.
            let Ok(line) = line else { break };
            let answer: Value = serde_json::from_str(&line).map_err(|_| ())?;
            let result = answer.get("result").ok_or(())?;
            let says = |field| result.get(field).is_some();
            if says("events") || says("canceled") {
                return Ok(());
            }
        }
        // A member that hangs up at once does not support waiting.
        if began.elapsed() < most / 2 {
            return Err(());
        }
        Ok(())
    }
}

fn message(answer: &Value) -> &str {
    let said = answer.get("message").or_else(|| answer.get("error"));
    said.and_then(Value::as_str).unwrap_or("no reason")
}

/// Returns true if etcd reports that a lease has expired.
pub(super) fn is_not_found(error: &MembershipError) -> bool {
    matches!(error, MembershipError::Refused { code, .. } if *code == NOT_FOUND)
}

/// Returns a whole number that is not negative. Returns 0 if it is absent, or if it is negative, as
/// the time of leases that do not exist.
pub(super) fn unsigned(value: &Value, field: &str) -> u64 {
    match value.get(field) {
        Some(Value::String(digits)) => digits.parse().unwrap_or(0),
        Some(number) => number.as_u64().unwrap_or(0),
        None => 0,
    }
}

/// Encodes text as a key or value.
pub(super) fn encoded(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

/// Decodes the bytes of a key or value. Returns none if it is absent or not in base64.
pub(super) fn decoded(value: &Value, field: &str) -> Vec<u8> {
    let text = value.get(field).and_then(Value::as_str).unwrap_or_default();
    BASE64_STANDARD.decode(text).unwrap_or_default()
}

/// Returns the first key after all that begin with `prefix`, which ends in a slash.
pub(super) fn end_of(prefix: &str) -> String {
    debug_assert!(prefix.ends_with('/'));
    // `0` is the byte after `/`.
    format!("{}0", prefix.strip_suffix('/').unwrap_or(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_of_members_that_can_be_asked() {
        let members: EtcdMembers = "http://a:2379/, http://[::1]:80".parse().unwrap();
        assert_eq!(members.urls(), ["http://a:2379", "http://[::1]:80"]);
        for (text, problem) in [
            ("", "it must begin with http://"),
            ("a:2379", "it must begin with http://"),
            (
                "https://a:2379",
                "TLS is not supported; use http:// in a network that you trust",
            ),
            ("http://a", "a port such as :2379 must follow the host"),
            ("http://a:0", "a port such as :2379 must follow the host"),
            ("http://a:1/b:2", "it must be http://HOST:PORT"),
            ("http://:2379", "it must be http://HOST:PORT"),
        ] {
            let error = text.parse::<EtcdMembers>().unwrap_err().to_string();
            assert_eq!(error, format!("{text:?} is not a URL of etcd: {problem}"));
        }
        assert!("http://a:1,,http://b:2".parse::<EtcdMembers>().is_err());
    }

    /// A watch whose line never ends is given up before it costs more memory than the limit.
    #[test]
    fn a_watch_that_never_ends_its_line_is_given_up() {
        use std::io::Write;
        use std::net::TcpListener;
        const BYTES_MAX: usize = 256 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let members = format!("http://{}", listener.local_addr().unwrap());
        let sender = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).unwrap();
            let part = [b'a'; 1 << 16];
            let mut sent = 0;
            while sent < BYTES_MAX && stream.write_all(&part).is_ok() {
                sent += part.len();
            }
            sent
        });
        let gateway = Gateway::new(&members.parse().unwrap());
        let most = Duration::from_secs(30);
        assert_eq!(gateway.wait_for_change("a/", 1, most), Err(()));
        assert!(sender.join().unwrap() < BYTES_MAX);
    }

    #[test]
    fn numbers_are_read_as_etcd_writes_them() {
        let answer = json!({"a": "18446744073709551615", "b": 5, "c": "-1"});
        let read = ["a", "b", "c", "d"].map(|field| unsigned(&answer, field));
        assert_eq!(read, [u64::MAX, 5, 0, 0]);
        assert_eq!(end_of("a/b/"), "a/b0");
    }
}
