//! Effects of parameters, and the names of other servers' parameters.

use nearfield_server::config::{ConfigFileContents, ServerOptions};
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::redis::RedisPeerProcess;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::{ask, ask_text, connect, on_both};
use std::net::SocketAddr;
use std::path::Path;

/// Returns options with these parameters.
pub fn started_with(lines: &[(&str, &str)]) -> ServerOptions {
    let mut settings = ConfigFileContents::default();
    for (name, value) in lines {
        settings
            .add(name, *value)
            .expect("a value of the parameter");
    }
    ServerOptions::from_settings(settings).expect("options")
}

/// Runs a test against our server and redis-server, each with these parameters.
pub fn on_both_with(lines: &[(&str, &str)], test: impl Fn(SocketAddr)) {
    let ours = Nearfield::start(started_with(lines));
    test(ours.address);
    drop(ours);
    let flags: Vec<String> = lines
        .iter()
        .flat_map(|(name, value)| [format!("--{name}"), (*value).to_owned()])
        .collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    if let Some(redis) = RedisPeerProcess::start(&flags) {
        test(redis.address);
    }
}

#[test]
fn every_parameter_of_other_servers_is_known_and_takes_its_default() {
    for peer in PeerServer::ALL {
        let Some(server) = peer.start(&[]) else {
            continue;
        };
        let words = [&b"CONFIG"[..], b"GET", b"*"];
        let Ok(RespReplyValue::Array(pairs)) = connect(server.address).command(&words) else {
            panic!("{} shows no parameters", peer.name());
        };
        let mut settings = ConfigFileContents::default();
        for pair in pairs.chunks(2) {
            let [RespReplyValue::Bulk(name), RespReplyValue::Bulk(value)] = pair else {
                panic!("no parameter: {pair:?}");
            };
            let name = String::from_utf8_lossy(name);
            // Empty values of these parameters are those of a server without the feature.
            let added = settings.add(&name, value.clone());
            assert_eq!(added, Ok(()), "{name} of {}", peer.name());
        }
    }
}

#[test]
fn the_file_of_debians_package_starts_a_server() {
    let path = Path::new("/etc/redis/redis.conf");
    if !path.exists() {
        eprintln!("not read: there is no {}", path.display());
        return;
    }
    let settings = match ConfigFileContents::read(path) {
        Ok(settings) => settings,
        Err(error) if error.to_string().contains("Permission denied") => {
            eprintln!("not read: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    assert!(settings.values.len() > 50);
    assert!(ServerOptions::from_settings(settings).is_ok());
}

/// The files have all parameters of other servers with their default values. Comments and packages
/// do not matter here: an unknown parameter prevents the start.
#[test]
fn files_with_all_parameters_of_other_servers_start_a_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations");
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let settings = match ConfigFileContents::read(&path) {
            Ok(settings) => settings,
            Err(error) => panic!("{error}"),
        };
        let lines = std::fs::read_to_string(&path).unwrap();
        assert_eq!(settings.values.len(), lines.lines().count());
        assert!(settings.values.len() > 190, "{}", path.display());
        let options = ServerOptions::from_settings(settings);
        assert!(options.is_ok(), "{}: {options:?}", path.display());
        read += 1;
    }
    assert_eq!(read, 4);
}

/// A setting that a user would rely on and that is missing here, such as a restriction of clients,
/// is refused with the reason.
#[test]
fn what_other_servers_restrict_is_refused_where_it_is_not_here() {
    for (name, value, reason) in [
        ("tls-allowlist", "client.example", "by their names"),
        ("storage-provider", "flash /data", "'tier'"),
        ("db-s3-object", "s3://bucket/dump.rdb", "are files"),
        ("maxstorage", "1gb", "'tier'"),
        ("active-replica", "yes", "no replicas"),
        ("loadmodule", "a.so", "no modules"),
        ("rename-command", "CONFIG \"\"", "keep their names"),
    ] {
        let folder = TestkitFolder::new();
        let path = folder.0.join("one.conf");
        std::fs::write(&path, format!("{name} {value}\n")).unwrap();
        let error = ConfigFileContents::read(&path).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(reason), "{error}");
    }
}

#[test]
fn there_are_as_many_databases_as_are_configured() {
    on_both_with(&[("databases", "4")], |address| {
        let mut client = connect(address);
        let out = "(error) ERR DB index is out of range";
        assert_eq!(ask(&mut client, "SET a 1"), "OK");
        for command in ["SELECT 4", "SELECT 5", "MOVE a 4", "COPY a b DB 4"] {
            assert_eq!(ask(&mut client, command), out, "{command}");
        }
        assert!(ask(&mut client, "SWAPDB 0 4").contains("out of range"));
        assert_eq!(ask(&mut client, "COPY a b DB 3"), "(integer) 1");
        assert_eq!(ask(&mut client, "SELECT 3"), "OK");
        assert_eq!(ask(&mut client, "GET b"), "\"1\"");
    });
}

