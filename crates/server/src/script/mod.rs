//! Scripts and functions in Lua 5.1, in a sandbox like that of Redis.
//!
//! There is one Lua state for all scripts and one for all libraries of
//! [functions](FunctionRegistry), because they run in the exclusive phase, one at a time. A
//! script's commands are executed one by one within the command that runs the script. Their changes
//! are logged as one unit, and the script itself is not logged.
//!
//! Scripts share tables that they cannot write, and see nothing of each other. The parts of Redis's
//! sandbox that need its modified Lua are missing: a table that scripts see is an empty one in
//! front of the real one (see `prelude.lua`).

mod arguments;
mod bits;
mod cache;
#[expect(
    unsafe_code,
    reason = "Lua calls functions in C without wrapping their arguments"
)]
mod commands;
mod convert;
mod engine;
#[expect(unsafe_code, reason = "one function in C replaces many calls of Lua")]
mod enter;
mod failure;
mod functions;
mod guard;
#[expect(unsafe_code, reason = "Lua calls a function in C between instructions")]
mod hook;
mod host;
mod json;
#[expect(unsafe_code, reason = "Lua's functions outlive what a script runs on")]
mod lent;
pub mod library;
mod msgpack;
mod number;
mod pattern;
#[expect(unsafe_code, reason = "replies of commands go onto Lua's stack")]
mod push;
mod random;
#[expect(unsafe_code, reason = "arguments of functions in C are on Lua's stack")]
mod raw;
mod register;
mod source;
#[expect(unsafe_code, reason = "patterns are matched by functions in C")]
mod strings;
mod structs;
#[cfg(test)]
mod tests;
mod text;
mod watchdog;
#[expect(unsafe_code, reason = "functions in C replace the interpreter's")]
mod weighed;

pub use functions::{FunctionRegistry, LOAD_TIME_MAX, LibraryRestorePolicy};
pub use host::LuaHost;
pub use source::{Script, ScriptError};
pub use watchdog::{NotKilled, ScriptCaller, ScriptRunKind, Watchdog};

use crate::error::CommandError;
use crate::hexadecimal::hex;
use cache::ScriptCache;
use engine::{LuaEngine, LuaEngineKind};
use parking_lot::Mutex;
use sha1::{Digest, Sha1};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest number of values that a function of a library may return.
const RESULTS_MAX: usize = 7000;

/// Returns the SHA-1 digest of a text, in hexadecimal.
pub fn sha1_hex(text: &[u8]) -> String {
    hex(&Sha1::digest(text))
}

/// Returns a name in lower case, the form in which names are compared.
fn lowercase(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// The bytes of memory that scripts and functions hold while none runs.
#[derive(Debug)]
pub struct ScriptMemory {
    scripts: AtomicUsize,
    functions: AtomicUsize,
    /// Memory limit of each of the two Lua states.
    most: AtomicUsize,
}

impl Default for ScriptMemory {
    fn default() -> ScriptMemory {
        ScriptMemory {
            scripts: AtomicUsize::new(0),
            functions: AtomicUsize::new(0),
            most: AtomicUsize::new(engine::memory_bytes_of(0)),
        }
    }
}

impl ScriptMemory {
    /// Limits scripts that run from now on to a part of `maxmemory`; 0 is no limit.
    pub fn configure(&self, maxmemory: u64) {
        let bytes = engine::memory_bytes_of(maxmemory);
        self.most.store(bytes, Ordering::Relaxed);
    }

    #[inline]
    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Returns the bytes of both: those of Lua, and those of the texts.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.scripts.load(Ordering::Relaxed) + self.functions.load(Ordering::Relaxed)
    }
}

/// All scripts of a server, and the engine that runs them.
#[derive(Debug, Default)]
pub struct Scripts {
    /// The scripts that may be called by their digests.
    known: Mutex<ScriptCache>,
    engine: Mutex<Option<LuaEngine>>,
    /// Bytes of memory that the engine's state takes.
    engine_bytes: AtomicUsize,
    /// The watchdog of the script that runs.
    pub watchdog: Arc<Watchdog>,
    /// Bytes of memory that scripts and functions hold.
    pub memory: Arc<ScriptMemory>,
}

