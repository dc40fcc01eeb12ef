//! Configuration files in the syntax of `redis.conf`.
//!
//! Each line is a name and a value, which may be in quotes. A line that begins with `#` is a
//! comment. `include PATH` reads another file at this place, or all files that match a pattern.
//! `user NAME RULE...` describes a user. Values are bytes, because passwords need not be text.

use super::parameter::Parameter;
use super::{PARAMETERS, find};
use crate::glob;
use crate::resp::request::split_words;
use crate::secret_file;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The reason that a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// No configuration file.
    #[error("The server is running without a config file")]
    None,
    /// An error of the system.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A line that is invalid.
    #[error(
        "{}, line {line}: {why}. Correct the line, or restore the file from a backup",
        path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// The reason.
        why: String,
    },
}

/// A parameter and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFileSetting {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Vec<u8>,
}

/// A line about a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserLine {
    /// The file and the number of the line.
    pub place: String,
    /// The user's name, and the rules.
    pub words: Vec<Vec<u8>>,
}

/// The contents of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFileContents {
    /// The file.
    pub file: Option<PathBuf>,
    /// The parameters and values, in order.
    pub values: Vec<ConfigFileSetting>,
    /// The lines about users.
    pub users: Vec<UserLine>,
}

/// The depth of includes at which files that include each other in a circle are refused.
const DEPTH_MAX: usize = 16;

/// Lines that other servers accept, and the reason that they are not possible here.
const REFUSED: &[(&str, &str)] = &[
    (
        "rename-command",
        "commands keep their names; forbid commands by rules of users, such as 'user default on \
         nopass ~* +@all -config'",
    ),
    ("loadmodule", "there are no modules"),
    ("loadmoduleex", "there are no modules"),
];

