//! Data that enters or stays without a write: clones, branches, ingested tables, history.
//!
//! It copies no file: tables are shared by reference.

pub mod retention;
pub mod family_clone;
pub mod ingest;
pub mod branch;
