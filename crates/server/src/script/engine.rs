//! The Lua state: its sandbox, the functions given to scripts, and the running of a script.

use super::enter::{Callable, LuaCallOutcome, LuaCaller};
use super::guard::{self, ScriptGuard};
use super::host::LuaHost;
use super::library::{Libraries, Library, LibraryError, LibraryHeader};
use super::random::ScriptRandom;
use super::register::{self, Registered};
use super::source::{Script, ScriptError};
use super::watchdog::Watchdog;
use super::{
    arguments::LuaArguments, bits, commands, convert, failure, hook, json, lent, msgpack, random,
    sha1_hex, structs, weighed,
};
use crate::carried;
use crate::catalog::REDIS_VERSION;
use hashbrown::{HashMap, HashSet};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, Result, StdLib, Table, Value};
use parking_lot::Mutex;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Names that libraries find in the table `redis` while they are loaded.
const LOADING: &[&str] = &[
    "log",
    "LOG_DEBUG",
    "LOG_VERBOSE",
    "LOG_NOTICE",
    "LOG_WARNING",
    "REDIS_VERSION",
    "REDIS_VERSION_NUM",
    "SERVER_NAME",
    "SERVER_VERSION",
    "SERVER_VERSION_NUM",
];

const PRELUDE: &str = include_str!("prelude.lua");

/// Bytes of memory that all scripts together may hold. Redis has no limit, so a script can end the
/// server; here the script ends itself.
pub const MEMORY_BYTES_MAX: usize = 1 << 30;

/// Least number of bytes that all scripts together may hold, however small `maxmemory` is.
const MEMORY_BYTES_LEAST: usize = 32 << 20;

/// Bytes of memory that a script may take at least, however much earlier scripts have left.
const FREE_BYTES_LEAST: usize = 8 << 20;

const _: () = assert!(FREE_BYTES_LEAST <= MEMORY_BYTES_LEAST);
const _: () = assert!(MEMORY_BYTES_LEAST <= MEMORY_BYTES_MAX);

thread_local! {
    /// The limit of the state that this thread entered last.
    static ENTERED_LIMIT: Cell<usize> = const { Cell::new(MEMORY_BYTES_MAX) };
}

/// Returns the bytes that all scripts together may hold if keys and clients have `maxmemory`
/// bytes; 0 is no limit.
pub fn memory_bytes_of(maxmemory: u64) -> usize {
    // An eighth, so that the process stays near `maxmemory` whatever a script does.
    match usize::try_from(maxmemory / 8).unwrap_or(usize::MAX) {
        0 => MEMORY_BYTES_MAX,
        part => part.clamp(MEMORY_BYTES_LEAST, MEMORY_BYTES_MAX),
    }
}

/// Returns the number of bytes that the state of the script on this thread may hold.
pub fn entered_limit() -> usize {
    ENTERED_LIMIT.get()
}

/// Bytes of garbage that a script may leave before a full collection.
const LEFT_BYTES_MAX: usize = 32 << 20;

/// Longest text that is compiled. Compilation cannot be interrupted.
const SOURCE_BYTES_MAX: usize = 16 << 20;

/// Longest name of a text without a name of its own.
const SHOWN_BYTES_MAX: usize = 512;

/// Error for a library without room next to the others.
const NO_ROOM: &str = "loaded libraries use half of their memory limit";

/// Error for a longer text.
const SOURCE_TOO_LONG: &str = "chunk has more than 16777216 bytes";

const _: () = assert!(SOURCE_BYTES_MAX == 16_777_216, "the error names the limit");

/// The purpose of a Lua state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaEngineKind {
    /// Running scripts, which find `KEYS` and `ARGV` among their globals.
    Scripts,
    /// Running functions of libraries, which get their keys and arguments.
    Functions,
}

