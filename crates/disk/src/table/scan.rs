//! Reading a table once from end to end, past the cache: for compactions, checks and salvage.

pub(super) mod table_scan;
pub(super) mod block_walk;
pub(super) mod scan_cursor;
pub(super) mod verify_tree;
pub(super) mod verify;
pub(super) mod salvage;
pub(super) mod witness;
