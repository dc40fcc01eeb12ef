//! Commands on keys accept any arguments: words that have a meaning for some command, and numbers
//! at the limits, in any number and order. Each command gets exactly one reply, and none panics.

use nearfield_server::client::ClientSession;
use nearfield_server::clock::now_ms;
use nearfield_server::command::{CommandDefinition, CommandGroup, CommandImplementation, Flags};
use nearfield_server::commands::TABLE;
use nearfield_server::config::ServerOptions;
use nearfield_server::execute::Executor;
use nearfield_server::resp::{Protocol, RespReply};
use nearfield_server_testkit::nearfield::UnservedServer;
use nearfield_server_testkit::reply::RespReplyValue;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "string",
    "list",
    "hash",
    "",
    "0",
    "1",
    "-1",
    "2",
    "7",
    "100",
    "-100",
    "1.5",
    "1e300",
    "-inf",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4294967295",
    "536870911",
    "18446744073709551615",
    "NX",
    "XX",
    "GT",
    "LT",
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "KEEPTTL",
    "PERSIST",
    "GET",
    "SET",
    "INCRBY",
    "OVERFLOW",
    "SAT",
    "FAIL",
    "WRAP",
    "u8",
    "i64",
    "u63",
    "i1",
    "#1",
    "#9223372036854775807",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "BIT",
    "BYTE",
    "LEN",
    "IDX",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "MATCH",
    "COUNT",
    "TYPE",
    "LIMIT",
    "BY",
    "ASC",
    "DESC",
    "ALPHA",
    "STORE",
    "w_*->f",
    "*",
    "[",
    "[a-",
    "\\",
    "**a",
    "REPLACE",
    "DB",
    "ABSTTL",
    "FREQ",
    "IDLETIME",
    "ASYNC",
    "SYNC",
    "-",
    "+",
    "[a",
    "(b",
    "REV",
    "WITHVALUES",
    "DEL",
    "BEFORE",
    "AFTER",
    "WITHVALUE",
];

#[test]
fn any_arguments_are_answered_once() {
    let groups = [
        CommandGroup::String,
        CommandGroup::Generic,
        CommandGroup::Ordered,
    ];
    // A command that is sent to another server gets its reply later.
    let is_ours = |command: &&&CommandDefinition| {
        groups.contains(&command.group)
            && !command.flags.has(Flags::NO_PHASE)
            && command.name != "migrate"
    };
    let commands: Vec<&CommandDefinition> =
        TABLE.all().filter(|command| is_ours(&command)).collect();
    let random = &mut SmallRng::seed_from_u64(7);
    let server = UnservedServer::new(ServerOptions::default());
    let mut executor = Executor::new(&server);
    let mut client = ClientSession::internal();
    let mut run = |words: &[&str]| {
        let mut reply = RespReply::new(Protocol::Resp2);
        let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        executor.run(&mut client, &args, now_ms(), &mut reply);
        let bytes = reply.take();
        let parsed = RespReplyValue::parse(&bytes).unwrap();
        let (_, length) = parsed.unwrap_or_else(|| panic!("{words:?}: half a reply"));
        assert_eq!(length, bytes.len(), "{words:?}");
    };
    for round in 0..60_000 {
        if round % 50 == 0 {
            run(&["SET", "string", "some text"]);
            run(&["DEL", "list", "hash"]);
            run(&["RPUSH", "list", "1", "2"]);
            run(&["HSET", "hash", "f", "1"]);
        }
        let command = commands.choose(random).unwrap();
        let mut words = vec![command.name];
        if let CommandImplementation::Container(subcommands) = command.run {
            words.push(subcommands.choose(random).unwrap().name);
        }
        let least = command.arity.unsigned_abs() as usize;
        let length = least + random.random_range(0..6) * usize::from(command.arity < 0);
        while words.len() < length {
            words.push(WORDS.choose(random).unwrap());
        }
        // Strings of half a gigabyte are left to other tests.
        let long = ["536870911", "4294967295", "#9223372036854775807"];
        let grows = ["setrange", "setbit", "bitfield"].contains(&command.name);
        if !(grows && words.iter().any(|word| long.contains(word))) {
            run(&words);
        }
    }
}
