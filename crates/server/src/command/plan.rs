//! The plan of a command: the index operations that it becomes, and the function that completes it.
//!
//! A command with a [`CommandPlan`] is divided in two. Its *operations* follow from the plan's
//! [`Touch`], one for each of its keys. Its *completion* is a function that receives the values
//! which the operations found. It writes the reply, and decides on changes to the keys. The same
//! completion serves
//!
//! - a command that is executed alone, in a transaction, by a script or from the log. It works on
//!   [`DatabaseKeys`], which execute an operation when the completion asks for its outcome.
//! - a command of a batch (see `net/round`). It works on [`InBatch`]: the operations of all
//!   commands of the batch were executed before.
//!
//! A completion names keys by their position among the keys of its command, never by their bytes,
//! so that no key is looked up twice.

use super::Answer;
use crate::error::CommandError;
use crate::keyspace::{
    Class, DatabaseKeys, InBatch, KeyLedger, KeyMetadata, KeyStore, KeyView, Keyspace, ValueRecord,
};
use crate::number::parse_integer;
use crate::object::{Container, HeapBytes, ObjectLimits};
use crate::resp::RespReply;
use nearfield::ScanDirection;

/// The operation on each key of a command before the command is completed.
#[derive(Clone, Copy, Debug)]
pub enum Touch {
    /// The key is read.
    Read,
    /// The key is set to the argument after it, replacing any value. If the command has more
    /// arguments than keys and values, this is the same as [`Change`](Touch::Change).
    Set,
    /// The key is removed, with any value.
    Remove,
    /// The key is read, and the completion decides on its change.
    Change,
    /// The first argument need not exist as a key: the nearest key is read, in the direction that
    /// the arguments give.
    Nearest(fn(&[&[u8]]) -> ScanDirection),
}

/// The plan of a command. See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct CommandPlan {
    /// The operation on each key.
    pub touch: Touch,
    /// The completion, which writes the reply and decides on changes to the keys.
    pub complete: fn(&mut PlannedCommand<'_>) -> Answer,
    /// The effect of the completion in the usual case, which a batch applies itself.
    pub usual: Option<Usual>,
}

/// The effect of the completion of a command with one key, if the key holds a string that does not
/// expire.
#[derive(Clone, Copy, Debug)]
pub enum Usual {
    /// The string is the reply.
    Read,
    /// The key has been set, and the reply is `OK`.
    Set,
}

impl CommandPlan {
    /// Returns the operation on each of `keys` keys of a command that has `words` words, including
    /// its name.
    #[inline]
    pub fn touch(&self, words: usize, keys: usize) -> Touch {
        match self.touch {
            // Options such as NX or an expiry depend on the old value, so the key must be read
            // before.
            Touch::Set if words != 1 + 2 * keys => Touch::Change,
            touch => touch,
        }
    }
}

/// A command with a plan while it is completed.
#[derive(Debug)]
pub struct PlannedCommand<'p> {
    /// The words that were sent: the name, and the arguments.
    pub args: &'p [&'p [u8]],
    /// The reply, to which the completion writes.
    pub reply: &'p mut RespReply,
    /// The distance from one key to the next.
    step: usize,
    keys: PlannedKeySource<'p>,
}

