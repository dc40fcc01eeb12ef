//! Scripts that attack the interpreter or the server. The public vulnerabilities of Lua 5.1 and of
//! its libraries in scripts are here by their names, each with an input that triggered it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use nearfield_server_testkit::connection::TestkitConnection;
use nearfield_server_testkit::nearfield::Nearfield;
use nearfield_server_testkit::steps::{
    ask, connect, eventually, info, on_both, receive_reply, send_command,
};
use std::net::SocketAddr;

/// The name of a published vulnerability, an input that triggered it, and the beginning of the
/// reply where it is fixed.
type PublicFault = (&'static str, &'static str, &'static str);

const PUBLIC_FAULTS: &[PublicFault] = &[
    (
        "CVE-2025-46817: unpack counts its results in integers that overflow",
        "return unpack({1,2,3}, -2, 2147483647)",
        "(error) ERR user_script:1: too many results to unpack",
    ),
    (
        "CVE-2025-46817, with more results than the stack holds",
        "return unpack({}, 1, 8001)",
        "(error) ERR user_script:1: too many results to unpack",
    ),
    (
        "CVE-2025-46817, with bounds that no integer of C holds",
        "return unpack({}, -2^60, 2^60)",
        "(error) ERR user_script:1: too many results to unpack",
    ),
    (
        "CVE-2025-46818: metatables of basic types can be changed",
        "getmetatable('').__index = function() return 1 end",
        "(error) ERR user_script:1: attempt to index a boolean value",
    ),
    (
        "CVE-2025-46818, by setmetatable",
        "return setmetatable('', {})",
        "(error) ERR prelude:",
    ),
    (
        "CVE-2025-46818, of nil, numbers, booleans and functions",
        "return {tostring(getmetatable(nil)), tostring(getmetatable(1)),
            tostring(getmetatable(true)), tostring(getmetatable(type))}",
        "1) \"nil\"\n2) \"nil\"\n3) \"nil\"\n4) \"nil\"",
    ),
    (
        "CVE-2025-46819: the delimiters of long strings are counted in integers that overflow",
        "return loadstring('return [' .. string.rep('=', 1000000)) == nil and 1",
        "(integer) 1",
    ),
    (
        "CVE-2025-46819, of more bytes than are compiled",
        "return select(2, loadstring('return [' .. string.rep('=', 17000000)))",
        "\"chunk has more than 16777216 bytes\"",
    ),
    (
        "CVE-2025-49844: the parser does not hold the name of a chunk",
        "for i = 1, 300 do
            local name = '@' .. string.rep('n', 60) .. i
            loadstring('local a = {}' .. string.rep(' a = {a} ', 50), name)
            collectgarbage('step', 1000)
        end
        return 1",
        "(integer) 1",
    ),
    (
        "CVE-2024-46981: a finalizer runs while the state is closed",
        "return newproxy",
        "(error) ERR user_script:1: Script attempted to access nonexistent global variable",
    ),
    (
        "CVE-2024-31449: bit.tohex negates the least integer",
        "return bit.tohex(65535, -2147483648)",
        "\"0000FFFF\"",
    ),
    (
        "CVE-2024-31449, with other numbers",
        "return {bit.tohex(1, 0/0), bit.tohex(1, 2^31), bit.tohex(1, 1e300), bit.bnot(0/0)}",
        "1) \"\"",
    ),
    (
        "CVE-2022-24834: cjson counts escaped bytes in integers that overflow",
        "return #cjson.encode(string.rep('\\1', 5000000))",
        "(integer) 30000002",
    ),
    (
        "CVE-2022-24834: cmsgpack",
        "return #cmsgpack.pack(string.rep('x', 70000), {string.rep('x', 300)})",
        "(integer) 70309",
    ),
    (
        "CVE-2022-24735: a script changes functions that other scripts call",
        "string.find = function() return 1 end",
        "(error) ERR user_script:1: Attempt to modify a readonly table",
    ),
    (
        "CVE-2022-24735, by rawset",
        "rawset(_G, 'tostring', 1)",
        "(error) ERR Attempt to modify a readonly table",
    ),
    (
        "CVE-2022-24736: a library without name, or code that does not compile",
        "return loadstring('return =') == nil and 1",
        "(integer) 1",
    ),
    (
        "CVE-2022-0543: the library package is available",
        "return package.loadlib('libc.so.6', '*')",
        "(error) ERR user_script:1: Script attempted to access nonexistent global variable",
    ),
    (
        "CVE-2021-32626: cmsgpack and others push more than the stack holds",
        "return #cmsgpack.pack(cmsgpack.unpack(string.rep('\\145', 100) .. '\\1'))",
        "(integer) 17",
    ),
    (
        "CVE-2021-32626, by very many results",
        "return cmsgpack.unpack(string.rep('\\1', 10000))",
        "(error) ERR user_script:1: too many results to unpack",
    ),
    (
        "CVE-2020-14147, CVE-2015-8080: struct adds sizes in integers that overflow",
        "return struct.unpack('!2147483647', '')",
        "(error) ERR user_script:1: alignment 2147483647 is not a power of 2",
    ),
    (
        "CVE-2020-14147, by c",
        "return struct.pack('c2147483648', 'x')",
        "(error) ERR user_script:1: integral size overflow",
    ),
    (
        "CVE-2020-14147, by an offset",
        "return struct.unpack('i4', 'abcd', 2^62)",
        "(error) ERR user_script:1: bad argument #2 to 'unpack' (data string too short)",
    ),
    (
        "CVE-2020-14147, by an offset that is no number",
        "return struct.unpack('b', 'abcd', 0/0)",
        "(error) ERR user_script:1: offset must be 1 or greater",
    ),
    (
        "cmsgpack reads from an offset that is no number",
        "return cmsgpack.unpack_one('\\1', 0/0)",
        "(integer) -1",
    ),
    (
        "CVE-2018-11219: struct writes integers wider than its buffer",
        "return struct.pack('>I99', 1)",
        "(error) ERR user_script:1: integral size 99 is larger than limit of 32",
    ),
    (
        "CVE-2018-11218: cmsgpack reads a length that is not there",
        "return cmsgpack.unpack('\\219\\255\\255\\255\\255Z')",
        "(error) ERR user_script:1: Missing bytes in input.",
    ),
    (
        "CVE-2018-11218, of a list",
        "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
        "(error) ERR user_script:1: Missing bytes in input.",
    ),
    (
        "CVE-2018-11218, of a map",
        "return cmsgpack.unpack('\\223\\255\\255\\255\\255')",
        "(error) ERR user_script:1: Missing bytes in input.",
    ),
    (
        "CVE-2018-11218, nested deeply",
        "return cmsgpack.unpack(string.rep('\\145', 100000))",
        "(error) ERR user_script:1: Bad data format in input.",
    ),
    (
        "CVE-2015-4335: compiled code is loaded without a check",
        "return loadstring(string.dump(function() return 1 end)) == nil and 1",
        "(integer) 1",
    ),
    (
        "CVE-2015-4335, by load",
        "local read = 0
        return load(function()
            read = read + 1
            return read == 1 and '\\27Lua' or nil
        end) == nil and 1",
        "(integer) 1",
    ),
    (
        "CVE-2014-5461: functions with many parameters and more arguments",
        "local names = {}
        for i = 1, 190 do names[i] = 'a' .. i end
        local f = loadstring('return function(' .. table.concat(names, ',') .. ', ...) end')()
        for i = 1, 200 do coroutine.wrap(f)(i) end
        return 1",
        "(integer) 1",
    ),
    (
        "CVE-2021-43519: coroutines that resume one another overflow the stack of C",
        "local function deeper() return coroutine.wrap(deeper)() end
        return deeper()",
        "(error) ERR user_script:1: ",
    ),
    (
        "Lua 5.1: the depth of a pattern's recursion is its length",
        "return string.find(string.rep('a', 300000), string.rep('a?', 300000) .. 'b')",
        "(error) ERR user_script:1: pattern too complex",
    ),
    (
        "Lua 5.1: patterns recurse, in gmatch",
        "for it in string.gmatch(string.rep('a', 300000), string.rep('a-', 300000) .. 'b') do end",
        "(error) ERR user_script:1: pattern too complex",
    ),
    (
        "Lua 5.1: patterns recurse, in gsub and match",
        "return string.match(string.rep('a', 300000), string.rep('a*', 300000) .. 'b')",
        "(error) ERR user_script:1: pattern too complex",
    ),
    (
        "Lua 5.1: each nested gsub uses 8 KiB of the stack of C",
        "local function deeper() return (string.gsub('a', 'a', deeper)) end
        return deeper()",
        "(error) ERR ",
    ),
    (
        "Lua 5.1: string.rep of an empty string has no time limit",
        "return string.rep('', 2^53)",
        "\"\"",
    ),
    (
        "Lua 5.1: string.rep computes in integers that overflow",
        "return string.rep('xx', 2^62)",
        "(error) ERR user_script:1: resulting string too large",
    ),
    (
        "Lua 5.1: table.insert moves two thousand million values",
        "return table.insert({}, -2147483648, 1)",
        "(error) ERR user_script:1: bad argument #2 to 'insert' (position out of bounds)",
    ),
    (
        "Lua 5.1: formats with long fields",
        "return string.format('%99999d', 1)",
        "(error) ERR user_script:1: invalid format (width or precision too long)",
    ),
    (
        "Lua 5.1: formats of numbers with the longest fields",
        "return #string.format('%99.99f', -1e308)",
        "(integer) 410",
    ),
    (
        "Lua 5.1: select with the least integer",
        "return select(-2147483648, 1)",
        "(error) ERR user_script:1: bad argument #1 to 'select' (index out of range)",
    ),
    (
        "Lua 5.1: nested brackets of source recurse",
        "return loadstring(string.rep('(', 1000000)) == nil and 1",
        "(integer) 1",
    ),
    (
        "Lua 5.1: functions of the library debug, and environments of other functions",
        "return (pcall(function() return debug end) or pcall(function() return getfenv end)
            or pcall(function() return setfenv end)) == false and 1",
        "(integer) 1",
    ),
];

