//! Reads of entries in the order of their keys.

use super::layout::{NodeType, SmartLeaf, SmartNode, SmartSlot, SmartSlotChild, slot_offset};
use super::place::SmartSlotPosition;
use super::{Smart, SmartScanGuarantee};
use crate::wait_limit::WaitLimit;
use nearfield_fabric::{Endpoint, FabricVerb, GlobalAddress};
use nearfield_pool::{Entry, PoolError};
use std::collections::{HashMap, HashSet};

/// Number of leaves that are read in one post at most.
const BATCH: usize = 1024;

/// A slot whose keys the scan returns.
#[derive(Clone, Copy, Debug)]
struct SmartScanSlot {
    position: SmartSlotPosition,
    /// True if some of its keys may be less than the first wanted one.
    is_bounded: bool,
}

/// Something to read.
#[derive(Clone, Copy, Debug)]
enum Want {
    Leaf(GlobalAddress),
    Node(GlobalAddress, NodeType),
    /// A slot that is known only from the cache, and has another child now.
    Slot(GlobalAddress),
}

impl Want {
    /// Returns the number of entries that a scan expects there. A node uses more than half of the
    /// slots of its type, up to all of them.
    fn entries(&self) -> usize {
        match self {
            Want::Leaf(_) | Want::Slot(_) => 1,
            Want::Node(_, node_type) => node_type.slots() * 3 / 4,
        }
    }
}

/// The known state of an item's child.
enum SmartScanChild {
    /// The slot has no child.
    Nothing,
    Entry(Entry),
    /// A node at an address; true if its slots were read by this scan.
    Node(GlobalAddress, SmartNode, bool),
    Unknown(Want),
}

/// The nodes and leaves read in this scan.
#[derive(Default)]
struct Images {
    leaves: HashMap<GlobalAddress, SmartLeaf>,
    nodes: HashMap<GlobalAddress, SmartNode>,
    slots: HashMap<GlobalAddress, SmartSlot>,
}

impl Images {
    /// Returns the number of all of them.
    fn count(&self) -> usize {
        self.leaves.len() + self.nodes.len() + self.slots.len()
    }
}

impl<E: Endpoint> Smart<E> {
    /// Returns the first `count` entries from a key on. It works in rounds: it opens known nodes
    /// until it has enough leaves, and reads the unknown ones in one post. An unknown node counts
    /// as many entries as one of its type has on average, so that few nodes behind the range are
    /// read.
    pub(super) async fn read_range(
        &self,
        from: &[u8],
        count: usize,
    ) -> Result<Vec<Entry>, PoolError> {
        let mut entries = Vec::new();
        if count == 0 {
            return Ok(entries);
        }
        let mut images = Images::default();
        let root = self.cache().root();
        let mut wants = match self.node.options.scan {
            SmartScanGuarantee::Complete => self.predict(from, count.min(BATCH)),
            SmartScanGuarantee::Cached => Vec::new(),
        };
        if root.is_none() || self.node.options.scan == SmartScanGuarantee::Complete {
            // A complete scan begins at the present child of the root's slot.
            wants.push(Want::Slot(self.root));
        }
        self.fetch(&wants, &mut images).await?;
        let mut position = SmartSlotPosition {
            holder: GlobalAddress::NULL,
            at: self.root,
            slot: root.map(|root| root.slot).unwrap_or_default(),
            depth: 0,
            is_fresh: false,
        };
        if let Some(&slot) = images.slots.get(&self.root) {
            position.slot = slot;
            position.is_fresh = true;
            self.remember(&position);
        }
        // The stack has the first ones last.
        let mut stack = vec![SmartScanSlot {
            position,
            is_bounded: true,
        }];
        let mut opened_nodes = HashSet::new();
        let (mut limit, mut done) = (WaitLimit::default(), (0, 0, 0));
        while entries.len() < count && !stack.is_empty() {
            let wanted = (count - entries.len()).min(BATCH);
            let (mut opened, mut wants, mut found) = (Vec::new(), Vec::new(), Vec::new());
            let mut expected = 0;
            while expected < wanted
                && let Some(mut item) = stack.pop()
            {
                match self.known(&mut item, &images) {
                    SmartScanChild::Nothing => {}
                    SmartScanChild::Entry((key, _)) if *key < *from => {}
                    SmartScanChild::Entry(entry) => {
                        expected += 1;
                        opened.push(item);
                        found.push(entry);
                    }
                    SmartScanChild::Node(address, node, is_fresh) => {
                        // One slot leads to a node, unless damaged ones form a circle.
                        if !opened_nodes.insert(address) {
                            return Err(PoolError::Damaged { at: address });
                        }
                        stack.extend(open(&item, address, &node, is_fresh, from)?);
                    }
                    SmartScanChild::Unknown(want) => {
                        expected += want.entries();
                        opened.push(item);
                        wants.push(want);
                    }
                }
            }
            if wants.is_empty() {
                // Entries are returned only once all with lesser keys are known.
                entries.append(&mut found);
                // No later round needs these leaves, and a long scan would collect all.
                images.leaves.clear();
            } else {
                self.fetch(&wants, &mut images).await?;
                // They are opened again, with the content that was read.
                stack.extend(opened.into_iter().rev());
                // A leaf that is damaged looks like one that is being written.
                let now = (entries.len(), opened_nodes.len(), images.count());
                if now == done {
                    limit.check(&self.endpoint, self.root)?;
                } else {
                    (limit, done) = (WaitLimit::default(), now);
                }
            }
        }
        debug_assert!(entries.len() <= count);
        Ok(entries)
    }

