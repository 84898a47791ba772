//! The tool from outside: each test runs the built `silt` in separate processes.
//!
//! Only `opening` and `history` use the library, to hold a database open.

mod place;
mod page;
mod opening;
mod follow;
mod options;
mod orders;
mod point;
mod take;
mod bucket;
mod buckets;
mod range;
mod rescue;
mod history;
mod branch;
mod transfer;
mod import;
mod dialects;
mod bulk;
mod upkeep;
mod backup;
mod archive;
mod tiers;
mod golden;
mod damage;
mod shell;
mod transactions;
mod terminal;
mod texts;
mod environment;
mod once;
mod documents;
