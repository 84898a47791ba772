//! Reports a table file: footer, properties, index and, block by block, entries.
//!
//! Footer, properties, index, filter and range tombstones are verified. Blocks are verified only if
//! their entries are asked for. The manifest says what a tree sees of a table.
//!
//! Several tables may share a file, one after the other. Each ends with a footer that has the
//! table's length, so they are found from the end of the file to its beginning.

use super::{
    line::{Detail, Line, OnLine, locate},
    manifest::{with_summary, with_unknown},
    wal::{kind_name, with_payload},
};
use siltdb_base::{
    error::{Error, Result},
    fs::{File, Fs},
};
use siltdb_disk::{
    block::BlockLayout,
    filter_keys::FilterKeys,
    frame::{Frame, FrameKind, FramePlace},
    options::Compression,
    table::{
        BlockInfo, Contents, FOOTER_BYTES, Footer, Properties, SealedBlock, TableLocation,
        TableScan,
    },
};
use siltdb_engine::open::foreign::check_not_foreign;
use siltdb_tree::options::TreeOptions;
use std::{path::Path, sync::Arc};

/// Reports every table in the file `path`, in the order of their offsets.
///
/// # Errors
/// `NotFound`; `Unsupported` and `Corruption`, with file and offset; the system's; the errors of
/// `on_line`. Everything before and after the damage is reported as far as possible.
pub fn inspect_table(fs: &dyn Fs, path: &Path, detail: Detail, on_line: OnLine<'_>) -> Result<()> {
    check_not_foreign(fs, path)?;
    let file = fs.open(path)?;
    let (places, found_all) = find_tables(&*file, path);
    on_line(
        Line::new("file")
            .with_file(path)
            .with_number("file_bytes", file.len())
            .with_number("tables", places.len() as u64),
    )?;
    let report = |(offset, footer): &(u64, Footer)| {
        let bytes = TableBytes { file: &file, path, offset: *offset, footer };
        report_table(&bytes, detail, on_line)
    };
    places.iter().try_for_each(report).and(found_all)
}

/// The tables of a file, and the error that ended the search.
fn find_tables(file: &dyn File, path: &Path) -> (Vec<(u64, Footer)>, Result<()>) {
    let mut places = Vec::new();
    let mut end = file.len();
    let mut found = if end == 0 {
        Err(locate(Error::corruption("the file is empty"), path, 0))
    } else {
        Ok(())
    };
    while end > 0 && found.is_ok() {
        match read_footer(file, path, end) {
            Ok(footer) => {
                end -= footer.table_bytes;
                places.push((end, footer));
            }
            Err(error) => found = Err(error),
        }
    }
    places.reverse();
    (places, found)
}

/// The footer of the table that ends at `end`.
fn read_footer(file: &dyn File, path: &Path, end: u64) -> Result<Footer> {
    let Some(at) = end.checked_sub(FOOTER_BYTES as u64) else {
        return Err(locate(Error::corruption("the bytes are not a table"), path, 0));
    };
    let mut bytes = [0; FOOTER_BYTES];
    file.read_exact_at(&mut bytes, at)
        .and_then(|()| Footer::decode(&bytes))
        .and_then(|footer| {
            // A right checksum does not prove that the lengths make sense.
            let least = (FOOTER_BYTES as u64).checked_add(footer.properties_bytes);
            let Some(least) = least.filter(|&least| least <= end) else {
                return Err(Error::corruption("properties longer than their table")
                    .with_mismatch(format_args!("at most {at} bytes"), footer.properties_bytes));
            };
            if (least..=end).contains(&footer.table_bytes) {
                return Ok(footer);
            }
            Err(Error::corruption("wrong length of a table")
                .with_mismatch(format_args!("{least}..={end}"), footer.table_bytes))
        })
        .map_err(|error| locate(error, path, at))
}

/// The place of a table.
struct TableBytes<'a> {
    file: &'a Arc<dyn File>,
    path: &'a Path,
    offset: u64,
    footer: &'a Footer,
}

impl TableBytes<'_> {
    fn read_properties(&self) -> Result<Properties> {
        let Footer { uid, table_bytes, properties_bytes } = *self.footer;
        // The length was checked against the file, so it is at most the length of the file.
        let offset = table_bytes - FOOTER_BYTES as u64 - properties_bytes;
        let mut frame = vec![0; properties_bytes as usize];
        let mut read = || {
            self.file.read_exact_at(&mut frame, self.offset + offset)?;
            let place = FramePlace { table: uid, offset };
            let mut raw = Vec::new();
            let frame = Frame::open(&frame, FrameKind::Properties, place)?;
            Properties::decode(frame.decode(None, &mut raw)?, table_bytes, properties_bytes)
        };
        read().map_err(|error| locate(error, self.path, self.offset + offset))
    }
}

