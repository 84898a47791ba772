//! What a read that pins a state needs of a database: a cursor, a snapshot, or a walk over many
//! keys.

use crate::{
    blobs::Blobs, catalog::Catalog, health::Health, log::Log, options::EngineOptions,
    snapshots::Snapshots,
};
use std::sync::Arc;

/// The rooms of a reader.
#[derive(Clone, Copy, Debug)]
pub struct ReadRooms<'a> {
    /// Whether the database is open.
    pub health: &'a Health,
    /// The published sequence number, up to which a reader sees.
    pub log: &'a Log,
    /// The snapshots, some of which keep a view.
    pub snapshots: &'a Arc<Snapshots>,
    /// Where separated values are read.
    pub blobs: &'a Arc<Blobs>,
    /// The families, for snapshots that keep views of those being filtered.
    pub catalog: &'a Catalog,
    /// The clock by which entries expire.
    pub options: &'a EngineOptions,
}
