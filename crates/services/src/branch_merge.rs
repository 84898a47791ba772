//! Merges of branches: what changed on one side since both had the same is applied to the other.
//!
//! It creates no branch, and does not say how conflicts are shown.
//!
//! 1. At a snapshot, base and both sides are walked together. A key that only the side merged from
//!    has changed becomes an operation of a batch. A key that both changed to different values is a
//!    conflict. Values are compared as readers see them, with their expiry.
//! 2. Between a branch and its parent, the branch gets its next bases: clones of the side merged
//!    from at the snapshot, in one edit.
//! 3. One record of the log commits the batch and makes the next bases the bases. It is validated
//!    as a transaction is: a key of the batch must not have changed after the snapshot.
//!
//! A crash before the record leaves both sides as they were, and next bases that the next merge of
//! the branch replaces. After the record, a second merge finds nothing of the first.
//!
//! # Seeded fault
//! `branch_merge_overwrites_a_conflict`: a merge that is to refuse conflicts takes the side merged
//! from.

use crate::branch_walk::{BranchWalk, SeenValue};
use siltdb_base::{
    error::{Error, Result},
    id::{BranchId, FamilyId},
    limits::{BRANCH_CONFLICTS_LISTED_MAX, BRANCH_MERGE_BYTES_MAX},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{batch::BatchBytes, branch_record::BranchRecord};
use siltdb_engine::{
    catalog::{Catalog, branches::Branches, family::FamilyChanges, family::FamilyData},
    copies::branch::{base_moved, begin_bases, head, heads},
    database::read_rooms::ReadRooms,
    database::writable::Writable,
    families::family_commit::commit_with_changes,
    options::Durability,
    read::begin_snapshot,
    snapshots::read_point::ReadPoint,
    transactions::conditional_commit::{Conditions, Writes, commit_if},
    write::locks::Writer,
};
use std::{borrow::Cow, sync::Arc};

/// What a merge does with a key that both sides have changed to different values.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// It changes nothing at all, and reports the conflicts.
    #[default]
    Refuse,
    /// It keeps what the side merged into has.
    Ours,
    /// It takes what the side merged from has.
    Theirs,
}

/// The result that a merge is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeGoal {
    /// Changed families, and a report.
    #[default]
    Changes,
    /// Only a report of what the merge would do.
    Report,
}

/// The two branches of a merge.
#[derive(Clone, Copy, Debug)]
pub struct MergeSides {
    /// Its changes are merged.
    pub from: BranchId,
    /// It gets them.
    pub into: BranchId,
}

/// Keys of which some say what the others mean, so that they cannot be merged one by one.
#[derive(Clone, Copy, Debug)]
pub struct LinkedKeys {
    /// How all of them begin.
    pub prefix: &'static [u8],
    /// Whether a key of them says what others mean.
    pub is_link: fn(&[u8]) -> bool,
}

/// How a branch is merged.
#[derive(Clone, Debug, Default)]
pub struct MergeRequest {
    /// Linked keys. A merge is refused if both sides have changed links, or if one has removed a
    /// link and the other has changed any of them.
    pub linked: Option<LinkedKeys>,
    /// The names of the families; `None`: all that the branch has.
    pub families: Option<Vec<String>>,
    /// What happens to conflicts.
    pub on_conflict: OnConflict,
    /// What is asked for.
    pub goal: MergeGoal,
}

/// The result of the merge of a branch.
#[non_exhaustive]
#[must_use = "a merge that met conflicts may have changed nothing"]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MergeReport {
    /// The number of keys that the merge has written, or would write.
    pub written: u64,
    /// The number of keys that both sides have changed to different values.
    pub conflicts: u64,
    /// The first of these keys, at most 1,000.
    pub conflicting_keys: Vec<ConflictingKey>,
    /// Whether the merge was made. It is not after conflicts that are refused, nor in a dry run.
    pub is_applied: bool,
}

/// A key that both sides of a merge have changed to different values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConflictingKey {
    /// The name of its family.
    pub family: String,
    /// The key.
    pub key: Vec<u8>,
}