fn send(connection: &mut TestkitConnection, text: &str) {
    let words = [&b"EVAL"[..], text.as_bytes(), b"0"];
    connection.send_words(&words).unwrap();
}

fn eval(connection: &mut TestkitConnection, text: &str) -> String {
    send(connection, text);
    receive_reply(connection)
}

/// With several threads, their stacks are smaller than that of the main thread.
#[test]
fn public_faults_are_answered() {
    let server = Nearfield::with_threads(3);
    let mut connection = server.connect();
    for (name, script, answer) in PUBLIC_FAULTS {
        let found = eval(&mut connection, script);
        assert!(found.starts_with(answer), "{name}: {found}");
        assert_eq!(eval(&mut connection, "return 1"), "(integer) 1", "{name}");
    }
}

/// Loops that catch the error that ends them, as far as Lua allows that.
const LOOPS: &[&str] = &[
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(pcall, pcall, function() while true do end end) end",
    "while true do
        xpcall(function() while true do end end, function(error) return error end)
    end",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "while true do xpcall(function() error() end, function() while true do end end) end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "while true do
        pcall(string.gsub, string.rep('a', 1000), 'a', function() while true do end end)
    end",
    "while true do pcall(table.sort, {3, 2, 1}, function() while true do end end) end",
    "local endless = setmetatable({}, {__index = function() while true do end end})
    while true do pcall(function() return endless.x end) end",
    "local endless = setmetatable({}, {__tostring = function() while true do end end})
    while true do pcall(tostring, endless) end",
    "while true do pcall(load, function() while true do end end) end",
    "while true do redis.pcall('get', 'key') end",
    "while true do pcall(redis.call, 'get') end",
    "while true do pcall(string.find, string.rep('a', 3000), string.rep('.-', 8) .. 'b') end",
    "while true do pcall(string.match, string.rep('a', 3000), string.rep('a*', 8) .. 'b') end",
    "while true do pcall(string.gsub, string.rep('a', 3000), string.rep('a-', 8) .. 'b', '') end",
    "local t = {} for i = 1, 300000 do t[i] = i % 1000 end
    while true do pcall(table.sort, t) end",
    "local s = string.rep('x', 30000000) while true do local t = s .. 'y' end",
    "while true do local s = string.rep('x', 30000000):upper():reverse() end",
    // Native code that visits few values very often.
    "local t = {} for i = 1, 900 do t = {t, t} end
    while true do pcall(cjson.encode, t) end",
    "local t = {} for i = 1, 15 do local u = {} for j = 1, 30 do u[j] = t end t = u end
    while true do pcall(cmsgpack.pack, t) end",
    "cjson.encode_sparse_array(true, 0) local t = {[2147483647] = 1}
    while true do pcall(cjson.encode, t) end",
    "local t = {1} for i = 1, 100 do t = {t, t} end return t",
    "local s, t = string.rep('x', 10000000), {} for i = 1, 200 do t[i] = s end
    while true do pcall(struct.pack, string.rep('s', 200), unpack(t)) end",
    "local s = '[' .. string.rep('1,', 5000000) .. '1]' while true do pcall(cjson.decode, s) end",
];

