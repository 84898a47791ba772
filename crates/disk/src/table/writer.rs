//! Writes a table: entries in order, blocks of other tables as they are, range tombstones.
//!
//! It neither syncs nor verifies: the caller owns the file, and reads the table back before using
//! it.

mod end;

use crate::table::filter_writer::FilterWriter;
use crate::table::format::block_stats::{BlockStats, Contents};
use crate::table::format::footer::FOOTER_BYTES;
use crate::table::format::index_writer::IndexWriter;
use crate::table::format::properties::{ExternalTable, TableOrigin};
use crate::table::format::sealed::SealedBlock;
use crate::table::pending::{PendingBlocks, SAMPLE_BYTES_MAX};
use crate::table::placed_file::PlacedFile;
use crate::table::writer_charge::WriterCharge;
use crate::{
    block::{BlockBuilder, BlockLayout},
    cache::Cache,
    compress::{COMPRESSED_RAW_BYTES_MAX, Compressor},
    frame::{FrameKind, FramePlace, enclose, seal},
    garbage::{GarbageBuilder, KeyPosition, SizedEntry},
    key_sketch::SketchBuilder,
    options::{Compression, TableKind, TableOptions},
    zstd::TRAINER_BYTES,
};
use siltdb_base::{
    checksum::xxh3,
    error::Result,
    fs::WriteFile,
    id::{SequenceNumber, TableUid},
    key::{Entry, SortKey},
    limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX, WRITE_BUFFER_BYTES},
    slice::Slice,
    tombstone::RangeTombstone,
};
use std::{cmp::Ordering, sync::Arc};

/// Longest value that is copied into a block, in bytes: none that may be compressed is longer. The
/// tests of this floor have a shorter one, so that they reach it.
const COPIED_BYTES_MAX: usize = if cfg!(test) { 100 << 10 } else { COMPRESSED_RAW_BYTES_MAX };

/// Bytes that a key takes until the filter is written: its hash, and its bits, twice.
const HASH_BYTES: usize = 12;

/// Bytes an expiring value has in front.
const EXPIRY_BYTES: usize = 8;

/// Writes one table to the end of a file.
///
/// After an error the file is worthless. Memory: one block, the index, and 8 bytes per key for the
/// filter. Longer values than 32 MiB are not compressed, and written from where they lie. A table
/// with a dictionary takes its samples as well until they are written, and the trainer meanwhile.
pub struct TableWriter<'f> {
    file: PlacedFile<'f>,
    options: TableOptions,
    uid: TableUid,
    compressor: Compressor,
    /// What a reader takes for the compression if the table does not state it.
    usual: Compression,
    /// Blocks that wait for the dictionary, if there is to be one and there is none yet.
    pending: Option<PendingBlocks>,
    /// The dictionary, if there is one.
    dictionary: Option<Vec<u8>>,
    block: BlockBuilder,
    /// Stats of the open block.
    stats: BlockStats,
    /// Stats of the finished blocks.
    total: BlockStats,
    index: IndexWriter,
    /// How its blocks are written.
    layout: BlockLayout,
    filter: FilterWriter,
    sample: SketchBuilder,
    garbage: GarbageBuilder,
    tombstones: Vec<RangeTombstone>,
    first_key: Option<Slice>,
    /// Key and sequence number of the last entry of the finished blocks.
    last: Option<(Vec<u8>, SequenceNumber)>,
    origin: Option<TableOrigin>,
    external: Option<ExternalTable>,
    created_ms: u64,
    raw: Vec<u8>,
    frame: Vec<u8>,
    /// Dropped last: the allocator then gives back what the others had.
    charge: Option<WriterCharge>,
}

impl<'f> TableWriter<'f> {
    /// A writer of a new table with a random `uid`, at the current end of `file`.
    ///
    /// # Panics
    /// If the options are not in their ranges, or this build cannot write their codec; see
    /// [`TableOptions::check`] and [`Compression::check_writable`].
    pub fn new(file: &'f mut dyn WriteFile, options: &TableOptions, uid: TableUid) -> Self {
        Self::owning(Box::new(file), options, uid)
    }

