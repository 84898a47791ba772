//! The contents of a copy that is made of a state: its tables, and its memtables as tables that are
//! written for the copy.
//!
//! Nothing is written to the database. It must be called while the follower reads nothing, because
//! states share their memtables with later ones.
//!
//! # Seeded fault
//! `follower_copy_misses_the_log`: memtables are left out.

use crate::contents::{
    AddedTables, BlobGrowth, CopyChoice, CopyContents, CopyState, chosen, without_log,
};
use siltdb_base::{
    error::Result,
    fs::Fs,
    id::{SegmentId, SequenceNumber},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    cache::Cache,
    edit::{Change, Edit},
};
use siltdb_engine::{
    database::Database,
    database::job_rooms::JobRooms,
    database::writable::Writable,
    install::snapshot,
    jobs::{context::with_context, space::stripes},
    lock_state::prepared_set::Undecided,
    memory::Memory,
};
use siltdb_tree::{
    files::open_files::OpenFiles,
    memory::Generation,
    rewrite::{
        flush::Flush,
        job::{JobContext, JobOutput},
        progress::Progress,
    },
};
use std::{collections::BTreeSet, sync::Arc};

/// The contents of a copy of `state`, or of families of it. `log_end` is the last segment that was
/// read. New tables are written to `target`, durably.
///
/// # Errors
/// `NotFound`, if there is no such family or branch; `Busy`, if a table was removed that must be
/// read; what writing tables fails with.
pub(super) fn contents_of(
    state: &Database,
    choice: Option<CopyChoice<'_>>,
    log_end: SegmentId,
    target: &Arc<dyn Fs>,
) -> Result<CopyContents> {
    let chosen = choice.map(|choice| chosen(&state.catalog, choice)).transpose()?;
    let added = write_memory(&state.memory, &Writable::of_read_only(state).job_rooms(), target)?;
    let manifest = state.catalog.ids.file();
    let last = state.log.publisher.published();
    let mut edit = snapshot(&state.catalog, &lock(&state.catalog.manifest_io), manifest);
    bring_up_to(&mut edit, last, state.prepared.flush_view(last).undecided);
    let growth = BlobGrowth::Possible;
    let state_then = CopyState { edit, manifest, last, log_end, growth };
    Ok(without_log(
        &Writable::of_read_only(state).installer(),
        state_then,
        chosen.as_ref(),
        Some(added),
    ))
}

/// Has an edit say what the log adds to the manifest, apart from entries and families.
fn bring_up_to(edit: &mut Edit, last: SequenceNumber, undecided: Vec<Undecided>) {
    let is_older =
        |change: &Change| matches!(change, Change::LastSequence(_) | Change::Prepared { .. });
    edit.changes.retain(|change| !is_older(change));
    edit.changes.push(Change::LastSequence(last));
    let prepared = |Undecided { number, transaction, .. }| Change::Prepared { number, transaction };
    edit.changes.extend(undecided.into_iter().map(prepared));
}

/// Writes all memtables to tables, the oldest generation first.
fn write_memory(
    memory: &Memory,
    rooms: &JobRooms<'_>,
    target: &Arc<dyn Fs>,
) -> Result<AddedTables> {
    // A cache of its own: file numbers are those of the copy.
    let cache = Cache::new(Arc::clone(&memory.budget), 0, rooms.options.table_memory());
    let files = OpenFiles::new(Arc::clone(target), rooms.options.read_io, cache);
    let families = rooms.catalog.families.load();
    let views = families.made().map(|family| family.tree.view());
    let generations: BTreeSet<Generation> = views
        .flat_map(|view| {
            view.memory.tables().iter().map(|table| table.generation).collect::<Vec<_>>()
        })
        .collect();
    let (stripes, count) = (stripes(rooms), generations.len());
    let write = |context: &JobContext<'_>, generation: Generation| -> Result<JobOutput> {
        let context = JobContext { files: &files, mover: None, rate: None, ..*context };
        let inputs = families.made().filter_map(|family| family.tree.flush_input(generation));
        let progress = Arc::new(Progress::default());
        Flush::new(inputs.collect(), stripes.clone(), progress, 1).run(&context)
    };
    let outputs = with_context(rooms, |context| {
        if seeded_fault!("follower_copy_misses_the_log") {
            return Ok(Vec::new());
        }
        generations.into_iter().map(|generation| write(context, generation)).collect()
    })?;
    assert_eq!(outputs.len(), count, "a copy leaves memtables out");
    Ok(AddedTables { files, outputs })
}
