//! The engines: each behind the traits of `engine`, configured as its authors advise.

pub mod null;
pub mod liar;
pub mod siltdb;
