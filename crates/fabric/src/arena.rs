//! A client's allocator of memory on the nodes.

use crate::address::{GlobalAddress, LINE_BYTES, NodeId, OFFSETS};
use crate::endpoint::Endpoint;
use crate::error::FabricError;
use crate::recovery::epochs::ClosedNodes;
use std::cell::{Cell, RefCell};

/// An allocator that divides chunks into pieces. Only a chunk needs a call to a node's processor,
/// so most pieces cost no message. The nodes take turns, so that pieces spread evenly over them.
/// Each client has an arena of its own, which its tasks share.
///
/// [`Endpoint::free`] returns a piece to its node, no matter which client allocated it.
#[derive(Debug)]
pub struct FabricArena {
    chunk_bytes: u64,
    /// The alignment of pieces, a multiple of a line.
    alignment: u64,
    /// The rest of each node's chunk.
    left: RefCell<Vec<(NodeId, ChunkRemainder)>>,
    turn: Cell<usize>,
    /// The nodes on which it does not allocate.
    avoided: Cell<ClosedNodes>,
}

/// Number of turns after which the arena asks a node without a free chunk again. It asks earlier if
/// no other node has one.
const TURNS_PASSED_OVER: usize = 1 << 12;

#[derive(Clone, Copy, Debug)]
struct ChunkRemainder {
    next: GlobalAddress,
    bytes: u64,
    /// The first turn at which the arena asks the node again.
    ask_from: usize,
}

impl FabricArena {
    /// Creates an empty arena that takes chunks of `chunk_bytes` from these nodes.
    pub fn new(nodes: &[NodeId], chunk_bytes: u64) -> FabricArena {
        FabricArena::aligned(nodes, chunk_bytes, LINE_BYTES)
    }

    /// Creates an arena like [`new`](FabricArena::new), with pieces at multiples of `alignment`, a
    /// whole number of lines, for indexes whose pointers have fewer bits than addresses.
    pub fn aligned(nodes: &[NodeId], chunk_bytes: u64, alignment: u64) -> FabricArena {
        let alignment = alignment.max(1).next_multiple_of(LINE_BYTES);
        let nothing = ChunkRemainder {
            next: GlobalAddress::NULL,
            bytes: 0,
            ask_from: 0,
        };
        FabricArena {
            chunk_bytes: chunk_bytes.next_multiple_of(alignment),
            alignment,
            left: RefCell::new(nodes.iter().map(|&node| (node, nothing)).collect()),
            turn: Cell::new(0),
            avoided: Cell::default(),
        }
    }

    /// Makes the arena pass over these nodes from here on, and over no others that are served. The
    /// rest of a chunk there goes back to its node.
    pub fn avoid(&self, nodes: ClosedNodes) {
        self.avoided.set(nodes);
    }

    /// Allocates `bytes` on the node whose turn it is, aligned to [`LINE_BYTES`] or to the arena's
    /// alignment. Their content is unspecified. The arena skips nodes without memory, and lost
    /// nodes.
    ///
    /// # Errors
    /// `OutOfMemory` if no node has enough memory, `NodeLost` if all are lost.
    pub async fn allocate(
        &self,
        endpoint: &impl Endpoint,
        bytes: u64,
    ) -> Result<GlobalAddress, FabricError> {
        let nodes = self.left.borrow().len();
        let (mut full, mut lost) = (None, None);
        // The first turns pass over nodes that were full lately. The second ones ask these, too,
        // before memory counts as exhausted.
        for attempt in 0..2 * nodes {
            let turn = self.turn.replace(self.turn.get() + 1);
            let number = turn % nodes;
            let (node, rest) = self.left.borrow()[number];
            if self.avoided.get().contains(node) {
                self.give_back_rest(endpoint, number).await?;
                continue;
            }
            if rest.ask_from > turn && attempt < nodes {
                continue;
            }
            // The rest of a chunk of a lost node is lost as well.
            if !endpoint.is_reachable(node) {
                lost = Some(FabricError::NodeLost { node });
                continue;
            }
            match self.allocate_at(endpoint, number, bytes).await {
                Err(error @ FabricError::OutOfMemory { .. }) => {
                    full = Some(error);
                    self.left.borrow_mut()[number].1.ask_from = turn + TURNS_PASSED_OVER;
                }
                Err(error @ FabricError::NodeLost { .. }) => lost = Some(error),
                other => return other,
            }
        }
        let node = NodeId::default();
        Err(full
            .or(lost)
            .unwrap_or(FabricError::OutOfMemory { node, bytes }))
    }

