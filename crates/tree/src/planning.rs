//! What is worth doing: pure functions of a version say which compaction comes next.

pub mod borders;
pub mod plan;
pub mod descent;
pub mod pick_small;
pub mod pick_leveled;
pub mod pick_tiered;
pub mod pick_garbage;
pub mod pick_superseded;
pub mod pick_fifo;
pub mod strategy;
pub mod garbage_watch;
pub mod pick_range;
pub mod pick_tier;
pub mod pick_blobs;
