//! Opening a database: its state is read from manifest and log, and everything it depends on is
//! made durable.

pub mod foreign;
pub mod outside;
pub mod directory;
pub mod cold;
pub mod lost_edits;
pub mod keep;
mod inventory;
mod orphans;
pub mod replay;
pub mod identity;
pub mod blob_loss;
mod rewrite;
mod retained;
pub mod manifest_watch;
pub mod recovery;
pub mod destroy;
pub mod family_names;
pub mod close;
