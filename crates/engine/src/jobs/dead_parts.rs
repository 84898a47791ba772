//! Table files of which most is dead: small memtables of a generation share a file, which stays as
//! long as one of its tables.
//!
//! It chooses a table whose rewrite, into a file of its own, lets the others' part go; it removes
//! nothing.

use crate::{
    background::{FewDeadParts, JobState},
    catalog::Catalog,
    catalog::branches::FamilyRole,
    catalog::family::FamilyData,
    catalog::family_map::FamilyMap,
    catalog::lazy_family::LazyFamily,
    catalog::usage::SMALL_TABLE_BYTES_MAX,
};
use siltdb_base::{fs::Metadata, id::FileNumber, sync::lock};
use siltdb_disk::{edit::tier::Tier, file_name::FileName};
use siltdb_tree::{files::open_files::TableId, planning::plan::Plan, strategy::CompactionStrategy};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
};

/// Tables are rewritten if this part of all table files is dead, in percent, and of files of which
/// as much is. So a byte that is freed costs at most ten that are written.
const DEAD_PERCENT: u64 = 10;

/// What the families have in one table file.
#[derive(Default)]
struct Usage {
    /// Bytes of its tables, each counted once.
    live_bytes: u64,
    /// The same, counted for each reference: so much is written to leave the file.
    reference_bytes: u64,
    longest_bytes: u64,
    /// One of its tables.
    table: Option<(Arc<LazyFamily>, TableId)>,
    /// One of its tables is not rewritten, so the file stays.
    is_bound: bool,
}

/// What the families have in each hot table file.
fn usages(families: &FamilyMap) -> BTreeMap<FileNumber, Usage> {
    let (mut usages, mut seen) = (BTreeMap::<FileNumber, Usage>::new(), HashSet::new());
    for family in families.iter() {
        let is_fifo = matches!(family.options().compaction, CompactionStrategy::Fifo { .. });
        let stays = is_fifo || family.role == FamilyRole::Base;
        let version = family.version();
        let tables = version.tables().map(|(_, table)| table);
        for table in tables.filter(|table| table.reference().tier == Tier::Hot) {
            let usage = usages.entry(table.id().file).or_default();
            usage.reference_bytes += table.bytes();
            usage.longest_bytes = usage.longest_bytes.max(table.file_bytes());
            usage.is_bound |= stays;
            usage.table = Some((Arc::clone(family), table.id()));
            if seen.insert(table.id()) {
                usage.live_bytes += table.file_bytes();
            }
        }
    }
    usages
}

/// The rewrite of a table, noted as running, whose file is dead for a part that is worth it, and
/// more so than other files. `None` if there is none.
///
/// To be called when writers are idle. Cost: if enough may be dead since the last look, one at each
/// table, and at the length of each file of small tables.
#[must_use]
pub(crate) fn begin_leaving(
    catalog: &Catalog,
    jobs: &Mutex<JobState>,
) -> Option<(Arc<FamilyData>, Plan)> {
    let families = catalog.families.load();
    let is_much = |dead_bytes: u64, all_bytes: u64| {
        dead_bytes.saturating_mul(100) >= all_bytes.saturating_mul(DEAD_PERCENT)
            && catalog.families.is_worth_syncs(dead_bytes)
    };
    let before = lock(jobs).few_dead_parts;
    // Read after `few_dead_parts`, so that it is not less than the `left_bytes` there.
    let left_bytes = catalog.families.usage().left_bytes();
    if let Some(before) = before {
        let since = left_bytes - before.left_bytes;
        let all_bytes = before.all_bytes.saturating_sub(since);
        if !is_much(before.dead_bytes.saturating_add(since), all_bytes) {
            return None;
        }
    }
    let usages = usages(&families);
    let directory = catalog.files.directory();
    let (mut all_bytes, mut dead_bytes, mut worst) = (0, 0, None);
    for (file, usage) in usages {
        all_bytes += usage.live_bytes;
        if usage.longest_bytes > SMALL_TABLE_BYTES_MAX {
            continue;
        }
        let Ok(Some(Metadata::File { len })) = directory.metadata(&FileName::Table(file).to_path())
        else {
            continue;
        };
        let dead = len.saturating_sub(usage.live_bytes);
        all_bytes += dead;
        dead_bytes += dead;
        let part = dead * 100 / usage.reference_bytes.max(1);
        let is_worse = worst.as_ref().is_none_or(|(most, _)| part > *most);
        if part >= DEAD_PERCENT && !usage.is_bound && is_worse {
            worst = usage.table.map(|table| (part, table));
        }
    }
    let is_due = is_much(dead_bytes, all_bytes) && worst.is_some();
    if worst.is_none() {
        dead_bytes = 0;
    }
    let few = FewDeadParts { dead_bytes, all_bytes, left_bytes };
    lock(jobs).few_dead_parts = (!is_due).then_some(few);
    if !is_due {
        return None;
    }
    let (_, (family, table)) = worst?;
    let family = Arc::clone(family.get());
    let plan = family.tree.begin_copy(table)?;
    Some((family, plan))
}
