//! Flushes and compactions: entries and blocks go from memory and tables into new tables.

pub mod below_output;
pub mod progress;
pub mod processor_share;
pub mod write_rate;
pub mod job;
pub mod table_form;
pub mod block_copy;
pub mod job_cursor;
pub mod output;
pub mod ingest;
pub mod flush;
pub mod steps;
pub mod compact;
pub mod load;
