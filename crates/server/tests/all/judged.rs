//! Permissions where a command is not executed for its client at once: within a script or a
//! function, in a transaction that was queued under other rules, and for a client that has waited.

use super::permissions::{COMMANDS, NEWER, RULES};
use super::waiting::{on_newest, wait_as_user};
use nearfield_server::config::ServerOptions;
use nearfield_server_testkit::connection::{TestkitConnection, encode};
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::peer::PeerServer;
use nearfield_server_testkit::reply::RespReplyValue;
use nearfield_server_testkit::steps::{ask, ask_number, connect, receive_reply, send_command};
use std::net::SocketAddr;

/// Places in which the commands are executed.
#[derive(Clone, Copy, Debug)]
enum ExecutionSite {
    Script,
    Function,
    /// A transaction; the rules are changed between `MULTI` and `EXEC`.
    Transaction,
}

/// Commands that are not compared, with the reasons.
const DIFFERENT: &[(&str, &str)] = &[
    ("PFMERGE a", "without sources Redis checks no key"),
    ("PFSELFTEST", "it takes Redis a second"),
    ("COMMAND", "its reply is long"),
    ("COMMAND DOCS", "its reply is long"),
    ("COMMAND INFO", "its reply is long"),
    (
        "WAIT 0 0",
        "Redis 7 has it in another category, and newer ones refuse it in a script",
    ),
];

/// Returns the reason why a command is refused, or `run`.
fn verdict(reply: &RespReplyValue) -> &'static str {
    let text = match reply {
        RespReplyValue::Error(text) => String::from_utf8_lossy(text).into_owned(),
        _ => return "run",
    };
    let reasons = [
        ("command is not allowed from script", "no script"),
        ("Unknown Redis command", "unknown"),
        ("unknown command", "unknown"),
        ("unknown subcommand", "unknown"),
        ("to run the", "no command"),
        ("can't run this command", "no command"),
        ("permission to execute", "no command"),
        ("access a key", "no key"),
        ("touch the specified keys", "no key"),
        ("one of the keys mentioned", "no key"),
        ("keys used as arguments", "no key"),
        // The patterns of a script's SORT need permissions on all keys.
        ("SORT denied", "run"),
        ("access a channel", "no channel"),
        ("publish to the channel", "no channel"),
        ("channels used as arguments", "no channel"),
        ("one of the channels", "no channel"),
    ];
    let found = reasons.iter().find(|(part, _)| text.contains(part));
    let is_judged = ["NOPERM", "ACL", "user executing"];
    let is_judged = is_judged.iter().any(|it| text.contains(it));
    assert!(found.is_some() || !is_judged, "{text}");
    found.map_or("run", |(_, verdict)| verdict)
}

/// Commands that may be executed within a script, and end nothing.
fn commands(newer: bool) -> Vec<String> {
    let newer = NEWER.iter().filter(|_| newer);
    let named = COMMANDS.iter().chain(newer);
    let judged = named.filter(|it| DIFFERENT.iter().all(|(other, _)| other != *it));
    // A connection to a closed port fails at once, while a name must be looked up.
    judged
        .map(|it| it.replace("MIGRATE h", "MIGRATE 127.0.0.1"))
        .collect()
}

/// Users and connections of one server.
struct PermissionJudge {
    admin: TestkitConnection,
    client: TestkitConnection,
}

impl PermissionJudge {
    fn new(address: SocketAddr) -> PermissionJudge {
        let mut admin = connect(address);
        let code: &[u8] = b"#!lua name=l\n\
            redis.register_function('f', function(_, words) return redis.pcall(unpack(words)) end)";
        let loaded = admin.command(&[b"FUNCTION", b"LOAD", b"REPLACE", code]);
        loaded.expect("a library");
        assert_eq!(ask(&mut admin, "ACL SETUSER u reset on nopass"), "OK");
        let mut client = connect(address);
        assert_eq!(ask(&mut client, "AUTH u any"), "OK");
        PermissionJudge { admin, client }
    }

