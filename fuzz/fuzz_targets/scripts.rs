//! Scripts that call Lua's libraries with hostile arguments: none causes a panic or an invalid
//! write (the C code of Lua is built with AddressSanitizer, too), each script ends once it is
//! killed, and the next one finds the initial state.
//!
//! An input that begins with `--` is used as the script. In other inputs, each byte selects the
//! next part of the script. With `NEARFIELD_FUZZ_CANARY=1` a setting of `cjson`, which remains
//! after a script, counts as a fault that must be found.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nearfield_server::error::CommandError;
use nearfield_server::resp::{Protocol, RespReply};
use nearfield_server::script::{LuaHost, ScriptCaller, ScriptRunKind, Scripts};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

/// Time after which a script is killed.
const PATIENCE: Duration = Duration::from_millis(100);

/// Value of `maxmemory`, of which scripts may use an eighth.
const MAXMEMORY: u64 = 2 << 30;

/// Functions of the libraries, and forms around two values.
const FORMS: &[&str] = &[
    "string.find(A, B)",
    "string.find(A, B, C)",
    "string.match(A, B)",
    "string.gsub(A, B, C)",
    "string.gsub(A, B, function(...) return A end)",
    "string.rep(A, B)",
    "string.format(A, B, C)",
    "string.byte(A, B, C)",
    "string.sub(A, B, C)",
    "string.upper(A)",
    "string.dump(A)",
    "table.insert(A, B, C)",
    "table.insert(A, B)",
    "table.remove(A, B)",
    "table.concat(A, B, C)",
    "table.sort(A, B)",
    "table.sort(A, function(a, b) return B end)",
    "table.maxn(A)",
    "unpack(A, B, C)",
    "select(A, B, C)",
    "tonumber(A, B)",
    "tostring(A)",
    "rawset(A, B, C)",
    "rawget(A, B)",
    "setmetatable(A, {__index = function() return B end, __tostring = function() return C end})",
    "next(A, B)",
    "loadstring(A, B)",
    "load(function() return A end, B)",
    "collectgarbage(A, B)",
    "coroutine.wrap(function(...) return A end)(B)",
    "coroutine.resume(coroutine.create(function() coroutine.yield(A) error(B) end), C)",
    "pcall(A, B, C)",
    "xpcall(function() error(A) end, function(e) return B end)",
    "cjson.encode(A)",
    "cjson.decode(A)",
    "cjson.encode_sparse_array(A, B, C)",
    "cjson.encode_max_depth(A)",
    "cjson.decode_max_depth(A)",
    "cmsgpack.pack(A, B)",
    "cmsgpack.unpack(A)",
    "cmsgpack.unpack_limit(A, B, C)",
    "struct.pack(A, B, C)",
    "struct.unpack(A, B, C)",
    "struct.size(A)",
    "bit.tohex(A, B)",
    "bit.lshift(A, B)",
    "math.random(A, B)",
    "redis.call(A, B, C)",
    "redis.pcall(A, B)",
    "redis.sha1hex(A)",
    "redis.error_reply(A)",
    "redis.setresp(A)",
    "A .. B",
    "A < B",
    "A[B]",
    "#A",
];

/// Values that libraries rarely get.
const VALUES: &[&str] = &[
    "nil",
    "true",
    "0",
    "1",
    "-1",
    "3.5",
    "0/0",
    "1/0",
    "2147483647",
    "-2147483648",
    "2^53",
    "-2^63",
    "1e300",
    "8001",
    "''",
    "'a'",
    "'%'",
    "'[a-'",
    "'%f[%a]()(%w+)'",
    "'(.-)%1%b()$'",
    "'\\0x\\255'",
    "'%99.99f'",
    "'%q%s%d%c'",
    "'<!4i8c0sx'",
    "'\\219\\255\\255\\255\\255Z'",
    "'\\27Lua'",
    "'[[1,{\"a\":null}]]'",
    "string.rep('a', 5000)",
    "string.rep('a?', 5000)",
    "string.rep('[', 5000)",
    "string.rep('\\145', 500)",
    "{}",
    "{1, 2, 3}",
    "{[2147483647] = 1}",
    "{a = {b = {}}}",
    "_G",
    "KEYS",
    "string",
    "print",
    "function(...) return ... end",
    "coroutine.create(function() end)",
    "cjson.null",
    "kept",
];