    /// Returns the expected reads of a scan, according to the cache: the first leaves, and the
    /// nodes that lead to them.
    fn predict(&self, from: &[u8], count: usize) -> Vec<Want> {
        let (mut wants, mut leaves) = (Vec::new(), 0);
        let root = self.cache().root().map(|position| SmartScanSlot {
            position,
            is_bounded: true,
        });
        let mut stack: Vec<SmartScanSlot> = root.into_iter().collect();
        let mut opened_nodes = HashSet::new();
        while leaves < count
            && let Some(item) = stack.pop()
        {
            match item.position.slot.child() {
                SmartSlotChild::None => {}
                SmartSlotChild::Leaf(address) => {
                    wants.push(Want::Leaf(address));
                    leaves += 1;
                }
                SmartSlotChild::Node(address, node_type) => {
                    if !opened_nodes.insert(address) {
                        // A circle of damaged nodes, which the scan itself will find.
                        continue;
                    }
                    if let Some(node) = self.cache().node(address) {
                        // Read again in the same post, because others may have taken slots since it
                        // was cached.
                        wants.push(Want::Node(address, node.header.node_type()));
                        stack.extend(open(&item, address, &node, false, from).unwrap_or_default());
                    } else {
                        let want = Want::Node(address, node_type);
                        leaves += want.entries();
                        wants.push(want);
                    }
                }
            }
        }
        wants
    }

    /// Returns the known child of an item, whose slot may have been read again.
    fn known(&self, item: &mut SmartScanSlot, images: &Images) -> SmartScanChild {
        let position = &mut item.position;
        if !position.is_fresh
            && let Some(&slot) = images.slots.get(&position.at)
        {
            position.slot = slot;
            position.is_fresh = true;
            self.remember(position);
        }
        match position.slot.child() {
            SmartSlotChild::None => SmartScanChild::Nothing,
            SmartSlotChild::Leaf(address) => {
                let Some(leaf) = images.leaves.get(&address) else {
                    return SmartScanChild::Unknown(Want::Leaf(address));
                };
                // The reverse check: it is the only proof that a cached slot still leads directly
                // to the leaf.
                let agrees = leaf.valid && leaf.reverse == position.at;
                if !position.is_fresh && !agrees {
                    return SmartScanChild::Unknown(Want::Slot(position.at));
                }
                if !leaf.valid {
                    return SmartScanChild::Nothing;
                }
                if let Some(successor) = leaf.successor {
                    position.slot = SmartSlot::leaf(position.slot.partial(), successor);
                    self.remember(position);
                    return SmartScanChild::Unknown(Want::Leaf(successor));
                }
                SmartScanChild::Entry((leaf.key.to_vec(), leaf.value.clone()))
            }
            SmartSlotChild::Node(address, node_type) => match images.nodes.get(&address) {
                Some(node) => {
                    let all = node.header.node_type();
                    // The node has grown since the slot that leads to it was written.
                    if node.slots.len() < all.slots() {
                        return SmartScanChild::Unknown(Want::Node(address, all));
                    }
                    SmartScanChild::Node(address, node.clone(), true)
                }
                None => {
                    let cached = match self.node.options.scan {
                        SmartScanGuarantee::Cached => self.cache().node(address),
                        SmartScanGuarantee::Complete => None,
                    };
                    match cached {
                        Some(node) => SmartScanChild::Node(address, node, false),
                        None => SmartScanChild::Unknown(Want::Node(address, node_type)),
                    }
                }
            },
        }
    }

