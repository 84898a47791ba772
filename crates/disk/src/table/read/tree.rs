//! The index of an open B+tree table: its root in memory, its other nodes in a mapping or in the
//! cache.
//!
//! It reads no blocks, but for those that lie in a mapping ready to be searched.
//!
//! A child is found by its place in its parent, and checked against it when it is first read. So a
//! node or leaf that is sound, but lies at another place than its parent says, is refused.
//!
//! # Thread safety
//! Any thread may go down. Two may verify the same node.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::node::NodeView;
use crate::table::format::properties::Properties;
use crate::table::read::source::{TableSource, check_block};
use crate::{
    block::{Block, BlockLayout},
    cache::{Cache, Cacheable, Cached, Slots},
    compress::Codec,
    frame::{CHECKSUM_BYTES, FRAME_BYTES_MIN, Frame, FrameKind, FramePlace},
};
use bytes::Bytes;
use siltdb_base::{
    codec::{VARINT_BYTES_MAX, varint_len},
    error::{Error, Result},
    hint::{CACHE_LINE_BYTES, prefetch_bytes},
    memory::region::{Buffer, Margins, piece_bytes},
};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Bytes that an entry takes in the arrays of a leaf of at most 64 KiB.
const ARRAYS_ENTRY_BYTES: usize = size_of::<u32>() + size_of::<u16>();

/// Most bytes of heads that are prefetched.
const HEADS_BYTES_MAX: usize = 4 * CACHE_LINE_BYTES;

/// Nodes or leaves whose bits share a word.
const PER_WORD: usize = 64;

/// Says whether a node or leaf was verified.
#[derive(Clone, Copy)]
struct VerifiedBit {
    /// The index of the word.
    word: usize,
    /// The bit in it.
    mask: u64,
}

/// The index of a B+tree table.
#[derive(Debug)]
pub enum TreeIndex {
    /// Of a mapped table whose leaves can be searched where they lie.
    Mapped(MappedTree),
    /// Of any other: what is read goes through the cache.
    Cached(CachedTree),
}

/// A node that a cursor holds.
#[derive(Clone, Debug)]
pub enum NodeHold {
    /// One that lies in the cache, or did.
    Cached(Arc<Cached<TreeNode>>),
    /// One that lies there in the mapping.
    Mapped(Range<usize>),
}

impl TreeIndex {
    /// Reads the root of the table at `source`, which has blocks, and no other node. `mapping` has
    /// its bytes, if they are mapped.
    ///
    /// # Errors
    /// Corruption, if the root is damaged or not what the properties say; what reading fails with.
    pub fn open(
        source: &TableSource,
        properties: &Properties,
        mapping: Option<&Bytes>,
        cache: &Arc<Cache>,
    ) -> Result<Self> {
        let index_end = properties.index_offset() + properties.index_bytes.iter().sum::<u64>();
        let root_bytes = properties.index_bytes.last().copied().unwrap_or_default();
        let root = index_end - root_bytes..index_end;
        let leaves = properties.tree.map(|tree| tree.leaves);
        match mapping.filter(|_| leaves == Some(BlockLayout::Searchable)) {
            Some(bytes) => {
                MappedTree::open(source, properties, bytes.clone(), &root).map(Self::Mapped)
            }
            None => CachedTree::open(source, properties, &root, cache).map(Self::Cached),
        }
    }

