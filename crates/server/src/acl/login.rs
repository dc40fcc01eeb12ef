//! Who a client is, as its thread knows it.

use super::{Acl, User};
use crate::client::Client;
use std::sync::Arc;

/// Who a client is. Nobody: the server itself, which may do everything.
#[derive(Debug, Default)]
pub struct Login {
    user: Option<Arc<User>>,
    /// The version of all users that `user` is of.
    version: u64,
    unrestricted: bool,
}

impl Login {
    /// True if the client has logged in, or need not, and may do everything. False if that has to
    /// be found out.
    #[inline]
    pub fn is_unrestricted(&self, acl: &Acl) -> bool {
        self.unrestricted && self.version == acl.version()
    }

    /// The user, `None` for the server itself.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// The version of all users that the user is of.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl Client {
    /// Makes the client's user `user`, who was found when the users had `version`.
    pub fn become_user(&mut self, user: Arc<User>, version: u64) {
        *self.shared.user.lock() = user.name.clone();
        self.login = Login {
            user: Some(user),
            version,
            unrestricted: false,
        };
        self.set_authenticated(true);
    }

    /// Says whether the client has logged in, or need not.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
        let user = self.login.user.as_ref();
        self.login.unrestricted = authenticated && user.is_some_and(|user| user.is_unrestricted());
    }

    /// True if the client may read every key, also those that a command does not name.
    pub fn reads_all_keys(&self) -> bool {
        self.login
            .user
            .as_ref()
            .is_none_or(|user| user.reads_all_keys())
    }
}