/// A Lua state, and the parts of it that each script needs.
#[derive(Debug)]
pub struct LuaEngine {
    lua: Lua,
    /// The globals that scripts see.
    environment: Table,
    /// The real globals, behind those that scripts see.
    globals: Table,
    /// The entry that runs a compiled script or calls a function of a library.
    entry: LuaCaller,
    /// Function that runs the code of a library.
    load: Function,
    /// Function that empties the tables in front of those that scripts share.
    tidy: Function,
    /// True if a script may have put something into these tables.
    is_untidy: Arc<AtomicBool>,
    /// Function that restores the default settings of the garbage collector.
    retune: Function,
    /// True if a script has changed these settings.
    is_retuned: Arc<AtomicBool>,
    /// Scripts by their digests.
    scripts: HashMap<String, Callable>,
    /// Functions of libraries by their numbers, each with its name. The last ones that were loaded
    /// may not be known yet.
    functions: HashMap<u64, (String, Callable)>,
    /// The number of the next function.
    next_number: u64,
    /// The functions registered by the library that is being loaded.
    registered: Arc<Mutex<Vec<Registered>>>,
    /// The guard that ends scripts which take too long.
    guard: Arc<ScriptGuard>,
    /// Limit of the state's memory, in bytes.
    limit: Cell<usize>,
    /// Bytes of memory after a script above which all garbage is collected.
    collect_above: Cell<usize>,
}

