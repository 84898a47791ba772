//! The verbs, in one module for each verb or group.
//!
//! A verb works on an open session; `command_line` parses the words and opens the database.

pub mod bucket;
pub mod step;
pub mod take;
pub mod point;
pub mod single_delete;
pub mod scan;
pub mod batch;
pub mod prepared;
pub mod txn;
pub mod transactions;
pub mod families;
pub mod import;
pub mod recover;
pub mod export;
pub mod destroy;
pub mod stats;
pub mod upkeep;
pub mod retain;
pub mod scrub;
pub mod backup;
pub mod archive;
pub mod checkpoint;
pub mod branch;
pub mod clone_family;
pub mod table;
pub mod ingest;
pub mod tier;
pub mod adopt;
pub mod watch;
pub mod follow;
pub mod inspect;
pub mod completions;
pub mod man;
pub mod ttl;
pub mod shell;