    /// Frees the rest of a node's chunk, unless it is lost with its node.
    async fn give_back_rest(
        &self,
        endpoint: &impl Endpoint,
        number: usize,
    ) -> Result<(), FabricError> {
        let (_, rest) = self.left.borrow()[number];
        if rest.bytes == 0 {
            return Ok(());
        }
        // Taken before the call, during which another task may come here.
        self.left.borrow_mut()[number].1.bytes = 0;
        match endpoint.free(rest.next, rest.bytes).await {
            Err(FabricError::NodeLost { .. }) => Ok(()),
            freed => freed,
        }
    }

    /// Allocates on the first node like [`allocate`](FabricArena::allocate), or on another if the
    /// first has too little memory.
    ///
    /// # Errors
    /// `OutOfMemory` if no node has enough memory, `NodeLost` if the first is lost.
    pub async fn allocate_first(
        &self,
        endpoint: &impl Endpoint,
        bytes: u64,
    ) -> Result<GlobalAddress, FabricError> {
        let (node, _) = self.left.borrow()[0];
        if !endpoint.is_reachable(node) {
            return Err(FabricError::NodeLost { node });
        }
        match self.allocate_at(endpoint, 0, bytes).await {
            Err(FabricError::OutOfMemory { .. }) => self.allocate(endpoint, bytes).await,
            other => other,
        }
    }

    /// Allocates on one of the nodes, whichever turn it is, and on no other. It may be one that the
    /// arena avoids.
    ///
    /// # Errors
    /// `NoSuchNode` if the arena does not have the node, `OutOfMemory`, and `NodeLost`.
    pub async fn allocate_on(
        &self,
        endpoint: &impl Endpoint,
        node: NodeId,
        bytes: u64,
    ) -> Result<GlobalAddress, FabricError> {
        let place = self.left.borrow().iter().position(|(at, _)| *at == node);
        let place = place.ok_or(FabricError::NoSuchNode { node })?;
        if !endpoint.is_reachable(node) {
            return Err(FabricError::NodeLost { node });
        }
        self.allocate_at(endpoint, place, bytes).await
    }

    async fn allocate_at(
        &self,
        endpoint: &impl Endpoint,
        turn: usize,
        bytes: u64,
    ) -> Result<GlobalAddress, FabricError> {
        let length = bytes.max(1).next_multiple_of(self.alignment);
        loop {
            let (node, rest) = self.left.borrow()[turn];
            if rest.bytes >= length {
                self.left.borrow_mut()[turn].1 = ChunkRemainder {
                    next: rest.next.plus(length),
                    bytes: rest.bytes - length,
                    ..rest
                };
                debug_assert!(rest.next.offset().is_multiple_of(self.alignment));
                return Ok(rest.next);
            }
            if length > self.chunk_bytes / 2 {
                // A piece of this size would waste much of a chunk, so allocate it alone.
                return self.bring(endpoint, node, length).await;
            }
            let next = self.bring(endpoint, node, self.chunk_bytes).await?;
            let rest = ChunkRemainder {
                next,
                bytes: self.chunk_bytes,
                ask_from: 0,
            };
            // Another task may have fetched a chunk meanwhile; the arena frees the rest of that
            // chunk.
            let former = std::mem::replace(&mut self.left.borrow_mut()[turn].1, rest);
            if former.bytes > 0 {
                endpoint.free(former.next, former.bytes).await?;
            }
        }
    }

    /// Allocates an aligned piece on a node: requests more than needed, and frees the margins.
    async fn bring(
        &self,
        endpoint: &impl Endpoint,
        node: NodeId,
        bytes: u64,
    ) -> Result<GlobalAddress, FabricError> {
        debug_assert!(
            bytes.is_multiple_of(LINE_BYTES) && self.alignment.is_multiple_of(LINE_BYTES)
        );
        // A node aligns to lines only, so the piece may begin up to this much later.
        let margins = self.alignment - LINE_BYTES;
        let all = endpoint.allocate(node, bytes + margins).await?;
        let before = all.offset().next_multiple_of(self.alignment) - all.offset();
        let aligned = all.plus(before);
        // Another program may serve the node, and return anything.
        if aligned.offset().saturating_add(bytes + margins) > OFFSETS {
            return Err(FabricError::OutOfRange {
                address: all,
                bytes: bytes + margins,
                size: OFFSETS,
            });
        }
        if before > 0 {
            endpoint.free(all, before).await?;
        }
        if before < margins {
            endpoint.free(aligned.plus(bytes), margins - before).await?;
        }
        Ok(aligned)
    }

