//! The phases of the keyspace while a script may hold one for long.

use super::ServerCore;
use crate::keyspace::Databases;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Longest time for which a thread waits for a phase before it checks if a script runs for long.
const PATIENCE: Duration = Duration::from_millis(50);

impl ServerCore {
    /// Returns the time for which to wait for a phase: none while a script runs for long.
    fn patience(&self) -> Duration {
        match self.scripts.watchdog.is_slow() {
            true => Duration::ZERO,
            false => self.scripts.watchdog.until_slow().min(PATIENCE),
        }
    }

    /// Enters the shared phase of the keyspace, unless a script has held the exclusive one for
    /// long.
    #[inline]
    pub fn share_unless_busy(&self) -> Option<RwLockReadGuard<'_, Databases>> {
        loop {
            // A script may have become slow during the last wait.
            let patience = self.patience();
            if let Some(databases) = self.keyspace.try_share_for(patience) {
                // Changes of a script that was ended are not logged, so no client may see them.
                return (!self.scripts.watchdog.is_given_up()).then_some(databases);
            }
            if patience.is_zero() {
                return None;
            }
        }
    }

    /// Enters the exclusive phase of the keyspace, unless a script has held it for long.
    pub fn exclude_unless_busy(&self) -> Option<RwLockWriteGuard<'_, Databases>> {
        loop {
            let patience = self.patience();
            if let Some(databases) = self.keyspace.try_exclude_for(patience) {
                return (!self.scripts.watchdog.is_given_up()).then_some(databases);
            }
            if patience.is_zero() {
                return None;
            }
        }
    }
}