    /// As [`TableWriter::new`], for a writer that keeps its file.
    ///
    /// # Panics
    /// As [`TableWriter::new`].
    pub fn owning(file: Box<dyn WriteFile + 'f>, options: &TableOptions, uid: TableUid) -> Self {
        options.check().expect("options are checked where they are set");
        let dictionary_bytes = options.used_dictionary_bytes();
        Self {
            file: PlacedFile::new(file),
            options: *options,
            uid,
            compressor: Compressor::new(options.compression),
            usual: Compression::default(),
            pending: (dictionary_bytes > 0).then(|| PendingBlocks::new(dictionary_bytes)),
            dictionary: None,
            block: BlockBuilder::default(),
            stats: BlockStats::default(),
            total: BlockStats::default(),
            index: IndexWriter::new(options.kind),
            layout: match (options.kind, options.compression) {
                (TableKind::BTree, Compression::None) => BlockLayout::Searchable,
                _ => BlockLayout::Entries,
            },
            filter: FilterWriter::new(options),
            sample: SketchBuilder::default(),
            garbage: GarbageBuilder::default(),
            tombstones: Vec::new(),
            first_key: None,
            last: None,
            origin: None,
            external: None,
            created_ms: 0,
            raw: Vec::new(),
            frame: Vec::new(),
            charge: None,
        }
    }

    /// Charges the memory that the writer takes to the budget of `cache`, which gives way. At a
    /// small budget a dictionary is trained from fewer samples.
    #[must_use]
    pub fn with_charge(mut self, cache: &Arc<Cache>) -> Self {
        let charge = WriterCharge::new(cache);
        if let Some(pending) = &mut self.pending {
            pending.bound(charge.limit());
        }
        self.charge = Some(charge);
        self.recharge(0);
        self
    }

    /// Called once a block, with the bytes that are taken beside what the writer has.
    fn recharge(&mut self, beside: usize) {
        let Some(charge) = &mut self.charge else { return };
        // What is encoded of the filter lies beside the hashes in the end.
        let filter = self.filter.count() as usize * HASH_BYTES;
        let buffers = self.raw.capacity() + self.frame.capacity() + self.options.block_bytes;
        let pending = self.pending.as_ref().map_or(0, PendingBlocks::memory_bytes);
        let buffers = buffers + pending + self.compressor.memory_bytes() + beside;
        charge.follow(filter + self.index.raw_bytes() + buffers + WRITE_BUFFER_BYTES);
    }

    /// Says in the table which family it is written for. The options that `origin` has name `usual`
    /// as the compression; the table states its own if that is another.
    #[must_use]
    pub fn with_origin(mut self, origin: TableOrigin, usual: Compression) -> Self {
        self.origin = Some(origin);
        self.usual = usual;
        self
    }

    /// Says in the table that it is written outside of any database. The caller keeps the rules of
    /// [`ExternalTable`].
    #[must_use]
    pub fn with_external(mut self, external: ExternalTable) -> Self {
        self.external = Some(external);
        self
    }

    /// Says in the table when it is written, in ms since 1970.
    #[must_use]
    pub fn with_created_ms(mut self, created_ms: u64) -> Self {
        self.created_ms = created_ms;
        self
    }