    fn set(&mut self, rules: &str) {
        ask(&mut self.admin, "FLUSHALL");
        let set = format!("ACL SETUSER u reset on nopass {rules}");
        assert_eq!(ask(&mut self.admin, &set), "OK");
    }

    /// Returns the verdict on each command.
    fn judge(
        &mut self,
        rules: &str,
        within: ExecutionSite,
        commands: &[String],
    ) -> Vec<&'static str> {
        let mut requests = Vec::new();
        for command in commands {
            let script = b"return redis.pcall(unpack(ARGV))";
            let before: &[&[u8]] = match within {
                ExecutionSite::Script => &[b"EVAL", script, b"0"],
                ExecutionSite::Function => &[b"FCALL", b"f", b"0"],
                ExecutionSite::Transaction => &[],
            };
            let words = command.split(' ').map(str::as_bytes);
            let words: Vec<&[u8]> = before.iter().copied().chain(words).collect();
            encode(&mut requests, &words);
        }
        let replies = match within {
            ExecutionSite::Script | ExecutionSite::Function => {
                self.set(&format!("{rules} +eval +fcall"));
                let replies = self.client.exchange(&requests, commands.len());
                replies.expect("replies")
            }
            ExecutionSite::Transaction => {
                self.set("+@all allkeys allchannels");
                assert_eq!(ask(&mut self.client, "MULTI"), "OK");
                let queued = self.client.exchange(&requests, commands.len());
                for (queued, command) in queued.expect("replies").iter().zip(commands) {
                    assert_eq!(queued.to_string(), "QUEUED", "{command}");
                }
                self.set(&format!("{rules} +exec"));
                match self.client.command(&[b"EXEC"]) {
                    Ok(RespReplyValue::Array(replies)) => replies,
                    other => panic!("{rules}: {other:?}"),
                }
            }
        };
        replies.iter().map(verdict).collect()
    }
}

#[test]
fn commands_are_judged_within_scripts_and_transactions_as_by_other_servers() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut mine = PermissionJudge::new(ours.address);
    // The commands that a script may not run do not depend on permissions.
    let known = commands(true);
    let allowed = mine.judge("+@all ~* &*", ExecutionSite::Script, &known);
    let is_allowed = |command: &String| {
        let position = known.iter().position(|it| it == command);
        position.is_some_and(|position| allowed[position] == "run")
    };
    for peer in PeerServer::ALL {
        let Some(server) = peer.start(&["--enable-debug-command", "yes"]) else {
            continue;
        };
        let mut theirs = PermissionJudge::new(server.address);
        let all = commands(peer == PeerServer::Redis8);
        let (inner, outer): (Vec<String>, Vec<String>) = all.into_iter().partition(is_allowed);
        assert!(inner.len() > 200, "{} may be run", inner.len());
        for within in [
            ExecutionSite::Script,
            ExecutionSite::Function,
            ExecutionSite::Transaction,
        ] {
            for (number, rules) in RULES.iter().enumerate() {
                // A function calls commands as a script does, so some are enough.
                if matches!(within, ExecutionSite::Function) && number % 8 != 0 {
                    continue;
                }
                let judged = [&mut mine, &mut theirs].map(|it| it.judge(rules, within, &inner));
                for ((command, mine), theirs) in inner.iter().zip(&judged[0]).zip(&judged[1]) {
                    // Redis 7 has no commands that wait in scripts.
                    let mine = if *theirs == "no script" { theirs } else { mine };
                    let name = peer.name();
                    assert_eq!(
                        mine, theirs,
                        "{command} of {name}, {within:?}, with {rules}"
                    );
                }
            }
        }
        let judged =
            [&mut mine, &mut theirs].map(|it| it.judge(RULES[0], ExecutionSite::Script, &outer));
        for ((command, mine), theirs) in outer.iter().zip(&judged[0]).zip(&judged[1]) {
            assert_eq!(mine, theirs, "{command} of {}, in a script", peer.name());
        }
    }
}

