//! Random Lua scripts that put a heavy load on the interpreter and its libraries.

use super::spoil::{extreme, noise};
use rand::RngExt;
use rand::rngs::SmallRng;

/// Statements. `N` stands for a random number, `S` for a random string, `V` for a random value.
const STATEMENTS: &[&str] = &[
    "local t = {} for i = 1, 200 do t[i] = V end x = #t",
    "t = {V, V, V} return unpack(t, N, N)",
    "return {unpack({V, V}, -2, N)}",
    "return string.rep(S, N)",
    "return #string.rep('x', 100000)",
    "return string.find(S, S, N)",
    "return string.find(string.rep('a', 3000), string.rep('a?', 3000) .. 'b')",
    "return string.gsub(S, '(.-)' .. S, '%1%2%0', N)",
    "return string.format('%' .. N .. 'd' .. S, N, V, V)",
    "return string.byte(S, N, N)",
    "return string.sub(S, N, N)",
    "return string.dump(function() end)",
    "return loadstring(S)",
    "return loadstring('return ' .. S)()",
    "return load(function() return S end)",
    "return table.concat({V, V, S}, S, N, N)",
    "local t = {V, V, V, 3, 1, 2} table.sort(t, function(a, b) return true end) return t",
    "table.insert({}, N, V)",
    "table.remove({V}, N)",
    "return select(N, V, V)",
    "return next({V}, V)",
    "return tonumber(S, N)",
    "return math.random(N, N)",
    "return setmetatable({}, {__index = function(t, k) return t[k] end}).x",
    "local t = setmetatable({}, {__tostring = function() error(V) end}) return tostring(t)",
    "return rawset(_G, S, V)",
    "return getfenv and getfenv(N)",
    "return newproxy and newproxy(true)",
    "return pcall(error, V, N)",
    "return xpcall(function() error(V) end, function(e) return e .. S end)",
    "local function f(n) return 1 + f(n) end return pcall(f, N)",
    "local c = coroutine and coroutine.wrap(function() coroutine.yield(V) end) return c and c()",
    "collectgarbage(S, N)",
    "return cjson.encode(V)",
    "local t = {} t[N] = V return cjson.encode(t)",
    "local t = {} t.a = t return pcall(cjson.encode, t)",
    "return cjson.decode(S)",
    "return cjson.decode(string.rep('[', N))",
    "cjson.encode_max_depth(N) cjson.encode_sparse_array(true, N, N)",
    "cjson.decode_max_depth(N) cjson.encode_keep_buffer(V)",
    "cjson.encode_number_precision(N)",
    "return cmsgpack.pack(V, V)",
    "return cmsgpack.unpack(ARGV[1])",
    "return cmsgpack.unpack_limit(ARGV[1], N, N)",
    "return cmsgpack.unpack(cmsgpack.pack(V) .. S)",
    "return struct.pack(S, V, V)",
    "return struct.unpack(S, ARGV[1], N)",
    "return struct.unpack('I' .. N .. 'c0', ARGV[1])",
    "return struct.size(S)",
    "return bit.lshift(N, N)",
    "return bit.tohex(N, N)",
    "return bit.band(N, N, N)",
    "return redis.sha1hex(V)",
    "return redis.error_reply(S)",
    "return redis.status_reply(S)",
    "return {err = S, ok = V}",
    "return {double = N, map = {[V] = S}, set = {[S] = true}}",
    "redis.setresp(N) return redis.call('HGETALL', 'k1')",
    "redis.log(N, S)",
    "redis.replicate_commands() redis.set_repl(N)",
    "redis.breakpoint()",
    "return redis.acl_check_cmd(S, V, V)",
    "return redis.call(S, V, V)",
    "return redis.pcall('SET', KEYS[1] or 'k1', V)",
    "return redis.pcall('LPUSH', 'k2', V, V, V)",
    "return redis.pcall('EVAL', S, N)",
    "return redis.call()",
    "return redis.pcall('SORT', 'k3', 'BY', S)",
    "return redis.pcall('GETRANGE', 'k1', N, N)",
    "local t = {} for i = 1, 7990 do t[i] = i end return redis.pcall('LPUSH', 'k4', unpack(t))",
    "local s = S for i = 1, 20 do s = s .. s if #s > 1e6 then break end end return #s",
    "local t = {} for i = 1, 1e5 do t[i] = {i} end return #t",
    "redis.register_function(S, function() return V end)",
];

