//! A user: passwords, and the rights that they give.

use super::access::KeyAccess;
use super::error::{AclError, RuleError};
use super::selector::{Denial, Selector};
use crate::catalog::{CommandRegistry, Spec};
use crate::error::shown;
use crate::hexadecimal::hex;
use sha2::{Digest, Sha256};

/// The hash of a password.
pub type Hash = [u8; 32];

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: Vec<u8>,
    /// True if clients may log in as this user.
    pub enabled: bool,
    /// True if any password is accepted.
    pub no_password: bool,
    /// True if payloads of `RESTORE` must be checked. All are checked, independent of this flag,
    /// which is kept for clients that set it.
    pub sanitizes: bool,
    /// True if a new selector has the right to all channels (`acl-pubsub-default`).
    pub listens_at_first: bool,
    passwords: Vec<Hash>,
    root: Selector,
    selectors: Vec<Selector>,
}

impl User {
    /// Returns its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let selectors: usize = self.selectors.iter().map(Selector::memory_bytes).sum();
        let passwords = self.passwords.len() * size_of::<Hash>();
        size_of::<User>() + self.name.len() + passwords + self.root.memory_bytes() + selectors
    }

    /// Returns a user without rights, except to all channels if `listens`.
    pub fn new(name: &[u8], listens: bool) -> User {
        User {
            name: name.to_vec(),
            enabled: false,
            no_password: false,
            sanitizes: true,
            listens_at_first: listens,
            passwords: Vec::new(),
            root: Selector::new(listens),
            selectors: Vec::new(),
        }
    }

    /// Returns the default user of a new server, which may do everything without a password.
    pub fn default_user(registry: &CommandRegistry) -> User {
        let mut user = User::new(super::DEFAULT, false);
        for rule in ["allkeys", "allchannels", "allcommands", "nopass", "on"] {
            // All of them are valid rules, so none fails.
            let applied = user.apply(registry, rule.as_bytes());
            debug_assert!(applied.is_ok());
        }
        user
    }

    /// Returns true if the user may do everything.
    pub fn is_unrestricted(&self) -> bool {
        self.root.is_unrestricted() || self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// Returns true if one selector allows a command and lets it read every key, including those
    /// that are not among its arguments. Rights that another selector gives do not count.
    pub fn may_read_all_keys_by(
        &self,
        registry: &CommandRegistry,
        command: &'static Spec,
        args: &[&[u8]],
    ) -> bool {
        let Some(number) = registry.number(command) else {
            return false;
        };
        let name = registry.name(command);
        self.selectors().any(|selector| {
            selector.allows_all_keys(KeyAccess::READ)
                && selector.check(number, name, command, args).is_ok()
        })
    }

    /// Returns true if `password` is one of the user's.
    pub fn accepts(&self, password: &[u8]) -> bool {
        let hash: Hash = Sha256::digest(password).into();
        let same = |known: &Hash| {
            let differing = known
                .iter()
                .zip(&hash)
                .fold(0, |bits, (a, b)| bits | (a ^ b));
            std::hint::black_box(differing) == 0
        };
        // All are compared, so that the time does not depend on the password.
        let accepted = self
            .passwords
            .iter()
            .fold(false, |is, known| is | same(known));
        // With `||` the time would tell that no password is needed.
        self.no_password | accepted
    }

    /// Returns the hashes of the passwords, in the order in which they were added.
    pub fn password_hashes(&self) -> impl Iterator<Item = String> {
        self.passwords.iter().map(|hash| hex(hash))
    }

    /// Returns all selectors, the one outside parentheses first.
    pub fn selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Applies one rule. A selector is a rule, with its parentheses.
    ///
    /// # Errors
    /// `rule` does not parse, or has no effect.
    pub fn apply(&mut self, registry: &CommandRegistry, rule: &[u8]) -> Result<(), RuleError> {
        match &*rule.to_ascii_lowercase() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"skip-sanitize-payload" => self.sanitizes = false,
            b"sanitize-payload" => self.sanitizes = true,
            b"clearselectors" => self.selectors.clear(),
            // As in Redis, `reset` also turns the user off.
            b"reset" => *self = User::new(&self.name, self.listens_at_first),
            _ => match rule {
                [b'>', password @ ..] => self.add_password(Sha256::digest(password).into()),
                [b'#', hash @ ..] => self.add_password(parse_hash(hash)?),
                [b'<', password @ ..] => self.remove_password(&Sha256::digest(password).into())?,
                [b'!', hash @ ..] => self.remove_password(&parse_hash(hash)?)?,
                [b'(', rules @ .., b')'] => {
                    let mut selector = Selector::new(self.listens_at_first);
                    for rule in rules.split(|byte| *byte == b' ') {
                        // In a list of rules it would look like the end of the selector.
                        if rule.ends_with(b")") {
                            return Err(RuleError::Syntax);
                        }
                        if !rule.is_empty() {
                            selector.apply(registry, rule)?;
                        }
                    }
                    self.selectors.push(selector);
                }
                [b'(', ..] => return Err(RuleError::Syntax),
                _ => self.root.apply(registry, rule)?,
            },
        }
        debug_assert!(!self.no_password || self.passwords.is_empty());
        Ok(())
    }

    /// Applies rules as they were sent: selectors may be one word or several.
    ///
    /// # Errors
    /// A rule is refused; those before it were applied.
    pub fn apply_all(
        &mut self,
        registry: &CommandRegistry,
        rules: &[&[u8]],
    ) -> Result<(), AclError> {
        for rule in merge_selectors(rules)? {
            self.apply(registry, &rule)
                .map_err(|source| AclError::Rule {
                    rule: shown(&rule),
                    source,
                })?;
        }
        Ok(())
    }

    /// Sets the only password. If it is empty, none is needed.
    pub fn set_only_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.no_password = password.is_empty();
        if !password.is_empty() {
            self.add_password(Sha256::digest(password).into());
        }
    }

    fn add_password(&mut self, hash: Hash) {
        if !self.passwords.contains(&hash) {
            self.passwords.push(hash);
        }
        // As in Redis, a password ends `nopass`.
        self.no_password = false;
    }

    fn remove_password(&mut self, hash: &Hash) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| known == hash);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Checks a command.
    ///
    /// # Errors
    /// No selector allows it. The reason is that of the selector whose checks went furthest.
    pub fn check(
        &self,
        registry: &CommandRegistry,
        command: &'static Spec,
        args: &[&[u8]],
    ) -> Result<(), Denial> {
        let number = registry.number(command).ok_or(Denial::Command)?;
        let name = registry.name(command);
        let mut furthest = Denial::Command;
        for selector in self.selectors() {
            match selector.check(number, name, command, args) {
                Ok(()) => return Ok(()),
                // The order of the reasons is that of the checks, as in Redis: this selector came
                // closest.
                Err(denial) => furthest = furthest.max(denial),
            }
        }
        Err(furthest)
    }

    /// Returns true if the user may listen to a channel, or to a pattern of channels.
    pub fn may_listen(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.selectors()
            .any(|selector| selector.may_listen(channel, is_pattern))
    }

    /// Returns the user's flags.
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        flags.push(if self.sanitizes {
            "sanitize-payload"
        } else {
            "skip-sanitize-payload"
        });
        flags
    }

    /// Returns the rules that make a new user equal to this one, as a line: `user <name>
    /// <rule>...`.
    pub fn describe(&self) -> Vec<u8> {
        let mut line = b"user ".to_vec();
        line.extend_from_slice(&self.name);
        for flag in self.flags() {
            line.push(b' ');
            line.extend_from_slice(flag.as_bytes());
        }
        for hash in self.password_hashes() {
            line.extend_from_slice(b" #");
            line.extend_from_slice(hash.as_bytes());
        }
        line.push(b' ');
        line.extend_from_slice(&self.root.describe());
        for selector in &self.selectors {
            line.extend_from_slice(b" (");
            line.extend_from_slice(&selector.describe());
            line.push(b')');
        }
        debug_assert!(!line.contains(&b'\n'), "a user is one line of a file");
        line
    }
}

