//! One parameter and its possible values.

use std::borrow::Cow;

/// Which values a parameter may have.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `yes` or `no`.
    Bool,
    /// An integer between two bounds, both included.
    Integer(i64, i64),
    /// Bytes between two bounds, both included, that may be given with a unit.
    Memory(u64, u64),
    /// Bytes, or a percentage of all memory.
    MemoryOrPercent,
    /// One of these words.
    Enumeration(&'static [&'static str]),
    /// Any text.
    Text,
    /// The name of a file without a folder.
    FileName,
    /// Any bytes, which need not be text: passwords.
    Secret,
    /// Has a syntax of its own: a function gives the value that is shown, from what was said and
    /// the value before.
    Special(fn(&str, &str) -> Result<String, Cow<'static, str>>),
}

/// Whether a parameter may be changed while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At any time.
    Free,
    /// Only when the server is started.
    Never,
    /// Only when the server is started, as a client could do harm with it, unless
    /// `enable-protected-configs` lets clients change it.
    Protected,
    /// Only when the server is started, whatever `enable-protected-configs` says.
    ProtectedAlways,
}

/// Treatment of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterEffect {
    /// Code asks for it.
    Heeded,
    /// None, for this reason. Values are kept and shown, and the log says once that they have none.
    None(&'static str),
    /// Only the value that it has by default is possible, for this reason.
    Constant(&'static str),
}

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// A former name; empty if it has none.
    pub alias: &'static str,
    /// Which values it may have.
    pub kind: Kind,
    /// Its value if nothing is said.
    pub default: &'static str,
    /// When it may be changed.
    pub change: Change,
    /// Treatment of the parameter.
    pub effect: ParameterEffect,
}

impl Parameter {
    /// Checks a value, and gives it the form that clients are shown. `old` is the value before.
    ///
    /// # Errors
    /// Reason for the refusal of all values but the default.
    pub fn accept(&self, value: &[u8], old: &[u8]) -> Result<Vec<u8>, Cow<'static, str>> {
        if let Kind::Secret = self.kind {
            return Ok(value.to_vec());
        }
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "argument must be UTF-8 text");
        let shown = self.accept_text(text(value)?, text(old)?)?;
        match self.effect {
            ParameterEffect::Constant(why) if shown != self.default => Err(why.into()),
            _ => Ok(shown.into_bytes()),
        }
    }

    /// Says in the log that a value has no effect, unless it is the default.
    pub fn note_if_inert(&self, value: &[u8]) {
        if let ParameterEffect::None(why) = self.effect
            && value != self.default.as_bytes()
        {
            tracing::warn!("the parameter '{}' has no effect: {why}", self.name);
        }
    }

    /// As [`accept`](Parameter::accept), of what is text.
    fn accept_text(&self, value: &str, old: &str) -> Result<String, Cow<'static, str>> {
        match self.kind {
            Kind::Bool => match value.to_ascii_lowercase().as_str() {
                word @ ("yes" | "no") => Ok(word.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".into()),
            },
            Kind::Integer(least, most) => {
                let number = crate::number::parse_integer(value.as_bytes());
                let number = number.ok_or("argument couldn't be parsed into an integer")?;
                within(i128::from(number), i128::from(least), i128::from(most))?;
                Ok(number.to_string())
            }
            Kind::Memory(least, most) => {
                let bytes = memory(value).ok_or("argument must be a memory value")?;
                within(i128::from(bytes), i128::from(least), i128::from(most))?;
                Ok(bytes.to_string())
            }
            Kind::MemoryOrPercent => match (value.strip_suffix('%'), memory(value)) {
                (Some(percent), _) if percent.parse::<u8>().is_ok_and(|it| it <= 100) => {
                    Ok(value.to_owned())
                }
                (None, Some(bytes)) => Ok(bytes.to_string()),
                (Some(percent), _) if percent.parse::<u64>().is_ok() => {
                    Err("percentage argument must be less or equal to 100".into())
                }
                _ => Err("argument must be a memory or percent value".into()),
            },
            Kind::Enumeration(words) => {
                let is = |word: &&&str| word.eq_ignore_ascii_case(value);
                match words.iter().find(is) {
                    Some(word) => Ok((*word).to_owned()),
                    None => Err(format!(
                        "argument(s) must be one of the following: {}",
                        words.join(", ")
                    )
                    .into()),
                }
            }
            Kind::Text | Kind::Secret => Ok(value.to_owned()),
            Kind::FileName if value.contains('/') || [".", "..", ""].contains(&value) => {
                Err(format!("{} can't be a path, just a filename", self.name).into())
            }
            Kind::FileName => Ok(value.to_owned()),
            Kind::Special(accept) => accept(value, old),
        }
    }
}

