//! Opening a database: what its manifest and log say becomes its state, and what that rests on is
//! made durable.

pub mod directory;
pub mod lost_edits;
pub mod replay;
mod retained;
pub mod recovery;
pub mod destroy;
pub mod family_names;
pub mod close;