    /// Bytes of memory that it takes, but for what is in the cache.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Mapped(tree) => size_of_val::<[_]>(&tree.verified),
            Self::Cached(tree) => tree.root.memory_bytes(),
        }
    }

    /// The first and the last key of all blocks.
    pub fn beneath(&self) -> BlockInfo<'_> {
        match self {
            Self::Mapped(tree) => tree.view(&tree.root).beneath(),
            Self::Cached(tree) => tree.root.view().beneath(),
        }
    }

    /// Goes down from the root to the lowest node and its block that `choose` leads to: it picks a
    /// child of each node. `None`, if it picks none.
    ///
    /// # Errors
    /// Corruption, if a node is damaged or not what its parent says; what reading fails with.
    pub fn descend(
        &self,
        source: &TableSource,
        cache: &Arc<Cache>,
        choose: impl Fn(&NodeView<'_>) -> usize,
    ) -> Result<Option<(NodeHold, usize)>> {
        match self {
            Self::Mapped(tree) => {
                let found = tree.descend(source, choose)?;
                Ok(found.map(|(place, _, at)| (NodeHold::Mapped(place), at)))
            }
            Self::Cached(tree) => {
                let found = tree.descend(source, cache, choose)?;
                Ok(found.map(|(node, at)| (NodeHold::Cached(node), at)))
            }
        }
    }

    /// A node that was returned before.
    pub fn view<'a>(&'a self, hold: &'a NodeHold) -> NodeView<'a> {
        match (hold, self) {
            (NodeHold::Cached(node), _) => node.view(),
            (NodeHold::Mapped(place), Self::Mapped(tree)) => tree.view(place),
            (NodeHold::Mapped(_), Self::Cached(_)) => unreachable!("a tree keeps its form"),
        }
    }

    /// Calls `seen` with what is known of each child of the root, and the level of the node that
    /// says so. It decides whether to go on with the children of the child.
    ///
    /// # Errors
    /// As [`TreeIndex::descend`].
    pub fn visit(
        &self,
        source: &TableSource,
        cache: &Arc<Cache>,
        seen: &mut impl FnMut(&BlockInfo<'_>, u32) -> Visit,
    ) -> Result<()> {
        match self {
            Self::Mapped(tree) => tree.visit(source, tree.view(&tree.root), seen),
            Self::Cached(tree) => visit_cached(source, cache, &tree.root, seen),
        }
    }
}

/// Whether a visit goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// To the children of the child, if it is a node.
    Down,
    /// To the next child of the same node.
    Past,
}

/// The bytes of a table, mapped, and which of its nodes and leaves were found as they should be.
#[derive(Debug)]
pub struct MappedTree {
    bytes: Bytes,
    /// Where the raw bytes of the root lie.
    root: Range<usize>,
    /// A bit for each block, and then for each level of nodes below the root a bit for each block
    /// that can be the first beneath one. By (4) of a node only one frame is asked for by each bit.
    verified: Box<[AtomicU64]>,
    words_per_level: usize,
}

impl MappedTree {
    fn open(
        source: &TableSource,
        properties: &Properties,
        bytes: Bytes,
        root: &Range<u64>,
    ) -> Result<Self> {
        let words_per_level = (properties.data_frames as usize).div_ceil(PER_WORD);
        let mut tree = Self { bytes, root: 0..0, verified: Box::default(), words_per_level };
        let place = tree.frame(source, FrameKind::Node, root, Checksum::Compare);
        let opened = place.and_then(|place| {
            let node = NodeView::at(&tree.bytes[place.clone()])?;
            node.check()?;
            check_root(&node, properties)?;
            Ok((place, node.level() as usize))
        });
        let (place, levels) = opened.map_err(|error| source.locate(error, root.start))?;
        tree.root = place;
        let words = words_per_level * (levels + 1);
        tree.verified = (0..words).map(|_| AtomicU64::new(0)).collect();
        Ok(tree)
    }