/// What a merge does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Only the side merged into has changed it, or both in the same way, or neither.
    Keep,
    /// Only the side merged from has changed it.
    Take,
    /// Both have changed it, to different values.
    Conflict,
}

/// The one rule of merging.
fn outcome<V: PartialEq>(base: &V, from: &V, into: &V) -> Outcome {
    if from == base || from == into {
        Outcome::Keep
    } else if into == base {
        Outcome::Take
    } else {
        Outcome::Conflict
    }
}

/// The families of a merge that have one name.
struct MergedFamily {
    base: Arc<FamilyData>,
    from: Arc<FamilyData>,
    into: Arc<FamilyData>,
    /// The head that has the base.
    head: FamilyId,
}

/// Which branch has the bases of a merge.
struct Lineage {
    record: Arc<BranchRecord>,
    /// Whether the other side is its parent, so that its bases move.
    moves: bool,
}

/// Merges what the branch `from` of `sides` changed since its base into the branch `into`; or, if
/// `into` began with `from`, what `from` changed since then.
///
/// Cost: reads the keys of the tables that base and `from` do not share; memory for all that is
/// written; a flush and two edits.
///
/// # Errors
/// `InvalidArgument`, for branches that are the same or not related, and for more than
/// [`BRANCH_MERGE_BYTES_MAX`] bytes; `NotFound`, for a missing family; `Conflict`, if a commit
/// changed a key meanwhile, or another merge moved the bases; `Busy`, if locks are not released in
/// time; as [`commit_if`]. Nothing is merged then.
pub fn merge_branch(
    writable: Writable<'_>,
    sides: MergeSides,
    request: &MergeRequest,
) -> Result<MergeReport> {
    let database = writable.database();
    // Under the lock no merge is between its bases and its commit, so the snapshot has both.
    let changing = lock(&database.catalog.changing_io);
    let families = database.catalog.families.load();
    let at = begin_snapshot(&database.read_rooms());
    drop(changing);
    let lineage = lineage(families.branches(), sides)?;
    let merged = merged_families(&database.catalog, sides, &lineage.record, request)?;
    let mut merge = Merge::new(request.on_conflict);
    for family in &merged {
        merge.add(&database.read_rooms(), family, &at.point())?;
        if let Some(linked) = &request.linked {
            check_linked(&database.read_rooms(), linked, family, &at.point())?;
        }
    }
    let Merge { mut report, batch, differs, .. } = merge;
    let is_refused = report.conflicts > 0 && request.on_conflict == OnConflict::Refuse;
    let ignores_conflicts = seeded_fault!("branch_merge_overwrites_a_conflict");
    if is_refused && !ignores_conflicts || request.goal == MergeGoal::Report {
        return Ok(report);
    }
    let written = u64::from(batch.count());
    assert_eq!(report.written, written, "a merge commits other keys than it reports");
    let may_write = report.conflicts == 0 || request.on_conflict != OnConflict::Refuse;
    assert!(may_write, "a merge is made although {} conflicts refuse it", report.conflicts);
    report.is_applied = true;
    if !differs {
        return Ok(report);
    }
    let conditions = Conditions {
        snapshot: Some(at.sequence()),
        first_expiry: None,
        reads: None,
        writes: Writes::Checked,
        writer: Writer::plain(&database.options),
    };
    if !lineage.moves {
        commit_if(writable, &batch, Durability::Synced, &conditions)?;
        return Ok(report);
    }
    let sources: Vec<_> =
        merged.iter().map(|family| (family.head, Arc::clone(&family.from))).collect();
    let begun = begin_bases(&writable.job_rooms(), &lineage.record, &sources, &at)?;
    commit_with_bases(writable, &batch, &begun, &conditions)?;
    Ok(report)
}

/// Commits the batch of a merge, and makes the next bases of a branch its bases.
fn commit_with_bases(
    writable: Writable<'_>,
    batch: &BatchBytes,
    begun: &BranchRecord,
    conditions: &Conditions<'_>,
) -> Result<()> {
    let database = writable.database();
    let changes = || moved_bases(&database.catalog, begun).map(Cow::Owned);
    commit_with_changes(writable, batch, changes, conditions).map(drop)
}