    /// Adds an entry, which must follow those before it.
    ///
    /// # Errors
    /// What writing the file fails with; corruption, if the payload is not what the kind says or
    /// the kind is that of a range tombstone.
    ///
    /// # Panics
    /// If the entry is not after the one before, or key or value are longer than the limits: it
    /// would become durable.
    pub fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        assert!(entry.key.len() <= KEY_BYTES_MAX, "a key of {} bytes", entry.key.len());
        assert!(
            entry.value.len() <= VALUE_BYTES_MAX + EXPIRY_BYTES,
            "a value of {} bytes",
            entry.value.len()
        );
        let position = self.check_follows(entry.key, entry.sequence);
        if !self.block.is_empty()
            && self.block.raw_bytes_with(entry.key, entry.value.len()) > self.options.block_bytes
        {
            self.finish_block()?;
        }
        self.stats.add(entry.key.len(), entry.sequence, entry.kind, entry.value)?;
        let Entry { key, sequence, kind, value } = entry;
        let sized = SizedEntry { key_bytes: key.len(), sequence, kind, value };
        self.garbage.add(position, sized)?;
        self.add_sized(position, key, sized);
        if position == KeyPosition::Repeated && !self.block.is_empty() {
            self.stats.contents.add(Contents::VERSIONS);
        }
        if entry.value.len() > COPIED_BYTES_MAX {
            return self.add_alone(&entry);
        }
        self.block.add(entry);
        Ok(())
    }

    /// Writes the block of one long entry, whose facts are those of the open block.
    fn add_alone(&mut self, entry: &Entry<'_>) -> Result<()> {
        assert!(self.block.is_empty(), "it does not fit into a block with others");
        self.write_pending()?;
        let behind = BlockBuilder::encode_around_value(entry, self.layout, &mut self.raw);
        let place = FramePlace { table: self.uid, offset: self.file.written() };
        let envelope = enclose(FrameKind::Data, place, &[&self.raw, entry.value, &behind]);
        let start = self.file.written();
        for piece in [&envelope.head, &self.raw, entry.value, &behind, &envelope.checksum] {
            self.file.append(piece)?;
        }
        let last = SortKey::new(entry.key, entry.sequence);
        self.index.add(entry.key, last, &self.stats, self.file.written() - start);
        self.first_key.get_or_insert_with(|| Slice::copy_from(entry.key));
        self.last = Some((entry.key.to_vec(), entry.sequence));
        self.total.merge(&self.stats);
        self.stats = BlockStats::default();
        Ok(())
    }

    /// Adds a range tombstone; any order. An empty one vanishes.
    ///
    /// # Panics
    /// If it begins or ends at a key longer than the limit: it would become durable.
    pub fn add_tombstone(&mut self, tombstone: &RangeTombstone) {
        let bytes = tombstone.start.len().max(tombstone.end.len());
        assert!(bytes <= KEY_BYTES_MAX, "a range tombstone at a key of {bytes} bytes");
        self.tombstones.push(tombstone.clone());
    }

    /// Copies a block of another table, without encoding it again if blocks of this one are laid
    /// out as it is. Its entries must follow those before.
    ///
    /// The block was verified when it was read; its keys are hashed for filter and sample. An open
    /// block is finished first, however small.
    ///
    /// # Errors
    /// What writing the file fails with.
    ///
    /// # Panics
    /// If the block is not after what was added before: it would become durable.
    pub fn add_sealed(&mut self, sealed: &SealedBlock) -> Result<()> {
        let block = sealed.block();
        if block.is_searchable() != (self.layout == BlockLayout::Searchable) {
            return self.add_entries(sealed);
        }
        let mut key = Vec::new();
        block.copy_key(0, &mut key);
        let mut position = self.check_follows(&key, block.entry(0).sequence);
        self.finish_block()?;
        self.write_pending()?;
        let is_first = self.block.is_empty() && self.pending.is_none();
        assert!(is_first, "a block is copied in front of entries that were added before it");
        let first_key = Slice::copy_from(&key);
        for index in 0..block.count() {
            if index > 0 {
                let suffix = block.entry(index).suffix;
                position = match key[block.prefix().len()..] == *suffix {
                    true => KeyPosition::Repeated,
                    false => KeyPosition::First,
                };
                block.copy_key(index, &mut key);
            }
            let entry = SizedEntry::of_block(&block.entry(index), key.len());
            self.garbage.add(position, entry)?;
            self.add_sized(position, &key, entry);
        }
        let place = FramePlace { table: self.uid, offset: self.file.written() };
        let (covered, checksum) = sealed.sealed_for(place);
        let frame_bytes = covered.len() + checksum.len();
        assert_eq!(frame_bytes, sealed.frame_bytes(), "a copied frame of another length");
        self.file.append(covered)?;
        self.file.append(&checksum)?;
        let last = SortKey::new(&key, block.entry(block.count() - 1).sequence);
        self.index.add(&first_key, last, sealed.stats(), sealed.frame_bytes() as u64);
        self.total.merge(sealed.stats());
        self.first_key.get_or_insert(first_key);
        self.last = Some((last.key.to_vec(), last.sequence));
        self.recharge(0);
        Ok(())
    }

    /// Adds the entries of a block that is not laid out as those of this table.
    fn add_entries(&mut self, sealed: &SealedBlock) -> Result<()> {
        let block = sealed.block();
        let mut key = Vec::new();
        for index in 0..block.count() {
            block.copy_key(index, &mut key);
            let entry = block.entry(index);
            let (sequence, kind, value) = (entry.sequence, entry.kind, entry.value);
            self.add(Entry { key: &key, sequence, kind, value })?;
        }
        Ok(())
    }

    /// About the length of the table if it were finished now, in bytes. Blocks that wait for a
    /// dictionary do not count: they may shrink to a small part, and the table would end too early.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        let filter = self.filter.count() * u64::from(self.options.filter_bits_per_key) / 8;
        let open = if self.block.is_empty() { 0 } else { self.block.raw_bytes_with(b"", 0) };
        self.file.written() + filter + (open + self.index.raw_bytes() + FOOTER_BYTES) as u64
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
            && self.pending.as_ref().is_none_or(PendingBlocks::is_empty)
            && self.index.blocks() == 0
            && self.tombstones.is_empty()
    }

    /// Whether the entry that was added last is one of `key`.
    #[inline]
    #[must_use]
    pub fn ends_with(&self, key: &[u8]) -> bool {
        self.last().is_some_and(|last| last.key == key)
    }

    /// The position of an entry among those of its key.
    ///
    /// # Panics
    /// If it does not follow it.
    #[inline]
    fn check_follows(&self, key: &[u8], sequence: SequenceNumber) -> KeyPosition {
        let Some(last) = self.last() else { return KeyPosition::First };
        match last.key.cmp(key) {
            Ordering::Less => KeyPosition::First,
            Ordering::Equal if last.sequence > sequence => KeyPosition::Repeated,
            Ordering::Equal | Ordering::Greater => {
                panic!("entry {key:?} at {sequence} does not follow {last:?}")
            }
        }
    }

    /// The entry that was added last.
    #[inline]
    fn last(&self) -> Option<SortKey<'_>> {
        self.block.last().or(self.last.as_ref().map(|(key, sequence)| SortKey::new(key, *sequence)))
    }

    /// Adds an entry to sample and filter.
    #[inline]
    fn add_sized(&mut self, position: KeyPosition, key: &[u8], entry: SizedEntry<'_>) {
        match position {
            KeyPosition::First => {
                let hash = xxh3(key);
                self.sample.add(hash, || entry.occupied_bytes());
                self.filter.add(key, hash);
            }
            KeyPosition::Repeated => self.sample.add_version(|| entry.occupied_bytes()),
        }
    }

    fn finish_block(&mut self) -> Result<()> {
        let (Some(first), Some(end)) = (self.block.first_key(), self.block.last()) else {
            return Ok(());
        };
        debug_assert!(
            self.last
                .as_ref()
                .is_none_or(|(last, last_sequence)| { SortKey::new(last, *last_sequence) < end }),
            "checked entry by entry"
        );
        self.block.encode(self.layout, &mut self.raw);
        match &mut self.pending {
            Some(pending) => pending.add(&self.raw, first, end, &self.stats),
            None => {
                self.frame.clear();
                let place = FramePlace { table: self.uid, offset: self.file.written() };
                seal(FrameKind::Data, place, &self.raw, &mut self.compressor, &mut self.frame);
                self.index.add(first, end, &self.stats, self.frame.len() as u64);
            }
        }
        if self.first_key.is_none() {
            self.first_key = Some(Slice::copy_from(first));
        }
        let last = self.last.get_or_insert_default();
        last.0.clear();
        last.0.extend_from_slice(end.key);
        last.1 = end.sequence;
        self.total.merge(&self.stats);
        self.stats = BlockStats::default();
        self.block.clear();
        match &self.pending {
            Some(pending) if pending.is_enough() || self.raw.len() > SAMPLE_BYTES_MAX => {
                self.write_pending()
            }
            Some(_) => {
                self.recharge(0);
                Ok(())
            }
            None => self.append_frame(0),
        }
    }

    /// Trains the dictionary of the table, if there is to be one and there is none yet, and writes
    /// the blocks that waited for it.
    fn write_pending(&mut self) -> Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let waiting = pending.memory_bytes();
        self.dictionary = pending.train(|| self.recharge(waiting + TRAINER_BYTES));
        let (compression, dictionary) = (self.options.compression, self.dictionary.as_deref());
        self.compressor = Compressor::with_dictionary(compression, dictionary);
        for (block, raw) in pending.iter() {
            self.frame.clear();
            let place = FramePlace { table: self.uid, offset: self.file.written() };
            seal(FrameKind::Data, place, raw, &mut self.compressor, &mut self.frame);
            let last = SortKey::new(&block.last_key, block.last_sequence);
            self.index.add(&block.first_key, last, &block.stats, self.frame.len() as u64);
            self.append_frame(waiting)?;
        }
        Ok(())
    }

    fn append_frame(&mut self, beside: usize) -> Result<()> {
        self.recharge(beside);
        self.file.append(&self.frame)
    }
}
