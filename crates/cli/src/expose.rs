//! Listening beyond the local machine, which has to be asked for where nobody is asked for a
//! password.

use clap::Args;
use std::net::ToSocketAddrs;

/// Permission for other machines to reach a node.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Exposure {
    /// Listen at an address that other machines reach. Whoever reaches it needs no password, so
    /// keep others away by a firewall or a network of its own
    #[arg(long)]
    expose: bool,
}

impl Exposure {
    /// Refuses to listen at an address that other machines reach, unless that is asked for.
    pub(crate) fn check(self, listen: &str) -> Result<(), String> {
        if self.expose {
            return Ok(());
        }
        // An invalid address is reported where it is listened at.
        let Ok(mut addresses) = listen.to_socket_addrs() else {
            return Ok(());
        };
        match addresses.find(|address| !address.ip().is_loopback()) {
            None => Ok(()),
            Some(address) => Err(format!(
                "{address} can be reached by other machines, and whoever reaches it needs no \
                 password. Keep others away by a firewall or a network of its own, and say \
                 --expose; or listen at 127.0.0.1"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_local_machine_is_listened_to_unasked() {
        let (asked, unasked) = (Exposure { expose: true }, Exposure { expose: false });
        for local in ["127.0.0.1:0", "127.9.9.9:7000", "[::1]:7000", "localhost:1"] {
            assert_eq!(unasked.check(local), Ok(()));
        }
        for other in [
            "0.0.0.0:7000",
            "[::]:7000",
            "192.0.2.7:7000",
            "[::ffff:127.0.0.1]:1",
        ] {
            let refusal = unasked.check(other).unwrap_err();
            assert!(refusal.contains("--expose"), "{refusal}");
            assert_eq!(asked.check(other), Ok(()));
        }
        assert_eq!(unasked.check("no address"), Ok(()));
    }
}
