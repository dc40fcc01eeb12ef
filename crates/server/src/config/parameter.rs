//! A parameter and its possible values.

use nearfield_core::byte_size;
use std::borrow::Cow;

/// The values that a parameter may have.
#[derive(Clone, Copy, Debug)]
pub enum ParameterKind {
    /// `yes` or `no`.
    Bool,
    /// An integer between two bounds, both included.
    Integer(i64, i64),
    /// Bytes between two bounds, both included. A value may have a unit.
    Memory(u64, u64),
    /// Bytes, or a percentage of all memory.
    MemoryOrPercent,
    /// One of these words.
    Enumeration(&'static [&'static str]),
    /// Any text.
    Text,
    /// The name of a file without a folder.
    FileName,
    /// Any bytes, for a password. They need not be text.
    Secret,
    /// A value with a syntax of its own. The function computes the value to be shown, from the new
    /// value and the one before.
    Special(fn(&str, &str) -> Result<String, Cow<'static, str>>),
}

/// The times at which a parameter may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterMutability {
    /// Changes at any time.
    Free,
    /// Changes only when the server is started.
    Never,
    /// Changes only when the server is started, unless `enable-protected-configs` lets clients make
    /// them. A client could do harm with them.
    Protected,
    /// Changes only when the server is started, even if `enable-protected-configs` is on.
    ProtectedAlways,
}

/// The effect of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterEffect {
    /// The parameter is read by code.
    Heeded,
    /// No effect, for this reason. Values are kept and shown, and the log warns once about each.
    None(&'static str),
    /// No value other than the default is possible, for this reason.
    Constant(&'static str),
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// A former name, or empty.
    pub alias: &'static str,
    /// The values that it may have.
    pub kind: ParameterKind,
    /// Its value if none is given.
    pub default: &'static str,
    /// The times at which it may be changed.
    pub change: ParameterMutability,
    /// Its effect.
    pub effect: ParameterEffect,
}

impl Parameter {
    /// Checks a value, and returns it in the form that clients are shown. `old` is the value
    /// before.
    ///
    /// # Errors
    /// The reason for refusing the value, or all values except the default.
    pub fn accept(&self, value: &[u8], old: &[u8]) -> Result<Vec<u8>, Cow<'static, str>> {
        // A password may be any bytes, while other values must be text.
        if let ParameterKind::Secret = self.kind {
            return Ok(value.to_vec());
        }
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "argument must be UTF-8 text");
        let shown = self.accept_text(text(value)?, text(old)?)?;
        match self.effect {
            // The shown forms are compared, so that `NO` is the default `no`.
            ParameterEffect::Constant(why) if shown != self.default => Err(why.into()),
            _ => Ok(shown.into_bytes()),
        }
    }

    /// Logs a warning that a value has no effect, unless it is the default.
    pub fn note_if_inert(&self, value: &[u8]) {
        if let ParameterEffect::None(why) = self.effect
            && value != self.default.as_bytes()
        {
            tracing::warn!("the parameter '{}' has no effect: {why}", self.name);
        }
    }

    /// Does the same as [`accept`](Parameter::accept), for text.
    fn accept_text(&self, value: &str, old: &str) -> Result<String, Cow<'static, str>> {
        match self.kind {
            ParameterKind::Bool => match value.to_ascii_lowercase().as_str() {
                word @ ("yes" | "no") => Ok(word.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            ParameterKind::Integer(least, most) => {
                let number = crate::number::parse_integer(value.as_bytes());
                let number = number.ok_or("argument couldn't be parsed into an integer")?;
                // Both signed and unsigned bounds of 64 bits fit in this type.
                within(i128::from(number), i128::from(least), i128::from(most))?;
                Ok(number.to_string())
            }
            ParameterKind::Memory(least, most) => {
                let bytes = byte_size(value).map_err(|_| "argument must be a memory value")?;
                within(i128::from(bytes), i128::from(least), i128::from(most))?;
                Ok(bytes.to_string())
            }
            ParameterKind::MemoryOrPercent => match (value.strip_suffix('%'), byte_size(value)) {
                (Some(percent), _) if percent.parse::<u8>().is_ok_and(|it| it <= 100) => {
                    Ok(value.to_owned())
                }
                (None, Ok(bytes)) => Ok(bytes.to_string()),
                (Some(percent), _) if percent.parse::<u64>().is_ok() => {
                    Err("percentage argument must be less or equal to 100".into())
                }
                _ => Err("argument must be a memory or percent value".into()),
            },
            ParameterKind::Enumeration(words) => {
                let is = |word: &&&str| word.eq_ignore_ascii_case(value);
                match words.iter().find(is) {
                    Some(word) => Ok((*word).to_owned()),
                    None => Err(none_of(words)),
                }
            }
            ParameterKind::Text | ParameterKind::Secret => Ok(value.to_owned()),
            // The files of a server stay in its directory.
            ParameterKind::FileName if value.contains('/') || [".", "..", ""].contains(&value) => {
                Err(format!("{} can't be a path, just a filename", self.name).into())
            }
            ParameterKind::FileName => Ok(value.to_owned()),
            ParameterKind::Special(accept) => accept(value, old),
        }
    }
}

