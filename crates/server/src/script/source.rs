//! The text of a script, and what its first line may say of it.

use super::failure::message;
use crate::carried;

/// Why a script was refused or has failed; what its client is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The first line is wrong, or the script has failed; complete with its code.
    #[error("{0}")]
    Text(String),
    /// It cannot be compiled.
    #[error("ERR Error compiling script (new function): {0}")]
    Compile(String),
    /// The Lua state fails.
    #[error("ERR Error running script: {0}")]
    Lua(String),
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> ScriptError {
        ScriptError::Lua(message(&error))
    }
}

/// A script.
#[derive(Debug)]
pub struct Script {
    /// Its SHA-1 digest in hexadecimal, which is its name.
    pub digest: String,
    /// All of it.
    pub text: Vec<u8>,
    /// Offset of the code that is compiled.
    begin: usize,
    /// Whether it has said that it does not write, or may; `None` if it has said nothing.
    pub writes: Option<bool>,
    /// Whether it has said that it may take memory when there is none.
    pub may_exceed_memory: bool,
}

impl Script {
    /// Takes the first line apart if it begins with `#!`.
    ///
    /// # Errors
    /// It says what there is not.
    pub fn parse(text: &[u8], digest: String) -> Result<Script, ScriptError> {
        let refused = |text: String| Err(ScriptError::Text(text));
        if !text.starts_with(b"#!") {
            return Ok(Script {
                digest,
                text: text.to_vec(),
                begin: 0,
                writes: None,
                may_exceed_memory: false,
            });
        }
        let Some(end) = memchr::memchr(b'\n', text) else {
            return refused("ERR Invalid script shebang".to_owned());
        };
        let line = text.get(..end).unwrap_or_default();
        let line = carried::text(line);
        let mut words = line.split_ascii_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return refused(format!("ERR Unexpected engine in script shebang: {engine}"));
        }
        let (mut writes, mut may_exceed_memory) = (true, false);
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return refused(format!("ERR Unknown lua shebang option: {word}"));
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => writes = false,
                    "allow-oom" => may_exceed_memory = true,
                    // There is no cluster and no replica that could be stale.
                    "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    flag => {
                        return refused(format!("ERR Unexpected flag in script shebang: {flag}"));
                    }
                }
            }
        }
        // The line's end stays, so that lines are counted as they were sent.
        Ok(Script {
            digest,
            text: text.to_vec(),
            begin: end,
            writes: Some(writes),
            may_exceed_memory,
        })
    }

    /// Returns what is compiled.
    pub fn code(&self) -> &[u8] {
        self.text.get(self.begin..).unwrap_or_default()
    }

    /// True unless it has said that it does not write.
    pub fn may_write(&self) -> bool {
        self.writes != Some(false)
    }

    /// The bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Script>() + self.digest.len() + self.text.len()
    }
}
