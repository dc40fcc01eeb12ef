//! The port changes while the server runs. The test is made against redis-server, too.

use nearfield_server_testkit::steps::{ask, connect, eventually, on_both};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

fn is_served(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// A port that was free just now.
fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("an address")
}

#[test]
fn the_port_changes_and_connections_stay() {
    on_both(|before| {
        let mut connection = connect(before);
        let after = free_port();
        let set = format!("CONFIG SET port {}", after.port());
        assert_eq!(ask(&mut connection, &set), "OK");
        eventually("the new port is served, and the old is not", || {
            is_served(after) && !is_served(before)
        });
        assert_eq!(ask(&mut connect(after), "PING"), "PONG");
        assert_eq!(ask(&mut connection, "PING"), "PONG");
        let page = ask(&mut connection, "INFO server");
        assert!(
            page.contains(&format!("tcp_port:{}", after.port())),
            "{page}"
        );
        // One that another uses is refused, and all stays as it was.
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let taken = taken.local_addr().expect("an address").port();
        let refused = ask(&mut connection, &format!("CONFIG SET port {taken}"));
        assert!(
            refused.contains("Unable to listen on this port"),
            "{refused}"
        );
        assert!(ask(&mut connection, "CONFIG GET port").contains(&after.port().to_string()));
        assert_eq!(ask(&mut connect(after), "PING"), "PONG");
        // Without a port, connections stay.
        assert_eq!(ask(&mut connection, "CONFIG SET port 0"), "OK");
        eventually("nothing is listened at", || !is_served(after));
        let set = format!("CONFIG SET port {}", before.port());
        assert_eq!(ask(&mut connection, &set), "OK");
        eventually("the first port is served again", || is_served(before));
    });
}