/// Returns the Lua script that these bytes encode.
fn script(bytes: &[u8]) -> String {
    let mut bytes = bytes.iter().map(|byte| usize::from(*byte));
    let mut text = String::from("local kept = {}\n");
    while let Some(form) = bytes.next() {
        let mut line = FORMS[form % FORMS.len()].to_owned();
        for place in ["A", "B", "C"] {
            let value = VALUES[bytes.next().unwrap_or(0) % VALUES.len()];
            // A library's name is a name, not a placeholder.
            line = line
                .split_inclusive(|letter: char| !letter.is_alphanumeric())
                .map(|word| match word.strip_prefix(place) {
                    Some(rest) if !rest.starts_with(char::is_alphanumeric) => {
                        format!("({value}){rest}")
                    }
                    _ => word.to_owned(),
                })
                .collect();
        }
        text += &format!("pcall(function() kept = {{{line}}} end)\n");
    }
    text + "return kept"
}

/// A stub of the server that replies to each command with its words.
struct Echo(RespReply);

impl LuaHost for Echo {
    fn run(&mut self, args: &[&[u8]], reply: &mut RespReply) -> Result<(), String> {
        reply.bulk(&args.join(&b' '));
        Ok(())
    }

    fn may_run(&self, _: &[&[u8]]) -> Option<bool> {
        Some(true)
    }

    fn reply(&mut self) -> &mut RespReply {
        &mut self.0
    }
}

static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| {
    thread::spawn(|| {
        loop {
            thread::sleep(PATIENCE);
            let _ = SCRIPTS.watchdog.kill(ScriptRunKind::Script);
        }
    });
    let scripts = Scripts::default();
    // The largest script would take gigabytes under AddressSanitizer, and seconds to copy.
    scripts.memory.configure(MAXMEMORY);
    scripts
});

fn run(text: &[u8]) -> Result<Vec<u8>, CommandError> {
    let caller = ScriptCaller {
        thread: 0,
        began: Instant::now(),
    };
    let script = SCRIPTS.evaluate(text)?;
    let mut echo = Echo(RespReply::new(Protocol::Resp2));
    SCRIPTS.run(&script, caller, &mut echo, &[b"key"], &[b"argument"])?;
    Ok(echo.0.take())
}

/// A script that checks that the shared state of scripts is the initial one.
const CHECK: &[u8] = b"return #string == 0 and next({}) == nil and tostring(_G) ~= ''
    and string.find('abc', 'b') == 2 and unpack({1, 2}) == 1 and ('x'):rep(3) == 'xxx'
    and pcall(error) == false and getmetatable('') == false and rawget(_G, 'kept') == nil
    and collectgarbage() == 0 and collectgarbage('count') < 99999
    and cjson.encode({1}) == '[1]' and 1";

fuzz_target!(|input: &[u8]| {
    let text = match input {
        [b'-', b'-', ..] => input.to_vec(),
        bytes => script(bytes).into_bytes(),
    };
    let began = Instant::now();
    let _ = run(&text);
    assert!(began.elapsed() < Duration::from_secs(8), "it has not ended");
    let mut check = CHECK.to_vec();
    if std::env::var_os("NEARFIELD_FUZZ_CANARY").is_some() {
        check.splice(
            0..0,
            *b"if cjson.encode_max_depth() ~= 1000 then return 2 end ",
        );
    }
    let answer = run(&check);
    // The check may be killed itself, by the timeout of the other script.
    let is_killed = matches!(&answer, Err(error) if error.to_string().contains("killed"));
    assert!(is_killed || answer == Ok(b":1\r\n".to_vec()), "{answer:?}");
});
