//! The libraries of functions of a server, and the engine that runs them.
//!
//! Functions have a Lua state of their own, apart from that of scripts. The code of a library runs
//! once, when it is loaded, and can then only call `redis.register_function` and the like. It may
//! keep local values for its functions. Functions see nothing of other libraries.

use super::ScriptMemory;
use super::engine::{LuaEngine, LuaEngineKind};
use super::host::LuaHost;
use super::library::{Function, FunctionFlags, Libraries, Library, LibraryError, LibraryHeader};
use super::watchdog::{ScriptCaller, ScriptRunKind, Watchdog};
use crate::error::CommandError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longest time that a client's library may take to load.
pub const LOAD_TIME_MAX: Duration = Duration::from_millis(500);

/// The fate of existing libraries when others are restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryRestorePolicy {
    /// Deletion of all.
    Flush,
    /// Failure if a restored library has the name of an existing one.
    Append,
    /// Replacement of those that have the name of a restored one.
    Replace,
}

/// Bytes of memory kept for the command of the next call.
const KEPT_BYTES_MAX: usize = 1 << 16;

/// The function that runs, or that ran last: the command, and the time at which it began.
#[derive(Clone, Debug, Default)]
pub struct LuaFunctionCall {
    function: Option<Arc<Function>>,
    /// The words of the command, one after the other.
    bytes: Vec<u8>,
    /// Offset of the end of each word.
    ends: Vec<usize>,
    began: Option<Instant>,
}

impl LuaFunctionCall {
    fn begin(&mut self, function: &Arc<Function>, words: &[&[u8]], began: Instant) {
        if !self
            .function
            .as_ref()
            .is_some_and(|it| Arc::ptr_eq(it, function))
        {
            self.function = Some(Arc::clone(function));
        }
        self.bytes.clear();
        self.ends.clear();
        for word in words {
            self.bytes.extend_from_slice(word);
            self.ends.push(self.bytes.len());
        }
        self.began = Some(began);
    }

    /// Returns the name of the function.
    pub fn name(&self) -> &str {
        self.function.as_ref().map_or("", |it| &it.name)
    }

    /// Returns the words of the command.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            debug_assert!(begin <= *end && *end <= self.bytes.len());
            let word = self.bytes.get(begin..*end);
            begin = *end;
            word.unwrap_or_default()
        })
    }

    /// Returns true if the command takes more memory than is kept.
    fn is_large(&self) -> bool {
        self.bytes.len() + self.ends.len() * size_of::<usize>() > KEPT_BYTES_MAX
    }

    /// Returns for how long the function has run.
    pub fn elapsed(&self) -> Duration {
        self.began.map_or(Duration::ZERO, |began| began.elapsed())
    }
}

/// The state of functions that can be read while one runs.
#[derive(Debug, Default)]
struct FunctionRegistryState {
    libraries: Libraries,
    /// The function that was looked up last. Clients mostly call the same one again.
    latest: Option<Arc<Function>>,
    call: LuaFunctionCall,
}

impl FunctionRegistryState {
    fn set_libraries(&mut self, libraries: Libraries) {
        self.libraries = libraries;
        self.latest = None;
    }
}

/// A function that will be called next.
#[derive(Debug)]
pub struct PendingFunctionCall {
    number: u64,
    /// The flags with which it was registered.
    pub flags: FunctionFlags,
    /// True if its command takes more memory than is kept.
    is_large: bool,
}

/// All functions of a server. Callers of methods that change them hold the keyspace exclusively, so
/// that the log and snapshots have these changes in the order of all changes.
#[derive(Debug)]
pub struct FunctionRegistry {
    known: Mutex<FunctionRegistryState>,
    engine: Mutex<Option<LuaEngine>>,
    engine_bytes: AtomicUsize,
    watchdog: Arc<Watchdog>,
    memory: Arc<ScriptMemory>,
}

impl FunctionRegistry {
    /// Creates an empty set of functions. `watchdog` watches their calls, and `memory` counts their
    /// memory.
    pub fn new(watchdog: Arc<Watchdog>, memory: Arc<ScriptMemory>) -> FunctionRegistry {
        FunctionRegistry {
            known: Mutex::default(),
            engine: Mutex::default(),
            engine_bytes: AtomicUsize::new(0),
            watchdog,
            memory,
        }
    }

