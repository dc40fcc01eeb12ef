//! Addresses of memory nodes.

use super::error::MembershipError;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Largest length of a name: the limit of a file system for the node's object.
const MAX_NAME_BYTES: usize = 200;

/// Returns true if `text` is a valid name of a node: 1 to 200 of A-Z, a-z, 0-9, `.`, `-` and `_`.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(plain)
}

/// The address of a memory node, with its transport.
///
/// ```
/// use nearfield_fabric::membership::NodeAddress;
/// let address: NodeAddress = "ucx:[fe80::1]:7000".parse()?;
/// assert_eq!(address, NodeAddress::Ucx { host: "fe80::1".to_owned(), port: 7000 });
/// assert_eq!(address.to_string(), "ucx:[fe80::1]:7000");
/// # Ok::<_, nearfield_fabric::membership::MembershipError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NodeAddress {
    /// The address `shm:NAME`: in the shared memory of this machine.
    Shm {
        /// The node's name there.
        name: String,
    },
    /// The address `ucx:HOST:PORT`: over any network with a transport of UCX.
    Ucx {
        /// A name, an IPv4 address, or an IPv6 address without the brackets of its text.
        host: String,
        /// The port, never 0.
        port: u16,
    },
}

impl NodeAddress {
    /// Returns the name of a node without a configured one: its name in shared memory, or host and
    /// port.
    pub fn default_name(&self) -> String {
        match self {
            NodeAddress::Shm { name } => name.clone(),
            NodeAddress::Ucx { host, port } => format!("{}-{port}", host.replace(':', ".")),
        }
    }
}

impl fmt::Display for NodeAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeAddress::Shm { name } => write!(formatter, "shm:{name}"),
            NodeAddress::Ucx { host, port } if host.contains(':') => {
                write!(formatter, "ucx:[{host}]:{port}")
            }
            NodeAddress::Ucx { host, port } => write!(formatter, "ucx:{host}:{port}"),
        }
    }
}

impl FromStr for NodeAddress {
    type Err = MembershipError;

    fn from_str(text: &str) -> Result<NodeAddress, MembershipError> {
        parse(text).map_err(|problem| MembershipError::Address {
            text: MembershipError::shortened(text),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<NodeAddress, &'static str> {
    let (transport, rest) = text
        .split_once(':')
        .ok_or("it must begin with shm: or ucx:")?;
    match transport {
        "shm" if is_name(rest) => Ok(NodeAddress::Shm {
            name: rest.to_owned(),
        }),
        "shm" => Err("a name has 1 to 200 of A-Z, a-z, 0-9, ., - and _"),
        "ucx" => host_and_port(rest),
        _ => Err("it must begin with shm: or ucx:"),
    }
}

fn host_and_port(text: &str) -> Result<NodeAddress, &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("a port must follow the host")?;
    // The parser of numbers accepts a sign.
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse().ok().filter(|&port| digits && port != 0);
    let port = port.ok_or("a port is a number from 1 to 65535")?;
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = match bracketed {
        Some(inner) => {
            let address: Ipv6Addr = inner
                .parse()
                .map_err(|_| "the brackets do not contain an IPv6 address")?;
            // The canonical text, so that equal addresses compare as equal.
            address.to_string()
        }
        None if host.contains(':') => return Err("an IPv6 address must be in brackets"),
        None if is_name(host) => host.to_owned(),
        None => return Err("a host is a name or an address"),
    };
    Ok(NodeAddress::Ucx { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(text: &str) -> String {
        text.parse::<NodeAddress>().unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_said_with_what_was_given() {
        for (text, problem) in [
            ("", "it must begin with shm: or ucx:"),
            ("pool", "it must begin with shm: or ucx:"),
            ("tcp:a:1", "it must begin with shm: or ucx:"),
            ("shm:", "a name has 1 to 200 of A-Z, a-z, 0-9, ., - and _"),
            (
                "shm:a/b",
                "a name has 1 to 200 of A-Z, a-z, 0-9, ., - and _",
            ),
            ("ucx:a", "a port must follow the host"),
            ("ucx:a:", "a port is a number from 1 to 65535"),
            ("ucx:a:0", "a port is a number from 1 to 65535"),
            ("ucx:a:+5", "a port is a number from 1 to 65535"),
            ("ucx:a:65536", "a port is a number from 1 to 65535"),
            ("ucx::7000", "a host is a name or an address"),
            ("ucx:::1:7000", "an IPv6 address must be in brackets"),
            (
                "ucx:[a]:7000",
                "the brackets do not contain an IPv6 address",
            ),
        ] {
            let expected = format!("{text:?} is not an address of a memory node: {problem}");
            assert_eq!(refusal(text), expected);
        }
        let long = refusal(&"x".repeat(5000));
        assert!(long.len() < 200 && long.contains("…"), "{long}");
    }

    proptest! {
        /// A printed address parses to the same address. Any text that parses prints as itself,
        /// except for the many forms of an IPv6 address.
        #[test]
        fn addresses_come_back(
            name in "[A-Za-z0-9._-]{1,200}",
            port in 1..=u16::MAX,
            v6 in any::<u128>(),
        ) {
            let v6 = Ipv6Addr::from(v6).to_string();
            for address in [
                NodeAddress::Shm { name: name.clone() },
                NodeAddress::Ucx { host: name, port },
                NodeAddress::Ucx { host: v6, port },
            ] {
                prop_assert_eq!(&address.to_string().parse::<NodeAddress>().unwrap(), &address);
                prop_assert!(address.default_name().len() <= 206);
            }
        }

        #[test]
        fn no_text_brings_it_down(text in "(shm|ucx)?:?[\\[\\]a-z0-9:.+%\u{e4} -]{0,30}") {
            if let Ok(address) = text.parse::<NodeAddress>() {
                prop_assert_eq!(&address.to_string().parse::<NodeAddress>().unwrap(), &address);
                // The text is unchanged except for the form of brackets and ports.
                let host = text.rsplit_once(':').map_or("", |(host, _)| host);
                let kept = address.to_string().starts_with(host);
                prop_assert!(kept || text.contains('['), "{text} became {address}");
            }
        }
    }
}
