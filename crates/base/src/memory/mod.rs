//! Memory in large stretches, on huge pages where the system has them.
//!
//! On small pages, a look at a random place costs a miss of the processor's address cache. The
//! first look at each page costs the time of a page fault, too.

pub mod allocator;
pub mod chunk;
pub mod extents;
pub mod large_vec;
pub mod region;