    /// The bytes of the table.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The node whose raw bytes lie at `place`, which was checked.
    #[inline]
    pub fn view(&self, place: &Range<usize>) -> NodeView<'_> {
        NodeView::at(&self.bytes[place.clone()]).expect("the node was checked")
    }

    /// See [`TreeIndex::descend`].
    #[inline]
    pub fn descend(
        &self,
        source: &TableSource,
        choose: impl Fn(&NodeView<'_>) -> usize,
    ) -> Result<Option<(Range<usize>, NodeView<'_>, usize)>> {
        let mut place = self.root.clone();
        let mut node = self.view(&place);
        loop {
            let at = choose(&node);
            if at >= node.count() {
                return Ok(None);
            }
            if node.level() == 0 {
                return Ok(Some((place, node, at)));
            }
            (place, node) = self.child(source, &node, at)?;
        }
    }

    /// The child node at `at`, verified.
    #[inline]
    fn child(
        &self,
        source: &TableSource,
        parent: &NodeView<'_>,
        at: usize,
    ) -> Result<(Range<usize>, NodeView<'_>)> {
        let frame = parent.child_place(at);
        let bit = self.bit(parent.level(), parent.first_block_of(at));
        let read = || {
            if self.is_verified(bit) {
                let place = self.frame(source, FrameKind::Node, &frame, Checksum::Known)?;
                return Ok((place.clone(), NodeView::at(&self.bytes[place])?));
            }
            let place = self.frame(source, FrameKind::Node, &frame, Checksum::Compare)?;
            let node = NodeView::at(&self.bytes[place.clone()])?;
            node.check()?;
            parent.check_child(at, &node)?;
            self.note_verified(bit);
            Ok((place, node))
        };
        read().map_err(|error| source.locate(error, frame.start))
    }

    /// The raw bytes of the leaf of this number, which `info` describes, verified, and with
    /// [`Block::BYTES_BEHIND`] after them.
    #[inline]
    pub fn leaf(
        &self,
        source: &TableSource,
        number: u64,
        info: &BlockInfo<'_>,
    ) -> Result<Range<usize>> {
        let frame = info.offset..info.offset + info.bytes;
        self.prefetch_heads(&frame, info.entries);
        let bit = self.bit(0, number);
        let read = || {
            let is_verified = self.is_verified(bit);
            let checksum = if is_verified { Checksum::Known } else { Checksum::Compare };
            let place = self.frame(source, FrameKind::Data, &frame, checksum)?;
            let place = place.start..place.end + Block::BYTES_BEHIND;
            if place.end > self.bytes.len() {
                return Err(outside());
            }
            if !is_verified {
                self.verify_leaf(&place, info)?;
                self.note_verified(bit);
            }
            Ok(place)
        };
        read().map_err(|error| source.locate(error, info.offset))
    }

    /// Prefetches the heads of a leaf, which lie at its end, so that they come with its front.
    #[inline]
    fn prefetch_heads(&self, frame: &Range<u64>, entries: u64) {
        let behind = (entries as usize).saturating_mul(ARRAYS_ENTRY_BYTES) + CHECKSUM_BYTES;
        let heads = (frame.end as usize).wrapping_sub(behind);
        let bytes = (entries as usize).saturating_mul(size_of::<u32>());
        prefetch_bytes(self.bytes.as_ptr().wrapping_add(heads), bytes.min(HEADS_BYTES_MAX));
    }

    #[cold]
    fn verify_leaf(&self, place: &Range<usize>, info: &BlockInfo<'_>) -> Result<()> {
        let block = Block::map(self.bytes.slice(place.clone()), Buffer::copy_on_heap)?;
        if !block.is_searchable() {
            return Err(Error::corruption("a leaf cannot be searched where it lies"));
        }
        check_block(&block, info)
    }

    fn visit(
        &self,
        source: &TableSource,
        node: NodeView<'_>,
        seen: &mut impl FnMut(&BlockInfo<'_>, u32) -> Visit,
    ) -> Result<()> {
        for at in 0..node.count() {
            if seen(&node.info(at), node.level()) == Visit::Down && node.level() > 0 {
                self.visit(source, self.child(source, &node, at)?.1, seen)?;
            }
        }
        Ok(())
    }

    /// Where the payload of the frame at `frame` lies, which is not compressed.
    #[inline]
    fn frame(
        &self,
        source: &TableSource,
        kind: FrameKind,
        frame: &Range<u64>,
        checksum: Checksum,
    ) -> Result<Range<usize>> {
        let place = raw_place(frame).filter(|place| place.end <= self.bytes.len());
        let place = place.ok_or_else(outside)?;
        if checksum == Checksum::Compare {
            let (start, end) = (frame.start as usize, frame.end as usize);
            let bytes = self.bytes.get(start..end).ok_or_else(outside)?;
            let at = FramePlace { table: source.uid, offset: frame.start };
            let opened = Frame::open(bytes, kind, at)?;
            if opened.codec != Codec::Raw || opened.payload_place(end) != place {
                return Err(Error::corruption("a leaf cannot be searched where it lies"));
            }
        }
        Ok(place)
    }

    /// The word and the bit of a block, for `level` 0, or of a node of the level below `level`.
    #[inline]
    fn bit(&self, level: u32, block: u64) -> VerifiedBit {
        let block = block as usize;
        let word = level as usize * self.words_per_level + block / PER_WORD;
        VerifiedBit { word, mask: 1 << (block % PER_WORD) }
    }

    #[inline]
    fn is_verified(&self, bit: VerifiedBit) -> bool {
        // Relaxed, here and below: the bytes are the same for all threads, verified or not.
        self.verified[bit.word].load(Ordering::Relaxed) & bit.mask != 0
    }

    fn note_verified(&self, bit: VerifiedBit) {
        self.verified[bit.word].fetch_or(bit.mask, Ordering::Relaxed);
    }
}

/// Where the payload of the frame at `frame` lies that is not compressed, and whose lengths are as
/// short as they can be.
#[inline]
fn raw_place(frame: &Range<u64>) -> Option<Range<usize>> {
    let bytes = frame.end - frame.start;
    (1..=VARINT_BYTES_MAX as u64).find_map(|length_bytes| {
        // Kind, codec, and the length twice, as the payload is the raw bytes.
        let around = 2 + 2 * length_bytes + CHECKSUM_BYTES as u64;
        let payload = bytes.checked_sub(around)?;
        let end = (frame.end - CHECKSUM_BYTES as u64) as usize;
        let start = end - payload as usize;
        (varint_len(payload) as u64 == length_bytes).then_some(start..end)
    })
}

/// Whether a checksum was compared before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checksum {
    Known,
    Compare,
}

