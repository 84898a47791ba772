//! Merges the entries of a family and commits what a reader would see of them.

use super::{
    based::BasedCursor,
    find::{FoundFamily, FoundTable, Salvageable},
    report::SalvagedFamily,
    run::{SalvageRun, open_table, seen_tombstones, sorted_runs},
    scratch::ScratchTables,
};
use siltdb_base::{
    cursor::{EntryCursor, ForwardCursor, OnlyForward},
    error::{Error, Result},
    fs::{Fs, mem::MemFs},
    id::{BranchId, FamilyId, SequenceNumber},
    key::{BlobPointer, Entry, EntryKind},
    slice::Slice,
    sync::lock,
    tombstone::{Fragments, RangeTombstone},
};
use siltdb_disk::{
    batch::{BatchBytes, BatchOperation},
    prepared::{HeldLock, PreparedBatch},
    table::{LostEntries, LostList},
};
use siltdb_engine::{
    blobs::{Blobs, KnownBlobs, with_value},
    catalog::family::{DEFAULT_FAMILY, DEFAULT_FAMILY_ID, FamilyData},
    copies::branch::{check_out, create_empty_branch},
    engine::Engine,
    install::create_family,
    jobs::flush::flush_all,
    options::{Create, Durability, EngineOptions},
    reports::lost::Lost,
    transactions::prepared::prepare_again,
    write::commit::{Payload, commit},
};
use siltdb_tree::{
    read::merge::{Merge, MergeSource},
    read::visible::resolve::BlobSource,
    retain::{
        entries::{CompactionIter, Rules},
        stripes::{OlderEntries, Stripes},
    },
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// The size of operations that are committed together, in bytes.
const BATCH_BYTES: usize = 1 << 20;

/// The new database.
pub struct NewDatabase {
    engine: Engine,
    keeps: Keeps,
    /// The blob files of the old database.
    old_blobs: Option<Blobs>,
}

/// What a new database gets of what was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    /// Everything.
    All,
    /// All but the entries of the families: they are only counted.
    NoEntries,
}

