//! Configuration: parameters by name, for `CONFIG GET`, `CONFIG SET` and files in the syntax of
//! `redis.conf`.
//!
//! The value of each parameter is kept as the text that clients are shown. Values that code reads
//! often are kept a second time in [`Hot`], as numbers that are read without a lock.

mod durability;
pub mod events;
mod file;
mod hot;
mod options;
mod parameter;
mod parameters;
mod special;

pub use durability::{Durability, SavePoint};
pub use file::{ConfigFileContents, ConfigFileSetting, FileError, UserLine};
pub use hot::{BufferLimit, ClientClass, Hot};
pub use nearfield_tiers::Specification as TierSpecification;
pub use options::{
    BIND_ADDRESSES_MAX, BindAddress, ListenPort, ServerOptions, bind_addresses, check_setting,
    default_threads,
};
pub use parameter::{Parameter, ParameterEffect, ParameterKind, ParameterMutability};
pub use special::NOT_BOUND;

use crate::glob::matches_ignoring_case;
use nearfield_tiers::policy::PolicyChoice;
use parameters::PARAMETERS;
use parking_lot::RwLock;
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The reason that `CONFIG SET` changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// No parameter has the name.
    #[error("ERR Unknown option or number of arguments for CONFIG SET - '{0}'")]
    Unknown(String),
    /// The parameter cannot have the value.
    #[error("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")]
    Refused {
        /// The parameter.
        name: String,
        /// The reason.
        why: Cow<'static, str>,
    },
}

/// The values of all parameters.
#[derive(Debug)]
pub struct ConfigParameters {
    values: RwLock<Vec<Vec<u8>>>,
    /// The values that code reads often.
    pub hot: Hot,
    /// The file that the configuration was read from.
    pub file: Option<PathBuf>,
}

fn find(name: &str) -> Option<usize> {
    // It would equal the alias of each parameter that has none.
    if name.is_empty() {
        return None;
    }
    PARAMETERS.iter().position(|parameter| {
        parameter.name.eq_ignore_ascii_case(name) || parameter.alias.eq_ignore_ascii_case(name)
    })
}

/// Returns true if a name is that of a parameter with values that must not be shown.
pub fn is_secret(name: &[u8]) -> bool {
    let name = std::str::from_utf8(name).ok();
    let parameter = name
        .and_then(find)
        .and_then(|number| PARAMETERS.get(number));
    // Redis hides this name as well.
    parameter.is_some_and(|it| matches!(it.kind, ParameterKind::Secret) || it.name == "masteruser")
}

impl ConfigParameters {
    /// Creates the configuration that a server is started with: the values of the file, overridden
    /// by the command line.
    pub fn new(options: &ServerOptions) -> ConfigParameters {
        let config = ConfigParameters {
            values: RwLock::new(PARAMETERS.iter().map(|it| it.default.into()).collect()),
            hot: Hot::default(),
            file: options.settings.file.clone(),
        };
        // The command line comes after the file, because it overrides it.
        for setting in &options.settings.values {
            config.start_with(&setting.name, &setting.value);
        }
        let addresses: Vec<_> = options.bind.iter().map(ToString::to_string).collect();
        config.start_with("bind", addresses.join(" "));
        config.start_with("port", options.port.number().to_string());
        config.start_with("io-threads", options.threads.to_string());
        let kept = &options.persistence;
        if let Some(directory) = &kept.directory {
            config.start_with("dir", directory.as_os_str().as_bytes());
        }
        let appendonly = if kept.log() { "yes" } else { "no" };
        config.start_with("appendonly", appendonly);
        config.start_with("appendfsync", kept.policy().name());
        config.start_with("save", SavePoint::text(&kept.save_points()));
        let protected = if options.protected { "yes" } else { "no" };
        config.start_with("protected-mode", protected);
        config.start_with(
            "requirepass",
            options.password.as_deref().unwrap_or_default(),
        );
        if let Some(tiers) = &options.tiers {
            let tiers: Vec<_> = tiers
                .specifications()
                .iter()
                .map(ToString::to_string)
                .collect();
            config.start_with("tier", tiers.join(" "));
            config.start_with("tier-policy", options.tier_policy.name());
        }
        if let PolicyChoice::Adm { settings, interval } = options.tier_policy {
            config.start_with("adm-threshold-in", settings.threshold_in.to_string());
            config.start_with("adm-threshold-out", settings.threshold_out.to_string());
            config.start_with("adm-interval-ms", interval.as_millis().to_string());
        }
        if let Some(file) = &options.acl_file {
            config.start_with("aclfile", file.as_os_str().as_bytes());
        }
        if let Ok(directory) = std::env::current_dir()
            && config.text("dir").is_empty()
        {
            config.start_with("dir", directory.as_os_str().as_bytes());
        }
        config.refresh();
        config
    }

    /// Sets a value that was checked before, or comes from the program.
    fn start_with(&self, name: &str, value: impl AsRef<[u8]>) {
        let value = value.as_ref();
        debug_assert!(
            find(name).is_some(),
            "the program names existing parameters"
        );
        let Some(number) = find(name) else {
            return;
        };
        let mut values = self.values.write();
        if let (Some(parameter), Some(slot)) = (PARAMETERS.get(number), values.get_mut(number)) {
            *slot = parameter
                .accept(value, slot)
                // The program's own values need not have the form that is asked of clients.
                .unwrap_or_else(|_| value.to_vec());
        }
    }

