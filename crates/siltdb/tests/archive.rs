//! Archives: exported, read, verified and imported; crashed and failed at each call; damaged and
//! foreign ones.
//!
//! # Seeded fault
//! `copy_without_a_sync`: an archive gets its name before it is durable.

mod world;
mod bad_input;
mod cleanup;
mod crash;
mod damage;
mod rounds;
mod writers;