fn until_killed(address: SocketAddr, text: &str) {
    let (mut first, mut second) = (connect(address), connect(address));
    assert_eq!(ask(&mut first, "CONFIG SET busy-reply-threshold 1"), "OK");
    send(&mut first, text);
    let mut killed = String::new();
    eventually("the script is killed", || {
        killed = ask(&mut second, "SCRIPT KILL");
        killed == "OK"
    });
    let answer = receive_reply(&mut first);
    let said = "(error) ERR Script killed by user with SCRIPT KILL...";
    assert!(answer.starts_with(said), "{text}: {answer}");
    assert_eq!(eval(&mut first, "return 1"), "(integer) 1");
}

#[test]
fn nothing_catches_a_kill() {
    let server = Nearfield::with_threads(2);
    for text in LOOPS {
        until_killed(server.address, text);
    }
}

#[test]
fn nothing_catches_the_end_of_the_server() {
    for text in [
        LOOPS[2],
        LOOPS[14],
        "redis.call('set', 'a', 1) while true do pcall(error) end",
    ] {
        let server = Nearfield::with_threads(2);
        let mut connection = server.connect();
        assert_eq!(
            ask(&mut connection, "CONFIG SET busy-reply-threshold 1"),
            "OK"
        );
        send(&mut connection, text);
        let mut other = server.connect();
        eventually("it is busy", || ask(&mut other, "GET key").contains("BUSY"));
        send_command(&mut other, "SHUTDOWN NOSAVE");
        // The drop waits for the server's threads.
        drop(server);
    }
}