/// A node in memory, and the slots of its children in the cache: a child is found by its position.
#[derive(Debug)]
pub struct TreeNode {
    raw: Bytes,
    children: NodeChildren,
}

#[derive(Debug)]
enum NodeChildren {
    Blocks(Slots<Block>),
    Nodes(Slots<TreeNode>),
}

impl Cacheable for TreeNode {
    const FRONT_BYTES: usize = 4 * CACHE_LINE_BYTES;

    fn front(&self) -> *const u8 {
        self.raw.as_ptr()
    }

    fn layout(&self) -> u64 {
        0
    }
}

impl TreeNode {
    /// A copy of the node that `raw` holds, which was checked.
    fn hold(raw: &[u8], cache: &Arc<Cache>) -> Result<Arc<Cached<Self>>> {
        let node = NodeView::at(raw)?;
        let (count, level) = (node.count(), node.level());
        let raw = cache.region().copy(raw, Margins { front: 0, back: 0 }).freeze();
        let children = match level {
            0 => NodeChildren::Blocks(Slots::new(cache, count)),
            _ => NodeChildren::Nodes(Slots::new(cache, count)),
        };
        let node = Self { raw, children };
        let bytes = node.memory_bytes();
        Ok(Arc::new(Cached::new(node, bytes)))
    }

    /// Bytes of memory it takes beside itself.
    fn memory_bytes(&self) -> usize {
        let count = self.view().count();
        let slot_bytes = match &self.children {
            NodeChildren::Blocks(_) => Slots::<Block>::bytes(count),
            NodeChildren::Nodes(_) => Slots::<Self>::bytes(count),
        };
        piece_bytes(self.raw.len()) + slot_bytes
    }