    /// Returns the value of a parameter as clients are shown it. Empty if there is no such
    /// parameter.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let number = find(name);
        let values = self.values.read();
        number
            .and_then(|number| values.get(number))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the value of a parameter that is text. All are, except passwords.
    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap_or_default()
    }

    /// Returns the value of a parameter that is a number; 0 if it does not parse.
    pub fn integer(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Returns the number of connections that may wait to be accepted (`tcp-backlog`).
    pub fn backlog(&self) -> i32 {
        i32::try_from(self.integer("tcp-backlog")).unwrap_or(i32::MAX)
    }

    /// Returns true if a parameter is `yes`.
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    /// Returns the names and values of all parameters that match one of `patterns`. A parameter
    /// that is named in full is returned under that name, which may be an alias.
    pub fn matching(&self, patterns: &[&[u8]]) -> Vec<(String, Vec<u8>)> {
        let values = self.values.read();
        debug_assert_eq!(values.len(), PARAMETERS.len());
        let mut found: Vec<(String, Vec<u8>)> = Vec::new();
        let mut add = |name: &str, value: &Vec<u8>| {
            if !found.iter().any(|(other, _)| other == name) {
                found.push((name.to_owned(), value.clone()));
            }
        };
        for pattern in patterns {
            // A name may be an alias, which the reply then shows.
            let is_name = !pattern.iter().any(|byte| b"*?[".contains(byte));
            if is_name {
                if let Ok(name) = std::str::from_utf8(pattern)
                    && let Some(value) = find(name).and_then(|number| values.get(number))
                {
                    add(name, value);
                }
                continue;
            }
            for (parameter, value) in PARAMETERS.iter().zip(values.iter()) {
                for name in [parameter.name, parameter.alias] {
                    if !name.is_empty() && matches_ignoring_case(pattern, name.as_bytes()) {
                        add(name, value);
                    }
                }
            }
        }
        found
    }

    /// Changes several parameters, all or none. Parameters with which a client could do harm are
    /// changed only if `opens_protected`.
    ///
    /// # Errors
    /// The parameter that is refused, and the reason.
    pub fn set(&self, pairs: &[(String, Vec<u8>)], opens_protected: bool) -> Result<(), SetError> {
        let mut values = self.values.write();
        let mut changed: Vec<(usize, Vec<u8>)> = Vec::new();
        for (name, _) in pairs {
            // All names are checked before any value, so that an unknown one is reported first.
            if find(name).is_none() {
                return Err(SetError::Unknown(name.clone()));
            }
        }
        for (name, value) in pairs {
            let refused = |why| SetError::Refused {
                name: name.clone(),
                why,
            };
            let Some((number, parameter)) =
                find(name).and_then(|number| Some((number, PARAMETERS.get(number)?)))
            else {
                continue;
            };
            let is_shut = match parameter.change {
                ParameterMutability::Free => None,
                ParameterMutability::Never => Some("can't set immutable config"),
                ParameterMutability::ProtectedAlways if opens_protected => {
                    Some("it can be set when the server is started only")
                }
                ParameterMutability::ProtectedAlways => Some("can't set protected config"),
                ParameterMutability::Protected => {
                    Some("can't set protected config").filter(|_| !opens_protected)
                }
            };
            if let Some(why) = is_shut {
                return Err(refused(why.into()));
            }
            // As in Redis, one command may not set a parameter twice, also not by its alias.
            if changed.iter().any(|(other, _)| *other == number) {
                return Err(refused("duplicate parameter".into()));
            }
            let old = values.get(number).cloned().unwrap_or_default();
            let new = parameter.accept(value, &old).map_err(refused)?;
            changed.push((number, new));
        }
        debug_assert_eq!(values.len(), PARAMETERS.len());
        // The log mentions only values that are really set.
        for (number, new) in &changed {
            if let Some(parameter) = PARAMETERS.get(*number) {
                parameter.note_if_inert(new);
            }
        }
        for (number, new) in changed {
            if let Some(slot) = values.get_mut(number) {
                *slot = new;
            }
        }
        // `refresh` takes the lock itself.
        drop(values);
        self.refresh();
        Ok(())
    }

    /// Lowers a parameter to a value that is possible here. The value is not checked, because the
    /// program computed it.
    pub fn lower(&self, name: &str, value: &str) {
        self.start_with(name, value);
        self.refresh();
    }

    /// Updates [`Hot`].
    fn refresh(&self) {
        self.hot.refresh(|name| self.text(name));
    }

    /// Returns the parameters with values that are not the default.
    fn changed(&self) -> Vec<(&'static Parameter, Vec<u8>)> {
        let values = self.values.read();
        PARAMETERS
            .iter()
            .zip(values.iter())
            .filter(|(parameter, value)| parameter.default.as_bytes() != value.as_slice())
            .map(|(parameter, value)| (parameter, value.clone()))
            .collect()
    }

    /// Logs a warning for each parameter that was given a value without effect.
    pub fn note_inert(&self) {
        for (parameter, value) in self.changed() {
            parameter.note_if_inert(&value);
        }
    }

    /// Writes the configuration to the file that it was read from, with these lines of users.
    ///
    /// # Errors
    /// There is no such file, or it cannot be written.
    pub fn rewrite(&self, users: &[Vec<u8>]) -> Result<(), FileError> {
        let Some(path) = &self.file else {
            return Err(FileError::None);
        };
        file::rewrite(path, &self.changed(), users)
    }
}
