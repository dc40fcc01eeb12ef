//! A set of permissions: the commands that may be run, and on which keys and channels.

use super::access::{self, KeyAccess};
use super::error::RuleError;
use crate::catalog::{CommandRegistry, Flags, Spec, category};
use crate::glob;

/// A pattern of keys that may be accessed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    access: KeyAccess,
}

/// A rule that allows or denies some commands, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandRule {
    allow: bool,
    /// The name of a command or subcommand, a command with its first argument, or a category after
    /// `@`.
    name: String,
}

/// The commands that may be run, and on which keys and channels. A user has one selector for all
/// rules outside parentheses, and one for each pair of parentheses. Each is checked on its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// True if all commands are allowed, including those of later versions.
    all_commands: bool,
    /// True if the rules on commands begin with all of them, false if they begin with none.
    begins_with_all: bool,
    /// A bit for each command, at the command's number.
    allowed: Vec<u64>,
    /// The numbers of commands that are allowed with a certain first argument, and that argument.
    first_arguments: Vec<(usize, String)>,
    rules: Vec<CommandRule>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
}

/// The reason that a command is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denial {
    /// The command, which may not be run.
    Command,
    /// The argument at this position is a key that may not be accessed, or the command uses more
    /// keys than may be accessed.
    Key(usize),
    /// The argument at this position is a channel that may not be accessed.
    Channel(usize),
}

impl Selector {
    /// Returns a selector that allows nothing, except all channels if `listens`.
    pub fn new(listens: bool) -> Selector {
        Selector {
            all_channels: listens,
            ..Selector::default()
        }
    }