    /// The node.
    #[inline]
    pub fn view(&self) -> NodeView<'_> {
        NodeView::at(&self.raw).expect("the node was checked")
    }

    /// The slots of its blocks, if it is one of level 0.
    #[inline]
    pub fn blocks(&self) -> Option<&Slots<Block>> {
        match &self.children {
            NodeChildren::Blocks(slots) => Some(slots),
            NodeChildren::Nodes(_) => None,
        }
    }

    /// Whether a reader came by lately.
    fn is_used(&self) -> bool {
        match &self.children {
            NodeChildren::Blocks(slots) => slots.are_used(),
            NodeChildren::Nodes(slots) => slots.are_used(),
        }
    }
}

/// The root of a tree, from which everything else is found in the cache.
#[derive(Debug)]
pub struct CachedTree {
    root: Arc<Cached<TreeNode>>,
}

impl CachedTree {
    fn open(
        source: &TableSource,
        properties: &Properties,
        root: &Range<u64>,
        cache: &Arc<Cache>,
    ) -> Result<Self> {
        let root =
            source.read_frame(FrameKind::Node, root.start, root.end - root.start, |raw| {
                let node = NodeView::at(raw)?;
                node.check()?;
                check_root(&node, properties)?;
                TreeNode::hold(raw, cache)
            })?;
        Ok(Self { root })
    }

    /// Whether a reader came by lately.
    pub fn is_used(&self) -> bool {
        self.root.is_used()
    }

    /// See [`TreeIndex::descend`].
    pub fn descend(
        &self,
        source: &TableSource,
        cache: &Arc<Cache>,
        choose: impl Fn(&NodeView<'_>) -> usize,
    ) -> Result<Option<(Arc<Cached<TreeNode>>, usize)>> {
        let mut node = Arc::clone(&self.root);
        loop {
            let view = node.view();
            let at = choose(&view);
            if at >= view.count() {
                return Ok(None);
            }
            match &node.children {
                NodeChildren::Blocks(_) => return Ok(Some((node, at))),
                NodeChildren::Nodes(slots) => {
                    node = child(source, cache, &view, slots, at)?;
                }
            }
        }
    }
}

/// The child at `at` of `parent`: from its slot, or read and put there.
fn child(
    source: &TableSource,
    cache: &Arc<Cache>,
    parent: &NodeView<'_>,
    slots: &Slots<TreeNode>,
    at: usize,
) -> Result<Arc<Cached<TreeNode>>> {
    if let Some(node) = slots.get(at) {
        return Ok(node);
    }
    let frame = parent.child_place(at);
    if frame.end > source.length {
        return Err(source.locate(outside(), frame.start));
    }
    let node = source.read_frame(FrameKind::Node, frame.start, frame.end - frame.start, |raw| {
        let node = NodeView::at(raw)?;
        node.check()?;
        parent.check_child(at, &node)?;
        TreeNode::hold(raw, cache)
    })?;
    slots.insert(at, &node);
    Ok(node)
}

fn visit_cached(
    source: &TableSource,
    cache: &Arc<Cache>,
    node: &TreeNode,
    seen: &mut impl FnMut(&BlockInfo<'_>, u32) -> Visit,
) -> Result<()> {
    let view = node.view();
    for at in 0..view.count() {
        if seen(&view.info(at), view.level()) == Visit::Down
            && let NodeChildren::Nodes(slots) = &node.children
        {
            visit_cached(source, cache, &*child(source, cache, &view, slots, at)?, seen)?;
        }
    }
    Ok(())
}

/// Checks that the properties of a table describe what lies beneath its root.
pub fn check_root(root: &NodeView<'_>, properties: &Properties) -> Result<()> {
    let all = root.beneath();
    let agrees = root.first_block() == 0
        && all.offset == 0
        && root.end_block() == properties.data_frames
        && all.bytes == properties.data_bytes
        && all.entries == properties.meta.entries
        && properties.data_frames <= properties.data_bytes / FRAME_BYTES_MIN
        && !root.continues(0)
        && !root.is_continued(root.count() - 1);
    if agrees {
        Ok(())
    } else {
        Err(Error::corruption("the root of a table is not what its properties say"))
    }
}

#[cold]
fn outside() -> Error {
    Error::corruption("a node or leaf does not lie within its table")
}
