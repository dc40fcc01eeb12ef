//! The user of a client, as the client's thread knows it, and the checks of its permissions.

use super::{ClientSession, describe};
use crate::acl::log::{DenialContext, DenialReason};
use crate::acl::{Acl, DEFAULT, Denial, DeniedCommand, User, WrongPassword};
use crate::catalog::{Flags, Spec};
use crate::clock::steady_ms;
use crate::error::CommandError;
use std::sync::Arc;

/// The user of a client. No user: the server itself, which may do everything.
#[derive(Clone, Debug, Default)]
pub struct Login {
    user: Option<Arc<User>>,
    /// The version of the user list in which `user` was found.
    version: u64,
    unrestricted: bool,
}

impl Login {
    /// Returns true if the client has logged in, or need not, and may do everything. False if that
    /// must be checked.
    #[inline]
    pub fn is_unrestricted(&self, acl: &Acl) -> bool {
        self.unrestricted && self.version == acl.version()
    }

    /// Returns the user; `None` for the server itself.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }
}

impl ClientSession {
    /// Sets the client's user, which was found when the user list had `version`.
    fn become_user(&mut self, user: Arc<User>, version: u64) {
        *self.shared.user.lock() = user.name.clone();
        self.login = Login {
            user: Some(user),
            version,
            unrestricted: false,
        };
        self.set_authenticated(true);
    }

    /// Sets whether the client has logged in, or need not.
    fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
        let user = self.login.user.as_ref();
        self.login.unrestricted = authenticated && user.is_some_and(|user| user.is_unrestricted());
    }

    /// Returns true if a command of the client may read every key, also keys that the command does
    /// not name.
    pub fn may_read_all_keys_by(&self, acl: &Acl, command: &'static Spec, args: &[&[u8]]) -> bool {
        let user = self.login.user();
        user.is_none_or(|user| user.may_read_all_keys_by(acl.registry, command, args))
    }

    /// Logs the client in, or notes that it has failed to log in.
    ///
    /// # Errors
    /// There is no such user, the password is wrong, or the user is disabled.
    pub fn log_in(&mut self, acl: &Acl, name: &[u8], password: &[u8]) -> Result<(), WrongPassword> {
        let version = acl.version();
        // The version is read before the user, so that a change in between is noticed later.
        match acl.authenticate(name, password) {
            Ok(user) => {
                self.become_user(user, version);
                Ok(())
            }
            Err(error) => {
                let client = self.described(acl);
                acl.note(
                    DenialReason::Auth,
                    DenialContext::TopLevel,
                    b"AUTH",
                    name,
                    client,
                );
                Err(error)
            }
        }
    }

    /// Returns the client as it is listed, including the properties that only its own thread knows.
    fn described(&self, acl: &Acl) -> String {
        self.show(false);
        describe(&self.shared, acl.registry, steady_ms())
    }

    /// Gives a client that has just connected the default user, and logs it in if that user needs
    /// no password.
    pub fn welcome(&mut self, acl: &Acl) {
        let version = acl.version();
        if let Some(user) = acl.user(DEFAULT) {
            let open = user.enabled && user.no_password;
            self.become_user(user, version);
            self.set_authenticated(open);
        }
    }

    /// Looks up the client's user again if users have changed.
    fn refresh(&mut self, acl: &Acl) {
        let version = acl.version();
        let Some(user) = self.login.user() else {
            return;
        };
        if self.login.version == version {
            return;
        }
        // `become_user` marks the client as logged in, which need not be so.
        let authenticated = self.authenticated;
        match acl.user(&user.name) {
            Some(user) => {
                // Clients that have not logged in may do so without a password from here on.
                let open = &*user.name == DEFAULT && user.enabled && user.no_password;
                self.become_user(user, version);
                self.set_authenticated(authenticated || open);
            }
            // The client's connection is about to be closed.
            None => self.set_authenticated(false),
        }
    }

    /// Checks that the client may run a command, and notes a denial.
    ///
    /// # Errors
    /// `NOAUTH` or `NOPERM`.
    pub fn admit(
        &mut self,
        acl: &Acl,
        command: &'static Spec,
        args: &[&[u8]],
    ) -> Result<(), CommandError> {
        self.refresh(acl);
        debug_assert!(
            !self.login.unrestricted || self.authenticated,
            "only a client that has logged in is unrestricted"
        );
        if !self.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return Err(CommandError::text("NOAUTH Authentication required."));
        }
        let context = match self.transaction {
            Some(_) => DenialContext::Multi,
            None => DenialContext::TopLevel,
        };
        let denied =
            |denial: DeniedCommand| CommandError::owned(format!("NOPERM {}", denial.text()));
        self.check(acl, command, args, context).map_err(denied)
    }

    /// Checks a command within a transaction or script, and notes a denial.
    ///
    /// # Errors
    /// The command is denied.
    pub fn check(
        &mut self,
        acl: &Acl,
        command: &'static Spec,
        args: &[&[u8]],
        context: DenialContext,
    ) -> Result<(), DeniedCommand> {
        if self.login.is_unrestricted(acl) {
            return Ok(());
        }
        self.refresh(acl);
        let Some(user) = self.login.user() else {
            return Ok(());
        };
        let Err(denial) = user.check(acl.registry, command, args) else {
            return Ok(());
        };
        let name = acl.registry.name(command);
        let (reason, object) = match denial {
            Denial::Command => (DenialReason::Command, name.as_bytes()),
            Denial::Key(position) => (
                DenialReason::Key,
                args.get(position).copied().unwrap_or(b"*"),
            ),
            Denial::Channel(position) => {
                let channel = args.get(position).copied();
                (DenialReason::Channel, channel.unwrap_or_default())
            }
        };
        // The entry of the log shows the denied command as the last one of the client.
        self.shared.listed.note(acl.registry.number(command));
        let client = self.described(acl);
        acl.note(reason, context, object, &user.name, client);
        Err(DeniedCommand::of(user, name, args, denial))
    }
}
