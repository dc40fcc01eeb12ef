//! No text makes the reader of memory nodes' addresses panic. An address that it accepts is printed
//! such that it is read as the same address. Except for brackets and ports, it is printed as it was
//! given.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_fabric::membership::NodeAddress;

fuzz_target!(|input: (u8, &str)| {
    let (transport, text) = input;
    // Most random texts do not begin like an address, so some get a transport's name.
    let text = match transport % 4 {
        0 => text.to_owned(),
        1 => format!("shm:{text}"),
        2 => format!("ucx:{text}"),
        _ => format!("ucx:[{text}"),
    };
    let address = match text.parse::<NodeAddress>() {
        Ok(address) => address,
        Err(error) => {
            // The error is short for any text, even if each letter is escaped by up to 10.
            assert!(error.to_string().len() < 1000, "{error}");
            return;
        }
    };
    let printed = address.to_string();
    assert_eq!(printed.parse(), Ok(address.clone()));
    let host = text.rsplit_once(':').map_or("", |(host, _)| host);
    assert!(text.contains('[') || printed.starts_with(host), "{printed}");
    // The name of a node is also valid in shared memory.
    let name = address.default_name();
    assert!(name.len() <= 206, "{name}");
    if name.len() <= 200 {
        let expected = NodeAddress::Shm { name: name.clone() };
        assert_eq!(format!("shm:{name}").parse(), Ok(expected));
    }
});