impl NewDatabase {
    /// Creates it in `dir`, with the default family that was `found`.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn create(dir: &Path, mut options: EngineOptions, found: &Salvageable) -> Result<Self> {
        options.create = Create::New;
        if let Some(default) = found.families.get(&DEFAULT_FAMILY_ID) {
            options.tree = default.options.clone().or_writable();
        }
        // Substitutes, too: what is merged keeps its operands.
        let families = found.families.values();
        let operators = families.filter_map(|family| family.options.merge_operator.clone());
        options.merge_operators.extend(operators);
        let engine = Engine::open(dir, options)?;
        let sequence = engine.database().stats().sequence;
        assert_eq!(sequence, 0, "a salvage writes to a database that has commits");
        for family in found.families.values() {
            // Substitutes as well: a salvage filters nothing.
            engine.database().catalog.filters.learn(family.options.compaction_filter.as_ref())?;
        }
        Ok(Self { engine, keeps: Keeps::All, old_blobs: None })
    }

    /// Creates one for a dry run. It lies in memory, and refuses what one on disk would refuse.
    ///
    /// # Errors
    /// As [`NewDatabase::create`].
    pub fn in_memory(options: EngineOptions, found: &Salvageable) -> Result<Self> {
        let options = EngineOptions { fs: Arc::new(MemFs::new()), workers: 0, ..options };
        let database = Self::create(Path::new("dry-run"), options, found)?;
        Ok(Self { keeps: Keeps::NoEntries, ..database })
    }

    /// The same for an old database in `directory`, whose separated values are read there.
    #[must_use]
    pub fn of_old(self, directory: Arc<dyn Fs>) -> Self {
        Self { old_blobs: Some(Blobs::new(directory, KnownBlobs::Any)), ..self }
    }

    /// The kind and the payload of an entry with its value in place of a pointer.
    fn with_value(&self, kind: EntryKind, payload: Vec<u8>) -> Result<(EntryKind, Vec<u8>)> {
        let (EntryKind::BlobPointer, Some(blobs)) = (kind, &self.old_blobs) else {
            return Ok((kind, payload));
        };
        let pointer = BlobPointer::decode(&payload)?;
        blobs.read(&pointer).map(|value| with_value(&pointer, &value))
    }

    /// Creates the families that were `found`. Returns each with its tables and the new family.
    ///
    /// # Errors
    /// As [`create_family`].
    pub fn families(&self, found: &mut Salvageable) -> Result<Vec<(Salvaged, Arc<FamilyData>)>> {
        // What the old database has shown as expired is not shown again.
        self.engine.database().time.go_on_from(found.log.time);
        found.settle_branches();
        found.name_families();
        let of_branches = self.branches(found)?;
        let mut families = Vec::new();
        for (&id, family) in &found.families {
            let target = match (id, of_branches.get(&id)) {
                (DEFAULT_FAMILY_ID, _) => {
                    self.engine.database().catalog.families.named(DEFAULT_FAMILY)?
                }
                (_, Some(target)) => Arc::clone(target),
                _ => {
                    let options = family.options.clone().or_writable();
                    self.engine.at_work(|database| {
                        create_family(&database.installer(), &family.name, options)
                    })?
                }
            };
            let map = self.engine.database().catalog.families.load();
            let name = map.label(target.id, &target.name()).to_string();
            let family = FoundFamily { name, ..family.clone() };
            families.push((Salvaged { id, family }, target));
        }
        Ok(families)
    }

    /// Creates the branches that were `found`. Returns their new families by their old ids.
    fn branches(&self, found: &Salvageable) -> Result<BTreeMap<FamilyId, Arc<FamilyData>>> {
        let (mut families, mut ids) = (BTreeMap::new(), BTreeMap::new());
        ids.insert(BranchId::MAIN, BranchId::MAIN);
        for old in found.branches.iter() {
            let named = old.families.iter().map(|part| {
                let head = &found.families[&part.head];
                (&*head.name, head.options.clone().or_writable())
            });
            let named: Vec<_> = named.collect();
            let parent = ids.get(&old.parent).copied();
            let new =
                create_empty_branch(&self.engine.writable()?.installer(), old, parent, &named)?;
            ids.insert(old.id, new.id);
            let map = self.engine.database().catalog.families.load();
            let (heads, made) = (old.families.len(), new.families.len());
            assert_eq!(heads, made, "a branch of {heads} families is saved with {made}");
            for (old, new) in old.families.iter().zip(&new.families) {
                for (old, new) in [(old.head, new.head), (old.base, new.base)] {
                    families.extend(map.get(new).map(|family| (old, Arc::clone(family))));
                }
            }
        }
        if let Some(name) = found.branches.name(found.branches.checked_out()) {
            self.engine.at_work(|database| check_out(&database.installer(), name))?;
        }
        Ok(families)
    }

    /// Prepares a transaction that was found without a decision. `families` has those of the old
    /// database with what they became; operations and locks of others are left out.
    ///
    /// # Errors
    /// As [`prepare_again`].
    pub fn prepare(
        &self,
        transaction: &PreparedBatch,
        families: &[(FamilyId, Arc<FamilyData>)],
    ) -> Result<()> {
        let of = |id: FamilyId| families.iter().find(|(old, _)| *old == id).map(|(_, new)| new.id);
        let (mut batch, mut locks) = (BatchBytes::new(), Vec::new());
        for operation in transaction.batch.operations() {
            let operation = operation?;
            if let Some(family) = of(operation.family) {
                batch.push(&BatchOperation { family, ..operation })?;
            }
        }
        for held in &transaction.locks {
            let family = of(held.family);
            locks.extend(family.map(|family| HeldLock { family, ..held.clone() }));
        }
        let transaction = PreparedBatch { batch, locks, ..transaction.clone() };
        prepare_again(self.engine.writable()?, &transaction)
    }

    /// Flushes all memtables and closes the database.
    ///
    /// # Errors
    /// As [`flush_all`] and [`Engine::close`].
    pub fn close(&self) -> Result<()> {
        self.engine.at_work(|database| flush_all(&database.job_rooms()))?;
        self.engine.close()
    }
}