#[test]
fn a_script_is_refused_what_its_client_is() {
    let ours = Nearfield::start(ServerOptions::default());
    let mut judge = PermissionJudge::new(ours.address);
    let known = commands(true);
    for rules in RULES {
        let judged = judge.judge(rules, ExecutionSite::Script, &known);
        judge.set(&format!("{rules} +eval +fcall"));
        for (command, judged) in known.iter().zip(judged) {
            let dry = ask(&mut judge.admin, &format!("ACL DRYRUN u {command}"));
            let outside = match () {
                () if dry.contains("' command") => "no command",
                () if dry.contains("' key") => "no key",
                () if dry.contains("' channel") => "no channel",
                () => "run",
            };
            if judged != "no script" {
                assert_eq!(judged, outside, "{command}, with {rules}");
            }
        }
    }
}

/// Commands that wait, each with a command that wakes it, and one that shows that nothing was
/// taken.
const WAITING: &[(&str, &str, &str)] = &[
    ("BLPOP q 0", "RPUSH q secret", "LLEN q"),
    ("BRPOP other q 0", "RPUSH q secret", "LLEN q"),
    ("BLMOVE q to LEFT RIGHT 0", "RPUSH q secret", "LLEN q"),
    ("BRPOPLPUSH q to 0", "RPUSH q secret", "LLEN q"),
    ("BLMPOP 0 2 other q LEFT", "RPUSH q secret", "LLEN q"),
    ("BZPOPMIN q 0", "ZADD q 1 secret", "ZCARD q"),
    ("BZPOPMAX other q 0", "ZADD q 1 secret", "ZCARD q"),
    ("BZMPOP 0 2 other q MIN", "ZADD q 1 secret", "ZCARD q"),
    (
        "XREAD BLOCK 0 STREAMS other q $ $",
        "XADD q 1-1 f secret",
        "XLEN q",
    ),
    (
        "XREADGROUP GROUP g c BLOCK 0 STREAMS q >",
        "XADD q 1-1 f secret",
        "XLEN q",
    ),
];

#[test]
fn who_waits_is_judged_by_each_kind_of_rule_that_came_meanwhile() {
    on_newest(|address| {
        let mut other = connect(address);
        for (command, wakes, left) in WAITING {
            for rules in [
                "resetkeys %R~* %W~other",
                "resetkeys %W~*",
                "resetkeys ~q",
                "resetkeys ~other ~to",
                "-@all +@read",
                "off",
                "resetpass",
                "nopass",
                "resetchannels",
                "-@list -@sortedset -@stream",
                "resetkeys (+@all ~q)",
                "resetkeys (+@all ~q ~other ~to)",
                "resetkeys -@all (+@all ~*)",
            ] {
                let mut client = wait_as_user(address, &mut other, command);
                assert_eq!(ask(&mut other, &format!("ACL SETUSER u {rules}")), "OK");
                let dry = ask(&mut other, &format!("ACL DRYRUN u {command}"));
                send_command(&mut other, wakes);
                receive_reply(&mut other);
                let answer = receive_reply(&mut client);
                let is_refused = answer.contains("NOPERM");
                assert_eq!(is_refused, dry != "OK", "{command}, {rules}: {answer}");
                assert_eq!(is_refused, !answer.contains("secret"), "{command}, {rules}");
                let kept = ask_number(&mut other, left);
                let is_read = command.starts_with('X');
                let expected = i64::from(is_refused || is_read);
                assert_eq!(kept, expected, "{command}, {rules}");
            }
        }
    });
}

#[test]
fn who_waits_as_a_user_that_is_deleted_is_closed_and_takes_nothing() {
    on_newest(|address| {
        let mut other = connect(address);
        for (command, wakes, left) in WAITING {
            for ends in ["ACL DELUSER u", "CLIENT KILL USER u"] {
                let mut client = wait_as_user(address, &mut other, command);
                assert_eq!(ask_number(&mut other, ends), 1);
                send_command(&mut other, wakes);
                receive_reply(&mut other);
                assert_eq!(ask_number(&mut other, left), 1, "{command}, {ends}");
                let heard = client.receive();
                assert!(heard.is_err(), "{command}, {ends}: {heard:?}");
            }
        }
    });
}
