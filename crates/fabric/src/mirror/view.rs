//! Changes of the views of pairs.

use super::MirroredEndpoint;
use super::state::{PairView, ViewKind, ViewWord, view_word};
use crate::address::NodeId;
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::verb::FabricVerb;
use std::rc::Rc;
use std::time::Duration;

/// Number of attempts to connect to a node that was taken in.
const RECONNECTIONS: usize = 3;

impl<E: Endpoint> MirroredEndpoint<E> {
    /// Returns the time until which posts to the pair may begin, after a read of the view words if
    /// the last one is long ago. A post that changes memory waits while the memory is copied, but
    /// not after its deadline, from which on it has no effect.
    pub(super) async fn fence(
        &self,
        pair: usize,
        changes: bool,
        deadline: Duration,
    ) -> Result<Duration, FabricError> {
        let mut was_read = false;
        loop {
            let (view, confirmed, fence, is_joining) = self.with(pair, |state| {
                (
                    state.view,
                    state.confirmed,
                    state.fence(self.lease),
                    state.joining.is_some(),
                )
            });
            if view == PairView::Lost {
                return Err(self.lost(pair));
            }
            // A quarter of a lease is left for the post, unless the read took longer. Otherwise a
            // client whose posts are that slow would read the words for ever.
            let now = self.endpoint().now();
            let is_recent = confirmed.is_some_and(|confirmed| now < confirmed + self.lease / 4);
            if let Some(fence) = fence.filter(|&fence| is_recent || was_read && now < fence) {
                if !changes || !is_joining || !self.rules.pauses || now >= deadline {
                    return Ok(fence);
                }
                self.endpoint().sleep(self.lease / 8).await;
            }
            self.confirm(pair).await?;
            was_read = true;
        }
    }

    /// Reads the view words of the nodes that are used.
    pub(super) async fn confirm(&self, pair: usize) -> Result<(), FabricError> {
        match self.view_of(pair) {
            PairView::Both => self.confirm_whole(pair).await,
            PairView::Primary | PairView::Backup => self.confirm_alone(pair).await,
            PairView::Lost => Err(self.lost(pair)),
        }
    }

    /// Reads the view words of both nodes.
    async fn confirm_whole(&self, pair: usize) -> Result<(), FabricError> {
        let (nodes, version) = self.with(pair, |state| (state.pair, state.version));
        // Read before the post, because another client may change the words right after it.
        let began = self.endpoint().now();
        let (mut primary, mut backup) = ([0; 8], [0; 8]);
        let mut verbs = [
            FabricVerb::Read {
                from: view_word(nodes.primary),
                into: &mut primary,
            },
            FabricVerb::Read {
                from: view_word(nodes.backup),
                into: &mut backup,
            },
        ];
        match self.endpoint().post(&mut verbs).await {
            Ok(()) => {}
            Err(FabricError::NodeLost { node }) if node == nodes.primary => {
                return self.survive(pair, nodes.backup, version).await;
            }
            Err(FabricError::NodeLost { .. }) => {
                return self.survive(pair, nodes.primary, version).await;
            }
            Err(error) => return Err(self.outward(error)),
        }
        let primary = ViewWord(u64::from_le_bytes(primary));
        let backup = ViewWord(u64::from_le_bytes(backup));
        let is_taken_in = primary.count() == backup.count();
        match (primary.kind(), backup.kind()) {
            (ViewKind::Both, ViewKind::Both)
                if primary == ViewWord::NEW && backup == ViewWord::NEW =>
            {
                self.confirm_at(pair, version, primary.count(), began);
            }
            (ViewKind::Serving, ViewKind::Both) if is_taken_in => {
                self.confirm_at(pair, version, primary.count(), began);
            }
            // The copying client is about to do this, or is dead.
            (ViewKind::Serving, ViewKind::Filling) => {
                let (at, word) = (view_word(nodes.backup), primary.with(ViewKind::Both));
                match self.endpoint().compare_swap(at, backup.0, word.0).await {
                    Ok(_) | Err(FabricError::NodeLost { .. }) => {}
                    Err(error) => return Err(self.outward(error)),
                }
            }
            // The roles have changed before this client has connected.
            (ViewKind::Both | ViewKind::Filling, ViewKind::Serving) => self.with(pair, |state| {
                if state.version == version && state.pair == nodes {
                    state.swap_roles();
                }
            }),
            // Clients lost different nodes, so neither has all that was acknowledged.
            _ if primary.is_left() && backup.is_left() => return self.lose(pair),
            _ if primary.is_left() => return self.survive(pair, nodes.primary, version).await,
            _ if backup.is_left() => return self.survive(pair, nodes.backup, version).await,
            // The other node is served again without content.
            _ if primary.count() >= backup.count() => {
                return self.survive(pair, nodes.primary, version).await;
            }
            _ => return self.survive(pair, nodes.backup, version).await,
        }
        Ok(())
    }

