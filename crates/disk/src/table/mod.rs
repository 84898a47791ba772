//! Tables: immutable files of ordered entries, with range tombstones beside them.
//!
//! A table is a byte range of a file, so that several can share one. It does not say which tables
//! make up a tree, nor what a reader may see of their entries.
//!
//! ```text
//! | data frame, ... | filter frame | range tombstone frame | index frame, ... |
//! | properties frame | footer |
//! ```
//!
//! The frames touch: the index says where the data frames lie, the properties where the other
//! frames lie, and the footer where the properties lie. Offsets count from the start of the table,
//! so a table can be copied to another place of another file as it is.

mod facts;
mod sealed;
mod footer;
mod properties;
mod tombstones;
mod heads;
mod index;
mod writer;
mod mapped;
mod source;
mod ahead;
mod table_filter;
mod reader;
mod lookup;
mod cursor;
mod passing;
mod block_walk;
mod passing_cursor;
mod verify;
mod salvage;

pub use block_walk::BlockWalk;
pub use cursor::TableCursor;
pub use facts::Contents;
pub use footer::{FOOTER_BYTES, Footer};
pub use index::BlockInfo;

pub use lookup::Found;
pub use passing::PassingTable;
pub use passing_cursor::PassingCursor;
pub use properties::{Properties, ReplacedTable, TableOrigin};
pub use reader::Table;
pub use salvage::{
    LostEntries, LostList, SalvageCursor, TablePlace, TableSalvage, find_tables, table_origin,
};
pub use sealed::SealedBlock;
pub use table_filter::TableFilter;
pub use writer::TableWriter;

#[cfg(test)]
mod tests;
