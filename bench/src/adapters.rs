//! The engines, each behind the traits of `engine`, configured as its authors advise.

pub mod null;
pub mod liar;
pub mod btreemap;
pub mod siltdb;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "lmdb")]
pub mod lmdb;
#[cfg(feature = "mdbx")]
pub mod mdbx;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "sled")]
pub mod sled;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(feature = "thunder")]
pub mod thunder;

#[cfg(all(test, feature = "peers"))]
mod tests;