/// Reads several of these words, the first of which stands for none, and orders them.
pub fn several(value: &str, words: &[&str]) -> Result<String, Cow<'static, str>> {
    let one_of = |given: &str| words.iter().any(|word| word.eq_ignore_ascii_case(given));
    let given: Vec<_> = value.split_ascii_whitespace().collect();
    if given.is_empty() || !given.iter().all(|word| one_of(word)) {
        return Err(format!(
            "argument(s) must be one of the following: {}",
            words.join(", ")
        )
        .into());
    }
    let is_given = |word: &&&str| given.iter().any(|it| it.eq_ignore_ascii_case(word));
    let others: Vec<&str> = words.iter().skip(1).filter(is_given).copied().collect();
    match words.first() {
        Some(none) if others.is_empty() => Ok((*none).to_owned()),
        _ => Ok(others.join(" ")),
    }
}

fn within(number: i128, least: i128, most: i128) -> Result<(), Cow<'static, str>> {
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(format!("argument must be between {least} and {most} inclusive").into())
}

/// Reads an amount of memory: `1k` is 1000 bytes, `1kb` is 1024.
pub fn memory(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1000 * 1000,
        "mb" => 1 << 20,
        "g" => 1000 * 1000 * 1000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A parameter that may be changed at any time.
pub const fn free(name: &'static str, kind: Kind, default: &'static str) -> Parameter {
    Parameter {
        name,
        alias: "",
        kind,
        default,
        change: Change::Free,
        effect: ParameterEffect::Heeded,
    }
}

impl Parameter {
    /// It is known by a former name, too.
    pub const fn once(mut self, alias: &'static str) -> Parameter {
        self.alias = alias;
        self
    }
    /// It can only be set when the server is started.
    pub const fn fixed(mut self) -> Parameter {
        self.change = Change::Never;
        self
    }
    /// It has no effect, for this reason.
    pub const fn inert(mut self, why: &'static str) -> Parameter {
        self.effect = ParameterEffect::None(why);
        self
    }
    /// It has no other value than the default, for this reason.
    pub const fn constant(mut self, why: &'static str) -> Parameter {
        self.effect = ParameterEffect::Constant(why);
        self
    }
    /// The same, as a client could do harm with it.
    pub const fn protected(mut self) -> Parameter {
        self.change = Change::Protected;
        self
    }
}

impl Parameter {
    /// It can only be set when the server is started, and clients could do harm with it.
    pub const fn protected_always(mut self) -> Parameter {
        self.change = Change::ProtectedAlways;
        self
    }
}

/// `yes` or `no`.
pub const fn switch(name: &'static str, default: &'static str) -> Parameter {
    free(name, Kind::Bool, default)
}

/// An integer of at least `least` and at most `most`.
pub const fn integer(
    name: &'static str,
    least: i64,
    most: i64,
    default: &'static str,
) -> Parameter {
    free(name, Kind::Integer(least, most), default)
}

/// Any text.
pub const fn text(name: &'static str, default: &'static str) -> Parameter {
    free(name, Kind::Text, default)
}

/// A password.
pub const fn secret(name: &'static str) -> Parameter {
    free(name, Kind::Secret, "")
}

/// A parameter with a syntax of its own.
pub const fn special(
    name: &'static str,
    accept: fn(&str, &str) -> Result<String, Cow<'static, str>>,
    default: &'static str,
) -> Parameter {
    free(name, Kind::Special(accept), default)
}