#[test]
fn the_snapshot_has_the_name_that_is_configured() {
    let folder = TestkitFolder::new();
    let dir = folder.0.to_string_lossy().into_owned();
    let lines = [
        ("dir", &*dir),
        ("dbfilename", "foo.rdb"),
        ("appendonly", "no"),
        ("save", "3600 1"),
    ];
    let server = Nearfield::start(started_with(&lines));
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "SET kept 1"), "OK");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    let refused = ask(&mut client, "CONFIG SET dbfilename bar.rdb");
    assert!(refused.contains("can't set protected config"), "{refused}");
    drop(server);
    assert!(folder.join("foo.rdb").exists() && !folder.join("dump.rdb").exists());
    let open = [&lines[..], &[("enable-protected-configs", "local")]].concat();
    let server = Nearfield::start(started_with(&open));
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "GET kept"), "\"1\"");
    let path = ask(&mut client, "CONFIG SET dbfilename a/b");
    assert!(path.contains("can't be a path, just a filename"), "{path}");
    let other = ask(&mut client, "CONFIG SET dir /tmp");
    assert!(other.contains("when the server is started only"), "{other}");
    assert!(ask(&mut client, "CONFIG GET dir").contains(&dir));
    assert_eq!(ask(&mut client, "CONFIG SET dbfilename bar.rdb"), "OK");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    assert!(folder.join("bar.rdb").exists());
}

#[test]
fn writes_need_the_replicas_that_are_asked_for() {
    let refused = "(error) NOREPLICAS Not enough good replicas to write.";
    on_both_with(&[("min-replicas-to-write", "1")], |address| {
        let mut client = connect(address);
        for command in ["SET a 1", "DEL a", "FLUSHALL", "EXPIRE a 1"] {
            assert_eq!(ask(&mut client, command), refused, "{command}");
        }
        // In a pipeline, too, where the commands are a batch.
        let pipeline = b"SET a 1\r\nSET b 1\r\nGET a\r\n";
        let replies = client.exchange(pipeline, 3).expect("replies");
        let replies: Vec<_> = replies.iter().map(ToString::to_string).collect();
        assert_eq!(replies, [refused, refused, "(nil)"]);
        let script = [&b"EVAL"[..], b"return redis.call('SET','a','1')", b"0"];
        let reply = client.command(&script).expect("a reply").to_string();
        assert!(reply.starts_with(refused), "{reply}");
        ask(&mut client, "MULTI");
        assert_eq!(ask(&mut client, "SET a 1"), refused);
        assert!(ask(&mut client, "EXEC").contains("EXECABORT"));
        assert_eq!(ask(&mut client, "GET a"), "(nil)");
        assert_eq!(ask(&mut client, "CONFIG SET min-replicas-max-lag 0"), "OK");
        assert_eq!(ask(&mut client, "SET a 1"), "OK");
        assert_eq!(ask(&mut client, "CONFIG SET min-replicas-max-lag 10"), "OK");
        assert_eq!(ask(&mut client, "SET a 1"), refused);
        assert_eq!(ask(&mut client, "CONFIG SET min-replicas-to-write 0"), "OK");
        assert_eq!(ask(&mut client, "SET a 1"), "OK");
    });
}

#[test]
fn a_log_is_read_though_replicas_are_missing() {
    let folder = TestkitFolder::new();
    let dir = folder.0.to_string_lossy().into_owned();
    let lines = [("dir", &*dir), ("appendonly", "yes")];
    let server = Nearfield::start(started_with(&lines));
    assert_eq!(ask(&mut server.connect(), "SET kept 1"), "OK");
    drop(server);
    let asking = [&lines[..], &[("min-replicas-to-write", "1")]].concat();
    let server = Nearfield::start(started_with(&asking));
    assert_eq!(ask(&mut server.connect(), "GET kept"), "\"1\"");
    assert!(ask(&mut server.connect(), "SET kept 2").contains("NOREPLICAS"));
}

#[test]
fn new_users_may_listen_to_all_channels_if_that_is_configured() {
    on_both(|address| {
        let mut client = connect(address);
        let user = |client: &mut _, name: &str| {
            let list = ask(client, "ACL LIST");
            let line = list
                .lines()
                .find(|line| line.contains(&format!("user {name} ")));
            line.expect("the user").contains("&*")
        };
        ask(&mut client, "ACL SETUSER ann on");
        assert!(!user(&mut client, "ann"));
        assert_eq!(
            ask(&mut client, "CONFIG SET acl-pubsub-default allchannels"),
            "OK"
        );
        ask(&mut client, "ACL SETUSER bea on");
        ask(&mut client, "ACL SETUSER ann (+get)");
        ask(&mut client, "ACL SETUSER cat on resetchannels");
        assert!(user(&mut client, "bea") && !user(&mut client, "cat"));
        assert!(ask(&mut client, "ACL GETUSER ann").contains("\"&*\""));
        ask(&mut client, "ACL SETUSER cat reset");
        assert!(user(&mut client, "cat"));
    });
}