/// The changes that make the next bases of a branch its bases. The caller holds `changing_io`.
fn moved_bases(catalog: &Catalog, begun: &BranchRecord) -> Result<FamilyChanges> {
    let families = catalog.families.load();
    let present = families.branches().get(begun.id)?;
    if present.families != begun.families {
        return Err(base_moved());
    }
    let mut record = (**present).clone();
    let mut dropped = Vec::new();
    for family in &mut record.families {
        if let Some(next) = family.next_base.take() {
            dropped.push(std::mem::replace(&mut family.base, next));
        }
    }
    for family in &record.families {
        let is_dropped = dropped.contains(&family.head) || dropped.contains(&family.base);
        assert!(!is_dropped, "a merge drops what a branch needs: {family:?}");
    }
    Ok(FamilyChanges { dropped, branches: vec![Arc::new(record)], ..FamilyChanges::default() })
}

/// Finds the branch whose bases both sides have in common.
fn lineage(branches: &Branches, sides: MergeSides) -> Result<Lineage> {
    let MergeSides { from, into } = sides;
    if from == into {
        return Err(Error::invalid("a branch cannot be merged into itself"));
    }
    if into != BranchId::MAIN {
        let record = branches.get(into)?;
        if record.parent == from {
            return Ok(Lineage { record: Arc::clone(record), moves: true });
        }
        if may_descend(branches, record, from) {
            return Err(Error::invalid("the branch did not begin with the one to merge from")
                .with_hint("merge along the branches between them, one after the other"));
        }
    }
    let record = Arc::clone(branches.get(from)?);
    let moves = record.parent == into;
    Ok(Lineage { record, moves })
}

/// Whether a branch began with `ancestor` by way of others. Of branches that were dropped only the
/// age is known: an ancestor is older.
fn may_descend(branches: &Branches, record: &BranchRecord, ancestor: BranchId) -> bool {
    let mut parent = record.parent;
    loop {
        if parent <= ancestor {
            return parent == ancestor;
        }
        match branches.get(parent) {
            Ok(record) => parent = record.parent,
            Err(_) => return true,
        }
    }
}

fn merged_families(
    catalog: &Catalog,
    sides: MergeSides,
    record: &BranchRecord,
    request: &MergeRequest,
) -> Result<Vec<MergedFamily>> {
    let names = match &request.families {
        Some(names) => names.clone(),
        None => heads(catalog, record.id)?.iter().map(|head| head.name().to_string()).collect(),
    };
    let families = catalog.families.load();
    let mut merged = Vec::new();
    for name in &names {
        let owner = head(catalog, record.id, name)?;
        let part = record.families.iter().find(|part| part.head == owner.id);
        let base = part.and_then(|part| families.get(part.base));
        let base = base.cloned().ok_or_else(base_moved)?;
        if merged.iter().any(|other: &MergedFamily| other.head == owner.id) {
            return Err(Error::invalid(format!("family {name:?} is named twice")));
        }
        let (from, into) = (head(catalog, sides.from, name)?, head(catalog, sides.into, name)?);
        let are_apart = from.id != into.id && base.id != from.id && base.id != into.id;
        assert!(are_apart, "family {name:?} is merged with itself");
        merged.push(MergedFamily { base, from, into, head: owner.id });
    }
    Ok(merged)
}

/// Refuses a merge that could give linked keys another meaning. What came from the other side by an
/// earlier merge does not count as changed.
fn check_linked(
    reading: &ReadRooms<'_>,
    linked: &LinkedKeys,
    family: &MergedFamily,
    point: &ReadPoint,
) -> Result<()> {
    let MergedFamily { base, from, into, .. } = family;
    // Encoded keys may begin like linked ones.
    if from.tree.options().key_order.is_some() {
        return Ok(());
    }
    let [theirs, ours] = [(from, into), (into, from)]
        .map(|(side, other)| changed_linked(reading, linked, [base, side, other], point));
    let (theirs, ours) = (theirs?, ours?);
    // Under a link that is gone, what the other side has written could not be found.
    let is_cut = theirs.cut && ours.any || ours.cut && theirs.any;
    if is_cut || theirs.links && ours.links {
        let name = from.name();
        return Err(Error::invalid(format!(
            "both branches changed the buckets of family {name:?}"
        ))
        .with_hint("merge before buckets are created, moved or deleted on both sides"));
    }
    Ok(())
}