#[test]
fn a_script_that_fills_the_memory_leaves_it_to_others() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    let known = ask(&mut connection, "SCRIPT LOAD return{2}");
    let fills = "local t = {} for i = 1, 100000 do t[i] = string.rep('x', 8000000) .. i end";
    for text in [fills, &format!("pcall(function() {fills} end) return 1")] {
        let answer = eval(&mut connection, text);
        let is_expected = answer.contains("not enough memory") || answer == "(integer) 1";
        assert!(is_expected, "{answer}");
        assert_eq!(
            eval(&mut connection, "return #string.rep('x', 1000000)"),
            "(integer) 1000000"
        );
        let command = format!("EVALSHA {} 0", known.trim_matches('"'));
        assert_eq!(ask(&mut connection, &command), "1) (integer) 2");
    }
}

#[test]
fn scripts_keep_to_a_part_of_the_memory_that_there_is() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    let takes = |megabytes: usize| format!("return #string.rep('x', {megabytes}000000)");
    let keeps = |megabytes: usize| {
        format!("redis.call('SET', 'k', string.rep('x', {megabytes}000000)) return 1")
    };
    assert_eq!(eval(&mut connection, &takes(60)), "(integer) 60000000");
    assert_eq!(eval(&mut connection, &keeps(20)), "(integer) 1");
    ask(&mut connection, "CONFIG SET maxmemory 200mb");
    for _ in 0..2 {
        let answer = eval(&mut connection, &takes(60));
        assert!(answer.contains("not enough memory"), "{answer}");
        let answer = eval(&mut connection, "return #redis.call('GET', 'k')");
        assert!(answer.contains("does not fit"), "{answer}");
        assert_eq!(eval(&mut connection, &takes(8)), "(integer) 8000000");
    }
    ask(&mut connection, "CONFIG SET maxmemory 0");
    assert_eq!(eval(&mut connection, &takes(60)), "(integer) 60000000");
    let answer = eval(&mut connection, "return #redis.call('GET', 'k')");
    assert_eq!(answer, "(integer) 20000000");
}