fn report_table(bytes: &TableBytes<'_>, detail: Detail, on_line: OnLine<'_>) -> Result<()> {
    let footer = bytes.footer;
    let properties = bytes.read_properties()?;
    let line = Line::new("table")
        .with_number("offset", bytes.offset)
        .with_number("length", footer.table_bytes);
    on_line(with_summary(line, &properties.meta))?;
    let line = Line::new("properties")
        .with_number("data_frames", properties.data_frames)
        .with_number("data_bytes", properties.data_bytes)
        .with_number("filter_bytes", properties.filter_bytes)
        .with_number("range_tombstone_bytes", properties.tombstone_bytes)
        .with_number("index_frames", properties.index_bytes.len() as u64)
        .with_number("index_bytes", properties.index_bytes.iter().sum())
        .with_number("properties_bytes", footer.properties_bytes);
    let line = line.with("compression", compression_of(&properties).to_string());
    let line = match properties.dictionary_bytes {
        0 => line,
        bytes => line.with_number("dictionary_bytes", bytes),
    };
    let line = match properties.meta.filter_keys {
        FilterKeys::Whole => line,
        FilterKeys::WholeAndPrefixes(extractor) => line.with("prefixes", extractor.to_string()),
        FilterKeys::Prefixes(extractor) => {
            line.with("prefixes", format!("{extractor}, without whole keys"))
        }
    };
    on_line(with_unknown(line, &properties.unknown))?;
    if let Some(tree) = &properties.tree {
        let leaves = match tree.leaves {
            BlockLayout::Entries => "entries",
            BlockLayout::Searchable => "searchable",
        };
        let line = Line::new("tree").with_number("lowest_nodes", tree.lowest as u64);
        on_line(line.with("leaves", leaves))?;
    }
    if let Some(origin) = &properties.origin {
        let line = Line::new("origin").with_number("family", origin.family.0.into());
        on_line(line.with_bytes("name", origin.name.as_bytes()))?;
    }
    if let Some(external) = &properties.external {
        let line = Line::new("external").with_number("version", external.version);
        on_line(line.with_bytes("key_order", external.key_order.as_bytes()))?;
    }
    if detail < Detail::Records {
        return Ok(());
    }
    let (file, length) = (Arc::clone(bytes.file), footer.table_bytes);
    let table = TableScan::open(
        TableLocation::new(file, bytes.path, bytes.offset, length),
        &properties.meta,
    )?;
    let mut blocks = table.blocks()?;
    while let Some(info) = blocks.block() {
        on_line(block_line(blocks.number(), &info))?;
        if detail >= Detail::Operations {
            report_entries(&table.read_sealed(&info)?, on_line)?;
        }
        blocks.advance()?;
    }
    if detail >= Detail::Operations {
        report_tombstones(&table, on_line)?;
    }
    Ok(())
}

/// What the table was compressed with: as it says, or else as its family's options said.
fn compression_of(properties: &Properties) -> Compression {
    let by_origin = || TreeOptions::stored_compression(&properties.origin.as_ref()?.options);
    properties.compression.or_else(by_origin).unwrap_or_default()
}

fn block_line(index: usize, info: &BlockInfo<'_>) -> Line {
    let line = Line::new("block")
        .with_number("block", index as u64)
        .with_number("offset", info.offset)
        .with_number("length", info.bytes)
        .with_key("first_key", info.first_key)
        .with_key("last_key", info.last_key)
        .with_number("entries", info.entries)
        .with_number("sequence_max", info.sequence_max.0)
        .with("flags", flags(info.contents));
    match info.expiry_min_ms {
        Some(expiry_ms) => line.with_number("expiry_min_ms", expiry_ms),
        None => line,
    }
}

fn flags(contents: Contents) -> String {
    let names = [
        (Contents::TOMBSTONES, "tombstones"),
        (Contents::VERSIONS, "versions"),
        (Contents::EXPIRING, "expiring"),
        (Contents::MERGES, "merges"),
        (Contents::BLOB_POINTERS, "blob-pointers"),
    ];
    let set: Vec<_> =
        names.iter().filter(|(flag, _)| contents.has(*flag)).map(|&(_, name)| name).collect();
    if set.is_empty() { "plain".to_owned() } else { set.join("+") }
}

fn report_entries(sealed: &SealedBlock, on_line: OnLine<'_>) -> Result<()> {
    let block = sealed.block();
    let mut key = Vec::new();
    for place in 0..block.count() {
        let entry = block.entry(place);
        block.copy_key(place, &mut key);
        let line = Line::new("entry")
            .with_key("key", &key)
            .with_number("sequence", entry.sequence.0)
            .with("kind", kind_name(entry.kind));
        on_line(with_payload(line, entry.kind, entry.value)?)?;
    }
    Ok(())
}

fn report_tombstones(table: &TableScan, on_line: OnLine<'_>) -> Result<()> {
    table.tombstones().tombstones().try_for_each(|tombstone| {
        on_line(
            Line::new("range-tombstone")
                .with_key("start", &tombstone.start)
                .with_key("end", &tombstone.end)
                .with_number("sequence", tombstone.sequence.0),
        )
    })
}

#[cfg(test)]
mod tests;