impl Scripts {
    /// Returns the script of a digest, in upper or lower case.
    pub fn find(&self, digest: &[u8]) -> Option<Arc<Script>> {
        self.known.lock().find(digest)
    }

    /// Compiles a text, and keeps it as a script that may be called by its digest until it is
    /// flushed.
    ///
    /// # Errors
    /// The text does not compile, or too many scripts are loaded.
    pub fn load(&self, text: &[u8]) -> Result<Arc<Script>, ScriptError> {
        let script = self.compiled(text)?;
        self.known.lock().load(&script)?;
        self.count();
        Ok(script)
    }

    /// Compiles a text that is run now, and may be called by its digest for a while.
    ///
    /// # Errors
    /// The text does not compile.
    pub fn evaluate(&self, text: &[u8]) -> Result<Arc<Script>, ScriptError> {
        let digest = sha1_hex(text);
        if let Some(script) = self.find(digest.as_bytes()) {
            return Ok(script);
        }
        let script = self.compiled(text)?;
        let forgotten = self.known.lock().evaluate(&script);
        // Its compiled form would otherwise take memory until the state is flushed.
        if let (Some(forgotten), Some(engine)) = (forgotten, &mut *self.engine.lock()) {
            engine.forget(&forgotten.digest);
        }
        self.count();
        Ok(script)
    }

    fn compiled(&self, text: &[u8]) -> Result<Arc<Script>, ScriptError> {
        let digest = sha1_hex(text);
        if let Some(script) = self.find(digest.as_bytes()) {
            return Ok(script);
        }
        let script = Arc::new(Script::parse(text, digest)?);
        self.with_engine(|engine| engine.compile(&script))?;
        Ok(script)
    }

    /// Runs a script, which writes its result into the reply of `host`.
    ///
    /// # Errors
    /// The script has failed.
    pub fn run(
        &self,
        script: &Script,
        caller: ScriptCaller,
        host: &mut impl LuaHost,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<(), CommandError> {
        self.watchdog.begin(ScriptRunKind::Script, caller);
        let result = self.with_engine(|engine| engine.run(script, host, keys, arguments));
        self.watchdog.end();
        result.map_err(|error| CommandError::owned(error.to_string()))
    }

    fn with_engine<R>(
        &self,
        work: impl FnOnce(&mut LuaEngine) -> Result<R, ScriptError>,
    ) -> Result<R, ScriptError> {
        let mut engine = self.engine.lock();
        if engine.is_none() {
            *engine = Some(LuaEngine::new(&self.watchdog, LuaEngineKind::Scripts)?);
        }
        let Some(engine) = engine.as_mut() else {
            unreachable!("it has just been created")
        };
        // `maxmemory` may have changed since the last run.
        engine.limit_memory(self.memory.most())?;
        let result = work(engine);
        let bytes = engine.memory_bytes();
        let before = self.engine_bytes.swap(bytes, Ordering::Relaxed);
        let memory = &self.memory.scripts;
        // Only the difference is added, because the count includes the texts of scripts. The
        // addition wraps where the state has shrunk.
        memory.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        result
    }

    /// Updates the count of bytes held.
    fn count(&self) {
        let bytes = self.engine_bytes() + self.known_bytes();
        self.memory.scripts.store(bytes, Ordering::Relaxed);
    }

    /// Forgets all scripts, and the Lua state.
    pub fn flush(&self) {
        *self.known.lock() = ScriptCache::default();
        *self.engine.lock() = None;
        self.engine_bytes.store(0, Ordering::Relaxed);
        self.count();
    }

    /// Returns the number of known scripts.
    pub fn len(&self) -> usize {
        self.known.lock().len()
    }

    /// Returns true if no script is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that the Lua state takes (`used_memory_vm_eval`).
    pub fn engine_bytes(&self) -> usize {
        self.engine_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of memory that known scripts take (`used_memory_scripts_eval`).
    pub fn known_bytes(&self) -> usize {
        self.known.lock().bytes()
    }
}