#[test]
fn native_code_takes_no_more_memory_than_lua_has() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    for (text, answer) in [
        (
            "local s, t = string.rep('x', 64000000), {} for i = 1, 40 do t[i] = s end
            return #struct.pack(string.rep('s', 40), unpack(t))",
            "not enough memory",
        ),
        (
            "local s, t = string.rep('x', 64000000), {} for i = 1, 40 do t[i] = s end
            return #cmsgpack.pack(t)",
            "not enough memory",
        ),
        (
            "cjson.encode_max_depth(2147483647) local t = {} t.a = t return cjson.encode(t)",
            "Cannot serialise, excessive nesting (2601)",
        ),
        (
            "cjson.decode_max_depth(2147483647) return cjson.decode(string.rep('[', 3000))",
            "Found too many nested data structures (2601)",
        ),
        (
            "return redis.log(redis.LOG_WARNING, string.rep('x', 2000000)) == nil and 7",
            "7",
        ),
    ] {
        let found = eval(&mut connection, text);
        assert!(found.contains(answer), "{text}: {found}");
        assert_eq!(eval(&mut connection, "return 1"), "(integer) 1", "{text}");
    }
}

#[test]
fn large_tables_have_their_json() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    for (code, answer) in [
        (
            "local t = {} for i = 1, 30000 do t['k' .. i] = 'v' .. i end
            return cjson.decode(cjson.encode(t)).k30000",
            "\"v30000\"",
        ),
        (
            "return cjson.encode({1, 2.5, -0, 1e15, 1e14, 123456789012345, 0.1, {}, {a = 1}})",
            "\"[1,2.5,-0,1e+15,1e+14,1.2345678901234e+14,0.1,{},{\\\"a\\\":1}]\"",
        ),
        (
            "return cjson.encode({[1] = 'a', [3] = 'c'})",
            "\"[\\\"a\\\",null,\\\"c\\\"]\"",
        ),
        ("return cjson.encode({[1.5] = true, x = false})", "\"{"),
        (
            "return cjson.encode('\\1\\127/\\n')",
            "\"\\\"\\\\u0001\\\\u007f\\\\/\\\\n\\\"\"",
        ),
        (
            "return cjson.encode({type})",
            "(error) ERR user_script:1: Cannot serialise function: type not",
        ),
        (
            "return cjson.encode({[true] = 1})",
            "(error) ERR user_script:1: Cannot serialise boolean: table key",
        ),
        (
            "return cjson.encode(0/0)",
            "(error) ERR user_script:1: Cannot serialise number: must not be NaN",
        ),
        (
            "return cjson.encode({[1000] = 1})",
            "(error) ERR user_script:1: Cannot serialise table: excess",
        ),
    ] {
        let found = eval(&mut connection, code);
        assert!(found.starts_with(answer), "{code}: {found}");
    }
}