    /// Frees the unused rest of all chunks.
    ///
    /// # Errors
    /// The errors of the nodes.
    pub async fn close(self, endpoint: &impl Endpoint) -> Result<(), FabricError> {
        for (_, rest) in self.left.into_inner() {
            if rest.bytes > 0 {
                endpoint.free(rest.next, rest.bytes).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::CountingEndpoint;
    use crate::recovery::epochs::{EpochOptions, Epochs, TABLE_BYTES};
    use crate::transport::sim::{Delivery, FabricSimulation};
    use nearfield_hardware::network::NetworkPreset;
    use std::rc::Rc;
    use std::time::Duration;

    #[test]
    fn pieces_are_apart_on_all_nodes_and_all_comes_back() {
        let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 20; 2]);
        let arena = Rc::new(FabricArena::new(&nodes, 1 << 16));
        let pieces = Rc::new(RefCell::new(Vec::new()));
        for task in 0..4_u64 {
            let (arena, pieces) = (Rc::clone(&arena), Rc::clone(&pieces));
            let endpoint = simulation.endpoint(0);
            simulation.spawn(0, async move {
                for number in 0..50 {
                    let bytes = (number * 613 + task * 97) % 5000;
                    let piece = arena.allocate(&endpoint, bytes).await.unwrap();
                    pieces.borrow_mut().push((piece, bytes.max(1)));
                }
            });
        }
        assert_eq!(simulation.run(), 0);
        let mut pieces = pieces.take();
        pieces.sort();
        for pair in pieces.windows(2) {
            let ((one, bytes), (other, _)) = (pair[0], pair[1]);
            assert!(one.node() != other.node() || one.plus(bytes) <= other);
        }
        let on = |node| {
            pieces
                .iter()
                .filter(|(piece, _)| piece.node() == node)
                .count()
        };
        assert_eq!((on(nodes[0]), on(nodes[1])), (100, 100));
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            for (piece, bytes) in pieces {
                endpoint.free(piece, bytes).await.unwrap();
            }
            let arena = Rc::into_inner(arena).unwrap();
            arena.close(&endpoint).await.unwrap();
        });
        assert_eq!(simulation.run(), 0);
        assert!(
            nodes
                .iter()
                .all(|&node| simulation.allocated_bytes(node) == 0)
        );
    }

    #[test]
    fn pieces_are_aligned_and_margins_go_back() {
        let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 20]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let arena = FabricArena::aligned(&nodes, 5000, 256);
            let mut pieces = Vec::new();
            for bytes in (1..100).map(|number| number * 61) {
                // This piece keeps the next chunk from being aligned by chance.
                let between = endpoint.allocate(nodes[0], 64).await.unwrap();
                let piece = arena.allocate(&endpoint, bytes).await.unwrap();
                assert!(piece.offset().is_multiple_of(256), "{piece}");
                pieces.extend([(between, 64), (piece, bytes.next_multiple_of(256))]);
            }
            pieces.sort();
            let apart = |pair: &[(GlobalAddress, u64)]| pair[0].0.plus(pair[0].1) <= pair[1].0;
            assert!(pieces.windows(2).all(apart));
            for (piece, bytes) in pieces {
                endpoint.free(piece, bytes).await.unwrap();
            }
            arena.close(&endpoint).await.unwrap();
        });
        assert_eq!(simulation.run(), 0);
        assert_eq!(simulation.allocated_bytes(nodes[0]), 0);
    }

    #[test]
    fn lost_nodes_are_passed_over() {
        let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 20; 2]);
        let loss = Duration::from_millis(10);
        simulation.lose_node(nodes[1], loss);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let arena = FabricArena::new(&nodes, 1 << 16);
            let mut on_second = 0;
            for _ in 0..10 {
                let piece = arena.allocate(&endpoint, 64).await.unwrap();
                on_second += usize::from(piece.node() == nodes[1]);
            }
            assert_eq!(on_second, 5);
            endpoint.sleep(2 * loss).await;
            // The chunk of the lost node has room left.
            for _ in 0..100 {
                let piece = arena.allocate(&endpoint, 64).await.unwrap();
                assert_eq!(piece.node(), nodes[0]);
            }
            let full = arena.allocate(&endpoint, 1 << 21).await.unwrap_err();
            assert!(matches!(full, FabricError::OutOfMemory { .. }), "{full}");
            let first = arena.allocate_first(&endpoint, 64).await.unwrap();
            assert_eq!(first.node(), nodes[0]);
            let arena = FabricArena::new(&nodes[1..], 1 << 16);
            let lost = FabricError::NodeLost { node: nodes[1] };
            assert_eq!(arena.allocate(&endpoint, 64).await, Err(lost.clone()));
            assert_eq!(arena.allocate_first(&endpoint, 64).await, Err(lost));
        });
        assert_eq!(simulation.run(), 0);
    }

    #[test]
    fn closed_nodes_are_passed_over_and_get_their_chunk_back() {
        let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 20; 2]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let table = endpoint.allocate(nodes[0], TABLE_BYTES).await.unwrap();
            let empty = vec![0; TABLE_BYTES as usize];
            endpoint.write(table, &empty).await.unwrap();
            let options = EpochOptions::default();
            let epochs = Epochs::register(&endpoint, table, options).await.unwrap();
            let arena = FabricArena::new(&nodes, 1 << 16);
            let mut on_second = Vec::new();
            for _ in 0..10 {
                let piece = arena.allocate(&endpoint, 64).await.unwrap();
                on_second.extend((piece.node() == nodes[1]).then_some(piece));
            }
            assert_eq!(on_second.len(), 5);
            let closed = epochs.close_node(&endpoint, nodes[1], true).await;
            assert_eq!(closed, Ok(()));
            arena.avoid(epochs.closed_nodes());
            for _ in 0..100 {
                let piece = arena.allocate(&endpoint, 64).await.unwrap();
                assert_eq!(piece.node(), nodes[0]);
            }
            for piece in on_second {
                endpoint.free(piece, 64).await.unwrap();
            }
            let full = arena.allocate(&endpoint, 1 << 21).await.unwrap_err();
            assert!(matches!(full, FabricError::OutOfMemory { .. }), "{full}");
        });
        assert_eq!(simulation.run(), 0);
        assert_eq!(simulation.allocated_bytes(NodeId(1)), 0);
    }

    #[test]
    fn a_node_is_chosen_whichever_turn_it_is() {
        let (mut simulation, nodes) = FabricSimulation::with_nodes(1, Delivery::Torn, [1 << 20; 3]);
        let endpoint = simulation.endpoint(0);
        simulation.spawn(0, async move {
            let arena = FabricArena::new(&nodes, 1 << 16);
            for _ in 0..10 {
                let piece = arena.allocate_on(&endpoint, nodes[2], 64).await.unwrap();
                assert_eq!(piece.node(), nodes[2]);
            }
            let full = arena.allocate_on(&endpoint, nodes[1], 1 << 21).await;
            let (node, bytes) = (nodes[1], 1 << 21);
            assert_eq!(full, Err(FabricError::OutOfMemory { node, bytes }));
            let node = NodeId(7);
            let none = arena.allocate_on(&endpoint, node, 64).await;
            assert_eq!(none, Err(FabricError::NoSuchNode { node }));
        });
        assert_eq!(simulation.run(), 0);
    }

    #[test]
    fn small_pieces_cost_few_calls_and_full_nodes_are_told() {
        let network = NetworkPreset::ConnectX6.parameters();
        let mut simulation = FabricSimulation::new(1, network, Delivery::Whole);
        let small = simulation.add_node(8192);
        let large = simulation.add_node(1 << 20);
        let endpoint = CountingEndpoint::new(simulation.endpoint(0));
        simulation.spawn(0, async move {
            let arena = FabricArena::new(&[small, large], 1 << 16);
            for _ in 0..1000 {
                let piece = arena.allocate(&endpoint, 64).await.unwrap();
                // The first node never has a whole chunk.
                assert_eq!(piece.node(), large);
            }
            assert_eq!(endpoint.take().calls, 2);
            let error = arena.allocate(&endpoint, 1 << 21).await.unwrap_err();
            assert!(matches!(error, FabricError::OutOfMemory { .. }), "{error}");
        });
        assert_eq!(simulation.run(), 0);
    }
}