    fn set_engine_bytes(&self, bytes: usize) {
        let before = self.engine_bytes.swap(bytes, Ordering::Relaxed);
        let memory = &self.memory.functions;
        memory.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Updates the count of bytes held.
    fn count(&self) {
        let bytes = self.engine_bytes() + self.known_bytes();
        self.memory.functions.store(bytes, Ordering::Relaxed);
    }

    /// Returns the current libraries.
    pub fn libraries(&self) -> Libraries {
        self.known.lock().libraries.clone()
    }

    /// Returns the function of a name, in upper or lower case.
    pub fn find(&self, name: &[u8]) -> Option<Arc<Function>> {
        self.known.lock().libraries.function(name).cloned()
    }

    /// Returns the number of libraries and that of functions.
    pub fn counts(&self) -> (usize, usize) {
        let libraries = &self.known.lock().libraries;
        (libraries.iter().len(), libraries.function_count())
    }

    /// Returns the code of all libraries, for a snapshot.
    pub fn codes(&self) -> Vec<Arc<[u8]>> {
        let libraries = &self.known.lock().libraries;
        libraries.iter().map(|it| Arc::clone(&it.code)).collect()
    }

    /// Returns the bytes of memory that the Lua state takes (`used_memory_vm_functions`).
    pub fn engine_bytes(&self) -> usize {
        self.engine_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes of memory that libraries take outside of the Lua state
    /// (`used_memory_functions`).
    pub fn known_bytes(&self) -> usize {
        self.known.lock().libraries.memory_bytes()
    }

    /// Returns the call of the function that runs.
    pub fn running(&self) -> Option<LuaFunctionCall> {
        let runs = self.watchdog.runs(ScriptRunKind::Function);
        runs.then(|| self.known.lock().call.clone())
    }

    /// Loads a library and returns its name. With `replace`, it replaces an existing library of
    /// that name. An error changes nothing.
    ///
    /// # Errors
    /// The code is not a library, takes longer than `time_max` to load, or its name or those of its
    /// functions are taken.
    pub fn load(
        &self,
        code: &[u8],
        replace: bool,
        time_max: Option<Duration>,
    ) -> Result<String, LibraryError> {
        let name = LibraryHeader::parse(code)?.name;
        // A copy is changed, so that an error leaves the current libraries.
        let mut libraries = self.libraries();
        if libraries.remove(name.as_bytes()).is_some() && !replace {
            return Err(LibraryError::Exists(name));
        }
        self.change(|engine| {
            libraries.add(engine.load(code, time_max)?)?;
            Ok(libraries)
        })?;
        Ok(name)
    }

    /// Loads several libraries. An error changes nothing.
    ///
    /// # Errors
    /// As those of [`load`](FunctionRegistry::load), or two have the same name.
    pub fn restore(
        &self,
        codes: &[Vec<u8>],
        how: LibraryRestorePolicy,
    ) -> Result<(), LibraryError> {
        self.change(|engine| {
            let mut restored = Libraries::default();
            for code in codes {
                let name = LibraryHeader::parse(code)?.name;
                if restored.get(name.as_bytes()).is_some() {
                    return Err(LibraryError::Exists(name));
                }
                restored.add(engine.load(code, Some(LOAD_TIME_MAX))?)?;
            }
            let mut libraries = match how {
                LibraryRestorePolicy::Flush => Libraries::default(),
                LibraryRestorePolicy::Append | LibraryRestorePolicy::Replace => self.libraries(),
            };
            // All are removed before any is added: a function may move between two libraries that
            // are both replaced.
            for library in restored.iter() {
                if libraries.remove(library.name.as_bytes()).is_some()
                    && how == LibraryRestorePolicy::Append
                {
                    return Err(LibraryError::RestoredExists(library.name.clone()));
                }
            }
            for library in restored.iter() {
                libraries.add(Library::clone(library))?;
            }
            Ok(libraries)
        })
    }

    /// Deletes the library of a name.
    ///
    /// # Errors
    /// No library has this name.
    pub fn delete(&self, name: &[u8]) -> Result<(), LibraryError> {
        let mut libraries = self.libraries();
        libraries.remove(name).ok_or(LibraryError::NotFound)?;
        self.change(|_| Ok(libraries))
    }

    /// Deletes all libraries, and the Lua state.
    pub fn flush(&self) {
        *self.engine.lock() = None;
        self.known.lock().set_libraries(Libraries::default());
        self.set_engine_bytes(0);
        self.count();
    }

    /// Replaces the libraries by those that `work` returns, unless it fails.
    fn change(
        &self,
        work: impl FnOnce(&mut LuaEngine) -> Result<Libraries, LibraryError>,
    ) -> Result<(), LibraryError> {
        let mut engine = self.engine.lock();
        let engine = match &mut *engine {
            Some(engine) => engine,
            none => none.insert(LuaEngine::new(&self.watchdog, LuaEngineKind::Functions)?),
        };
        engine.limit_memory(self.memory.most())?;
        let changed = work(engine);
        let mut known = self.known.lock();
        let changed = changed.map(|libraries| known.set_libraries(libraries));
        // Also after an error, because functions of the refused library are in the state.
        engine.keep(&known.libraries);
        drop(known);
        self.set_engine_bytes(engine.memory_bytes());
        self.count();
        changed
    }

    /// Finds the function that the words of a call name, in upper or lower case, to be
    /// [called](Self::call) next. From now on it is reported as the running function while one
    /// runs.
    pub fn begin(&self, words: &[&[u8]], began: Instant) -> Option<PendingFunctionCall> {
        let mut known = self.known.lock();
        let FunctionRegistryState {
            libraries,
            latest,
            call,
        } = &mut *known;
        let name = words.get(1).copied().unwrap_or_default();
        let is = |it: &&Arc<Function>| it.name.as_bytes() == name;
        let function = match latest.as_ref().filter(is) {
            Some(function) => function,
            None => latest.insert(Arc::clone(libraries.function(name)?)),
        };
        call.begin(function, words, began);
        Some(PendingFunctionCall {
            number: function.number,
            flags: function.flags,
            is_large: call.is_large(),
        })
    }

    /// Calls a function, which writes its result into the reply of `host`.
    ///
    /// # Errors
    /// The function fails, or no longer exists.
    pub fn call(
        &self,
        begun: &PendingFunctionCall,
        caller: ScriptCaller,
        host: &mut impl LuaHost,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<(), CommandError> {
        self.watchdog.begin(ScriptRunKind::Function, caller);
        let mut engine = self.engine.lock();
        let called = match &mut *engine {
            Some(engine) => {
                let called = engine
                    .limit_memory(self.memory.most())
                    .map_err(super::ScriptError::from)
                    .and_then(|()| engine.call(begun.number, host, keys, arguments));
                self.set_engine_bytes(engine.memory_bytes_after_run());
                called.map_err(|error| CommandError::owned(error.to_string()))
            }
            None => Err(CommandError::text("ERR Function not found")),
        };
        self.watchdog.end();
        if begun.is_large {
            // Its words would otherwise stay until the next call.
            self.known.lock().call = LuaFunctionCall::default();
        }
        called
    }
}
