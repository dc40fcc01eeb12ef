//! Access control: the commands that each user may run, and the keys and channels they may use.
//!
//! Users are values that never change. A change replaces the user and increments the version. A
//! client keeps the user that it last read with that version, and reads it again when the version
//! has changed. So the usual case, a client that may do everything, costs one comparison.

pub mod access;
mod error;
mod file;
pub mod log;
mod selector;
mod user;

pub use error::{AclError, RuleError, WrongPassword};
pub use selector::{Denial, Selector};
pub use user::User;

use crate::carried;
use crate::catalog::CommandRegistry;
use crate::clock::now_ms;
use log::{AclLog, AclLogEntry, DenialContext, DenialReason};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The name of the user that a client has before it logs in.
pub const DEFAULT: &[u8] = b"default";

type Users = BTreeMap<Vec<u8>, Arc<User>>;

/// All users, and the log of denials.
#[derive(Debug)]
pub struct Acl {
    /// The commands that users may run.
    pub registry: &'static CommandRegistry,
    users: RwLock<Users>,
    /// The version, incremented with each change of a user.
    version: AtomicU64,
    log: Mutex<AclLog>,
    /// The file of users, if there is one.
    file: Option<PathBuf>,
    /// True if connections from other machines are refused while there is no password.
    pub protected: AtomicBool,
    /// The value of `acl-pubsub-default`: true if new users may listen to all channels.
    pub all_channels_at_first: AtomicBool,
}

impl Acl {
    /// Creates access control with the default user alone, which needs no password, or `password`.
    pub fn new(
        registry: &'static CommandRegistry,
        password: Option<&[u8]>,
        file: Option<PathBuf>,
        protected: bool,
    ) -> Acl {
        let acl = Acl {
            registry,
            users: RwLock::new(BTreeMap::new()),
            version: AtomicU64::new(1),
            log: Mutex::default(),
            file,
            protected: AtomicBool::new(protected),
            all_channels_at_first: AtomicBool::new(false),
        };
        acl.put(User::default_user(registry));
        acl.set_default_password(password.unwrap_or_default());
        acl
    }

    /// Returns the version, which each change increments.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the user of a name.
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// Returns all users, ordered by name.
    pub fn users(&self) -> Vec<Arc<User>> {
        self.users.read().values().cloned().collect()
    }

