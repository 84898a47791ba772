//! Copies a table that was written outside of any database into one, frame by frame.
//!
//! It neither syncs nor verifies: the caller owns the file, and reads the copy back.

use crate::table::format::properties::{Properties, TableOrigin};
use crate::table::format::table_end::{encode_end, is_to_be_stated};
use crate::table::scan::table_scan::TableScan;
use crate::{
    frame::{FRAME_BYTES_MIN, FramePlace, moved_checksum},
    options::Compression,
    table_meta::TableMeta,
};
use siltdb_base::{
    error::{Error, Result},
    fs::WriteFile,
    id::TableUid,
};
use std::sync::Arc;

/// What a copy has of its own.
#[derive(Clone, Debug)]
pub struct AdoptedTable {
    /// The random name, so that no two tables of a database have the same.
    pub uid: TableUid,
    /// Where it now belongs.
    pub origin: TableOrigin,
    /// The compression that the options of its family name.
    pub usual: Compression,
    /// When it came into the database, in ms since 1970.
    pub created_ms: u64,
}

/// Copies a table that was written outside of any database to the beginning of `file`. The file is
/// not synced; the caller reads the copy back.
///
/// `go_on` is called between two frames, and ends the copy by an error.
///
/// # Errors
/// Corruption, if the lengths of frames are not those of the table; what reading and writing fail
/// with; the errors of `go_on`.
pub fn adopt(
    table: &Arc<TableScan>,
    file: &mut dyn WriteFile,
    AdoptedTable { uid, origin, usual, created_ms }: AdoptedTable,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<TableMeta> {
    assert!(file.is_empty(), "frames are bound to their offsets");
    let (source, properties) = (&table.source, &table.properties);
    let end = properties.index_offset() + properties.index_bytes.iter().sum::<u64>();
    let (mut frame, mut offset) = (Vec::new(), 0);
    let mut copy = |bytes: u64| {
        if bytes < FRAME_BYTES_MIN || bytes > end - offset {
            let error = Error::corruption("the frames of a table do not fill it");
            return Err(source.locate(error.with_mismatch(end - offset, bytes), offset));
        }
        go_on()?;
        source.read(offset, bytes, &mut frame)?;
        let place = FramePlace { table: source.uid, offset };
        let checksum = moved_checksum(&frame, place, FramePlace { table: uid, ..place });
        file.append(&frame[..frame.len() - checksum.len()])?;
        file.append(&checksum)?;
        offset += bytes;
        Ok(())
    };
    let mut blocks = table.blocks()?;
    while let Some(bytes) = blocks.block().map(|info| info.bytes) {
        copy(bytes)?;
        blocks.advance()?;
    }
    let others = [properties.filter_bytes, properties.tombstone_bytes, properties.dictionary_bytes];
    let others = others.iter().filter(|&&bytes| bytes > 0).chain(&properties.index_bytes);
    others.copied().try_for_each(&mut copy)?;
    assert_eq!(offset, file.len(), "a frame of a copied table lies elsewhere in its file");
    let meta = TableMeta { uid, created_ms, ..properties.meta.clone() };
    let compression = properties.compression.unwrap_or_default();
    let properties = Properties {
        meta,
        origin: Some(origin),
        external: None,
        compression: Some(compression).filter(|&own| is_to_be_stated(own, usual)),
        ..properties.clone()
    };
    let (meta, bytes) = encode_end(properties, FramePlace { table: uid, offset: file.len() });
    file.append(&bytes)?;
    Ok(meta)
}