    fn confirm_at(&self, pair: usize, version: u64, count: u64, began: Duration) {
        self.with(pair, |state| {
            if state.version == version && state.view == PairView::Both {
                state.confirm(count, began);
            }
        });
    }

    /// Reads the view word of the node that is used alone.
    async fn confirm_alone(&self, pair: usize) -> Result<(), FabricError> {
        let (serving, version) = self.with(pair, |state| (state.serving(), state.version));
        let began = self.endpoint().now();
        let word = match self.view_word_of(serving).await {
            Ok(word) => word,
            Err(_) if self.version_of(pair) != version => return Ok(()),
            Err(FabricError::NodeLost { .. }) => {
                return self.lose_alone(pair, serving, version).await;
            }
            Err(error) => return Err(self.outward(error)),
        };
        match word.kind() {
            ViewKind::Alone | ViewKind::Joining => {}
            ViewKind::Serving => {
                self.use_whole(pair, version).await;
                return Ok(());
            }
            // The node is served again without content.
            _ => return self.lose_alone(pair, serving, version).await,
        }
        let now = self.endpoint().now();
        let lease = self.lease;
        let is_forsaken = self.with(pair, |state| {
            if state.version != version || state.view == PairView::Lost {
                return false;
            }
            state.confirmed = Some(began);
            state.known = word.count();
            let is_joining = word.kind() == ViewKind::Joining;
            let known = state.joining.filter(|(known, _)| *known == word);
            state.joining = is_joining.then(|| known.unwrap_or((word, now)));
            known.is_some_and(|(_, since)| is_joining && began >= since + lease)
        });
        if is_forsaken {
            // The copying client would have changed the word, so it is dead.
            let alone = word.with(ViewKind::Alone);
            self.swap_view(pair, serving, word, alone).await?;
        }
        Ok(())
    }

    /// Begins to use both nodes, after the one that was used alone has a partner again.
    async fn use_whole(&self, pair: usize, version: u64) {
        let serving = self.with(pair, |state| state.serving());
        self.reach(self.partner(pair, serving)).await;
        self.with(pair, |state| {
            if state.version == version {
                state.take_in();
            }
        });
    }

    /// Returns the other node of a pair.
    fn partner(&self, pair: usize, node: NodeId) -> NodeId {
        let nodes = self.nodes_of(pair);
        match node == nodes.primary {
            true => nodes.backup,
            false => nodes.primary,
        }
    }

    /// Connects again to a node that was taken in, unless it is reached.
    async fn reach(&self, node: NodeId) {
        for _ in 0..RECONNECTIONS {
            if self.endpoint().is_reachable(node) {
                break;
            }
            let reconnection = self.reconnection.as_ref();
            match reconnection.and_then(|reconnection| (reconnection.0)()) {
                Some(endpoint) => *self.endpoint.borrow_mut() = Rc::new(endpoint),
                None => self.endpoint().sleep(self.lease / 4).await,
            }
        }
    }

    /// Returns the node that a lost one has taken in since this client has read its word.
    async fn successor(&self, pair: usize, lost: NodeId) -> Option<NodeId> {
        let partner = self.partner(pair, lost);
        self.reach(partner).await;
        let word = self.view_word_of(partner).await.ok()?;
        let known = self.with(pair, |state| state.known);
        let is_in = matches!(
            word.kind(),
            ViewKind::Both | ViewKind::Announced | ViewKind::Alone
        );
        (is_in && word.count() > known).then_some(partner)
    }

    /// Handles the loss of the node that was used alone: another one that it has taken in serves.
    ///
    /// # Errors
    /// `NodeLost` if there is none.
    async fn lose_alone(&self, pair: usize, node: NodeId, version: u64) -> Result<(), FabricError> {
        let Some(successor) = self.successor(pair, node).await else {
            return match self.version_of(pair) == version {
                true => self.lose(pair),
                false => Ok(()),
            };
        };
        let next = self.with(pair, |state| {
            if state.version == version {
                state.take_in();
            }
            state.version
        });
        self.survive(pair, successor, next).await
    }