    /// Returns its memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let keys = self.keys.iter().map(|key| key.pattern.len());
        let channels = self.channels.iter().map(Vec::len);
        let rules = self.rules.iter().map(|rule| rule.name.len());
        let arguments = self.first_arguments.iter().map(|it| it.1.len());
        let texts: usize = keys.chain(channels).chain(rules).chain(arguments).sum();
        let lists = size_of_val(&*self.keys)
            + size_of_val(&*self.channels)
            + size_of_val(&*self.rules)
            + size_of_val(&*self.first_arguments);
        size_of::<Selector>() + size_of_val(&*self.allowed) + texts + lists
    }

    /// Returns true if everything is allowed.
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels
    }

    /// Applies one rule.
    ///
    /// # Errors
    /// `rule` does not parse, or has no effect.
    pub fn apply(&mut self, registry: &CommandRegistry, rule: &[u8]) -> Result<(), RuleError> {
        match &*rule.to_ascii_lowercase() {
            b"allkeys" | b"~*" => {
                self.all_keys = true;
                self.keys.clear();
            }
            b"resetkeys" => {
                self.all_keys = false;
                self.keys.clear();
            }
            b"allchannels" | b"&*" => {
                self.all_channels = true;
                self.channels.clear();
            }
            b"resetchannels" => {
                self.all_channels = false;
                self.channels.clear();
            }
            b"allcommands" | b"+@all" => self.set_all_commands(registry, true),
            b"nocommands" | b"-@all" => self.set_all_commands(registry, false),
            _ => match rule {
                // Patterns are taken from the rule as it was given, because keys have a case.
                [b'~' | b'%', ..] => self.add_key_pattern(rule)?,
                [b'&', pattern @ ..] => self.add_channel_pattern(pattern)?,
                [b'+', b'@', name @ ..] => self.set_category(registry, name, true)?,
                [b'-', b'@', name @ ..] => self.set_category(registry, name, false)?,
                [b'+', name @ ..] => self.allow_command(registry, name)?,
                [b'-', name @ ..] => {
                    let number = registry.find(name).ok_or(RuleError::UnknownName)?;
                    self.set_command(registry, number, false);
                    self.note_rule(false, lower(name));
                }
                _ => return Err(RuleError::Syntax),
            },
        }
        debug_assert!(!self.all_keys || self.keys.is_empty());
        debug_assert!(!self.all_channels || self.channels.is_empty());
        Ok(())
    }

    fn add_key_pattern(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::KeysAfterAll);
        }
        let (access, pattern) = parse_key_pattern(rule).ok_or(RuleError::Syntax)?;
        check_blanks(pattern)?;
        match self.keys.iter_mut().find(|key| key.pattern == pattern) {
            // As in Redis, `%R~x` and `%W~x` together are `~x`.
            Some(known) => known.access = known.access.and(access),
            None => self.keys.push(KeyPattern {
                pattern: pattern.to_vec(),
                access,
            }),
        }
        let all = |key: &KeyPattern| key.pattern == b"*" && key.access == KeyAccess::BOTH;
        if self.keys.iter().any(all) {
            self.all_keys = true;
            self.keys.clear();
        }
        Ok(())
    }

    fn add_channel_pattern(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::ChannelsAfterAll);
        }
        check_blanks(pattern)?;
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn set_all_commands(&mut self, registry: &CommandRegistry, allow: bool) {
        let words = if allow {
            registry.len().div_ceil(64)
        } else {
            0
        };
        self.allowed = vec![u64::MAX; words];
        self.all_commands = allow;
        self.begins_with_all = allow;
        self.first_arguments.clear();
        self.rules.clear();
    }

    fn set_category(
        &mut self,
        registry: &CommandRegistry,
        name: &[u8],
        allow: bool,
    ) -> Result<(), RuleError> {
        let bit = category::bit(name).ok_or(RuleError::UnknownName)?;
        for (number, entry) in registry.entries().iter().enumerate() {
            if entry.categories & bit != 0 {
                self.set_command(registry, number, allow);
            }
        }
        self.note_rule(allow, format!("@{}", lower(name)));
        Ok(())
    }

    fn allow_command(&mut self, registry: &CommandRegistry, name: &[u8]) -> Result<(), RuleError> {
        if let Some(number) = registry.find(name) {
            self.set_command(registry, number, true);
            self.note_rule(true, lower(name));
            return Ok(());
        }
        let mut parts = name.splitn(2, |&byte| byte == b'|');
        let (command, argument) = (parts.next().unwrap_or_default(), parts.next());
        let number = registry.find(command).ok_or(RuleError::UnknownName)?;
        let argument = argument.unwrap_or_default();
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        check_blanks(argument)?;
        let entry = registry.entries().get(number);
        if entry.is_some_and(|entry| !entry.subcommands.is_empty()) {
            let has_more = argument.contains(&b'|');
            return Err(if has_more {
                RuleError::FirstArgumentOfSubcommand
            } else {
                RuleError::UnknownName
            });
        }
        // The command is allowed with this first argument only, as in `+select|0`.
        let argument = std::str::from_utf8(argument).map_err(|_| RuleError::Syntax)?;
        let permission = (number, argument.to_ascii_lowercase());
        // Sorted, so that the same permissions in another order compare equal.
        if let Err(at) = self.first_arguments.binary_search(&permission) {
            self.first_arguments.insert(at, permission);
        }
        debug_assert!(self.first_arguments.is_sorted());
        self.note_rule(true, lower(name));
        Ok(())
    }

    /// Allows or denies a command with its subcommands.
    fn set_command(&mut self, registry: &CommandRegistry, number: usize, allow: bool) {
        debug_assert!(number < registry.len(), "numbers come from the registry");
        let entry = registry.entries().get(number);
        let subcommands = entry.map_or(0..0, |entry| entry.subcommands.clone());
        for number in std::iter::once(number).chain(subcommands) {
            let (word, bit) = (number / 64, 1 << (number % 64));
            if self.allowed.len() <= word {
                self.allowed.resize(word + 1, 0);
            }
            if let Some(bits) = self.allowed.get_mut(word) {
                *bits = if allow { *bits | bit } else { *bits & !bit };
            }
            // A rule on a whole command overrules those on its first arguments.
            self.first_arguments.retain(|(other, _)| *other != number);
        }
    }

    /// Records a rule, and removes those that it overrules.
    fn note_rule(&mut self, allow: bool, name: String) {
        self.rules.retain(|rule| {
            // Rules on subcommands and first arguments follow the command's name and `|`.
            let rest = rule.name.strip_prefix(&name);
            !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
        });
        self.rules.push(CommandRule { allow, name });
        self.all_commands = self.begins_with_all && self.rules.iter().all(|rule| rule.allow);
    }

    // ---- Checking --------------------------------------------------------------------------

    /// Checks a command, given by its number and full name.
    ///
    /// # Errors
    /// The reason that it is denied.
    pub fn check(
        &self,
        number: usize,
        name: &str,
        command: &Spec,
        args: &[&[u8]],
    ) -> Result<(), Denial> {
        // As in Redis, commands that are allowed before authentication need no right.
        let no_auth = command.flags.has(Flags::NO_AUTH);
        if !(self.all_commands || no_auth || self.allows_command(number, args)) {
            return Err(Denial::Command);
        }
        if !self.all_keys {
            if let Some((prefix, needed)) = access::of_prefix(command, args)
                && !self.allows_prefix(prefix, needed)
            {
                return Err(Denial::Key(0));
            }
            let (first, rest) = access::of_keys(command, args);
            for (number, position) in command.keys.positions(args).into_iter().enumerate() {
                let needed = if number == 0 { first } else { rest };
                let key = args.get(position).copied().unwrap_or_default();
                if !self.allows_key(key, needed) {
                    return Err(Denial::Key(position));
                }
            }
        }
        if !self.all_channels
            && let Some((positions, is_pattern)) = access::channels(name, args.len())
        {
            for position in positions {
                let channel = args.get(position).copied().unwrap_or_default();
                if !self.allows_channel(channel, is_pattern) {
                    return Err(Denial::Channel(position));
                }
            }
        }
        Ok(())
    }

    fn allows_command(&self, number: usize, args: &[&[u8]]) -> bool {
        let bits = self.allowed.get(number / 64).copied().unwrap_or(0);
        if bits & (1 << (number % 64)) != 0 {
            return true;
        }
        let first = args.get(1).copied().unwrap_or_default();
        let is = |(other, argument): &(usize, String)| {
            *other == number && first.eq_ignore_ascii_case(argument.as_bytes())
        };
        self.first_arguments.iter().any(is)
    }

    fn allows_key(&self, key: &[u8], needed: KeyAccess) -> bool {
        let allows =
            |known: &KeyPattern| known.access.has(needed) && glob::matches(&known.pattern, key);
        self.keys.iter().any(allows)
    }

    /// Returns true if every key may be accessed in this way.
    pub fn allows_all_keys(&self, needed: KeyAccess) -> bool {
        self.all_keys || self.allows_prefix(b"", needed)
    }

    /// Returns true if one pattern allows all keys that begin with a prefix.
    fn allows_prefix(&self, prefix: &[u8], needed: KeyAccess) -> bool {
        let allows = |known: &KeyPattern| {
            known.access.has(needed)
                && known.pattern.split_last().is_some_and(|(last, literal)| {
                    *last == b'*'
                        // Anything but plain bytes before the star could exclude some of the keys.
                        && !literal.iter().any(|byte| b"*?[\\".contains(byte))
                        && prefix.starts_with(literal)
                })
        };
        self.keys.iter().any(allows)
    }

    fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let allows = |known: &Vec<u8>| {
            // As in Redis, a pattern must be allowed literally, because it may match more channels.
            if is_pattern {
                known == channel
            } else {
                glob::matches(known, channel)
            }
        };
        self.channels.iter().any(allows)
    }

    /// Returns true if a channel, or a pattern of channels, may be listened to.
    pub fn may_listen(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_channels || self.allows_channel(channel, is_pattern)
    }

    // ---- Describing ------------------------------------------------------------------------

    /// Returns the rules on commands, separated by blanks.
    pub fn describe_commands(&self) -> String {
        let mut text = String::from(if self.begins_with_all {
            "+@all"
        } else {
            "-@all"
        });
        for rule in &self.rules {
            text.push_str(if rule.allow { " +" } else { " -" });
            text.push_str(&rule.name);
        }
        text
    }

    /// Returns the rules on keys, separated by blanks.
    pub fn describe_keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rule = |key: &KeyPattern| {
            let head: &[u8] = match key.access {
                KeyAccess::READ => b"%R~",
                KeyAccess::WRITE => b"%W~",
                _ => b"~",
            };
            [head, &key.pattern].concat()
        };
        self.keys.iter().map(rule).collect::<Vec<_>>().join(&b' ')
    }

    /// Returns the rules on channels, separated by blanks.
    pub fn describe_channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rule = |channel: &Vec<u8>| [b"&", &channel[..]].concat();
        self.channels
            .iter()
            .map(rule)
            .collect::<Vec<_>>()
            .join(&b' ')
    }

    /// Returns rules that make a new selector equal to this one.
    pub fn describe(&self) -> Vec<u8> {
        let mut text = self.describe_keys();
        if !text.is_empty() {
            text.push(b' ');
        }
        if !self.all_channels {
            // A new selector may have the right to all channels, depending on `acl-pubsub-default`.
            text.extend_from_slice(b"resetchannels ");
        }
        let channels = self.describe_channels();
        if !channels.is_empty() {
            text.extend_from_slice(&channels);
            text.push(b' ');
        }
        text.extend_from_slice(self.describe_commands().as_bytes());
        text
    }
}

