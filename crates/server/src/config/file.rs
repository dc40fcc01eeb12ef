//! Configuration files in the syntax of `redis.conf`.
//!
//! Each line is a name and a value, which may stand in quotes; a line that begins with `#` says
//! nothing; `include PATH` reads another file at this place.

use super::parameter::Parameter;
use super::{PARAMETERS, find};
use crate::resp::request::split_words;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// There is none.
    #[error("The server is running without a config file")]
    None,
    /// The system refuses it.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line is not understood.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// A parameter and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// What a configuration file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The file.
    pub file: Option<PathBuf>,
    /// Its lines, in order.
    pub values: Vec<Setting>,
}

/// Files that include each other in a circle are refused at this depth.
const DEPTH_MAX: usize = 16;

impl Settings {
    /// Reads a file, and checks all values.
    ///
    /// # Errors
    /// The file or line, and what is wrong with it.
    pub fn read(path: &Path) -> Result<Settings, FileError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut settings = Settings {
            file: Some(path.clone()),
            values: Vec::new(),
        };
        settings.read_file(&path, 0)?;
        Ok(settings)
    }

    /// The last value that is given to a parameter.
    pub fn value(&self, name: &str) -> Option<&str> {
        let of = |setting: &&Setting| setting.name.eq_ignore_ascii_case(name);
        let last = self.values.iter().rev().find(of)?;
        Some(&last.value)
    }

    fn read_file(&mut self, path: &Path, depth: usize) -> Result<(), FileError> {
        let text = std::fs::read_to_string(path).map_err(|source| FileError::System {
            path: path.to_owned(),
            source,
        })?;
        for (number, line) in text.lines().enumerate() {
            let refused = |why: &str| FileError::Line {
                path: path.to_owned(),
                line: number + 1,
                why: why.to_owned(),
            };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let words = split_words(line.as_bytes()).ok_or_else(|| refused("unbalanced quotes"))?;
            let words: Vec<_> = words
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            match words.as_slice() {
                [] => {}
                [name, path] if name.eq_ignore_ascii_case("include") => {
                    if depth >= DEPTH_MAX {
                        return Err(refused("too many files include each other"));
                    }
                    self.read_file(Path::new(path), depth + 1)?;
                }
                [name, values @ ..] => {
                    let value = values.join(" ");
                    self.add(name, value).map_err(|why| refused(&why))?;
                }
            }
        }
        Ok(())
    }

    /// Adds a value after it was checked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add(&mut self, name: &str, mut value: String) -> Result<(), String> {
        let parameter = find(name).and_then(|number| PARAMETERS.get(number));
        let Some(parameter) = parameter else {
            return Err(format!("there is no parameter '{name}'"));
        };
        if ["save", "tier"].contains(&parameter.name)
            && let Some(old) = self.value(parameter.name)
            && !old.is_empty()
            && !value.is_empty()
        {
            value = format!("{old} {value}");
        }
        parameter
            .accept(&value, parameter.default)
            .map_err(|why| format!("{name}: {why}"))?;
        self.values.push(Setting {
            name: parameter.name.to_owned(),
            value,
        });
        Ok(())
    }
}

/// Writes values into a file: where it names a parameter, the line is replaced; new ones are added
/// at its end. All else stays.
pub fn rewrite(path: &Path, values: &[(&'static Parameter, String)]) -> Result<(), FileError> {
    let system = |source| FileError::System {
        path: path.to_owned(),
        source,
    };
    let text = std::fs::read_to_string(path).map_err(system)?;
    let mut left: Vec<_> = values.iter().collect();
    let mut out = String::new();
    for line in text.lines() {
        let name = line.split_whitespace().next().unwrap_or("");
        let parameter = find(name).and_then(|number| PARAMETERS.get(number));
        let Some(parameter) = parameter.filter(|_| !name.starts_with('#')) else {
            let _ = writeln!(out, "{line}");
            continue;
        };
        // A parameter that has its default again needs no line.
        if let Some(position) = left.iter().position(|it| it.0.name == parameter.name) {
            let (parameter, value) = left.remove(position);
            let _ = writeln!(out, "{}", written(parameter, value));
        }
    }
    for (parameter, value) in left {
        let _ = writeln!(out, "{}", written(parameter, value));
    }
    // The old file stays whole until the new one is.
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    std::fs::write(&temporary, out).map_err(system)?;
    std::fs::rename(&temporary, path).map_err(system)
}

fn written(parameter: &Parameter, value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#');
    if !value.is_empty() && value.bytes().all(|byte| plain(byte) || byte == b' ') {
        return format!("{} {value}", parameter.name);
    }
    let mut quoted = String::new();
    crate::resp::request::quote(&mut quoted, value.as_bytes());
    format!("{} \"{quoted}\"", parameter.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("nearfield-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn files_are_read_with_quotes_comments_and_includes() {
        let included = temporary("included.conf", "maxmemory 1mb\n");
        let text = format!(
            "# a comment\n\nport 7000\ninclude {}\nsave 60 1\nsave 10 2\nrequirepass \"a b\"\n",
            included.display()
        );
        let path = temporary("main.conf", &text);
        let settings = Settings::read(&path).unwrap();
        assert_eq!(settings.value("port"), Some("7000"));
        assert_eq!(settings.value("maxmemory"), Some("1mb"));
        assert_eq!(settings.value("save"), Some("60 1 10 2"));
        assert_eq!(settings.value("requirepass"), Some("a b"));
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(included).unwrap();
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        for (text, expected) in [
            (
                "port 1\nnosuch 2\n",
                "line 2: there is no parameter 'nosuch'",
            ),
            (
                "hz x\n",
                "line 1: hz: argument couldn't be parsed into an integer",
            ),
            ("dir \"x\n", "line 1: unbalanced quotes"),
        ] {
            let path = temporary("wrong.conf", text);
            let error = Settings::read(&path).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
            assert!(error.contains("wrong.conf"), "{error}");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn rewriting_keeps_comments_and_replaces_values() {
        let path = temporary("rewritten.conf", "# kept\nhz 20\nport 7000\n");
        let hz = &PARAMETERS[find("hz").unwrap()];
        let dir = &PARAMETERS[find("dir").unwrap()];
        rewrite(&path, &[(hz, "30".into()), (dir, "/a \"b".into())]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "# kept\nhz 30\ndir \"/a \\\"b\"\n");
        std::fs::remove_file(path).unwrap();
    }
}
