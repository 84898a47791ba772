//! The end of a table, after its data blocks: filter, range tombstones, dictionary, index,
//! properties and footer.

use super::TableWriter;
use crate::table::format::index_writer::IndexWriter;
use crate::table::format::properties::{Properties, TreeProperties};
use crate::table::format::table_end::{assert_whole, encode_end, is_to_be_stated};
use crate::table::format::tombstones;
use crate::{
    compress::{Codec, Compressor},
    fields::UnknownFields,
    frame::{FrameKind, FramePlace, seal},
    options::{Compression, TableKind},
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use siltdb_base::{
    error::{Error, Result},
    fs::WriteFile,
    slice::Slice,
    tombstone::Fragments,
};

impl<'f> TableWriter<'f> {
    /// Writes what is left and says what the table holds. The file is not synced.
    ///
    /// # Errors
    /// What writing the file fails with; `InvalidArgument`, if nothing was added.
    pub fn finish(self) -> Result<TableMeta> {
        self.finish_file().map(|(meta, _)| meta)
    }

    /// As [`TableWriter::finish`], and gives the file back.
    ///
    /// # Errors
    /// As [`TableWriter::finish`].
    pub fn finish_file(mut self) -> Result<(TableMeta, Box<dyn WriteFile + 'f>)> {
        self.finish_block()?;
        self.write_pending()?;
        self.assert_written();
        let fragments = Fragments::new(&self.tombstones);
        let Some(range) = self.range(&fragments) else {
            return Err(Error::invalid("a table must hold something"));
        };
        let data_bytes = self.file.written();
        let filter_bytes = self.write_filter()?;
        if self.dictionary.is_some() {
            self.compressor = Compressor::new(self.options.compression);
        }
        let tombstone_bytes = self.write_tombstones(&fragments)?;
        let dictionary_bytes = self.write_dictionary()?;
        let data_frames = self.index.blocks();
        let kind = self.options.kind;
        let index = std::mem::replace(&mut self.index, IndexWriter::new(kind));
        let frames = index.finish(|kind, raw| {
            let start = self.file.written();
            self.write_frame(kind, raw)?;
            Ok(start..self.file.written())
        })?;
        let leaves = self.layout;
        let tree =
            (kind == TableKind::BTree).then_some(TreeProperties { lowest: frames.lowest, leaves });
        let (mut oldest, mut newest) = (self.total.sequence_min, self.total.sequence_max);
        for tombstone in fragments.tombstones() {
            oldest = oldest.min(tombstone.sequence);
            newest = newest.max(tombstone.sequence);
        }
        let mut garbage = std::mem::take(&mut self.garbage);
        let blobs = garbage.take_blobs();
        let meta = TableMeta {
            uid: self.uid,
            range,
            entries: self.total.entries,
            point_tombstones: self.total.point_tombstones,
            range_tombstones: fragments.count() as u64,
            merge_operands: self.total.merge_operands,
            sequence_min: oldest,
            sequence_max: newest,
            expiry_min_ms: self.total.expiry_min_ms,
            logical_bytes: self.total.logical_bytes,
            file_bytes: 0,
            kind,
            filter_keys: self.options.filter_keys(),
            created_ms: self.created_ms,
            key_sketch: self.sample.finish(),
            garbage: garbage.finish(),
            blobs,
            unknown: UnknownFields::default(),
        };
        let compression = self.stated_compression();
        let properties = Properties {
            meta,
            data_bytes,
            data_frames,
            filter_bytes,
            tombstone_bytes,
            dictionary_bytes,
            index_bytes: frames.bytes,
            tree,
            origin: self.origin.take(),
            external: self.external.take(),
            compression,
            unknown: UnknownFields::default(),
        };
        self.write_end(properties)
    }

    /// All entries are in blocks that are written.
    fn assert_written(&self) {
        let is_written = self.block.is_empty() && self.pending.is_none();
        assert!(is_written, "a table ends without its last entries");
        let (bytes, has_key) = (self.file.written(), self.first_key.is_some());
        assert_eq!(bytes > 0, has_key, "{bytes} bytes of blocks, and their first key");
    }

    /// Writes one frame and returns its length.
    fn write_frame(&mut self, kind: FrameKind, raw: &[u8]) -> Result<u64> {
        let most = kind.raw_bytes_max(Codec::Raw);
        if raw.len() > most {
            return Err(Error::invalid("too many range tombstones for one table")
                .with_mismatch(most, raw.len()));
        }
        let place = FramePlace { table: self.uid, offset: self.file.written() };
        self.frame.clear();
        // Nodes are searched where they lie; the bits of a filter are as good as random.
        let mut none = Compressor::new(Compression::None);
        let compressor = match kind {
            FrameKind::Node | FrameKind::Filter | FrameKind::Dictionary => &mut none,
            _ => &mut self.compressor,
        };
        seal(kind, place, raw, compressor, &mut self.frame);
        self.append_frame(0)?;
        Ok(self.frame.len() as u64)
    }

    fn write_filter(&mut self) -> Result<u64> {
        if self.filter.count() == 0 {
            return Ok(0);
        }
        let mut raw = Vec::new();
        let filter = std::mem::take(&mut self.filter);
        filter.encode(self.options.filter_bits_per_key, &mut raw);
        self.write_frame(FrameKind::Filter, &raw)
    }

    /// The compression, if a reader would take it for another.
    fn stated_compression(&self) -> Option<Compression> {
        let own = self.options.compression;
        let differs = self.origin.is_some() && own != self.usual;
        (differs || is_to_be_stated(own, self.usual)).then_some(own)
    }

    /// Writes the dictionary, if there is one. All frames but those of data do without it, so that
    /// they are read before it.
    fn write_dictionary(&mut self) -> Result<u64> {
        match self.dictionary.take() {
            None => Ok(0),
            Some(dictionary) => self.write_frame(FrameKind::Dictionary, &dictionary),
        }
    }

    fn write_tombstones(&mut self, fragments: &Fragments) -> Result<u64> {
        if fragments.is_empty() {
            return Ok(0);
        }
        let mut raw = Vec::new();
        tombstones::encode(fragments, &mut raw);
        self.write_frame(FrameKind::RangeTombstones, &raw)
    }

    /// Writes properties and footer.
    fn write_end(mut self, properties: Properties) -> Result<(TableMeta, Box<dyn WriteFile + 'f>)> {
        assert_whole(&properties, self.file.written());
        let place = FramePlace { table: self.uid, offset: self.file.written() };
        let (meta, end) = encode_end(properties, place);
        self.file.append(&end)?;
        Ok((meta, self.file.into_file()))
    }

    /// The range of all keys; `None`, if there are none.
    fn range(&self, fragments: &Fragments) -> Option<KeySpan> {
        let points = self.first_key.as_ref().zip(self.last.as_ref());
        let points = points.map(|(first, (last, _))| KeySpan {
            first: first.clone(),
            last: Slice::copy_from(last),
            end: RangeEnd::Inclusive,
        });
        tombstones::united_range(points, fragments)
    }
}
