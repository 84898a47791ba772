//! Reading a table at random: lookups and cursors through the cache or a mapping.

pub(super) mod dictionary;
pub(super) mod source;
pub(super) mod mapped;
pub(super) mod tree;
pub(super) mod loaded_frame;
pub(super) mod frame_index;
pub(super) mod contents;
pub(super) mod readahead;
pub(super) mod table_filter;
pub(super) mod filter_parts;
pub(super) mod reader;
pub(super) mod frame_part;
pub(super) mod frame_position;
pub(super) mod lookup;
pub(super) mod extent;
pub(super) mod key_block;
pub(super) mod tree_position;
pub(super) mod reach;
pub(super) mod cursor;
