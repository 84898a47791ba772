//! The verbs, one module each or one for a group.
//!
//! A verb works on an open session; which database that is, and what the words of the command line
//! are, `command_line` decides.

pub mod bucket;
pub mod step;
pub mod point;
pub mod scan;
pub mod batch;
pub mod txn;
pub mod transactions;
pub mod import;
pub mod recover;
pub mod export;
pub mod families;
pub mod destroy;
pub mod upkeep;
pub mod checkpoint;
pub mod watch;
pub mod follow;
pub mod inspect;
pub mod completions;
pub mod shell;