    /// Reads all wanted nodes and leaves in one post. Leaves with a concurrent write stay unknown.
    async fn fetch(&self, wants: &[Want], images: &mut Images) -> Result<(), PoolError> {
        let place = |want: &Want| match *want {
            Want::Leaf(address) => (address, self.leaves.bytes()),
            Want::Node(address, node_type) => (address, SmartNode::bytes(node_type.slots())),
            Want::Slot(address) => (address, 8),
        };
        let mut buffers: Vec<Vec<u8>> = wants.iter().map(|want| vec![0; place(want).1]).collect();
        let reads = wants.iter().zip(&mut buffers);
        let mut verbs: Vec<FabricVerb<'_>> = reads
            .map(|(want, into)| FabricVerb::Read {
                from: place(want).0,
                into,
            })
            .collect();
        if verbs.is_empty() {
            return Ok(());
        }
        self.endpoint.post(&mut verbs).await?;
        drop(verbs);
        for (want, bytes) in wants.iter().zip(&buffers) {
            match *want {
                Want::Leaf(address) => {
                    let leaf = self.leaves.decode(bytes);
                    images.leaves.extend(leaf.map(|leaf| (address, leaf)));
                }
                Want::Node(address, _) => {
                    let node = SmartNode::decode(bytes);
                    self.cache().keep(address, &node);
                    images.nodes.insert(address, node);
                }
                Want::Slot(address) => {
                    let word = bytes[..].try_into().map_or(0, u64::from_le_bytes);
                    images.slots.insert(address, SmartSlot::from_word(word));
                }
            }
        }
        Ok(())
    }
}

/// Returns the slots of a node that may lead to keys from `from` on, those with the least keys
/// last.
///
/// # Errors
/// `Damaged` if no byte of a key is left for the node.
fn open(
    item: &SmartScanSlot,
    holder: GlobalAddress,
    node: &SmartNode,
    is_fresh: bool,
    from: &[u8],
) -> Result<Vec<SmartScanSlot>, PoolError> {
    let start = item.position.depth;
    let prefix: Vec<u8> = node.header.prefix_from(start).collect();
    let depth = start + prefix.len();
    if depth >= from.len() {
        return Err(PoolError::Damaged { at: holder });
    }
    let mut least = None;
    if item.is_bounded {
        match prefix[..].cmp(from.get(start..depth).unwrap_or_default()) {
            std::cmp::Ordering::Less => return Ok(Vec::new()),
            std::cmp::Ordering::Equal => least = from.get(depth).copied(),
            std::cmp::Ordering::Greater => {}
        }
    }
    let slots = node.slots.iter().copied().enumerate();
    let mut items: Vec<SmartScanSlot> = slots
        .filter(|(_, slot)| !slot.is_unused() && least.is_none_or(|least| slot.partial() >= least))
        .map(|(number, slot)| SmartScanSlot {
            position: SmartSlotPosition {
                holder,
                at: holder.plus(slot_offset(number)),
                slot,
                depth: depth + 1,
                is_fresh,
            },
            is_bounded: least == Some(slot.partial()),
        })
        .collect();
    items.sort_unstable_by_key(|item| std::cmp::Reverse(item.position.slot.partial()));
    Ok(items)
}
