//! The connections of one thread.

use super::round::RoundClients;
use crate::client::ClientSession;
use crate::connection::RespConnection;
use crate::resp::RespReply;
use slab::Slab;
use std::ops::{Index, IndexMut};

/// The connections of one thread, by number. A connection is *away* while its command runs outside
/// of the lock; its number stays reserved.
#[derive(Debug, Default)]
pub struct Connections(Slab<Option<Box<RespConnection>>>);

impl Connections {
    /// Returns the connection of a number, if it exists and is not away.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&RespConnection> {
        self.0.get(index)?.as_deref()
    }

    /// Returns the same as [`get`](Connections::get), for changes.
    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut RespConnection> {
        self.0.get_mut(index)?.as_deref_mut()
    }

    /// Returns true if the connection of a number exists and is not away.
    pub fn contains(&self, index: usize) -> bool {
        self.get(index).is_some()
    }

    /// Adds a connection and returns its number.
    pub fn insert(&mut self, connection: RespConnection) -> usize {
        self.0.insert(Some(Box::new(connection)))
    }

    /// Removes a connection, unless it is away.
    pub fn remove(&mut self, index: usize) -> Option<Box<RespConnection>> {
        self.contains(index).then(|| self.0.remove(index))?
    }

    /// Takes a connection out, until it is [given back](Connections::give_back).
    pub fn lend(&mut self, index: usize) -> Option<Box<RespConnection>> {
        self.0.get_mut(index)?.take()
    }

    /// Puts a connection back that was away.
    pub fn give_back(&mut self, index: usize, connection: Box<RespConnection>) {
        debug_assert!(
            self.0.get(index).is_some_and(Option::is_none),
            "its number stays reserved while it is away"
        );
        if let Some(place) = self.0.get_mut(index) {
            *place = Some(connection);
        }
    }

    /// Returns the connections that are not away, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &RespConnection)> {
        let places = self.0.iter();
        places.filter_map(|(index, place)| Some((index, place.as_deref()?)))
    }

    /// Returns the same as [`iter`](Connections::iter), for changes.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut RespConnection)> {
        let places = self.0.iter_mut();
        places.filter_map(|(index, place)| Some((index, place.as_deref_mut()?)))
    }
}

impl Index<usize> for Connections {
    type Output = RespConnection;

    fn index(&self, index: usize) -> &RespConnection {
        match &self.0[index] {
            Some(connection) => connection,
            None => unreachable!("a connection that is away is not accessed"),
        }
    }
}

impl IndexMut<usize> for Connections {
    fn index_mut(&mut self, index: usize) -> &mut RespConnection {
        match &mut self.0[index] {
            Some(connection) => connection,
            None => unreachable!("a connection that is away is not accessed"),
        }
    }
}

impl RoundClients for Connections {
    fn client(&mut self, connection: u32) -> (&mut ClientSession, &mut RespReply) {
        let connection = &mut self[connection as usize];
        (&mut connection.client, &mut connection.reply)
    }
}
