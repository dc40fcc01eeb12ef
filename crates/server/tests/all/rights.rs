//! Access besides user permissions: commands that the configuration forbids, requests of another
//! protocol, and a file of users that cannot be read.

use super::configuration::{on_both_with, started_with};
use nearfield_server::config::{ListenPort, ServerOptions};
use nearfield_server::net::serve;
use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::folder::TestkitFolder;
use nearfield_server_testkit::nearfield::{Nearfield, UnservedServer};
use nearfield_server_testkit::steps::{ask, connect, on_both, until_closed};
use std::net::SocketAddr;

#[test]
fn what_a_browser_sends_closes_the_connection_and_is_not_executed() {
    on_both(|address| {
        for begin in [
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "hOST: 127.0.0.1\r\n",
            "*1\r\n$4\r\npost\r\n",
        ] {
            let mut browser = connect(address);
            let sent = format!("PING\r\n{begin}SET written 1\r\nEVAL \"return 1\" 0\r\n");
            browser.send(sent.as_bytes()).expect("it is sent");
            let replies = match browser.receive() {
                Ok(_) => 1 + until_closed(&mut browser),
                // Redis may close the connection before it has replied.
                Err(_) => 0,
            };
            assert!(replies <= 1, "{begin:?} received {replies} replies");
            assert_eq!(ask(&mut connect(address), "EXISTS written"), "(integer) 0");
        }
        // Within a transaction, and as a word of another command, too.
        let mut client = connect(address);
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        client.send(b"Host: a\r\nPING\r\n").expect("it is sent");
        assert_eq!(until_closed(&mut client), 0);
        assert_eq!(ask(&mut connect(address), "SET POST Host:"), "OK");
    });
}

#[test]
fn what_a_browser_sends_before_the_password_closes_the_connection() {
    on_both(|address| {
        let set = ask(&mut connect(address), "CONFIG SET requirepass secret");
        assert_eq!(set, "OK");
        let mut browser = connect(address);
        let sent = b"POST / HTTP/1.1\r\nAUTH secret\r\nSET written 1\r\n";
        browser.send(sent).expect("it is sent");
        assert_eq!(until_closed(&mut browser), 0);
        let mut client = connect(address);
        assert_eq!(ask(&mut client, "AUTH secret"), "OK");
        assert_eq!(ask(&mut client, "EXISTS written"), "(integer) 0");
    });
}

/// Returns the replies to commands that the configuration may forbid.
fn protected(address: SocketAddr) -> [String; 5] {
    let mut client = connect(address);
    let mut answers = [
        "DEBUG SLEEP 0",
        "DEBUG JMAP",
        "DEBUG HELP",
        "MODULE LOAD /nowhere.so",
        "MODULE UNLOAD none",
    ]
    .map(|command| ask(&mut client, command));
    assert!(ask(&mut client, "MODULE LIST").starts_with("(empty"));
    ask(&mut client, "MULTI");
    let queued = ask(&mut client, "DEBUG SLEEP 0");
    assert_eq!(queued == "QUEUED", answers[0] == "OK", "{queued}");
    // The words of a HELP are each server's own.
    answers[2].truncate(12);
    answers
}

#[test]
fn commands_that_can_do_harm_are_closed_unless_the_configuration_opens_them() {
    let refused = |command: &str| {
        let parameter = command.to_lowercase();
        format!(
            "(error) ERR {command} command not allowed. If the enable-{parameter}-command option \
             is set to \"local\", you can run it from a local connection, otherwise you need to \
             set this option in the configuration file, and then restart the server."
        )
    };
    let no = [
        ("enable-debug-command", "no"),
        ("enable-module-command", "no"),
    ];
    on_both_with(&no, |address| {
        let [sleep, unknown, help, load, unload] = protected(address);
        assert_eq!([sleep, unknown], [refused("DEBUG"), refused("DEBUG")]);
        assert_eq!(help, refused("DEBUG")[..12]);
        assert_eq!([load, unload], [refused("MODULE"), refused("MODULE")]);
    });
    for word in ["local", "yes"] {
        let open = [
            ("enable-debug-command", word),
            ("enable-module-command", word),
        ];
        on_both_with(&open, |address| {
            let [sleep, _, help, load, unload] = protected(address);
            assert_eq!(sleep, "OK");
            assert!(help.contains("1) DEBUG"), "{help}");
            for answer in [load, unload] {
                assert!(answer.starts_with("(error) ERR Error"), "{answer}");
            }
        });
    }
    // By default, too.
    let parameters = ["enable-debug-command", "enable-module-command"];
    let server = UnservedServer::new(ServerOptions::default());
    assert_eq!(
        parameters.map(|name| server.config.text(name)),
        ["no", "no"]
    );
}

/// Starts a server that must not start, and returns the reason.
fn refusal(options: ServerOptions) -> String {
    let server = UnservedServer::new(ServerOptions {
        port: ListenPort::Free,
        ..options
    });
    let served = serve(&server, |_| server.stop());
    served.expect_err("it starts").to_string()
}

