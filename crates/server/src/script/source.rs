//! The text of a script, and the metadata of its first line.

use super::failure::message;
use crate::carried;

/// The reason why a script was refused or has failed. The texts are error replies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The first line is wrong, or the script has failed. The text includes the error code.
    #[error("{0}")]
    Text(String),
    /// The script does not compile.
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
    /// The SHA-1 digest in hexadecimal, which is the script's name.
    pub digest: String,
    /// The complete text.
    pub text: Vec<u8>,
    /// Offset of the code that is compiled.
    begin: usize,
    /// True if the script's flags allow writes; `None` if it has no flags.
    pub writes: Option<bool>,
    /// True if its flags allow it to run when memory is exhausted.
    pub may_exceed_memory: bool,
}

impl Script {
    /// Parses the first line if it begins with `#!`.
    ///
    /// # Errors
    /// The first line has an unknown engine, flag or field.
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
                    // There is no cluster, and no replica that could be stale.
                    "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                    flag => {
                        return refused(format!("ERR Unexpected flag in script shebang: {flag}"));
                    }
                }
            }
        }
        // The code keeps the line's end, so that lines are counted as they were sent.
        Ok(Script {
            digest,
            text: text.to_vec(),
            begin: end,
            writes: Some(writes),
            may_exceed_memory,
        })
    }

    /// Returns the code that is compiled.
    pub fn code(&self) -> &[u8] {
        debug_assert!(self.begin <= self.text.len());
        self.text.get(self.begin..).unwrap_or_default()
    }

    /// Returns true unless the flags rule out writes.
    pub fn may_write(&self) -> bool {
        self.writes != Some(false)
    }

    /// Returns the bytes of memory that the script takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Script>() + self.digest.len() + self.text.len()
    }
}
