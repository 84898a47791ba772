//! Archives: what a snapshot sees of some families, exported to one file, and imported from it.
//!
//! [`siltdb_disk::archive`] has the bytes. A directory may hold archives beside other files:
//!
//! ```text
//! NAME.siltar          an archive, whole
//! NAME.siltar.partial  one that is being written; worthless after a crash
//! siltar.lock          held while archives are made or removed
//! ```
//!
//! # Invariants
//! 1. A file that has the name of an archive is whole: it was synced and read back before.
//! 2. Only a file with such a name that begins as an archive is removed.
//! 3. An import is one edit: after a crash all of its families are there, or none.

pub mod place;
pub mod info;
pub mod create;
pub mod list;
pub mod cleanup;
pub mod import;

#[cfg(test)]
mod tests;
