//! What a table file that no edit names tells of the state that it was written in.
//!
//! It reads the footer and the properties, and no entry.

use super::salvage::table_ending_at;
use crate::table::{format::properties::TableOrigin, read::source::TableSource};
use siltdb_base::{
    fs::File,
    id::{SequenceNumber, TableUid},
};
use std::{path::Path, sync::Arc};

/// What a table says of the state that it was written in.
#[derive(Clone, Debug)]
pub struct TableWitness {
    /// Where it comes from.
    pub origin: TableOrigin,
    /// The newest sequence number in it.
    pub newest: SequenceNumber,
}

/// What the last table of `file`, which lies at `path`, says of the state that it was written in;
/// `None` if that cannot be read. Reads the footer and the properties.
#[must_use]
pub fn table_witness(file: Arc<dyn File>, path: &Path) -> Option<TableWitness> {
    let offset = table_ending_at(&*file, file.len())?;
    let length = file.len() - offset;
    let (path, uid) = (path.to_owned(), TableUid(0));
    let mut source = TableSource { file, path, offset, length, uid, dictionary: None };
    source.uid = source.read_footer().ok()?.uid;
    let properties = source.read_properties(None).ok()?;
    Some(TableWitness { origin: properties.origin?, newest: properties.meta.sequence_max })
}