/// Reads several of these words, and orders them. The first of `words` stands for none of the
/// others.
pub fn several(value: &str, words: &[&str]) -> Result<String, Cow<'static, str>> {
    let one_of = |given: &str| words.iter().any(|word| word.eq_ignore_ascii_case(given));
    let given: Vec<_> = value.split_ascii_whitespace().collect();
    if given.is_empty() || !given.iter().all(|word| one_of(word)) {
        return Err(none_of(words));
    }
    let is_given = |word: &&&str| given.iter().any(|it| it.eq_ignore_ascii_case(word));
    // The order of `words` makes equal values equal texts.
    let others: Vec<&str> = words.iter().skip(1).filter(is_given).copied().collect();
    match words.first() {
        Some(none) if others.is_empty() => Ok((*none).to_owned()),
        _ => Ok(others.join(" ")),
    }
}

fn none_of(words: &[&str]) -> Cow<'static, str> {
    let words = words.join(", ");
    format!("argument(s) must be one of the following: {words}").into()
}

fn within(number: i128, least: i128, most: i128) -> Result<(), Cow<'static, str>> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(format!("argument must be between {least} and {most} inclusive").into())
}

/// Creates a parameter that may be changed at any time.
pub const fn free(name: &'static str, kind: ParameterKind, default: &'static str) -> Parameter {
    debug_assert!(!name.is_empty(), "a parameter is found by its name");
    Parameter {
        name,
        alias: "",
        kind,
        default,
        change: ParameterMutability::Free,
        effect: ParameterEffect::Heeded,
    }
}

impl Parameter {
    /// Adds a former name by which the parameter is known, too.
    pub const fn once(mut self, alias: &'static str) -> Parameter {
        debug_assert!(!alias.is_empty(), "an empty alias means that there is none");
        self.alias = alias;
        self
    }
    /// Restricts changes to the start of the server.
    pub const fn fixed(mut self) -> Parameter {
        self.change = ParameterMutability::Never;
        self
    }
    /// Declares the parameter to have no effect, for this reason.
    pub const fn inert(mut self, why: &'static str) -> Parameter {
        self.effect = ParameterEffect::None(why);
        self
    }
    /// Declares the default to be the only possible value, for this reason.
    pub const fn constant(mut self, why: &'static str) -> Parameter {
        self.effect = ParameterEffect::Constant(why);
        self
    }
    /// Restricts changes to the start of the server unless clients are allowed to, because a client
    /// could do harm with it.
    pub const fn protected(mut self) -> Parameter {
        self.change = ParameterMutability::Protected;
        self
    }
}

impl Parameter {
    /// Restricts changes to the start of the server, because clients could do harm with it.
    pub const fn protected_always(mut self) -> Parameter {
        self.change = ParameterMutability::ProtectedAlways;
        self
    }
}

/// Creates a parameter that is `yes` or `no`.
pub const fn switch(name: &'static str, default: &'static str) -> Parameter {
    free(name, ParameterKind::Bool, default)
}

/// Creates a parameter that is an integer of at least `least` and at most `most`.
pub const fn integer(
    name: &'static str,
    least: i64,
    most: i64,
    default: &'static str,
) -> Parameter {
    debug_assert!(least <= most);
    free(name, ParameterKind::Integer(least, most), default)
}

/// Creates a parameter that is a number of bytes of at least `least`.
pub const fn bytes(name: &'static str, least: u64, default: &'static str) -> Parameter {
    free(name, ParameterKind::Memory(least, i64::MAX as u64), default)
}

/// Creates a parameter that is one of these words.
pub const fn choice(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
) -> Parameter {
    free(name, ParameterKind::Enumeration(words), default)
}

/// Creates a parameter that is any text.
pub const fn text(name: &'static str, default: &'static str) -> Parameter {
    free(name, ParameterKind::Text, default)
}

/// Creates a parameter that is a password.
pub const fn secret(name: &'static str) -> Parameter {
    free(name, ParameterKind::Secret, "")
}

/// Creates a parameter with a syntax of its own.
pub const fn special(
    name: &'static str,
    accept: fn(&str, &str) -> Result<String, Cow<'static, str>>,
    default: &'static str,
) -> Parameter {
    free(name, ParameterKind::Special(accept), default)
}
