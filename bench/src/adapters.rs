//! The engines: each behind the traits of `engine`, configured as its authors advise.

pub mod null;
pub mod liar;
pub mod siltdb;
#[cfg(feature = "peers")]
pub mod fjall;
#[cfg(feature = "peers")]
pub mod lmdb;
#[cfg(feature = "peers")]
pub mod redb;
#[cfg(feature = "peers")]
pub mod sled;
#[cfg(feature = "peers")]
pub mod thunder;

#[cfg(all(test, feature = "peers"))]
mod tests;
