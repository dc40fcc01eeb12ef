//! The address at which a process receives datagrams.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The IPv4 address and port of a process, in one word, which a switch reads from a message. Port
/// and address are the lower 48 bits; the others are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessAddress(pub u64);

impl From<SocketAddrV4> for ProcessAddress {
    fn from(address: SocketAddrV4) -> ProcessAddress {
        ProcessAddress(u64::from(address.ip().to_bits()) << 16 | u64::from(address.port()))
    }
}

impl From<ProcessAddress> for SocketAddrV4 {
    fn from(place: ProcessAddress) -> SocketAddrV4 {
        let address = Ipv4Addr::from_bits((place.0 >> 16) as u32);
        SocketAddrV4::new(address, place.0 as u16)
    }
}

impl fmt::Display for ProcessAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddrV4::from(*self).fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        let address: SocketAddrV4 = "192.0.2.7:7000".parse().expect("an address");
        assert_eq!(SocketAddrV4::from(ProcessAddress::from(address)), address);
        assert_eq!(ProcessAddress::from(address).to_string(), "192.0.2.7:7000");
    }
}
