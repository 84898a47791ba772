//! Memory in large stretches, on huge pages where the system has them.
//!
//! What is looked at in random order costs a miss of the processor's address cache at each look if
//! it lies on small pages, and the time of a page fault for each of them when it is first touched.

pub mod chunk;
pub mod extents;
pub mod region;
