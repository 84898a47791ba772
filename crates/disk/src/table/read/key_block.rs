//! Blocks that stand for data blocks when only the key is wanted.
//!
//! A value of about the size of a block or more has a block of its own, and the index holds the
//! block's first key. A walk over keys alone need not read such a block.

use crate::table::format::block_info::BlockInfo;
use crate::table::format::block_stats::Contents;
use crate::{
    block::{Block, BlockBuilder, BlockLayout},
    cache::Cached,
};
use siltdb_base::key::{Entry, EntryKind};
use std::sync::Arc;

/// A block that shows the key of the block that `info` describes with an empty value. `None` unless
/// the index tells that the block has one entry, a `Put` without an expiry. Costs no read, and must
/// not get into the cache.
pub(in crate::table) fn key_block(info: &BlockInfo<'_>) -> Option<Arc<Cached<Block>>> {
    if info.entries != 1 || info.contents != Contents::PLAIN {
        return None;
    }
    let (key, sequence) = (info.first_key, info.last_sequence);
    let mut raw = Vec::with_capacity(key.len() + 16);
    let entry = Entry { key, sequence, kind: EntryKind::Put, value: b"" };
    BlockBuilder::encode_around_value(&entry, BlockLayout::Entries, &mut raw);
    let block = Block::parse(&raw).expect("what was encoded is a block");
    let bytes = block.bytes();
    Some(Arc::new(Cached::new(block, bytes)))
}