    /// Begins to use one node of a pair alone, because the other one is lost. If it was the backup,
    /// that takes a lease, unless another client has waited for it.
    ///
    /// # Errors
    /// `NodeLost` if this node is lost, too, or must not be used.
    pub(super) async fn survive(
        &self,
        pair: usize,
        mut node: NodeId,
        version: u64,
    ) -> Result<(), FabricError> {
        loop {
            let (nodes, is_known) = self.with(pair, |state| {
                let is_known = state.version != version || state.view != PairView::Both;
                (state.pair, is_known)
            });
            if is_known {
                // Another task of this client was faster.
                return Ok(());
            }
            let word = match self.view_word_of(node).await {
                Ok(word) => word,
                Err(FabricError::NodeLost { .. }) => {
                    // The pair may have replaced both nodes since the last look.
                    match self.successor(pair, node).await {
                        Some(successor) => node = successor,
                        None => return self.lose(pair),
                    }
                    continue;
                }
                Err(error) => return Err(self.outward(error)),
            };
            let next = match word.kind() {
                ViewKind::Alone | ViewKind::Joining => {
                    let now = self.endpoint().now();
                    let view = match node == nodes.primary {
                        true => PairView::Primary,
                        false => PairView::Backup,
                    };
                    self.with(pair, |state| {
                        if state.version == version {
                            if word.count() > state.known {
                                // The node may have taken others in since the last look.
                                state.version += 1;
                            }
                            state.adopt(view, now);
                            state.known = word.count();
                        }
                    });
                    return Ok(());
                }
                ViewKind::Both if word == ViewWord::NEW && node == nodes.primary => ViewKind::Alone,
                ViewKind::Serving => ViewKind::Alone,
                ViewKind::Both => ViewKind::Announced,
                ViewKind::Announced => {
                    if self.rules.waits {
                        // Posts of clients that have read the word before begin within half of this
                        // time.
                        self.endpoint().sleep(self.lease).await;
                        let settled = self.endpoint().settle().await;
                        settled.map_err(|error| self.outward(error))?;
                    }
                    ViewKind::Alone
                }
                ViewKind::Filling | ViewKind::Unknown => return self.lose(pair),
            };
            self.swap_view(pair, node, word, word.with(next)).await?;
        }
    }

    /// Begins to use the primary alone.
    pub(super) async fn drop_backup(&self, pair: usize) -> Result<(), FabricError> {
        let (nodes, version) = self.with(pair, |state| (state.pair, state.version));
        self.survive(pair, nodes.primary, version).await
    }

    /// Handles the loss of the node that executes reads and swaps.
    ///
    /// # Errors
    /// `NodeLost` if no node is left.
    pub(super) async fn lose_serving(&self, pair: usize, node: NodeId) -> Result<(), FabricError> {
        let (view, serving, backup, version) = self.with(pair, |state| {
            (
                state.view,
                state.serving(),
                state.pair.backup,
                state.version,
            )
        });
        if serving != node {
            // Another task of this client was faster.
            Ok(())
        } else if view == PairView::Both {
            self.survive(pair, backup, version).await
        } else {
            self.lose_alone(pair, node, version).await
        }
    }

    /// Notes that no node of the pair is left.
    pub(super) fn lose(&self, pair: usize) -> Result<(), FabricError> {
        let now = self.endpoint().now();
        self.with(pair, |state| state.adopt(PairView::Lost, now));
        Err(self.lost(pair))
    }

    pub(super) async fn view_word_of(&self, node: NodeId) -> Result<ViewWord, FabricError> {
        let mut word = [0; 8];
        self.endpoint().read(view_word(node), &mut word).await?;
        Ok(ViewWord(u64::from_le_bytes(word)))
    }

    /// Swaps the view word of the node that is left of a pair, and returns the old one.
    async fn swap_view(
        &self,
        pair: usize,
        node: NodeId,
        expected: ViewWord,
        desired: ViewWord,
    ) -> Result<ViewWord, FabricError> {
        let at = view_word(node);
        let endpoint = self.endpoint();
        match endpoint.compare_swap(at, expected.0, desired.0).await {
            Ok(found) => Ok(ViewWord(found)),
            Err(FabricError::NodeLost { .. }) => {
                let now = endpoint.now();
                self.with(pair, |state| state.adopt(PairView::Lost, now));
                Err(self.lost(pair))
            }
            Err(error) => Err(self.outward(error)),
        }
    }
}
