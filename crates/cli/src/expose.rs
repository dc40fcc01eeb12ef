//! The flag for listening beyond the local machine, which is required where clients need no
//! password.

use clap::Args;
use std::net::ToSocketAddrs;

/// Permission for other machines to reach a node.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Exposure {
    /// Listen at an address that other machines reach. Clients need no password, so protect the
    /// port by a firewall or a separate network
    #[arg(long)]
    expose: bool,
}

impl Exposure {
    /// Refuses an address that other machines reach, unless `--expose` is given.
    pub(crate) fn check(self, listen: &str) -> Result<(), String> {
        if self.expose {
            return Ok(());
        }
        // An invalid address is reported later, by the listener.
        let Ok(mut addresses) = listen.to_socket_addrs() else {
            return Ok(());
        };
        match addresses.find(|address| !address.ip().is_loopback()) {
            None => Ok(()),
            Some(address) => Err(format!(
                "{address} is reachable from other machines, and clients need no password. Protect \
                 it by a firewall or a separate network, and set --expose; or listen at 127.0.0.1"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_addresses_are_allowed_by_default() {
        let (exposed, unexposed) = (Exposure { expose: true }, Exposure { expose: false });
        for local in ["127.0.0.1:0", "127.9.9.9:7000", "[::1]:7000", "localhost:1"] {
            assert_eq!(unexposed.check(local), Ok(()));
        }
        for other in [
            "0.0.0.0:7000",
            "[::]:7000",
            "192.0.2.7:7000",
            "[::ffff:127.0.0.1]:1",
        ] {
            let refusal = unexposed.check(other).unwrap_err();
            assert!(refusal.contains("--expose"), "{refusal}");
            assert_eq!(exposed.check(other), Ok(()));
        }
        assert_eq!(unexposed.check("no address"), Ok(()));
    }
}