    /// Returns the memory of all users, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let users = self.users.read();
        users.values().map(|user| user.memory_bytes()).sum()
    }

    fn put(&self, user: User) {
        self.users.write().insert(user.name.clone(), Arc::new(user));
        // The version follows the change, so that a client which reads it also finds the new user.
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Creates a user, or changes one, by rules. Applies all of them or, if one is refused, none.
    ///
    /// # Errors
    /// The name or a rule is refused.
    pub fn set_user(&self, name: &[u8], rules: &[&[u8]]) -> Result<(), AclError> {
        selector::check_blanks(name).map_err(|_| AclError::UserName)?;
        let mut users = self.users.write();
        // The lock is held until the end, so that two changes of one user are applied in turn. The
        // rules change a copy, which is dropped if one of them is refused.
        let mut user = match users.get(name) {
            Some(user) => User::clone(user),
            None => self.new_user(name),
        };
        // `reset` and new selectors follow the parameter as it is at this time.
        user.listens_at_first = self.listens_at_first();
        user.apply_all(self.registry, rules)?;
        users.insert(name.to_vec(), Arc::new(user));
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Removes a user. Returns false if it does not exist. The caller must close the connections of
    /// its clients.
    pub fn delete_user(&self, name: &[u8]) -> bool {
        debug_assert_ne!(name, DEFAULT, "connections begin as the default user");
        let removed = self.users.write().remove(name).is_some();
        self.version.fetch_add(1, Ordering::AcqRel);
        removed
    }

    /// Returns a user without rights, except to all channels if `acl-pubsub-default` grants it.
    fn new_user(&self, name: &[u8]) -> User {
        User::new(name, self.listens_at_first())
    }

    fn listens_at_first(&self) -> bool {
        self.all_channels_at_first.load(Ordering::Relaxed)
    }

    /// Sets the only password of the default user (`requirepass`). If it is empty, none is needed.
    pub fn set_default_password(&self, password: &[u8]) {
        let mut users = self.users.write();
        let user = users.get(DEFAULT).map(|user| User::clone(user));
        let mut user = user.unwrap_or_else(|| User::default_user(self.registry));
        user.set_only_password(password);
        users.insert(DEFAULT.to_vec(), Arc::new(user));
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Changes the number of denials that are kept.
    pub fn keep_denials(&self, most: usize) {
        self.log.lock().keep(most);
    }

    /// Returns true if any client may log in as the default user.
    pub fn is_open(&self) -> bool {
        let user = self.user(DEFAULT);
        user.is_some_and(|user| user.no_password && user.enabled)
    }

    /// Returns true if a connection from another machine must be refused, because it could do
    /// everything.
    pub fn is_protected(&self) -> bool {
        // As in Redis, a disabled default user without a password counts as well.
        let open = self.user(DEFAULT).is_some_and(|user| user.no_password);
        open && self.protected.load(Ordering::Relaxed)
    }

    // ---- Logging in ------------------------------------------------------------------------

    /// Returns the user of a name and password.
    ///
    /// # Errors
    /// There is no such user, the password is wrong, or the user is disabled.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Result<Arc<User>, WrongPassword> {
        let user = self.user(name).ok_or(WrongPassword)?;
        if user.enabled && user.accepts(password) {
            Ok(user)
        } else {
            Err(WrongPassword)
        }
    }

    // ---- Denials ---------------------------------------------------------------------------

    /// Records that `object` was denied to `user`. `client` describes the client.
    pub fn note(
        &self,
        reason: DenialReason,
        context: DenialContext,
        object: &[u8],
        user: &[u8],
        client: String,
    ) {
        let now_ms = now_ms();
        self.log.lock().add(AclLogEntry {
            count: 0,
            reason,
            context,
            object: object.to_vec(),
            user: user.to_vec(),
            client,
            id: 0,
            created_ms: now_ms,
            updated_ms: now_ms,
        });
    }

    /// Returns the number of denials for a reason since the start.
    pub fn denied(&self, reason: DenialReason) -> u64 {
        self.log.lock().denied(reason)
    }

    /// Returns the latest denials, at most `count`, the latest first.
    pub fn denials(&self, count: usize) -> Vec<AclLogEntry> {
        self.log.lock().latest(count).cloned().collect()
    }

    /// Forgets all denials.
    pub fn forget_denials(&self) {
        self.log.lock().clear();
    }
}

/// A denied command and the reason.
#[derive(Clone, Debug)]
pub struct DeniedCommand {
    user: String,
    command: String,
    object: String,
    /// The reason.
    pub denial: Denial,
}

impl DeniedCommand {
    /// Returns the error for the client. It does not repeat the name of the key or channel.
    pub fn text(&self) -> String {
        let DeniedCommand { user, command, .. } = self;
        match self.denial {
            Denial::Command => {
                format!("User {user} has no permissions to run the '{command}' command")
            }
            // As in Redis, only administrators see the key.
            Denial::Key(_) => "No permissions to access a key".to_owned(),
            Denial::Channel(_) => "No permissions to access a channel".to_owned(),
        }
    }

    /// Returns the text for an administrator.
    pub fn detail(&self) -> String {
        let DeniedCommand { user, object, .. } = self;
        match self.denial {
            Denial::Command => self.text(),
            Denial::Key(_) => {
                format!("User {user} has no permissions to access the '{object}' key")
            }
            Denial::Channel(_) => {
                format!("User {user} has no permissions to access the '{object}' channel")
            }
        }
    }

    /// Returns the reason for a transaction's error about a command that was allowed when it was
    /// queued.
    pub fn reason_at_exec(&self) -> &'static str {
        match self.denial {
            Denial::Command => "no permission to execute the command or subcommand",
            Denial::Key(_) => "no permission to touch the specified keys",
            Denial::Channel(_) => {
                "no permission to access one of the channels used as arguments to the command"
            }
        }
    }

    /// Creates the denial of `command`, given by its full name, to `user`.
    pub fn of(user: &User, command: &str, args: &[&[u8]], denial: Denial) -> DeniedCommand {
        let object = match denial {
            Denial::Command => None,
            Denial::Key(position) | Denial::Channel(position) => args.get(position).copied(),
        };
        DeniedCommand {
            user: carried::text(&user.name),
            command: command.to_owned(),
            object: carried::text(object.unwrap_or(b"*")),
            denial,
        }
    }
}
