//! Tables: immutable files of ordered entries, with range tombstones beside them.
//!
//! A table is a byte range of a file, so that several can share one. It does not say which tables
//! make up a tree, nor what a reader may see of their entries.
//!
//! ```text
//! | data frame, ... | filter frame | range tombstone frame | dictionary frame |
//! | index frame, ... | properties frame | footer |
//! ```
//!
//! The frames touch: the index says where the data frames lie, the properties where the other
//! frames lie, and the footer where the properties lie. Offsets count from the start of the table,
//! so a table can be copied to another place of another file as it is.

mod format;
mod read;
mod scan;
mod pending;
mod placed_file;
mod writer_charge;
mod filter_writer;
mod writer;
mod adopt;

pub use format::block_info::BlockInfo;
pub use format::block_stats::Contents;
pub use format::footer::{FOOTER_BYTES, Footer};
pub use read::cursor::TableCursor;
pub use read::extent::Extent;
pub use scan::block_walk::BlockWalk;

pub use adopt::{AdoptedTable, adopt};
pub use format::properties::{
    ExternalTable, PartlyReplaced, Properties, ReplacedTable, TableOrigin,
};
pub use format::sealed::SealedBlock;
pub use read::lookup::FoundEntry;
pub use read::reach::Reach;
pub use read::reader::Table;
pub use read::source::TableLocation;
pub use read::table_filter::TableFilter;
pub use scan::salvage::{
    LostEntries, LostList, SalvageCursor, TablePlace, TableSalvage, find_tables,
};
pub use scan::scan_cursor::ScanCursor;
pub use scan::table_scan::TableScan;
pub use scan::witness::{TableWitness, table_witness};
pub use writer::TableWriter;

#[cfg(test)]
mod tests;