/// Joins the words of selectors that were sent as several words.
fn merge_selectors(rules: &[&[u8]]) -> Result<Vec<Vec<u8>>, AclError> {
    let mut merged = Vec::with_capacity(rules.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &rule in rules {
        open = match open.take() {
            None if rule.starts_with(b"(") && !rule.ends_with(b")") => Some((rule, rule.to_vec())),
            None => {
                merged.push(rule.to_vec());
                None
            }
            Some((first, mut text)) => {
                text.push(b' ');
                text.extend_from_slice(rule);
                if rule.ends_with(b")") {
                    merged.push(text);
                    None
                } else {
                    Some((first, text))
                }
            }
        };
    }
    match open {
        None => Ok(merged),
        Some((first, _)) => Err(AclError::UnmatchedParenthesis(shown(first))),
    }
}

fn parse_hash(text: &[u8]) -> Result<Hash, RuleError> {
    let mut hash = Hash::default();
    if text.len() != 2 * hash.len() {
        return Err(RuleError::BadHash);
    }
    for (byte, digits) in hash.iter_mut().zip(text.chunks(2)) {
        for digit in digits {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return Err(RuleError::BadHash),
            };
            *byte = *byte << 4 | value;
        }
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::TABLE;
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{RngExt, SeedableRng};

    const RULES: &[&str] = &[
        "on",
        "off",
        "nopass",
        "resetpass",
        ">a",
        ">b",
        "<a",
        "~*",
        "~a*",
        "%R~a*",
        "%W~*",
        "%R~*",
        "%R",
        "~(",
        "~)",
        "resetkeys",
        "&*",
        "&a",
        "&)",
        "resetchannels",
        "+@all",
        "-@all",
        "+get",
        "-get",
        "+set|x",
        "+set|y",
        "+get|a)",
        "+acl",
        "-acl|list",
        "+acl|whoami",
        "+@read",
        "-@write",
        "-@dangerous",
        "(+get ~a)",
        "(~*",
        "+@all)",
        "clearselectors",
        "sanitize-payload",
        "skip-sanitize-payload",
        "nosuch",
        "",
    ];

    #[test]
    fn a_user_is_the_same_once_its_description_is_read_back() {
        let seed = 20_261_121;
        let mut random = StdRng::seed_from_u64(seed);
        for round in 0..20_000 {
            let mut user = User::new(b"somebody", false);
            let mut rules: Vec<&[u8]> = Vec::new();
            for _ in 0..random.random_range(0..12) {
                rules.extend(RULES.choose(&mut random).map(|rule| rule.as_bytes()));
            }
            for rule in &rules {
                let before = user.clone();
                if user.apply_all(TABLE.registry(), &[rule]).is_err() {
                    assert_eq!(user, before, "seed {seed}, round {round}");
                }
            }
            // Applying all at once joins selectors, and stops at the first rule that is refused.
            let mut other = User::new(b"somebody", false);
            let _ = other.apply_all(TABLE.registry(), &rules);
            for user in [user, other] {
                let line = user.describe();
                let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
                let mut again = User::new(b"somebody", false);
                let shown = String::from_utf8_lossy(&line);
                let applied = again.apply_all(TABLE.registry(), &words[2..]);
                assert!(applied.is_ok(), "{shown}: {applied:?}");
                assert_eq!(again, user, "{shown}");
            }
        }
    }
}