/// A family to save.
pub struct Salvaged {
    /// Its number in the old database.
    pub id: FamilyId,
    family: FoundFamily,
}

/// Commits the visible entries of a family to `target`.
///
/// # Errors
/// Failures of committing. Unreadable parts are added to `lost`.
pub fn write_family(
    database: &NewDatabase,
    salvaged: Salvaged,
    target: &Arc<FamilyData>,
    scratch: &ScratchTables,
    lost: &mut Vec<Lost>,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<SalvagedFamily> {
    let Salvaged { id, family } = salvaged;
    let list = LostList::default();
    // Of two entries with one key and sequence number, that of a table counts: it may include later
    // operands.
    let mut tables = family.tables;
    tables.extend_from_slice(scratch.tables(id));
    let tombstones = read_tombstones(&tables, &list);
    let runs = sorted_runs(&tables, &list);
    let source = |run| MergeSource { cursor: OnlyForward(run), sequence_max: SequenceNumber::MAX };
    let merge = Merge::new(runs.into_iter().map(source).collect());
    let tombstones = Arc::new(Fragments::new(&tombstones));
    let distinct = DistinctCursor::new(merge);
    let based = BasedCursor::new(distinct, scratch.retired(), Arc::clone(&tombstones));
    let mut cursor = OnlyForward(based);
    cursor.seek_to_first()?;
    let rules = Rules {
        stripes: Stripes::new(&[], SequenceNumber::MAX),
        tombstones,
        // At time 0 nothing has expired: readers of the new database compare with their own clock.
        now_ms: 0,
        operator: family.options.merge_operator.clone(),
        filter: None,
    };
    let mut retain = CompactionIter::new(cursor, rules, |_: &[u8]| OlderEntries::None);
    let mut writer = FamilyWriter::new(database, target, &list, on_bytes);
    while let Some(entry) = retain.next()? {
        writer.add(&entry)?;
    }
    writer.finish()?;
    let entries = writer.entries;
    let name = family.name;
    lost.extend(std::mem::take(&mut *lock(&list)).into_iter().map(|part| Lost::of(&name, part)));
    Ok(SalvagedFamily { name, entries, is_known: family.is_known })
}

/// The range tombstones of all tables that may have some.
fn read_tombstones(tables: &[FoundTable], lost: &LostList) -> Vec<RangeTombstone> {
    let mut tombstones = Vec::new();
    for table in tables.iter().filter(|table| table.reference.meta.range_tombstones > 0) {
        match open_table(table, lost) {
            Ok(salvage) => tombstones.extend(seen_tombstones(&salvage, table)),
            Err(part) => lock(lost).push(part),
        }
    }
    tombstones
}

/// Skips entries that exist twice: in a table and in the log, or in two copies of a table.
struct DistinctCursor {
    merge: Merge<OnlyForward<SalvageRun>>,
    key: Vec<u8>,
}

impl DistinctCursor {
    fn new(merge: Merge<OnlyForward<SalvageRun>>) -> Self {
        Self { merge, key: Vec::new() }
    }
}

impl ForwardCursor for DistinctCursor {
    fn entry(&self) -> Option<Entry<'_>> {
        self.merge.entry()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.merge.seek_to_first()
    }

    fn next(&mut self) -> Result<()> {
        let Some(entry) = self.merge.entry() else { return Ok(()) };
        let sequence = entry.sequence;
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        loop {
            self.merge.next()?;
            let repeats = self
                .merge
                .entry()
                .is_some_and(|next| next.sequence == sequence && next.key == self.key);
            if !repeats {
                return Ok(());
            }
        }
    }
}