#[test]
fn a_server_without_the_users_that_it_was_told_to_have_does_not_start() {
    let folder = TestkitFolder::new();
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let missing = refusal(started_with(&[("aclfile", &path("none.acl"))]));
    assert!(missing.starts_with("Error loading ACLs"), "{missing}");
    assert!(missing.contains("none.acl"), "{missing}");
    let wrong = folder.join("wrong.acl");
    std::fs::write(&wrong, "user ann on nosuchrule\n").expect("a file");
    let refused = refusal(started_with(&[("aclfile", &path("wrong.acl"))]));
    assert!(refused.starts_with("Error loading ACLs"), "{refused}");
    // A folder is not a file.
    let refused = refusal(started_with(&[("aclfile", &path("."))]));
    assert!(refused.starts_with("Error loading ACLs"), "{refused}");
}

#[test]
fn a_file_without_a_folder_lies_where_the_data_do() {
    let folder = TestkitFolder::new();
    let users = "user default off\nuser ann on >secret ~* &* +@all\n";
    std::fs::write(folder.join("users.acl"), users).expect("a file");
    let dir = folder.0.to_string_lossy().into_owned();
    let lines = [
        ("dir", &*dir),
        ("appendonly", "no"),
        ("save", ""),
        ("aclfile", "users.acl"),
        ("unixsocket", "server.socket"),
    ];
    let server = Nearfield::start(started_with(&lines));
    let mut client = server.connect();
    assert!(ask(&mut client, "PING").contains("NOAUTH"));
    assert_eq!(ask(&mut client, "AUTH ann secret"), "OK");
    assert_eq!(ask(&mut client, "ACL SAVE"), "OK");
    let shown = ask(&mut client, "CONFIG GET aclfile");
    assert_eq!(shown, "1) \"aclfile\"\n2) \"users.acl\"");
    let saved = std::fs::read_to_string(folder.join("users.acl")).expect("a file");
    assert!(saved.contains("user ann on"), "{saved}");
    assert!(folder.join("server.socket").exists());
}

#[test]
fn a_port_of_0_is_none() {
    let folder = TestkitFolder::new();
    let socket = folder.join("socket");
    let name = socket.to_string_lossy().into_owned();
    let server = UnservedServer::new(started_with(&[("port", "0"), ("unixsocket", &name)]));
    let served = serve(&server, |addresses| {
        assert_eq!(addresses, [], "it listens for TCP");
        assert!(socket.exists());
        server.stop();
    });
    assert!(served.is_ok(), "{served:?}");
    assert_eq!(server.listening.port(), 0);
    // Without another socket there is no access to it.
    let server = UnservedServer::new(started_with(&[("port", "0")]));
    let served = serve(&server, |_| server.stop());
    let error = served.expect_err("it listens somewhere").to_string();
    assert!(error.contains("port, tls-port or unixsocket"), "{error}");
}

/// Returns the replies to commands, one after the other.
fn answers(client: &mut TestkitConnection, commands: &[&str]) -> Vec<String> {
    commands.iter().map(|it| ask(client, it)).collect()
}

#[test]
fn patterns_of_sort_need_one_selector_for_the_command_and_all_keys() {
    let by = "(error) ERR BY option of SORT denied due to insufficient ACL permissions.";
    let get = "(error) ERR GET option of SORT denied due to insufficient ACL permissions.";
    let sorts = [
        "SORT ok:l BY nosort GET secret:*",
        "SORT ok:l BY secret:*",
        "SORT_RO ok:l BY nosort GET secret:*",
        "SORT_RO ok:l BY secret:*->f GET #",
    ];
    on_both(|address| {
        let mut admin = connect(address);
        ask(&mut admin, "RPUSH ok:l 1");
        ask(&mut admin, "SET secret:1 hidden");
        for rules in [
            "~ok:* -@all +auth +sort +sort_ro (+exists ~*)",
            "~ok:* -@all +auth +sort +sort_ro (~* +@write -sort)",
            "~ok:* -@all +auth +@all (~* -@all)",
            "-@all +auth (~ok:* +sort +sort_ro) (%R~* +@read -sort_ro)",
            "%W~* %R~ok:* +@all",
        ] {
            let set = format!("ACL SETUSER w reset on nopass {rules}");
            assert_eq!(ask(&mut admin, &set), "OK", "{rules}");
            let mut client = connect(address);
            assert_eq!(ask(&mut client, "AUTH w w"), "OK");
            assert_eq!(answers(&mut client, &sorts), [get, by, get, by], "{rules}");
            ask(&mut client, "MULTI");
            if ask(&mut client, sorts[0]) == "QUEUED" {
                assert_eq!(ask(&mut client, "EXEC"), format!("1) {get}"), "{rules}");
            }
        }
        // A single selector that allows both is enough.
        let set = "ACL SETUSER w reset on nopass +auth (%R~* +sort +sort_ro) (~ok:* +exists)";
        assert_eq!(ask(&mut admin, set), "OK");
        let mut client = connect(address);
        ask(&mut client, "AUTH w w");
        assert_eq!(ask(&mut client, sorts[0]), "1) \"hidden\"");
        assert_eq!(ask(&mut client, sorts[3]), "1) \"1\"");
    });
}
