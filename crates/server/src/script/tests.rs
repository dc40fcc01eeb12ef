//! Tests of scripts on a host that replies as a test demands.

use super::enter::{Callable, LuaCallOutcome, LuaCaller};
use super::{FunctionRegistry, commands, convert, failure, host::LuaHost};
use crate::resp::{Protocol, RespReply};
use mlua::{Lua, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Answer = fn(&[&[u8]], &mut RespReply) -> Result<(), String>;

struct Fake {
    answer: Answer,
    reply: RespReply,
}

impl LuaHost for Fake {
    fn run(&mut self, args: &[&[u8]], reply: &mut RespReply) -> Result<(), String> {
        (self.answer)(args, reply)
    }

    fn may_run(&self, args: &[&[u8]]) -> Option<bool> {
        args.first().map(|name| *name == b"get")
    }

    fn reply(&mut self) -> &mut RespReply {
        &mut self.reply
    }
}

/// A Lua state with the functions that run commands.
struct LuaTestState {
    lua: Lua,
    entry: LuaCaller,
}

impl LuaTestState {
    fn new() -> LuaTestState {
        let lua = Lua::new();
        let redis = lua.create_table().unwrap();
        commands::add_functions(&lua, &redis).unwrap();
        lua.globals().set("redis", redis).unwrap();
        let locate = lua.create_function(failure::locate).unwrap();
        let entry = LuaCaller::new(&lua, locate).unwrap();
        LuaTestState { lua, entry }
    }

    /// Runs a function of keys and arguments.
    fn call(&self, code: &str, answer: Answer) -> (mlua::Result<LuaCallOutcome>, String) {
        let function = self.lua.load(code).into_function().unwrap();
        let reply = RespReply::new(Protocol::Resp2);
        let mut fake = Fake { answer, reply };
        let callable = Callable::function(&self.lua, function).unwrap();
        let ended = self.entry.call(&callable, &mut fake, &[b"k"], &[b"a", b""]);
        commands::end_script();
        let text = String::from_utf8_lossy(fake.reply.bytes()).into_owned();
        (ended, text)
    }

    /// Returns what a script has written that returns a string or a number.
    fn written(&self, code: &str, answer: Answer) -> String {
        let (ended, written) = self.call(code, answer);
        assert!(matches!(ended, Ok(LuaCallOutcome::Answered)), "{ended:?}");
        written
    }

    /// Returns the error of a script that fails.
    fn error(&self, code: &str, answer: Answer) -> String {
        match self.call(code, answer).0.unwrap() {
            LuaCallOutcome::Failed(Value::Table(table)) => table.get("err").unwrap(),
            LuaCallOutcome::Failed(Value::String(text)) => text.to_string_lossy(),
            ended => panic!("{ended:?}"),
        }
    }
}

fn echo(args: &[&[u8]], reply: &mut RespReply) -> Result<(), String> {
    reply.bulk(&args.join(&b"|"[..]));
    Ok(())
}

#[test]
fn keys_and_arguments_are_tables() {
    let state = LuaTestState::new();
    let code = "local keys, args = ...
        return #keys .. keys[1] .. #args .. args[1] .. args[2]";
    assert_eq!(state.written(code, echo), "$4\r\n1k2a\r\n");
    assert_eq!(state.written("return 3.7", echo), ":3\r\n");
    for code in ["return", "return {1}", "return true", "return nil, 1"] {
        let (ended, written) = state.call(code, echo);
        assert!(matches!(ended, Ok(LuaCallOutcome::Returned(_))) && written.is_empty());
    }
}

#[test]
fn words_of_commands_are_strings_and_numbers() {
    let state = LuaTestState::new();
    let call = |words: &str| {
        let written = state.written(&format!("return redis.call({words})"), echo);
        let (_, words) = written.split_once("\r\n").unwrap();
        words.trim_end().to_owned()
    };
    assert_eq!(call("'x', 'a\\0b', ''"), "x|a\0b|");
    assert_eq!(call("1, 'y', -2, 1.5, 2^53"), "1|y|-2|1.5|9007199254740992");
    assert_eq!(
        call("2^63, -2^63"),
        "9.2233720368547758e+18|-9223372036854775808"
    );
    assert_eq!(call("-0, math.huge"), "-0|inf");
    let many = (0..200).map(|it| it.to_string()).collect::<Vec<_>>();
    let written = call(&many.join(","));
    assert!(written.contains(&many.join("|")));
    for words in ["", "{}", "'x', nil", "'x', true"] {
        let error = state.error(&format!("return redis.call({words})"), echo);
        assert!(error.starts_with("ERR "), "{error}");
    }
}

#[test]
fn answers_are_values() {
    let state = LuaTestState::new();
    let is = |code: &str, answer: Answer| {
        assert_eq!(state.written(code, answer), ":1\r\n", "{code}");
    };
    is("return redis.call('x').ok == 'OK' and 1", |_, reply| {
        reply.ok();
        Ok(())
    });
    is("return redis.call('x') == false and 1", |_, reply| {
        reply.null();
        Ok(())
    });
    is("return redis.call('x') == false and 1", |_, _| Ok(()));
    is("return redis.call('x') == 7 and 1", |_, reply| {
        reply.integer(7);
        Ok(())
    });
    let nested = "local it = redis.call('x')
        return #it == 3 and it[1] == 'a' and it[2][1] == 5 and it[3] == false and 1";
    is(nested, |_, reply| {
        reply.raw(b"*3\r\n$1\r\na\r\n*1\r\n:5\r\n*-1\r\n");
        Ok(())
    });
    let typed = "local it = redis.call('x')
        return it[1].map.k == 1 and it[2].set.m and it[3].double == 1.5 and it[4] == true
            and it[5].big_number == '12' and it[6].verbatim_string.format == 'txt'
            and it[6].verbatim_string.string == 'v' and it[7] == nil and 1";
    is(typed, |_, reply| {
        reply.raw(b"*7\r\n%1\r\n$1\r\nk\r\n:1\r\n~1\r\n$1\r\nm\r\n");
        reply.raw(b",1.5\r\n#t\r\n(12\r\n=5\r\ntxt:v\r\n_\r\n");
        Ok(())
    });
    let deep = "local it, depth = redis.call('x'), 0
        while it do it, depth = it[1], depth + 1 end
        return depth == 100 and 1";
    is(deep, |_, reply| {
        reply.raw(&b"*1\r\n".repeat(99));
        reply.raw(b"*0\r\n");
        Ok(())
    });
}

#[test]
fn the_format_of_a_verbatim_string_has_three_bytes_whatever_its_letters() {
    let lua = Lua::new();
    for (format, written) in [
        ("txt", b"txt"),
        ("text", b"tex"),
        ("", b"   "),
        ("a\\0b", b"a  "),
        ("\\195\\169", b"\xc3\xa9 "),
        ("\\226\\130\\172x", b"\xe2\x82\xac"),
        ("\\255\\254\\253", b"\xff\xfe\xfd"),
    ] {
        let code = format!("return {{verbatim_string = {{format = '{format}', string = 'v'}}}}");
        let value: Value = lua.load(code).eval().unwrap();
        let mut reply = RespReply::new(Protocol::Resp3);
        convert::to_reply(&value, &mut reply, true).unwrap();
        let expected = [b"=5\r\n", &written[..], b":v\r\n"].concat();
        assert_eq!(reply.bytes(), expected, "{format}");
    }
}

#[test]
fn errors_are_raised_or_returned() {
    let state = LuaTestState::new();
    let refuse: Answer = |args, reply| match args {
        [_] => Err("ERR refused".to_owned()),
        _ => {
            reply.error("ERR failed");
            Ok(())
        }
    };
    assert_eq!(state.error("redis.call('x')", refuse), "ERR refused");
    assert_eq!(state.error("redis.call('x', 1)", refuse), "ERR failed");
    let caught = "return redis.pcall('x').err .. ',' .. redis.pcall('x', 1).err";
    assert_eq!(
        state.written(caught, refuse),
        "$22\r\nERR refused,ERR failed\r\n"
    );
    let raised = "local ok, error = pcall(redis.call, 'x') return error.err";
    assert_eq!(state.written(raised, refuse), "$11\r\nERR refused\r\n");
    let may_run = "return redis.acl_check_cmd('get') and not redis.acl_check_cmd('set') and 1";
    assert_eq!(state.written(may_run, echo), ":1\r\n");
}

#[test]
fn commands_need_a_script() {
    let state = LuaTestState::new();
    for name in ["call", "pcall", "acl_check_cmd"] {
        let code = format!("return redis.{name}('get').err");
        let chunk = state.lua.load(code);
        let text = match chunk.eval::<String>() {
            Ok(text) => text,
            Err(error) => error.to_string(),
        };
        assert!(
            name != "pcall" || text.contains("inside a script"),
            "{text}"
        );
    }
}

#[test]
fn an_answer_without_room_is_an_error() {
    let state = LuaTestState::new();
    let code = "return #redis.call('x')";
    let large: Answer = |_, reply| {
        reply.bulk(&vec![b'a'; 4 << 20]);
        Ok(())
    };
    let limit = state.lua.used_memory() + (1 << 20);
    state.lua.set_memory_limit(limit).unwrap();
    for _ in 0..3 {
        assert_eq!(state.error(code, large), "not enough memory");
    }
    assert_eq!(state.written("return redis.call('x')", echo), "$1\r\nx\r\n");
    state.lua.set_memory_limit(0).unwrap();
    assert_eq!(state.written(code, large), ":4194304\r\n");
}

#[test]
fn the_panic_of_a_command_goes_on_when_the_script_has_ended() {
    let state = LuaTestState::new();
    let panics: Answer = |_, _| panic!("of a command");
    for code in [
        "redis.call('x')",
        "redis.pcall('x')",
        "pcall(redis.call, 'x')",
    ] {
        let caught = catch_unwind(AssertUnwindSafe(|| state.call(code, panics).1));
        assert!(caught.is_err(), "{code}");
        assert_eq!(state.written("return redis.call('x')", echo), "$1\r\nx\r\n");
    }
}

#[test]
fn each_end_of_a_call_leaves_the_state_as_it_was() {
    const TIMES: usize = 2000;
    let state = LuaTestState::new();
    let fails: Answer = |_, _| Err("ERR refused".to_owned());
    let bytes = || {
        state.lua.gc_collect().unwrap();
        state.lua.used_memory()
    };
    for code in [
        "return 'text'",
        "return 1",
        "return",
        "return {1, 2}",
        "return true",
        "error()",
        "error({})",
        "error('text')",
        "return redis.call('x')",
        "local function deeper() return 1 + deeper() end return deeper()",
    ] {
        let function = state.lua.load(code).into_function().unwrap();
        let callable = Callable::function(&state.lua, function).unwrap();
        let call = || {
            let reply = RespReply::new(Protocol::Resp2);
            let mut fake = Fake {
                answer: fails,
                reply,
            };
            let ended = state.entry.call(&callable, &mut fake, &[b"k"], &[]);
            commands::end_script();
            drop(ended.unwrap());
        };
        call();
        let before = bytes();
        (0..if code.contains("deeper") { 20 } else { TIMES }).for_each(|_| call());
        let after = bytes();
        assert!(after < before + 8 * TIMES, "{code}: {before}, then {after}");
    }
}

#[test]
fn functions_that_are_replaced_are_given_back() {
    let functions = FunctionRegistry::new(Arc::default(), Arc::default());
    let code = format!(
        "#!lua name=l\nlocal text = '{}'\nredis.register_function('f', function() return text end)",
        "x".repeat(4000)
    );
    for _ in 0..2000 {
        functions.load(code.as_bytes(), true, None).unwrap();
    }
    let bytes = functions.engine_bytes();
    assert!(bytes < 4 << 20, "{bytes}");
}
