//! Users in a file, one line each, in the form of `ACL LIST`.

use super::error::AclError;
use super::selector::check_blanks;
use super::{Acl, DEFAULT, User, Users};
use crate::carried;
use crate::config::UserLine;
use crate::secret_file;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads users from the text of a file, in order. [`load`](Acl::load) adds the default user if no
/// line describes it.
///
/// # Errors
/// A list of what is wrong, line by line.
fn parse(acl: &Acl, text: &[u8], path: &str) -> Result<Vec<User>, AclError> {
    let mut users: Vec<User> = Vec::new();
    let mut errors = String::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if line.contains(&0) {
            errors += &format!("{path}:{}: a zero byte. ", number + 1);
            continue;
        }
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match parse_line(acl, line) {
            Ok(user) if users.iter().any(|known| known.name == user.name) => {
                let name = carried::text(&user.name);
                let line = number + 1;
                errors += &format!(
                    "{path}:{line}: WARNING: Duplicate user '{name}' found on line {line}. "
                );
            }
            Ok(user) => users.push(user),
            Err(text) => errors += &format!("{path}:{}: {text} ", number + 1),
        }
    }
    if !errors.is_empty() {
        // Each error ends with a blank, which separates it from the next.
        errors.pop();
        return Err(AclError::File(errors));
    }
    Ok(users)
}

fn parse_line(acl: &Acl, line: &[u8]) -> Result<User, String> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let words: Vec<&[u8]> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let [b"user", name, rules @ ..] = &words[..] else {
        return Err("should start with user keyword.".to_owned());
    };
    described(acl, name, rules).map_err(|error| match error {
        AclError::UserName => "username contains invalid characters.".to_owned(),
        AclError::Rule { source, .. } => format!("{source}."),
        error => error.to_string(),
    })
}

/// Creates a user from rules.
fn described(acl: &Acl, name: &[u8], rules: &[&[u8]]) -> Result<User, AclError> {
    check_blanks(name).map_err(|_| AclError::UserName)?;
    let mut user = acl.new_user(name);
    user.apply_all(acl.registry, rules)?;
    Ok(user)
}

impl Acl {
    fn path(&self) -> Result<&Path, AclError> {
        self.file.as_deref().ok_or(AclError::NoFile)
    }

    /// Replaces all users by those of the file. Returns the names of users that were removed or
    /// changed; the caller must close the connections of their clients.
    ///
    /// # Errors
    /// There is no file, or it is invalid; then nothing has changed.
    pub fn load(&self) -> Result<Vec<Vec<u8>>, AclError> {
        let path = self.path()?;
        let shown = path.display().to_string();
        let text = secret_file::read(path).map_err(|source| AclError::Io {
            what: "load",
            path: shown.clone(),
            source,
        })?;
        let mut loaded: Users = parse(self, &text, &shown)?
            .into_iter()
            .map(|user| (user.name.clone(), Arc::new(user)))
            .collect();
        // As in Redis, there is a default user even if the file has none: connections begin as it.
        loaded
            .entry(DEFAULT.to_vec())
            .or_insert_with(|| Arc::new(User::default_user(self.registry)));
        let mut users = self.users.write();
        // Clients of a user with the same rights stay connected.
        let is_other = |(name, user): &(&Vec<u8>, &Arc<User>)| loaded.get(*name) != Some(*user);
        let others = users.iter().filter(is_other).map(|(name, _)| name.clone());
        let others = others.collect();
        *users = loaded;
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(others)
    }

    /// Loads the users of the file, if one is named, or those of the configuration. It must run
    /// before any client is served.
    ///
    /// # Errors
    /// See [`load`](Acl::load). A line of the configuration is refused, or there is a file as well.
    pub fn load_at_start(&self, lines: &[UserLine]) -> Result<(), AclError> {
        if self.file.is_some() {
            return match lines.first() {
                // A missing file is an error: without its users the server would be open to all.
                None => self.load().map(drop),
                Some(line) => Err(AclError::Line {
                    place: line.place.clone(),
                    why: "users are described both in the file that aclfile names and in the \
                          configuration: use one of them"
                        .to_owned(),
                }),
            };
        }
        for line in lines {
            let Some((name, rules)) = line.words.split_first() else {
                continue;
            };
            let rules: Vec<&[u8]> = rules.iter().map(Vec::as_slice).collect();
            let user = described(self, name, &rules).map_err(|error| AclError::Line {
                place: line.place.clone(),
                why: error.to_string(),
            })?;
            self.put(user);
        }
        Ok(())
    }

    /// Returns the lines that describe all users in a configuration file. Empty if users are in a
    /// file of their own, or if `requirepass`, which is `password`, describes them all.
    pub fn lines_for_configuration(&self, password: &[u8]) -> Vec<Vec<u8>> {
        let users = self.users();
        let mut usual = User::default_user(self.registry);
        usual.set_only_password(password);
        if self.file.is_some() || matches!(&*users, [user] if **user == usual) {
            return Vec::new();
        }
        users.iter().map(|user| user.describe()).collect()
    }

    /// Writes all users to the file, atomically.
    ///
    /// # Errors
    /// There is no file, or it cannot be written.
    pub fn save(&self) -> Result<(), AclError> {
        let path = self.path()?;
        let mut text = Vec::new();
        for user in self.users() {
            text.extend_from_slice(&user.describe());
            text.push(b'\n');
        }
        let failed = |source| AclError::Io {
            what: "save",
            path: path.display().to_string(),
            source,
        };
        secret_file::replace(path, &text).map_err(failed)
    }
}