/// What a side has changed of linked keys.
#[derive(Clone, Copy, Debug, Default)]
struct ChangedLinked {
    any: bool,
    links: bool,
    /// Links that are gone.
    cut: bool,
}

/// What `side` has changed of linked keys since `base`, in another way than `other`.
fn changed_linked(
    reading: &ReadRooms<'_>,
    linked: &LinkedKeys,
    [base, side, other]: [&FamilyData; 3],
    point: &ReadPoint,
) -> Result<ChangedLinked> {
    let mut changed = ChangedLinked::default();
    let mut walk = BranchWalk::new(reading, [base, side, other], point)?;
    while walk.advance()? {
        let key = walk.key();
        if !key.starts_with(linked.prefix) {
            if key > linked.prefix {
                break;
            }
            continue;
        }
        let [base, side, other] = walk.values()?;
        if side != base && side != other {
            changed.any = true;
            changed.links |= (linked.is_link)(key);
            changed.cut |= (linked.is_link)(key) && side.is_none();
        }
    }
    Ok(changed)
}

/// A merge as far as it was computed.
struct Merge {
    on_conflict: OnConflict,
    report: MergeReport,
    batch: BatchBytes,
    /// The bytes of the batch's keys and values.
    bytes: usize,
    /// Whether the side merged from has changed anything.
    differs: bool,
}

impl Merge {
    fn new(on_conflict: OnConflict) -> Self {
        let (report, batch) = (MergeReport::default(), BatchBytes::new());
        Self { on_conflict, report, batch, bytes: 0, differs: false }
    }

    fn add(
        &mut self,
        reading: &ReadRooms<'_>,
        family: &MergedFamily,
        point: &ReadPoint,
    ) -> Result<()> {
        let MergedFamily { base, from, into, .. } = family;
        let mut walk = BranchWalk::new(reading, [base, from, into], point)?;
        while walk.advance()? {
            let (key, [base, from, into]) = (walk.key(), walk.values()?);
            self.differs |= from != base;
            match outcome(&base, &from, &into) {
                Outcome::Keep => {}
                Outcome::Take => self.take(family, key, from)?,
                Outcome::Conflict => {
                    self.conflict(&family.into, key);
                    let ignores = seeded_fault!("branch_merge_overwrites_a_conflict");
                    if self.on_conflict == OnConflict::Theirs || ignores {
                        self.take(family, key, from)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds to the batch what the side merged from has.
    fn take(
        &mut self,
        family: &MergedFamily,
        key: &[u8],
        value: Option<SeenValue<'_>>,
    ) -> Result<()> {
        let id = family.into.id;
        self.bytes += key.len() + value.map_or(0, |value| value.bytes.len());
        if self.bytes > BRANCH_MERGE_BYTES_MAX {
            return Err(Error::invalid("the merge is too large for one commit, in bytes")
                .with_mismatch(format_args!("at most {BRANCH_MERGE_BYTES_MAX}"), "more")
                .with_hint("merge family by family"));
        }
        self.report.written += 1;
        match value {
            None => self.batch.delete(id, key),
            Some(SeenValue { bytes, expiry_ms: None }) => self.batch.put(id, key, bytes),
            Some(SeenValue { bytes, expiry_ms: Some(ms) }) => {
                self.batch.put_expiring(id, key, bytes, ms)
            }
        }
    }

    fn conflict(&mut self, family: &FamilyData, key: &[u8]) {
        self.report.conflicts += 1;
        let keys = &mut self.report.conflicting_keys;
        if keys.len() < BRANCH_CONFLICTS_LISTED_MAX {
            keys.push(ConflictingKey { family: family.name().to_string(), key: key.to_vec() });
        }
    }
}

#[cfg(test)]
mod tests;