/// Commits entries in order; those of one key from the oldest to the newest.
struct FamilyWriter<'a> {
    database: &'a NewDatabase,
    target: &'a Arc<FamilyData>,
    lost: &'a LostList,
    on_bytes: &'a mut dyn FnMut(u64),
    batch: BatchBytes,
    batch_bytes: usize,
    key: Vec<u8>,
    /// The retained versions of `key`, newest first.
    versions: Vec<(EntryKind, Vec<u8>)>,
    /// The number of keys with a value.
    entries: u64,
}

impl<'a> FamilyWriter<'a> {
    fn new(
        database: &'a NewDatabase,
        target: &'a Arc<FamilyData>,
        lost: &'a LostList,
        on_bytes: &'a mut dyn FnMut(u64),
    ) -> Self {
        Self {
            database,
            target,
            lost,
            on_bytes,
            batch: BatchBytes::new(),
            batch_bytes: 0,
            key: Vec::new(),
            versions: Vec::new(),
            entries: 0,
        }
    }

    fn add(&mut self, entry: &Entry<'_>) -> Result<()> {
        if !self.versions.is_empty() && entry.key != self.key {
            self.finish_key()?;
        }
        assert!(*self.key <= *entry.key, "a salvage goes back to the key {:?}", entry.key);
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.versions.push((entry.kind, entry.value.to_vec()));
        Ok(())
    }

    fn finish_key(&mut self) -> Result<()> {
        let (mut has_value, mut is_base_lost) = (false, false);
        let mut lost: Option<LostEntries> = None;
        for (kind, payload) in std::mem::take(&mut self.versions).into_iter().rev() {
            if let (true, EntryKind::Merge, Some(lost)) = (is_base_lost, kind, &mut lost) {
                // Without the value below them, operands give one that was never written.
                lost.entries_max = lost.entries_max.map(|entries| entries + 1);
                continue;
            }
            let writable = self.cannot_hold(kind).map_or(Ok(()), Err);
            let writable = writable.and_then(|()| self.database.with_value(kind, payload));
            let (kind, payload) = match writable {
                Ok(writable) => writable,
                Err(error) => {
                    let key = Some(Slice::copy_from(&self.key));
                    let entries = lost.take().and_then(|lost| lost.entries_max).unwrap_or(0) + 1;
                    let (first, last, entries_max) = (key.clone(), key, Some(entries));
                    lost = Some(LostEntries { first, last, entries_max, error });
                    is_base_lost = true;
                    continue;
                }
            };
            is_base_lost = false;
            has_value = !kind.is_point_tombstone();
            let bytes = self.key.len() + payload.len();
            if self.batch_bytes > 0 && self.batch_bytes + bytes > BATCH_BYTES {
                self.commit()?;
            }
            let (family, key, payload) = (self.target.id, &self.key[..], &payload[..]);
            self.batch.push(&BatchOperation { kind, family, key, payload })?;
            self.batch_bytes += bytes;
        }
        self.entries += u64::from(has_value);
        lock(self.lost).extend(lost);
        Ok(())
    }

    /// The reason why an entry of this kind cannot be written; `None` if it can.
    fn cannot_hold(&self, kind: EntryKind) -> Option<Error> {
        match kind {
            EntryKind::Merge => {
                let error = self.target.check_operator().err()?;
                Some(error.with_hint("the name of the family's merge operator is lost"))
            }
            _ => None,
        }
    }

    fn commit(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        if self.database.keeps == Keeps::All {
            let engine = &self.database.engine;
            commit(engine.writable()?, &Payload::batch(&batch), Durability::Volatile)?;
        }
        (self.on_bytes)(std::mem::take(&mut self.batch_bytes) as u64);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.finish_key()?;
        self.commit()?;
        let is_written = self.versions.is_empty() && self.batch.is_empty();
        assert!(is_written, "a salvage leaves out what it has read");
        Ok(())
    }
}
