//! Changes of ports and addresses while the server runs. The tests run against redis-server, too.

use nearfield_server::config::{ListenPort, ServerOptions, bind_addresses};
use nearfield_server::net::serve;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::steps::{ask, connect, eventually, on_both};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

fn is_served(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// Returns a port that was free just now.
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
        // A port that another process uses is refused, and nothing changes.
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
        eventually("no socket listens", || !is_served(after));
        let set = format!("CONFIG SET port {}", before.port());
        assert_eq!(ask(&mut connection, &set), "OK");
        eventually("the first port is served again", || is_served(before));
    });
}

#[test]
fn addresses_change_and_connections_stay() {
    on_both(|first| {
        let at = |last: u8| SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), first.port());
        let mut connection = connect(first);
        let mut set = |value: &str| {
            let words = [&b"CONFIG"[..], b"SET", b"bind", value.as_bytes()];
            connection.command(&words).expect("a reply").to_string()
        };
        assert_eq!(set("127.0.0.2"), "OK");
        eventually("the new address is served, and the old is not", || {
            is_served(at(2)) && !is_served(at(1))
        });
        // Together with the first address, and with an optional one that the machine lacks.
        assert_eq!(set("127.0.0.2 -192.0.2.1 127.0.0.1"), "OK");
        eventually("both are served", || is_served(at(1)) && is_served(at(2)));
        assert_eq!(ask(&mut connect(at(1)), "PING"), "PONG");
        assert_eq!(ask(&mut connect(at(2)), "PING"), "PONG");
        // An address that the machine lacks is refused, and so are too many addresses.
        let why = "(error) ERR CONFIG SET failed (possibly related to argument 'bind') - ";
        let refused = format!("{why}Failed to bind to specified addresses.");
        assert_eq!(set("192.0.2.1"), refused);
        assert_eq!(set("127.0.0.3 192.0.2.1"), refused);
        assert_eq!(set("127.0.0.3 127.0.0.3"), refused);
        let many = vec!["127.0.0.1"; 17].join(" ");
        assert_eq!(
            set(&many),
            format!("{why}Too many bind addresses specified.")
        );
        eventually("the settings are unchanged", || {
            is_served(at(1)) && is_served(at(2)) && !is_served(at(3))
        });
        assert_eq!(
            ask(&mut connect(at(1)), "CONFIG GET bind"),
            "1) \"bind\"\n2) \"127.0.0.2 -192.0.2.1 127.0.0.1\""
        );
        // All addresses, in place of one of them.
        assert_eq!(set("*"), "OK");
        eventually("all are served", || is_served(at(3)));
        assert_eq!(set("127.0.0.1"), "OK");
        eventually("one is served", || is_served(at(1)) && !is_served(at(3)));
        // No address at all: connected clients stay.
        assert_eq!(set(""), "OK");
        eventually("no socket listens", || !is_served(at(1)));
        assert_eq!(set("127.0.0.1"), "OK");
        eventually("the first is served again", || is_served(at(1)));
        assert_eq!(ask(&mut connect(at(1)), "PING"), "PONG");
    });
}

#[test]
fn address_and_port_change_together_or_not_at_all() {
    on_both(|first| {
        let mut connection = connect(first);
        let other = free_port().port();
        let at = |last: u8, port: u16| SocketAddr::new(Ipv4Addr::new(127, 0, 0, last).into(), port);
        let set = format!("CONFIG SET bind 127.0.0.2 port {other}");
        assert_eq!(ask(&mut connection, &set), "OK");
        eventually("only the new place is served", || {
            is_served(at(2, other))
                && !is_served(at(1, other))
                && !is_served(at(2, first.port()))
                && !is_served(first)
        });
        let set = format!(
            "CONFIG SET maxclients 77 port {} bind 192.0.2.1",
            first.port()
        );
        let refused = ask(&mut connection, &set);
        assert!(refused.contains("related to argument"), "{refused}");
        eventually("the place is served again", || is_served(at(2, other)));
        assert_eq!(
            ask(&mut connection, "CONFIG GET bind"),
            "1) \"bind\"\n2) \"127.0.0.2\""
        );
        let port = ask(&mut connection, "CONFIG GET port");
        assert!(port.contains(&other.to_string()), "{port}");
        let clients = ask(&mut connection, "CONFIG GET maxclients");
        assert!(!clients.contains("77"), "{clients}");
    });
}

/// A start in a container without IPv6, where `bind 127.0.0.1 -::1` is usual, works like this.
#[test]
fn an_address_that_the_machine_need_not_have_is_passed_over_at_the_start() {
    let started_with = |bind: &str| ServerOptions {
        bind: bind_addresses(bind).expect("addresses"),
        ..ServerOptions::default()
    };
    let server = Nearfield::start(started_with("-192.0.2.1 127.0.0.1"));
    assert_eq!(
        ask(&mut server.connect(), "CONFIG GET bind"),
        "1) \"bind\"\n2) \"-192.0.2.1 127.0.0.1\""
    );
    // The server must listen on some address.
    for bind in ["-192.0.2.1", "127.0.0.1 192.0.2.1"] {
        let options = ServerOptions {
            port: ListenPort::Free,
            ..started_with(bind)
        };
        let server = UnservedServer::new(options);
        let error = serve(&server, |_| panic!("it listens")).expect_err("an address");
        assert!(error.to_string().contains("192.0.2.1"), "{error}");
    }
}

#[test]
fn more_addresses_than_can_be_listened_on_are_refused_by_name() {
    let at = |count: u8| {
        let at = |last: u8| IpAddr::from(Ipv4Addr::new(127, 0, 0, last)).into();
        ServerOptions {
            bind: (1..=count).map(at).collect(),
            port: ListenPort::Free,
            ..ServerOptions::default()
        }
    };
    let server = Nearfield::start(at(16));
    let last = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 16).into(), server.address.port());
    assert_eq!(ask(&mut connect(last), "PING"), "PONG");
    // With 64, two would have the numbers of other sources of events.
    for count in [17, 64] {
        let server = UnservedServer::new(at(count));
        let error = serve(&server, |_| server.stop()).expect_err("too many");
        let error = error.to_string();
        assert!(error.contains("bind") && error.contains("16"), "{error}");
    }
}