#[derive(Debug)]
enum PlannedKeySource<'p> {
    Alone(DatabaseKeys<'p>),
    InBatch(InBatch<'p>),
}

/// Evaluates an expression of the keys, from either source, of the key at a position, and of the
/// reply.
macro_rules! at_key {
    ($planned:expr, $position:expr, |$keys:ident, $key:ident $(, $reply:ident)?| $value:expr) => {{
        let $key = $planned.key($position);
        // Lent to the expression, because the borrow of the keys excludes one of the command.
        $(let $reply = &mut *$planned.reply;)?
        match &mut $planned.keys {
            PlannedKeySource::Alone($keys) => $value,
            PlannedKeySource::InBatch(keys) => {
                let $keys = keys.at($position);
                $value
            }
        }
    }};
}

impl<'p> PlannedCommand<'p> {
    /// Creates a command that is executed alone. Its keys are each `step`-th argument.
    pub fn alone(
        args: &'p [&'p [u8]],
        step: usize,
        keys: DatabaseKeys<'p>,
        reply: &'p mut RespReply,
    ) -> PlannedCommand<'p> {
        PlannedCommand {
            args,
            reply,
            step,
            keys: PlannedKeySource::Alone(keys),
        }
    }

    /// Creates a command of a batch. Its keys are each `step`-th argument.
    #[inline]
    pub fn in_batch(
        args: &'p [&'p [u8]],
        step: usize,
        keys: InBatch<'p>,
        reply: &'p mut RespReply,
    ) -> PlannedCommand<'p> {
        PlannedCommand {
            args,
            reply,
            step,
            keys: PlannedKeySource::InBatch(keys),
        }
    }

    /// Returns the argument at `position`; the command's name is at 0.
    ///
    /// # Errors
    /// `Syntax` if there are fewer arguments.
    pub fn arg(&self, position: usize) -> Result<&'p [u8], CommandError> {
        self.args.get(position).copied().ok_or(CommandError::Syntax)
    }

    /// Returns the arguments from `position` on.
    pub fn rest(&self, position: usize) -> &'p [&'p [u8]] {
        self.args.get(position..).unwrap_or_default()
    }

    /// Parses an argument as an integer.
    ///
    /// # Errors
    /// `NotInteger`, `Syntax`.
    pub fn integer(&self, position: usize) -> Result<i64, CommandError> {
        parse_integer(self.arg(position)?).ok_or(CommandError::NotInteger)
    }

    /// Returns the number of keys, if all arguments are keys or belong to keys.
    pub fn keys(&self) -> usize {
        debug_assert!(!self.args.is_empty(), "the name is the first word");
        let arguments = self.args.len() - 1;
        match self.step {
            1 => arguments,
            step => arguments.div_ceil(step),
        }
    }

    /// Returns the key at `position` among the command's keys.
    #[inline]
    pub fn key(&self, position: usize) -> &'p [u8] {
        let argument = 1 + position * self.step;
        debug_assert!(
            argument < self.args.len(),
            "the arity of the command covers its keys"
        );
        self.args.get(argument).copied().unwrap_or_default()
    }

    /// Returns the time of the command, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        match &self.keys {
            PlannedKeySource::Alone(keys) => keys.now_ms(),
            PlannedKeySource::InBatch(keys) => keys.now_ms,
        }
    }

    // ---- Reading ---------------------------------------------------------------------------

    /// Returns the type and expiry of a key, without counting it in the statistics.
    ///
    /// # Errors
    /// An error of the index.
    pub fn peek(&mut self, position: usize) -> Result<Option<KeyMetadata>, CommandError> {
        at_key!(self, position, |keys, key| keys.peek(key))
    }

    /// Returns the type and expiry of a key that the client wants to read.
    ///
    /// # Errors
    /// An error of the index.
    #[inline]
    pub fn find(&mut self, position: usize) -> Result<Option<KeyMetadata>, CommandError> {
        at_key!(self, position, |keys, key| keys.find(key))
    }

    /// Calls `read` with the string of a key, or `None` if there is no key, and the key's expiry.
    /// `read` may write to the reply.
    ///
    /// # Errors
    /// `WrongType`.
    #[inline]
    pub fn read_string<R>(
        &mut self,
        position: usize,
        read: impl FnOnce(&mut RespReply, Option<&[u8]>, Option<u64>) -> R,
    ) -> Result<R, CommandError> {
        at_key!(self, position, |keys, key, reply| keys
            .read_string_and_expiry(key, |value, time| read(
                reply, value, time
            )))
    }

    /// Calls `read` with the object of a key, or `None` if there is no key. `read` may write to the
    /// reply.
    ///
    /// # Errors
    /// `WrongType`.
    pub fn read<T: Container, R>(
        &mut self,
        position: usize,
        read: impl FnOnce(&mut RespReply, Option<&T>) -> R,
    ) -> Result<R, CommandError> {
        at_key!(self, position, |keys, key, reply| keys
            .read(key, |object| read(reply, object)))
    }

    /// Calls `write` with the key that is nearest to the command's first argument and its record,
    /// or with `None` if there is none.
    ///
    /// # Errors
    /// An error of the index.
    pub fn nearest(
        &mut self,
        direction: ScanDirection,
        write: impl FnOnce(&mut RespReply, &Keyspace, Option<(&[u8], ValueRecord<'_>)>) -> Answer,
    ) -> Answer {
        let found = at_key!(self, 0, |keys, key| keys.nearest(key, direction))?;
        let found = found.as_ref();
        let found = found.map(|(key, stored)| (key.as_slice(), ValueRecord::parse(stored)));
        let keyspace = self.keyspace();
        write(self.reply, keyspace, found)
    }

    fn keyspace(&self) -> &'p Keyspace {
        match &self.keys {
            PlannedKeySource::Alone(keys) => keys.keyspace(),
            PlannedKeySource::InBatch(keys) => keys.keyspace,
        }
    }

    /// Returns the sizes up to which objects have their small forms.
    pub fn limits(&self) -> ObjectLimits {
        self.keyspace().limits()
    }

    /// Returns true if a key with this expiry has expired.
    pub fn has_expired(&self, expires_at_ms: u64) -> bool {
        match &self.keys {
            PlannedKeySource::Alone(keys) => keys.has_expired(Some(expires_at_ms)),
            PlannedKeySource::InBatch(keys) => keys.has_expired(Some(expires_at_ms)),
        }
    }

    // ---- Changing --------------------------------------------------------------------------

    /// Sets a key to a string, replacing any value. It expires at `expires_at_ms`, or never.
    ///
    /// # Errors
    /// An error of the index.
    #[inline]
    pub fn set_string(
        &mut self,
        position: usize,
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Answer {
        at_key!(self, position, |keys, key| keys.set_string(
            key,
            value,
            expires_at_ms
        ))
    }

    /// Changes the string of a key in place. The key must exist. Its expiry stays.
    ///
    /// # Errors
    /// `WrongType`, or an error of the index.
    pub fn edit_string<R>(
        &mut self,
        position: usize,
        edit: impl FnOnce(&mut HeapBytes) -> R,
    ) -> Result<R, CommandError> {
        at_key!(self, position, |keys, key| keys.edit_string(key, edit))
    }

    /// Changes the expiry of a key. The key must exist.
    ///
    /// # Errors
    /// `NoSuchKey`, or an error of the index.
    pub fn set_expiry(&mut self, position: usize, expires_at_ms: Option<u64>) -> Answer {
        at_key!(self, position, |keys, key| keys
            .set_expiry(key, expires_at_ms))
    }

    /// Calls `edit` with the object of a key, or with an empty one if there is no key. If the
    /// object is empty afterwards, the key is deleted, or not created.
    ///
    /// # Errors
    /// `WrongType`, or an error of the index.
    #[inline]
    pub fn edit<T: Container, R>(
        &mut self,
        position: usize,
        edit: impl FnOnce(&mut T, &ObjectLimits) -> R,
    ) -> Result<R, CommandError> {
        at_key!(self, position, |keys, key| keys.edit(key, edit))
    }

    /// Calls `edit` with the object of a key, if there is one. `edit` may write to the reply. If
    /// the object is empty afterwards, the key is deleted.
    ///
    /// # Errors
    /// `WrongType`, or an error of the index.
    pub fn edit_present<T: Container, R>(
        &mut self,
        position: usize,
        edit: impl FnOnce(&mut RespReply, &mut T) -> R,
    ) -> Result<Option<R>, CommandError> {
        at_key!(self, position, |keys, key, reply| keys
            .edit_present(key, |object| edit(reply, object)))
    }

    /// Deletes a key. Returns true if it existed.
    ///
    /// # Errors
    /// An error of the index.
    pub fn remove(&mut self, position: usize) -> Result<bool, CommandError> {
        // An expired key is deleted as such, which must be logged.
        at_key!(self, position, |keys, key| Ok(
            keys.exists(key)? && keys.remove(key)?
        ))
    }

    /// Reports that a key has changed, and by which event.
    #[inline]
    pub fn changed(&mut self, position: usize, class: Class, name: &'static str) {
        at_key!(self, position, |keys, key| keys.changed(key, class, name));
    }

    /// Reports an event of a key to observers that is not counted as a change.
    pub fn tell(&mut self, position: usize, class: Class, name: &'static str) {
        at_key!(self, position, |keys, key| keys.happened(key, class, name));
    }

    /// Logs `words` in place of the command as it was sent.
    pub fn log_instead(&mut self, words: &[&[u8]]) {
        match &mut self.keys {
            PlannedKeySource::Alone(keys) => keys.effects().log_instead(words),
            PlannedKeySource::InBatch(keys) => keys.log_instead(words),
        }
    }
}
