//! The tests of the whole database, one module for each subject, in one program: each program links
//! the whole engine.
//!
//! Programs of their own are those whose tests change the process or measure it: `descriptors`,
//! `ground` and `memory_budget`.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

mod draw;
mod maps;

mod archive;
mod backup;
mod basic;
mod blobs;
mod branches;
mod buckets;
mod bulk;
mod checkpoint;
mod clones;
mod compaction_filter;
mod copied;
mod damage;
mod empty_ranges;
mod expiry;
mod feed;
mod feed_crash;
mod follower;
mod format;
mod handles;
mod histories;
mod history;
mod identity;
mod isolation;
mod keys_only;
mod locks;
mod many;
mod merge;
mod options;
mod pause;
mod place;
mod prefix_filters;
mod prepared;
mod prepared_crash;
mod read_only;
mod reads;
mod reopen;
mod rest;
mod schema;
mod scrub;
mod space;
mod steps;
mod styles;
mod table_kinds;
mod tiers;
mod transactions;
mod typed;
mod typed_verbs;
mod updates;
mod writes;