impl LuaEngine {
    /// Creates a state that has run nothing.
    pub fn new(watchdog: &Arc<Watchdog>, kind: LuaEngineKind) -> Result<LuaEngine> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.set_memory_limit(MEMORY_BYTES_MAX)?;
        let random = Arc::new(Mutex::new(ScriptRandom::default()));
        // Before the prelude runs, because it copies the functions that scripts get.
        lua.globals().raw_set("unpack", weighed::replace(&lua)?)?;
        let redis = redis_table(&lua)?;
        let guard = Arc::new(ScriptGuard::new(Arc::clone(watchdog)));
        let registered = Arc::default();
        commands::add_functions(&lua, &redis)?;
        let native = native_table(&lua, &redis, &random)?;
        let locate = lua.create_function(failure::locate)?;
        native.raw_set("locate", &locate)?;
        let entry = LuaCaller::new(&lua, locate)?;
        let is_untidy = mark(&lua, &native, "untidied")?;
        let is_retuned = mark(&lua, &native, "retuned")?;
        let loading = match kind {
            LuaEngineKind::Scripts => lua.create_table()?,
            LuaEngineKind::Functions => loading_table(&lua, &redis, &registered, &guard)?,
        };
        native.raw_set("loading", loading)?;
        let prelude = lua.load(PRELUDE).set_name("=prelude").into_function()?;
        let (environment, globals, load, tidy, retune) = prelude.call((native,))?;
        hook::set(&lua)?;
        Ok(LuaEngine {
            lua,
            environment,
            globals,
            entry,
            load,
            tidy,
            is_untidy,
            retune,
            is_retuned,
            scripts: HashMap::new(),
            functions: HashMap::new(),
            next_number: 0,
            registered,
            guard,
            limit: Cell::new(MEMORY_BYTES_MAX),
            collect_above: Cell::new(LEFT_BYTES_MAX),
        })
    }

    /// Limits the state to `bytes` from now on, or to little more than it already holds. Call it on
    /// the thread that is about to run something in the state.
    ///
    /// # Errors
    /// There is no memory for the collection.
    pub fn limit_memory(&self, bytes: usize) -> Result<()> {
        ENTERED_LIMIT.set(bytes);
        if self.limit.get() == bytes {
            return Ok(());
        }
        // Garbage must not count towards what the state holds: the limit would be too high.
        self.lua.gc_collect()?;
        let least = self.lua.used_memory() + FREE_BYTES_LEAST;
        self.lua.set_memory_limit(bytes.max(least))?;
        self.limit.set(bytes);
        Ok(())
    }

    /// Returns the bytes of memory that the state takes.
    pub fn memory_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Returns the bytes of memory that the state took when the last script or function had ended.
    pub fn memory_bytes_after_run(&self) -> usize {
        self.entry.memory_bytes()
    }

    /// Compiles a script, unless it is compiled already.
    pub fn compile(&mut self, script: &Script) -> std::result::Result<(), ScriptError> {
        if self.scripts.contains_key(&script.digest) {
            return Ok(());
        }
        let function = self
            .compile_as("@user_script", script.code())
            .map_err(|error| ScriptError::Compile(failure::message(&error)))?;
        self.make_room()?;
        let callable = Callable::script(&self.lua, function, &self.globals)?;
        self.scripts.insert(script.digest.clone(), callable);
        Ok(())
    }

    /// Forgets the compiled form of a script.
    pub fn forget(&mut self, digest: &str) {
        if self.scripts.remove(digest).is_some() {
            self.lua.expire_registry_values();
        }
    }

    fn compile_as(&self, name: &str, code: &[u8]) -> Result<Function> {
        compile(&self.lua, name.to_owned(), code, self.environment.clone())
    }

    /// Runs a script and writes its result.
    pub fn run<H: LuaHost>(
        &mut self,
        script: &Script,
        host: &mut H,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> std::result::Result<(), ScriptError> {
        if !self.scripts.contains_key(&script.digest) {
            self.compile(script)?;
        }
        let Some(callable) = self.scripts.get(&script.digest) else {
            unreachable!("it is compiled")
        };
        self.execute(&script.digest, callable, host, keys, arguments)
    }

    /// Runs a script or function of this name, and writes its result.
    fn execute<H: LuaHost>(
        &self,
        name: &str,
        callable: &Callable,
        host: &mut H,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> std::result::Result<(), ScriptError> {
        let attending = self.guard.attend();
        let ended = self.entry.call(callable, host, keys, arguments);
        let answered = match ended {
            Ok(LuaCallOutcome::Answered) => Ok(()),
            Ok(LuaCallOutcome::Returned(value)) => {
                let (typed, reply) = (lent::is_typed(), host.reply());
                let before = reply.len();
                let written = convert::to_reply(&value, reply, typed);
                debug_assert!(reply.len() >= before, "only the result was written");
                if written.is_err() {
                    // The error must not follow a part of the result.
                    reply.truncate(before);
                }
                written.map_err(ScriptError::from)
            }
            Ok(LuaCallOutcome::Failed(error)) => Err(failed(name, &error)),
            Err(error) => Err(error.into()),
        };
        // The script may have had no memory left for the error that ends it.
        let answered = answered.map_err(|error| match guard::verdict() {
            Some(reason) if !error.to_string().starts_with(reason) => {
                ScriptError::Text(reason.to_owned())
            }
            _ => error,
        });
        // The verdict on the script must not end the functions that clean up after it.
        drop(attending);
        commands::end_script();
        self.settle()?;
        answered
    }

    /// Forgets all compiled scripts if they take half of the memory. A script is compiled again
    /// when it is run.
    fn make_room(&mut self) -> Result<()> {
        let half = self.limit.get() / 2;
        if self.lua.used_memory() > half {
            self.lua.gc_collect()?;
            if self.lua.used_memory() > half {
                self.scripts.clear();
                self.lua.expire_registry_values();
                self.lua.gc_collect()?;
            }
        }
        Ok(())
    }

    /// Undoes changes of a script that later scripts could see.
    fn settle(&self) -> Result<()> {
        if self.is_untidy.load(Ordering::Relaxed) {
            self.tidy.call::<()>(())?;
        }
        // Not swapped, because that takes as long as a call of a short script's command.
        if self.is_retuned.load(Ordering::Relaxed) {
            self.is_retuned.store(false, Ordering::Relaxed);
            self.retune.call::<()>(())?;
        }
        // Lua 5.1 fails when it lacks memory; it does not collect first.
        let above = self.collect_above.get().min(self.limit.get() / 4);
        if self.entry.memory_bytes() > above {
            self.lua.gc_collect()?;
            let left = self.lua.used_memory();
            self.collect_above.set(LEFT_BYTES_MAX.max(2 * left));
        }
        Ok(())
    }

    /// Loads a library. Its functions are unknown until it is [kept](LuaEngine::keep).
    pub fn load(
        &mut self,
        code: &[u8],
        time_max: Option<Duration>,
    ) -> std::result::Result<Library, LibraryError> {
        let LibraryHeader { name, body } = LibraryHeader::parse(code)?;
        self.make_room()?;
        // The other half is for functions that run. Libraries are never forgotten to make room.
        if self.lua.used_memory() > self.limit.get() / 2 {
            return Err(LibraryError::Register(NO_ROOM.to_owned()));
        }
        let chunk = self
            .compile_as("@user_function", body)
            .map_err(|error| LibraryError::Compile(failure::message(&error)))?;
        debug_assert!(
            self.registered.lock().is_empty(),
            "nothing was being loaded"
        );
        self.guard.begin_load(time_max);
        let attending = self.guard.attend();
        let loaded = self.load.call::<(bool, Value)>(chunk);
        drop(attending);
        self.guard.end_load();
        let registered = std::mem::take(&mut *self.registered.lock());
        match loaded? {
            (true, _) if registered.is_empty() => Err(LibraryError::Empty),
            (true, _) => {
                let mut functions = Vec::with_capacity(registered.len());
                for (mut function, callback) in registered {
                    function.number = self.next_number;
                    self.next_number += 1;
                    let callable = Callable::function(&self.lua, callback)?;
                    let named = (function.name.clone(), callable);
                    let other = self.functions.insert(function.number, named);
                    debug_assert!(other.is_none(), "no number is given twice");
                    functions.push(Arc::new(function));
                }
                Ok(Library {
                    name,
                    code: Arc::from(code),
                    functions,
                })
            }
            (false, error) => Err(LibraryError::Register(error_of(&error))),
        }
    }

    /// Forgets all functions except those of `libraries`.
    pub fn keep(&mut self, libraries: &Libraries) {
        let all = libraries.iter().flat_map(|library| &library.functions);
        let kept: HashSet<u64> = all.map(|function| function.number).collect();
        // Functions of a library that was refused after it had registered them are here, too.
        self.functions.retain(|number, _| kept.contains(number));
        debug_assert_eq!(self.functions.len(), kept.len(), "a function is unknown");
        self.lua.expire_registry_values();
    }

    /// Calls the function of a library with this number, and writes its result.
    pub fn call<H: LuaHost>(
        &mut self,
        number: u64,
        host: &mut H,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> std::result::Result<(), ScriptError> {
        let Some((name, callable)) = self.functions.get(&number) else {
            return Err(ScriptError::Text("ERR Function not found".to_owned()));
        };
        self.execute(name, callable, host, keys, arguments)
    }
}

/// Compiles a text. It is never taken for bytecode.
fn compile(lua: &Lua, name: String, code: &[u8], environment: Table) -> Result<Function> {
    if code.len() > SOURCE_BYTES_MAX {
        return Err(mlua::Error::RuntimeError(SOURCE_TOO_LONG.to_owned()));
    }
    // A name is a C string.
    let name = name.replace('\0', "");
    // The parser of Lua 5.1 does not hold its name, so a collection can free it (CVE-2025-49844).
    // Equal strings are one object, and this one is held.
    let held = lua.create_string(&name)?;
    let chunk = lua.load(code).set_name(name).set_mode(ChunkMode::Text);
    let function = chunk.set_environment(environment).into_function();
    drop(held);
    function
}

/// Creates the error sent to the client of a failed script or function of this name.
fn failed(name: &str, error: &Value) -> ScriptError {
    let Value::Table(table) = error else {
        return ScriptError::Lua(error_of(error));
    };
    let mut text = error_of(error);
    if let (Some(source), Some(line)) = (field(table, "source"), field(table, "line")) {
        text += &format!(" script: {name}, on {source}:{line}.");
    }
    ScriptError::Text(text)
}

/// Returns the text of an error that was [located](failure::locate).
fn error_of(error: &Value) -> String {
    match error {
        Value::Table(table) => {
            field(table, "err").unwrap_or_else(|| "ERR unknown error".to_owned())
        }
        // Not even the table of the error could be made, because there is no memory.
        error => error.to_string().unwrap_or_default(),
    }
}

fn field(table: &Table, name: &str) -> Option<String> {
    match table.raw_get(name) {
        Ok(Value::String(text)) => Some(carried::text(&text.as_bytes())),
        Ok(Value::Integer(number)) => Some(number.to_string()),
        Ok(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    }
}

/// Adds a function that sets the returned flag.
fn mark(lua: &Lua, native: &Table, name: &str) -> Result<Arc<AtomicBool>> {
    let is_set = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&is_set);
    let function = lua.create_function(move |_, ()| {
        set.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    native.raw_set(name, function)?;
    Ok(is_set)
}

/// Creates the table of functions that only the prelude sees and passes on.
fn native_table(lua: &Lua, redis: &Table, random: &Arc<Mutex<ScriptRandom>>) -> Result<Table> {
    let native = lua.create_table()?;
    let translate = lua.create_function(|lua, value: Value| {
        // A script that must end may not catch the error and continue.
        failure::look()?;
        failure::translate(lua, value)
    })?;
    native.raw_set("translate", translate)?;
    let load = |lua: &Lua, (environment, text, name): (Table, LuaString, Option<LuaString>)| {
        let bytes = text.as_bytes();
        let name = match &name {
            Some(name) => name.to_string_lossy(),
            // Only its first line is shown.
            None => {
                let line = bytes.get(..SHOWN_BYTES_MAX).unwrap_or(&bytes);
                String::from_utf8_lossy(line).into_owned()
            }
        };
        match compile(lua, name, &bytes, environment) {
            Ok(function) => Ok((Some(function), None)),
            Err(error) => Ok((None, Some(failure::message(&error)))),
        }
    };
    native.raw_set("load", lua.create_function(load)?)?;
    let started = Instant::now();
    let clock = lua.create_function(move |_, ()| Ok(started.elapsed().as_secs_f64()))?;
    native.raw_set("clock", clock)?;
    let (draw, seed) = random::functions(lua, random)?;
    native.raw_set("random", draw)?;
    native.raw_set("randomseed", seed)?;
    let libraries = lua.create_table()?;
    libraries.raw_set("redis", redis)?;
    libraries.raw_set("bit", bits::library(lua)?)?;
    libraries.raw_set("cjson", json::library(lua)?)?;
    libraries.raw_set("cmsgpack", msgpack::library(lua)?)?;
    libraries.raw_set("struct", structs::library(lua)?)?;
    native.raw_set("libraries", libraries)?;
    Ok(native)
}

/// Error for a registration after the library was loaded.
const NOT_LOADING: &str = "ERR redis.register_function can only be called on FUNCTION LOAD command";

/// Creates the table `redis` of a library that is being loaded.
fn loading_table(
    lua: &Lua,
    redis: &Table,
    registered: &Arc<Mutex<Vec<Registered>>>,
    guard: &Arc<ScriptGuard>,
) -> Result<Table> {
    let loading = lua.create_table()?;
    for name in LOADING {
        loading.raw_set(*name, redis.raw_get::<Value>(*name)?)?;
    }
    let registered = Arc::clone(registered);
    let guard = Arc::clone(guard);
    let register = lua.create_function(move |lua, values: MultiValue| {
        if !guard.is_loading() {
            return Err(failure::raise_reply(NOT_LOADING));
        }
        let (function, callback) = register::arguments(lua, &values)?;
        let mut registered = registered.lock();
        let is = |(other, _): &Registered| other.name.eq_ignore_ascii_case(&function.name);
        if registered.iter().any(is) {
            return Err(failure::raise_reply(
                "ERR Function already exists in the library",
            ));
        }
        registered.push((function, callback));
        Ok(())
    })?;
    loading.raw_set("register_function", register)?;
    Ok(loading)
}

/// Creates the table `redis`, without the functions that need the call of the script.
fn redis_table(lua: &Lua) -> Result<Table> {
    let redis = lua.create_table()?;
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"]
        .into_iter()
        .enumerate()
    {
        redis.raw_set(name, level)?;
    }
    for (name, bits) in [
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_REPLICA", 2),
        ("REPL_SLAVE", 2),
        ("REPL_ALL", 3),
    ] {
        redis.raw_set(name, bits)?;
    }
    redis.raw_set("SERVER_NAME", "nearfield")?;
    for (of, version) in [
        ("REDIS", REDIS_VERSION),
        ("SERVER", env!("CARGO_PKG_VERSION")),
    ] {
        // One byte for each part, so that numbers compare like versions.
        let parts = version.split('.');
        let number = parts.filter_map(|part| part.parse::<i64>().ok());
        let number = number.fold(0, |all, part| all << 8 | part);
        redis.raw_set(format!("{of}_VERSION"), version)?;
        redis.raw_set(format!("{of}_VERSION_NUM"), number)?;
    }
    let error = lua.create_function(|lua, values: MultiValue| {
        let Some(text) = only_string(&values) else {
            return wrong_type(lua);
        };
        let text = text.as_bytes();
        // As in Redis, the text may begin with the dash that the protocol has there.
        let text = text.strip_prefix(b"-").unwrap_or(&text);
        let line_ends: &[u8] = b"\r\n";
        let is_end = |byte: &u8| line_ends.contains(byte);
        let end = text.iter().rposition(|byte| !is_end(byte));
        let text = text
            .get(..end.map_or(0, |last| last + 1))
            .unwrap_or_default();
        // A text of a single word has no error code.
        if text.contains(&b' ') {
            failure::reply_table(lua, text)
        } else {
            failure::reply_table(lua, [b"ERR ", text].concat())
        }
    })?;
    redis.raw_set("error_reply", error)?;
    let status = lua.create_function(|lua, values: MultiValue| {
        let Some(text) = only_string(&values) else {
            return wrong_type(lua);
        };
        let table = lua.create_table()?;
        table.raw_set("ok", text)?;
        Ok(table)
    })?;
    redis.raw_set("status_reply", status)?;
    let digest = lua.create_function(|lua, values: MultiValue| {
        if values.len() != 1 {
            return Err(failure::raise_reply("ERR wrong number of arguments"));
        }
        // A value that is neither a string nor a number counts as empty.
        let text = LuaArguments::new(lua, "sha1hex", values).string(1);
        let digest = match text {
            Ok(text) => sha1_hex(&text.as_bytes()),
            Err(_) => sha1_hex(b""),
        };
        failure::look()?;
        Ok(digest)
    })?;
    redis.raw_set("sha1hex", digest)?;
    redis.raw_set("log", lua.create_function(log)?)?;
    let always = lua.create_function(|_, ()| Ok(true))?;
    redis.raw_set("replicate_commands", always)?;
    redis.raw_set("set_repl", lua.create_function(set_replication)?)?;
    let set_protocol = lua.create_function(|lua, values: MultiValue| {
        if values.len() != 1 {
            return Err(failure::raise_reply(
                "ERR redis.setresp() requires one argument.",
            ));
        }
        let version = LuaArguments::new(lua, "setresp", values).number(1)?;
        if version != 2.0 && version != 3.0 {
            return Err(failure::raise_reply("ERR RESP version must be 2 or 3."));
        }
        lent::set_typed(version == 3.0);
        Ok(())
    })?;
    redis.raw_set("setresp", set_protocol)?;
    Ok(redis)
}

fn only_string(values: &MultiValue) -> Option<&LuaString> {
    match values.front() {
        Some(Value::String(text)) if values.len() == 1 => Some(text),
        _ => None,
    }
}

fn wrong_type(lua: &Lua) -> Result<Table> {
    failure::reply_table(lua, "ERR wrong number or type of arguments")
}

/// Returns a text without control characters, which a terminal would interpret.
fn printable(text: &[u8]) -> String {
    let mut printable = String::new();
    for letter in String::from_utf8_lossy(text).chars() {
        match letter {
            '\t' => printable.push(letter),
            letter if letter.is_control() => printable.extend(letter.escape_default()),
            letter => printable.push(letter),
        }
    }
    printable
}

/// Longest message of a script in the log, as in Redis.
const LOGGED_BYTES_MAX: usize = 1024;

fn log(lua: &Lua, values: MultiValue) -> Result<()> {
    const LEVELS: std::ops::RangeInclusive<i64> = 0..=3;
    const NOTICE: i64 = 2;
    if values.len() < 2 {
        return Err(failure::raise_reply(
            "ERR redis.log() requires two arguments or more.",
        ));
    }
    let arguments = LuaArguments::new(lua, "log", values);
    let Some(Value::Integer(level)) = arguments.get(1) else {
        return Err(failure::raise_reply(
            "ERR First argument must be a number (log level).",
        ));
    };
    if !LEVELS.contains(level) {
        return Err(failure::raise_reply("ERR Invalid debug level."));
    }
    if *level < NOTICE {
        return Ok(());
    }
    let mut text = Vec::new();
    for position in 2..=arguments.len() {
        let Ok(part) = arguments.string(position) else {
            // Redis skips what is no string, too.
            continue;
        };
        if !text.is_empty() {
            text.push(b' ');
        }
        let part = part.as_bytes();
        let room = LOGGED_BYTES_MAX.saturating_sub(text.len());
        text.extend_from_slice(part.get(..room).unwrap_or(&part));
    }
    // A message of the log is one line, whatever the script passes.
    eprintln!("nearfield: script: {}", printable(&text));
    Ok(())
}

/// Does nothing: all changes of scripts are logged, so there is nothing to choose from.
fn set_replication(lua: &Lua, values: MultiValue) -> Result<()> {
    if values.len() != 1 {
        return Err(failure::raise_reply(
            "ERR redis.set_repl() requires one argument.",
        ));
    }
    let bits = LuaArguments::new(lua, "set_repl", values).number(1)? as i64;
    if bits & !3 != 0 {
        return Err(failure::raise_reply(
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ));
    }
    Ok(())
}
