//! The tool as a person meets it: each test runs the built `silt` in processes of their own.
//!
//! It does not look into the library.

mod place;
mod opening;
mod follow;
mod options;
mod point;
mod bucket;
mod range;
mod transfer;
mod import;
mod upkeep;
mod golden;
mod damage;
mod shell;
mod transactions;
mod terminal;
