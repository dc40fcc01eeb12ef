//! Users in a file, a line each, as `ACL LIST` shows them.

use super::error::AclError;
use super::selector::check_blanks;
use super::{Acl, DEFAULT, User, Users};
use crate::catalog::Registry;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reads users from the text of a file. The default user is as at first unless it is there.
///
/// # Errors
/// What is wrong, line by line.
pub fn parse(registry: &Registry, text: &[u8], path: &str) -> Result<Vec<User>, AclError> {
    let mut users: Vec<User> = Vec::new();
    let mut errors = String::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        match parse_line(registry, line) {
            Ok(user) if users.iter().any(|known| known.name == user.name) => {
                let name = String::from_utf8_lossy(&user.name);
                errors += &format!(
                    "WARNING: Duplicate user '{name}' found on line {}. ",
                    number + 1
                );
            }
            Ok(user) => users.push(user),
            Err(text) => errors += &format!("{path}:{}: {text} ", number + 1),
        }
    }
    if !errors.is_empty() {
        errors.pop();
        return Err(AclError::File(errors));
    }
    Ok(users)
}

fn parse_line(registry: &Registry, line: &[u8]) -> Result<User, String> {
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let words: Vec<&[u8]> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let [b"user", name, rules @ ..] = &words[..] else {
        return Err("should start with user keyword.".to_owned());
    };
    check_blanks(name).map_err(|_| "username contains invalid characters.".to_owned())?;
    let mut user = User::new(name);
    user.apply_all(registry, rules)
        .map_err(|error| match error {
            AclError::Rule { source, .. } => format!("{source}."),
            error => error.to_string(),
        })?;
    Ok(user)
}

impl Acl {
    fn path(&self) -> Result<&Path, AclError> {
        self.file.as_deref().ok_or(AclError::NoFile)
    }

    /// Takes the users of the file in place of all others. Answers the names of users who are no
    /// more, or are others: their clients' connections are for the caller to close.
    ///
    /// # Errors
    /// There is no file, or something is wrong with it; then nothing has changed.
    pub fn load(&self) -> Result<Vec<Vec<u8>>, AclError> {
        let path = self.path()?;
        let shown = path.display().to_string();
        let text = std::fs::read(path).map_err(|source| AclError::Io {
            what: "load",
            path: shown.clone(),
            source,
        })?;
        let mut loaded: Users = parse(self.registry, &text, &shown)?
            .into_iter()
            .map(|user| (user.name.clone(), Arc::new(user)))
            .collect();
        loaded
            .entry(DEFAULT.to_vec())
            .or_insert_with(|| Arc::new(User::default_user(self.registry)));
        let mut users = self.users.write();
        let is_other = |(name, user): &(&Vec<u8>, &Arc<User>)| loaded.get(*name) != Some(*user);
        let others = users.iter().filter(is_other).map(|(name, _)| name.clone());
        let others = others.collect();
        *users = loaded;
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(others)
    }

    /// Takes the users of the file, if one is named, before anybody is served. One that is not
    /// there would leave the server open.
    ///
    /// # Errors
    /// See [`load`](Acl::load).
    pub fn load_at_start(&self) -> Result<(), AclError> {
        match self.file {
            Some(_) => self.load().map(drop),
            None => Ok(()),
        }
    }

    /// Writes all users to the file: whole, or not at all.
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
        let mut temporary = path.to_path_buf().into_os_string();
        temporary.push(format!(".tmp-{}", std::process::id()));
        let written = std::fs::File::create(&temporary).and_then(|mut file| {
            std::io::Write::write_all(&mut file, &text)?;
            file.sync_all()
        });
        written
            .and_then(|()| std::fs::rename(&temporary, path))
            .map_err(failed)
    }
}