#[test]
fn settings_of_the_collector_end_with_a_script() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    for text in [
        "collectgarbage('stop') return 1",
        "collectgarbage('setpause', 2147483647) return 1",
        "collectgarbage('setstepmul', 0) return 1",
        "local collect = collectgarbage pcall(collect, 'stop') return 1",
    ] {
        assert_eq!(eval(&mut connection, text), "(integer) 1");
        let leaves =
            "local t = {} for i = 1, 20 do t[i] = string.rep('x', 50000) .. i end return #t";
        // A megabyte each: more in all than the count below allows.
        for _ in 0..40 {
            assert_eq!(eval(&mut connection, leaves), "(integer) 20");
        }
        let count = "return collectgarbage('count') < 30000 and 1";
        assert_eq!(eval(&mut connection, count), "(integer) 1", "{text}");
    }
}

#[test]
fn patterns_match_as_in_lua() {
    on_both(check_patterns);
}

fn check_patterns(address: SocketAddr) {
    let mut connection = connect(address);
    for (code, answer) in [
        ("string.find('hello world', 'o w')", "5 7"),
        ("string.find('a.b', '.', 1, true)", "2 2"),
        ("string.find('a.b', '%.')", "2 2"),
        ("string.find('abc', 'b', -1)", "nil"),
        ("string.find('abc', 'b', -10)", "2 2"),
        ("string.find('abc', '', 10)", "4 3"),
        ("string.find('', '')", "1 0"),
        ("string.find('a\\0b', 'a\\0b')", "1 3"),
        ("string.find('a\\0b', '%z')", "2 2"),
        ("string.find('a]b', '[]]')", "2 2"),
        ("string.find('a-b', '[a%-]', 2)", "2 2"),
        ("string.find('x^', '[%^]')", "2 2"),
        ("string.find('THE (quick) fox', '%((%a+)%)')", "5 11 quick"),
        ("string.find('THE (quick) fox', '%f[%a]%a+', 5)", "6 10"),
        ("string.match('x(a(b)c)y', '%b()')", "(a(b)c)"),
        (
            "string.match('2024-01-02', '(%d+)-(%d+)-(%d+)')",
            "2024 01 02",
        ),
        ("string.match('  x  ', '^%s*(.-)%s*$')", "x"),
        ("string.match('abcabc', '(a)(b)(c)%1%2%3')", "a b c"),
        ("string.match('abc', '()b()')", "2 3"),
        ("string.match('aaa', 'a-', 2)", ""),
        ("string.match('aaab', 'a-b')", "aaab"),
        ("string.match('ab', 'a?b?c?')", "ab"),
        ("string.gsub('hello', 'l', 'L', 1)", "heLlo 1"),
        ("string.gsub('abc', '', '-')", "-a-b-c- 4"),
        ("string.gsub('abc', '%w', '%0%0')", "aabbcc 3"),
        ("string.gsub('abc', '%w', '%%%1')", "%a%b%c 3"),
        ("string.gsub('hello', '()l', '%1')", "he34o 2"),
        (
            "string.gsub('$x $y', '%$(%w+)', {x = 'A', y = false})",
            "A $y 2",
        ),
        (
            "string.gsub('ab', '%w', function(c) return c == 'a' and 7 end)",
            "7b 2",
        ),
        ("string.gsub('aaa', '^a', 'x')", "xaa 1"),
        ("string.gsub('', '^', 'x')", "x 1"),
        ("string.gsub('a b', '%s*$', '')", "a b 1"),
        ("string.rep('ab', 3)", "ababab"),
        ("string.rep('ab', -1)", ""),
        ("#string.rep('abc', 100001)", "300003"),
    ] {
        let text = format!(
            "local t = {{{code}}} if #t == 0 then return 'nil' end
            for i = 1, #t do t[i] = tostring(t[i]) end return table.concat(t, ' ')"
        );
        let found = eval(&mut connection, &text);
        assert_eq!(found, format!("\"{answer}\""), "{code}");
    }
    for (code, error) in [
        ("string.find('a', '[a')", "malformed pattern (missing ']')"),
        ("string.find('a', '%')", "malformed pattern (ends with '%')"),
        ("string.find('a', '(a')", "unfinished capture"),
        ("string.match('a', 'a)')", "invalid pattern capture"),
        ("string.find('a', '%1')", "invalid capture index"),
        (
            "string.find('a', '%f')",
            "missing '[' after '%f' in pattern",
        ),
        ("string.find('a', '%b')", "unbalanced pattern"),
        (
            "string.find('a', string.rep('()', 33))",
            "too many captures",
        ),
        ("string.gsub('abc', '(b)', '%2')", "invalid capture index"),
        ("string.gsub('abc', 'b')", "bad argument #3 to 'gsub'"),
        (
            "string.gsub('abc', 'b', function() return {} end)",
            "invalid replacement value (a table)",
        ),
        (
            "string.find()",
            "bad argument #1 to 'find' (string expected, got no value)",
        ),
        (
            "string.rep('x')",
            "bad argument #2 to 'rep' (number expected, got no value)",
        ),
    ] {
        let found = eval(&mut connection, &format!("return {code}"));
        let error = format!("(error) ERR user_script:1: {error}");
        assert!(found.starts_with(&error), "{code}: {found}");
    }
}