impl ConfigFileContents {
    /// Reads a file, and checks all values.
    ///
    /// # Errors
    /// The file or line, and the reason.
    pub fn read(path: &Path) -> Result<ConfigFileContents, FileError> {
        // CONFIG REWRITE writes the file later, when the working directory may be another one.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut settings = ConfigFileContents {
            file: Some(path.clone()),
            ..ConfigFileContents::default()
        };
        settings.read_file(&path, 0)?;
        Ok(settings)
    }

    /// Returns the last value given to a parameter, if it is text.
    pub fn value(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    /// Returns the last value given to a parameter.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let of = |setting: &&ConfigFileSetting| setting.name.eq_ignore_ascii_case(name);
        let last = self.values.iter().rev().find(of)?;
        Some(&last.value)
    }

    fn read_file(&mut self, path: &Path, depth: usize) -> Result<(), FileError> {
        debug_assert!(depth <= DEPTH_MAX, "deeper includes are refused");
        let text = secret_file::read(path).map_err(|source| FileError::System {
            path: path.to_owned(),
            source,
        })?;
        for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
            let refused = |why: &str| FileError::Line {
                path: path.to_owned(),
                line: number + 1,
                why: why.to_owned(),
            };
            if line.contains(&0) {
                return Err(refused("a zero byte; the file may be damaged"));
            }
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let mut words = split_words(line).ok_or_else(|| refused("unbalanced quotes"))?;
            if words.is_empty() {
                continue;
            }
            let name = words.remove(0);
            let name = std::str::from_utf8(&name)
                .map_err(|_| refused("the name of the parameter is not text"))?;
            let is = |other: &str| name.eq_ignore_ascii_case(other);
            if let Some((_, why)) = REFUSED.iter().find(|(other, _)| is(other)) {
                return Err(refused(&format!("{name} is not possible: {why}")));
            }
            match words.as_slice() {
                [included] if is("include") => {
                    if depth >= DEPTH_MAX {
                        return Err(refused("too many files include each other"));
                    }
                    for path in self.included(included) {
                        self.read_file(&path, depth + 1)?;
                    }
                }
                [user, ..] if is("user") => {
                    if self.users.iter().any(|it| it.words.first() == Some(user)) {
                        // The second line would replace the rights of the first without notice.
                        return Err(refused("the user is described twice"));
                    }
                    let place = format!("{}, line {}", path.display(), number + 1);
                    self.users.push(UserLine { place, words });
                }
                values => {
                    let added = self.add(name, values.join(&b' '));
                    added.map_err(|why| refused(&why))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the files that an `include` names, in the order of their names. For a pattern, they
    /// are the existing files. A relative path begins in `dir`, if an earlier line has set it.
    fn included(&self, path: &[u8]) -> Vec<PathBuf> {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        let path = Path::new(self.value("dir").unwrap_or_default()).join(path);
        let pattern = path.file_name().unwrap_or_default().as_bytes();
        // Only the last part may be a pattern. Redis uses glob(3), which also takes patterns of
        // folders.
        if !pattern.iter().any(|byte| b"*?[".contains(byte)) {
            return vec![path];
        }
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let entries = std::fs::read_dir(folder.unwrap_or(Path::new(".")));
        let entries = entries.into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name());
        let mut files: Vec<_> = names
            .filter(|name| glob::matches(pattern, name.as_bytes()))
            .map(|name| path.with_file_name(name))
            .collect();
        // As with glob(3). Later files override values of earlier ones, so the order matters.
        files.sort();
        files
    }

    /// Adds a value after checking it.
    ///
    /// # Errors
    /// The reason that the value is refused.
    pub fn add(&mut self, name: &str, value: impl Into<Vec<u8>>) -> Result<(), String> {
        let mut value = value.into();
        let parameter = find(name).and_then(|number| PARAMETERS.get(number));
        let Some(parameter) = parameter else {
            return Err(format!("there is no parameter '{name}'"));
        };
        if ["save", "tier"].contains(&parameter.name)
            && let Some(old) = self.bytes(parameter.name)
            && !old.is_empty()
            && !value.is_empty()
        {
            // As in Redis, each line `save` adds points, and an empty value removes those before
            // it.
            value = [old, &value].join(&b' ');
        }
        parameter
            .accept(&value, parameter.default.as_bytes())
            .map_err(|why| format!("{name}: {why}"))?;
        self.values.push(ConfigFileSetting {
            name: parameter.name.to_owned(),
            value,
        });
        Ok(())
    }
}

/// Writes values into a file. A line that names a parameter is replaced; new parameters are added
/// at the end. The lines of users replace the existing lines of users. All else stays.
pub fn rewrite(
    path: &Path,
    values: &[(&'static Parameter, Vec<u8>)],
    users: &[Vec<u8>],
) -> Result<(), FileError> {
    let system = |source| FileError::System {
        path: path.to_owned(),
        source,
    };
    let text = secret_file::read(path).map_err(system)?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let mut left: Vec<_> = values.iter().collect();
    let mut users = users.iter();
    let mut out = Vec::new();
    let mut add = |line: &[u8]| {
        out.extend_from_slice(line);
        out.push(b'\n');
    };
    for line in text.split(|&byte| byte == b'\n') {
        let mut words = line.split(u8::is_ascii_whitespace);
        let name = words.find(|word| !word.is_empty()).unwrap_or_default();
        if name.eq_ignore_ascii_case(b"user") {
            // A line with no user left for it describes a user that was removed.
            if let Some(user) = users.next() {
                add(user);
            }
            continue;
        }
        let parameter = std::str::from_utf8(name).ok().and_then(find);
        let Some(parameter) = parameter.and_then(|number| PARAMETERS.get(number)) else {
            add(line);
            continue;
        };
        // A parameter that has its default value again needs no line, nor does a second line of one
        // that was written before.
        if let Some(position) = left.iter().position(|it| it.0.name == parameter.name) {
            let (parameter, value) = left.remove(position);
            add(&written(parameter, value));
        }
    }
    for (parameter, value) in left {
        add(&written(parameter, value));
    }
    for user in users {
        add(user);
    }
    secret_file::replace(path, &out).map_err(system)
}

fn written(parameter: &Parameter, value: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| {
        (byte.is_ascii_graphic() || *byte == b' ') && !matches!(byte, b'"' | b'\'' | b'\\' | b'#')
    };
    let name = parameter.name.as_bytes();
    if !value.is_empty() && value.iter().all(plain) && !has_spare_blanks(value) {
        return [name, b" ", value].concat();
    }
    let mut quoted = String::new();
    crate::resp::request::quote(&mut quoted, value);
    debug_assert!(!quoted.contains('\n'), "a value is on one line");
    [name, b" \"", quoted.as_bytes(), b"\""].concat()
}

/// Returns true if blanks of a value would be lost when it is split into words and joined again.
fn has_spare_blanks(value: &[u8]) -> bool {
    value.starts_with(b" ") || value.ends_with(b" ") || value.windows(2).any(|it| it == b"  ")
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
        let settings = ConfigFileContents::read(&path).unwrap();
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
            let error = ConfigFileContents::read(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains("wrong.conf"), "{error}");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn rewriting_keeps_comments_and_replaces_values() {
        let path = temporary("rewritten.conf", "# kept\nhz 20\nport 7000\n");
        let hz = &PARAMETERS[find("hz").unwrap()];
        let dir = &PARAMETERS[find("dir").unwrap()];
        rewrite(&path, &[(hz, "30".into()), (dir, "/a \"b".into())], &[]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "# kept\nhz 30\ndir \"/a \\\"b\"\n");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn passwords_are_read_and_written_byte_by_byte() {
        let path = temporary("secret.conf", "requirepass \"\\xff\\xfe\\x01 pw \"\n");
        let settings = ConfigFileContents::read(&path).unwrap();
        let secret = b"\xff\xfe\x01 pw ";
        assert_eq!(settings.bytes("requirepass"), Some(&secret[..]));
        assert_eq!(settings.value("requirepass"), None);
        let parameter = &PARAMETERS[find("requirepass").unwrap()];
        for secret in [&b"\xff\xfe"[..], b" a  b ", b"#", b"plain", b"\n\r\0"] {
            rewrite(&path, &[(parameter, secret.to_vec())], &[]).unwrap();
            let again = ConfigFileContents::read(&path).unwrap();
            assert_eq!(again.bytes("requirepass"), Some(secret));
        }
        // All other values must be text, and are not converted.
        let mut settings = ConfigFileContents::default();
        let added = settings.add("dir", &b"/\xff"[..]);
        assert_eq!(added, Err("dir: argument must be UTF-8 text".to_owned()));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn users_are_read_and_written_in_the_place_of_those_before() {
        let text = "user ann on >\"a b\" ~*\nhz 20\nuser default off\n";
        let path = temporary("users.conf", text);
        let settings = ConfigFileContents::read(&path).unwrap();
        let words: Vec<_> = settings.users.iter().map(|it| it.words.concat()).collect();
        assert_eq!(words, [&b"annon>a b~*"[..], b"defaultoff"]);
        assert!(settings.users[1].place.ends_with("users.conf, line 3"));
        let lines = ["user bea on", "user cat on", "user dan on"].map(|it| it.into());
        rewrite(&path, &[], &lines).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "user bea on\nuser cat on\nuser dan on\n");
        rewrite(&path, &[], &lines[..1]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "user bea on\n");
        std::fs::write(&path, "user a on\nUSER a off\n").unwrap();
        let error = ConfigFileContents::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 2: the user is described twice"),
            "{error}"
        );
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn an_include_may_be_a_pattern_and_begins_in_dir() {
        let folder = std::env::temp_dir().join(format!("nearfield-{}-parts", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [
            ("a.part", "hz 20\n"),
            ("b.part", "hz 30\n"),
            ("c", "hz 40\n"),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let text = format!("dir {}\ninclude *.part\ninclude *.none\n", folder.display());
        let path = temporary("parts.conf", &text);
        assert_eq!(
            ConfigFileContents::read(&path).unwrap().value("hz"),
            Some("30")
        );
        std::fs::write(&path, "include /nowhere/at.all\n").unwrap();
        assert!(ConfigFileContents::read(&path).is_err());
        std::fs::remove_file(path).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_not_possible_is_refused_with_its_reason() {
        for (line, why) in [
            ("rename-command CONFIG \"\"", "commands keep their names"),
            ("loadmodule /a.so", "there are no modules"),
            ("replicaof 127.0.0.1 6379", "there are no replicas"),
            ("cluster-enabled yes", "not part of a cluster"),
            ("databases 1000", "between 1 and"),
        ] {
            let path = temporary("refused.conf", &format!("{line}\n"));
            let error = ConfigFileContents::read(&path).unwrap_err().to_string();
            assert!(error.contains("line 1: ") && error.contains(why), "{error}");
            std::fs::remove_file(path).unwrap();
        }
    }
}
