//! Tests over damaged, failing, older and changed databases, one module for each subject, in one
//! program: each program links the whole engine.
//!
//! Programs of their own are those that take minutes or arguments: `metamorphic`, `simulation` and
//! `stress`.
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

mod damage;
mod damage_copies;
mod failing_calls;
mod families;
mod filters;
mod golden;
mod golden_archive;
mod golden_backup;
mod golden_codecs;
mod schema;
