//! The states of a follower: databases that are read only and never change.
//!
//! A state shares tables, memtables and cache with the states before it. Families in which nothing
//! has changed are shared as a whole. A family that got entries is made anew, because what readers
//! have cached in the old one (empty ranges, folds) does not hold for the new entries.

use crate::follow::{
    base::{Base, Given},
    log_memory::LogMemory,
};
use siltdb_base::{
    clock::{Clock, ForwardClock},
    error::{Error, Result},
    id::{FamilyId, SequenceNumber},
};
use siltdb_disk::{log::record::LogPosition, prepared::PreparedBatch};
use siltdb_engine::{
    catalog::{
        Catalog,
        family::{DEFAULT_FAMILY, FamilyData},
        family_map::{Families, FamilyMap, FamilyMapBuilder},
        id_allocator::IdAllocator,
        manifest::Manifest,
    },
    database::{Database, Parts, job_rooms::Waiting},
    families::family_commit::replay_changes,
    kit::random::Random,
    log::{
        Log,
        publish::Publisher,
        sequencer::Sequencer,
        wal::{LogStart, Wal},
    },
    memory::Memory,
    options::EngineOptions,
    transactions::prepared,
};
use siltdb_tree::{compaction_filter::CompactionFilters, memory::Memtables, tree::Tree};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
    sync::Arc,
};

/// The families of a new base, with the changes and entries of the log.
///
/// # Errors
/// `Corruption`, if the changes of the log do not fit, as when the base is older than they are.
pub(super) fn families_of(base: &Base, memory: &LogMemory, given: Given<'_>) -> Result<FamilyMap> {
    let mut map = base.families.branches_alone();
    for family in base.families.iter() {
        // No state may share a family that is marked as dropped below.
        map.add_lazy(family.copy_of_tables())?;
    }
    let families = Families::default();
    families.store(map.finish()?, &[], &[]);
    let target = given.target(&families);
    for (at, edit) in memory.changes_from(base.log.families) {
        replay_changes(&target, edit.clone(), *at, &mut Vec::new())?;
    }
    families
        .named(DEFAULT_FAMILY)
        .map_err(|_| Error::corruption("the default family is missing"))?;
    attach(families.load().to_builder(), &memory.families(), memory, given)
}

/// The map in which the families in `changed` that exist have the memtables that `memory` has now.
///
/// # Errors
/// None for a sound map.
pub(super) fn attach(
    mut map: FamilyMapBuilder,
    changed: &BTreeSet<FamilyId>,
    memory: &LogMemory,
    given: Given<'_>,
) -> Result<FamilyMap> {
    for id in changed {
        let Some(family) = map.map().get(*id).cloned() else { continue };
        map.remove(*id)?;
        map.add(Arc::new(remade(&family, memory.memtables(*id), given)))?;
    }
    map.finish()
}

/// The same family with these memtables, and nothing cached.
fn remade(family: &FamilyData, memory: Memtables, given: Given<'_>) -> FamilyData {
    let tree = Tree::new(family.id, family.tree.options(), Arc::clone(given.files));
    let version = Arc::clone(&family.tree.view().version);
    FamilyData::new(family.id, &family.name(), tree.with_view(memory, version))
        .with_role(family.role)
}

/// What a state is made of.
#[derive(Debug)]
pub(super) struct StateParts<'a> {
    /// The directory of the database, as it was given.
    pub dir: &'a Path,
    /// The options of the follower.
    pub options: &'a EngineOptions,
    /// The clock of expiry.
    pub time: &'a Arc<ForwardClock>,
    /// The memory that all states share.
    pub memory: &'a Memory,
    /// What the families were made with.
    pub given: Given<'a>,
    /// The manifest.
    pub base: &'a Base,
    /// The families.
    pub families: FamilyMap,
    /// The transactions that are prepared and not decided.
    pub undecided: BTreeMap<SequenceNumber, Arc<PreparedBatch>>,
    /// The last sequence number that readers see.
    pub last: SequenceNumber,
    /// The records of the log that were read.
    pub records: u64,
}

impl StateParts<'_> {
    /// The state.
    pub(super) fn database(self) -> Database {
        let Self { dir, options, time, memory, given, base, families, .. } = self;
        let (last, records) = (self.last, self.records);
        // The log may have created families.
        let ids = families.iter().map(|family| FamilyId(family.id.0.saturating_add(1)));
        let next_family =
            ids.max().map_or(base.log.next_family, |next| next.max(base.log.next_family));
        let all = Families::default();
        all.store(families, &[], &[]);
        let directory = given.files.directory();
        let mut options = options.clone();
        options.clock = Arc::clone(time) as Arc<dyn Clock>;
        let mut random = Random::new(options.seed);
        // Nothing is written: the log has no segment, and the manifest no file.
        let wal = Wal::new(
            Arc::clone(directory),
            options.log_io,
            0,
            &LogStart::default(),
            Random::new(Some(random.next_u64())),
        );
        let manifest = Manifest::new(Arc::clone(directory), None, None, base.log.clone());
        let ids = IdAllocator::new(base.log.next_file, next_family, random);
        let now_ns = options.clock.monotonic_ns();
        let sequencer = Sequencer::new(last, LogPosition::ZERO);
        let log = Log::new(wal, sequencer, Publisher::new(last), now_ns);
        let files = Arc::clone(given.files);
        // A follower compacts nothing.
        let blobs = Arc::clone(given.blobs);
        let (operators, filters) = (given.operators.to_vec(), CompactionFilters::default());
        let database = Database::new(Parts {
            dir: dir.to_owned(),
            memory: memory.clone(),
            log: log.with_replayed(records, VecDeque::new()),
            catalog: Catalog::new(all, files, operators, filters, ids, manifest),
            blobs,
            options,
            time: Arc::clone(time),
            waiting: Waiting::RunJob(|_| Ok(false)),
        });
        prepared::restore(&database, self.undecided);
        database
    }
}