#[test]
fn a_killed_script_keeps_nobody_waiting() {
    let server = Nearfield::with_threads(2);
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(ask(&mut first, "CONFIG SET busy-reply-threshold 1"), "OK");
    for _ in 0..5 {
        send(&mut first, "while true do end");
        eventually("it is busy", || {
            ask(&mut second, "GET key").contains("BUSY")
        });
        assert_eq!(ask(&mut second, "SCRIPT KILL"), "OK");
        assert_eq!(ask(&mut second, "GET key"), "(nil)");
        assert!(receive_reply(&mut first).contains("killed by user"));
    }
}

#[test]
fn scripts_that_only_read_have_those_keys_tracked() {
    let server = Nearfield::with_threads(1);
    let (mut first, mut second) = (server.connect(), server.connect());
    ask(&mut second, "MSET k1 1 k2 2");
    ask(&mut first, "HELLO 3");
    assert_eq!(ask(&mut first, "CLIENT TRACKING ON"), "OK");
    let text = &b"return redis.call('get', KEYS[2])"[..];
    let read = first.command(&[b"EVAL_RO", text, b"2", b"k1", b"k2"]);
    assert_eq!(read.unwrap().to_string(), "\"2\"");
    ask(&mut second, "SET k1 x");
    ask(&mut second, "SET k2 x");
    let pushed = receive_reply(&mut first);
    assert!(pushed.contains("k2") && !pushed.contains("k1"), "{pushed}");
}

#[test]
fn scripts_that_were_run_are_forgotten_in_time() {
    let server = Nearfield::with_threads(1);
    let mut connection = server.connect();
    let loaded = ask(&mut connection, "SCRIPT LOAD return{7}");
    for number in 0..600 {
        let text = format!("return {number}");
        assert_eq!(eval(&mut connection, &text), format!("(integer) {number}"));
    }
    assert_eq!(info(&mut connection, "number_of_cached_scripts"), 501);
    let command = format!("EVALSHA {} 0", loaded.trim_matches('"'));
    assert_eq!(ask(&mut connection, &command), "1) (integer) 7");
    assert!(info(&mut connection, "used_memory_vm_eval") < 8 << 20);
}
