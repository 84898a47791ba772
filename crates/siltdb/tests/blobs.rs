//! Separated values: every feature sees through them, crashes lose none, their space comes back.

#[path = "blobs/copies.rs"]
mod copies;
#[path = "blobs/crash.rs"]
mod crash;
#[path = "blobs/damage.rs"]
mod damage;
#[path = "blobs/expiring.rs"]
mod expiring;
#[path = "blobs/reads.rs"]
mod reads;
#[path = "blobs/space.rs"]
mod space;
#[path = "blobs/streams.rs"]
mod streams;
#[path = "blobs/world.rs"]
mod world;