fn lower(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase()
}

/// Splits `~pattern` or `%RW~pattern` into access and pattern.
fn parse_key_pattern(rule: &[u8]) -> Option<(KeyAccess, &[u8])> {
    let rest = match rule {
        [b'~', pattern @ ..] => return Some((KeyAccess::BOTH, pattern)),
        [b'%', rest @ ..] => rest,
        _ => return None,
    };
    let end = rest.iter().position(|&byte| byte == b'~');
    let end = end.unwrap_or(rest.len());
    let (letters, pattern) = rest.split_at(end);
    let mut access = KeyAccess::NONE;
    for letter in letters {
        let one = match letter.to_ascii_uppercase() {
            b'R' => KeyAccess::READ,
            b'W' => KeyAccess::WRITE,
            _ => return None,
        };
        if access.has(one) {
            return None;
        }
        access = access.and(one);
    }
    (access != KeyAccess::NONE).then_some((access, pattern.get(1..).unwrap_or_default()))
}

/// Refuses text with blanks, because blanks separate patterns and names in files and listings.
pub(super) fn check_blanks(text: &[u8]) -> Result<(), RuleError> {
    let blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0 || *byte == 0x0b;
    if text.iter().any(blank) {
        return Err(RuleError::Syntax);
    }
    Ok(())
}