const VALUES: &[&str] = &[
    "nil",
    "true",
    "false",
    "{}",
    "{1, 2, {3, {4}}}",
    "{a = 1, b = {c = 2}}",
    "function() end",
    "redis",
    "KEYS",
    "ARGV",
    "0 / 0",
    "1 / 0",
    "_G",
    "math.huge",
];

const STRINGS: &[&str] = &[
    "''",
    "'a'",
    "'%b()'",
    "'%f[%w]'",
    "'[^'",
    "'%'",
    "'((((((((((((((((((((((((((((((((((('",
    "'(.-)*%1'",
    "'%-99999.99999f'",
    "'%s%q%c'",
    "'>I8<i16!4c0s'",
    "'!99xbBhHlLjT'",
    "'{\"a\":[1,2e999,\"\\\\ud800\"]}'",
    "'\\255\\254\\0'",
    "'\\27LuaQ'",
    "'get'",
    "'GET'",
    "'k1'",
    "'collect'",
    "'stop'",
    "'step'",
    "'return 1'",
    "'ERR\\r\\n+OK'",
    "ARGV[1]",
    "ARGV[2]",
];

fn choose(random: &mut SmallRng, words: &'static [&'static str]) -> &'static str {
    words[random.random_range(0..words.len())]
}

/// Returns a script.
pub(super) fn script(random: &mut SmallRng) -> String {
    const ENDLESS: &[&str] = &[
        "while true do end",
        "while true do pcall(error) end",
        "local function f() return f() end return pcall(f)",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "local s = string.rep('a', 3000) return string.find(s, string.rep('.-', 3) .. 'b')",
    ];
    // The script has written nothing, so it can be killed.
    if random.random_range(0..1500) == 0 {
        return choose(random, ENDLESS).to_owned();
    }
    let mut text = match random.random_range(0..8) {
        0 => "#!lua flags=no-writes\n".to_owned(),
        1 => "#!lua name=l1\n".to_owned(),
        _ => String::new(),
    };
    let count = random.random_range(1..=3);
    for number in 0..count {
        let mut statement = choose(random, STATEMENTS).to_owned();
        // Only the last statement of a block may return.
        if number + 1 < count && statement.starts_with("return") {
            statement = format!("do {statement} end");
            if random.random_bool(0.7) {
                statement = statement.replacen("do return ", "local _ = ", 1);
                statement = statement
                    .strip_suffix(" end")
                    .unwrap_or(&statement)
                    .to_owned();
            }
        }
        text += &filled(&statement, random);
        text.push('\n');
    }
    text
}

/// Replaces the placeholder letters, where they are separate words.
fn filled(statement: &str, random: &mut SmallRng) -> String {
    let mut text = String::new();
    let bytes = statement.as_bytes();
    for (at, letter) in statement.char_indices() {
        let is_word = |at: Option<usize>| {
            at.and_then(|at| bytes.get(at))
                .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        if is_word(at.checked_sub(1)) || is_word(Some(at + 1)) {
            text.push(letter);
            continue;
        }
        match letter {
            'N' => {
                let number = String::from_utf8_lossy(extreme(random)).into_owned();
                let is_number = number.parse::<f64>().is_ok_and(f64::is_finite);
                text += if is_number { &number } else { "3" };
            }
            'S' => text += choose(random, STRINGS),
            'V' => text += choose(random, VALUES),
            _ => text.push(letter),
        }
    }
    text
}

/// Returns the words of a command that runs a script.
pub(super) fn call(text: Vec<u8>, random: &mut SmallRng) -> Vec<Vec<u8>> {
    let name = ["EVAL", "EVAL", "EVAL_RO"][random.random_range(0..3)];
    let length = random.random_range(0..40);
    vec![
        name.into(),
        text,
        b"1".to_vec(),
        b"k1".to_vec(),
        noise(random, length),
        extreme(random).to_vec(),
    ]
}
