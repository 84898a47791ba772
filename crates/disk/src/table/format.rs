//! What the bytes of a table mean: facts, frames, index, properties, footer.

pub(super) mod block_stats;
pub(super) mod sealed;
pub(super) mod footer;
pub(super) mod properties;
pub(super) mod table_end;
pub(super) mod tombstones;
pub(super) mod block_info;
pub(super) mod node;
pub(super) mod index;
pub(super) mod tree_builder;
pub(super) mod index_writer;