#[test]
fn as_many_denials_are_kept_as_are_configured() {
    on_both_with(&[("acllog-max-len", "3")], |address| {
        let mut client = connect(address);
        for number in 0..6 {
            ask(&mut client, &format!("AUTH nobody{number} x"));
        }
        let count = |client: &mut _| ask(client, "ACL LOG").matches("\"username\"").count();
        assert_eq!(count(&mut client), 3);
        assert_eq!(ask(&mut client, "CONFIG SET acllog-max-len 0"), "OK");
        ask(&mut client, "AUTH nobody x");
        assert_eq!(count(&mut client), 0);
    });
}

#[test]
fn the_times_of_commands_are_noted_if_that_is_configured() {
    on_both_with(&[("latency-tracking", "no")], |address| {
        let mut client = connect(address);
        ask(&mut client, "SET a 1");
        assert!(ask(&mut client, "LATENCY HISTOGRAM set").starts_with("(empty"));
        assert!(!ask_text(&mut client, "INFO latencystats").contains("percentiles_usec_set"));
        assert_eq!(ask(&mut client, "CONFIG SET latency-tracking yes"), "OK");
        ask(&mut client, "SET a 1");
        assert!(ask(&mut client, "LATENCY HISTOGRAM set").contains("\"calls\""));
    });
}

#[test]
fn passwords_are_bytes() {
    on_both(|address| {
        let mut admin = connect(address);
        let (one, other) = (&b"\xff\xfe\x01pw"[..], &b"\xfd\xfc\x01pw"[..]);
        let set = admin.command(&[b"CONFIG", b"SET", b"requirepass", one]);
        assert_eq!(set.expect("a reply").to_string(), "OK");
        let mut client = connect(address);
        let mut auth = |password: &[u8]| {
            let reply = client.command(&[b"AUTH", password]).expect("a reply");
            reply.to_string()
        };
        assert!(auth(other).contains("WRONGPASS"));
        assert_eq!(auth(one), "OK");
        let shown = admin.command(&[b"CONFIG", b"GET", b"requirepass"]);
        let Ok(RespReplyValue::Array(pair)) = shown else {
            panic!("the name of the parameter is not text");
        };
        assert_eq!(pair[1], RespReplyValue::Bulk(one.to_vec()));
    });
}

#[test]
fn users_of_the_configuration_are_there_and_are_written_back() {
    let folder = TestkitFolder::new();
    let path = folder.join("server.conf");
    let text = "user ann on >\"a b\" ~* +@all\nuser default on nopass ~x* +@all\n";
    std::fs::write(&path, text).expect("a file");
    let read = || {
        let settings = ConfigFileContents::read(&path).expect("a file");
        ServerOptions::from_settings(settings).expect("options")
    };
    let server = Nearfield::start(read());
    let mut client = server.connect();
    assert!(ask(&mut client, "GET a").contains("NOPERM"));
    let auth = client.command(&[b"AUTH", b"ann", b"a b"]);
    assert_eq!(auth.expect("a reply").to_string(), "OK");
    assert_eq!(ask(&mut client, "ACL DELUSER bea"), "(integer) 0");
    assert_eq!(
        ask(&mut client, "ACL SETUSER bea on >secret +get ~b*"),
        "OK"
    );
    assert_eq!(ask(&mut client, "CONFIG REWRITE"), "OK");
    let before = ask(&mut client, "ACL LIST");
    drop(server);
    let server = Nearfield::start(read());
    let mut client = server.connect();
    let auth = client.command(&[b"AUTH", b"ann", b"a b"]);
    assert_eq!(auth.expect("a reply").to_string(), "OK");
    assert_eq!(ask(&mut client, "ACL LIST"), before);
    drop(server);
    // A separate file of users is refused, and so is an invalid rule.
    for (line, why) in [
        ("user eve on +nosuch", "Unknown command or category name"),
        ("aclfile users.acl", "use one of them"),
    ] {
        std::fs::write(&path, format!("{text}{line}\n")).expect("a file");
        let server = UnservedServer::new(read());
        let served = nearfield_server::net::serve(&server, |_| server.stop());
        let error = served.expect_err("it starts").to_string();
        assert!(error.contains(why), "{error}");
        assert!(error.contains("server.conf, line"), "{error}");
    }
}

#[test]
fn requirepass_alone_makes_no_line_of_a_user() {
    let folder = TestkitFolder::new();
    let path = folder.join("server.conf");
    std::fs::write(&path, "requirepass first\n").expect("a file");
    let settings = ConfigFileContents::read(&path).expect("a file");
    let server = Nearfield::start(ServerOptions::from_settings(settings).expect("options"));
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "AUTH first"), "OK");
    assert_eq!(ask(&mut client, "CONFIG SET requirepass second"), "OK");
    assert_eq!(ask(&mut client, "CONFIG REWRITE"), "OK");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.contains("requirepass second\n"), "{text}");
    assert!(!text.contains("user default"), "{text}");
}
