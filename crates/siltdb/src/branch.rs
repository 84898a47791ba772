//! Branches: named clones of many families, compared with each other and merged.
//!
//! The engine decides what a branch is; this file gives it a public shape. A handle never changes
//! what it means: which branch is checked out matters to programs that ask for it, as `silt` does.

use crate::{
    bucket::{BUCKET_KEY_PREFIX, is_link},
    db::Db,
    family::Family,
    snapshot::Snapshot,
    source::ReadPlace,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::BranchId,
    slice::Slice,
};
use siltdb_disk::branch_record::BranchRecord;
use siltdb_engine::{
    catalog::{branches::MAIN, family::DEFAULT_FAMILY, family::FamilyData},
    copies::branch::{check_out, create_branch, drop_branch, head, heads, rename_branch},
};
use siltdb_services::{
    branch_merge::{
        LinkedKeys, MergeGoal, MergeReport, MergeRequest, MergeSides, OnConflict, merge_branch,
    },
    branch_walk::{BranchWalk, SeenValue},
};
use std::{collections::BTreeSet, fmt, iter::FusedIterator, sync::Arc, vec};

/// What [`Db::create_branch_with`] makes a branch of.
#[derive(Clone, Debug, Default)]
pub struct BranchOptions {
    families: Option<Vec<String>>,
    from: Option<String>,
    at: Option<Snapshot>,
}

impl BranchOptions {
    /// All families of `main`, as they are now.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of the families that the branch has. Default: all that the branch it begins with
    /// has.
    #[must_use]
    pub fn families<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.families = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// The branch that it begins with, its parent. Default: `main`.
    #[must_use]
    pub fn from(mut self, branch: impl Into<String>) -> Self {
        self.from = Some(branch.into());
        self
    }

    /// The moment at which it begins. A family that was created later is there and empty. Default:
    /// now.
    #[must_use]
    pub fn at(mut self, snapshot: &Snapshot) -> Self {
        self.at = Some(snapshot.clone());
        self
    }
}

/// What a branch is, as [`Db::branches`] lists it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchInfo {
    /// Its name.
    pub name: String,
    /// The present name of the branch that it began with; `None` if that was dropped.
    pub parent: Option<String>,
    /// It began with what its parent held at this sequence number.
    pub sequence: u64,
    /// When it was created, in ms since 1970.
    pub created_ms: u64,
    /// The names of its families, sorted.
    pub families: Vec<String>,
    /// Whether it is checked out.
    pub is_checked_out: bool,
}

/// How [`Db::merge_branch_with`] merges.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    request: MergeRequest,
    into: Option<String>,
}

impl MergeOptions {
    /// All families, into `main`, and nothing if there is a conflict.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The branch to merge into. Default: `main`.
    #[must_use]
    pub fn into_branch(mut self, branch: impl Into<String>) -> Self {
        self.into = Some(branch.into());
        self
    }

    /// The names of the families to merge. The bases of others stay. Default: all of the branch.
    #[must_use]
    pub fn families<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.request.families = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// What happens to keys that both sides have changed to different values. Default:
    /// [`OnConflict::Refuse`].
    #[must_use]
    pub fn on_conflict(mut self, rule: OnConflict) -> Self {
        self.request.on_conflict = rule;
        self
    }

    /// Whether the merge only reports what it would do. Default: no.
    #[must_use]
    pub fn dry_run(mut self, dry: bool) -> Self {
        self.request.goal = if dry { MergeGoal::Report } else { MergeGoal::Changes };
        self
    }
}

/// A branch of an open database. It keeps the database open, and stays valid when the branch is
/// renamed. After the branch was dropped, its calls fail with `NotFound`.
///
/// Its families are handles as any other: batches and transactions may use them together with those
/// of `main` and of other branches.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::Read;
///
/// db.put("key", "of main")?;
/// let branch = db.create_branch("feature")?;
/// branch.default_family()?.put("key", "of the branch")?;
/// assert_eq!(db.get("key")?.as_deref(), Some(&b"of main"[..]));
/// let report = db.merge_branch("feature")?;
/// assert!(report.is_applied && report.written == 1);
/// assert_eq!(db.get("key")?.as_deref(), Some(&b"of the branch"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Branch {
    place: ReadPlace,
    id: BranchId,
}

impl fmt::Debug for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Branch");
        // That of a branch that was dropped is not known any more.
        if let Ok(name) = self.name() {
            fields.field("name", &name);
        }
        fields.field("id", &self.id.0).field("database", &self.place.engine.database().dir).finish()
    }
}

impl Branch {
    /// Returns the present name.
    ///
    /// # Errors
    /// `NotFound`, if the branch was dropped.
    pub fn name(&self) -> Result<String> {
        let families = self.place.engine.database().catalog.families.load();
        match families.branches().name(self.id) {
            Some(name) => Ok(name.to_owned()),
            None => Err(Error::new(ErrorKind::NotFound, "the branch was dropped")),
        }
    }

    /// Returns the family of the branch called `name`.
    ///
    /// # Errors
    /// `NotFound`, if the branch has no such family, or was dropped.
    pub fn family(&self, name: &str) -> Result<Family> {
        let family = head(&self.place.engine.database().catalog, self.id, name)?;
        Ok(Family { place: ReadPlace { family, ..self.place.clone() } })
    }

    /// Returns the family `default` of the branch.
    ///
    /// # Errors
    /// As [`Branch::family`].
    pub fn default_family(&self) -> Result<Family> {
        self.family(DEFAULT_FAMILY)
    }

    /// Returns the names of the branch's families, sorted.
    ///
    /// # Errors
    /// `NotFound`, if the branch was dropped.
    pub fn families(&self) -> Result<Vec<String>> {
        let heads = heads(&self.place.engine.database().catalog, self.id)?;
        Ok(heads.iter().map(|family| family.name().to_string()).collect())
    }
}

impl Db {
    /// Creates a branch with what all families of `main` hold now. From then on neither sees what
    /// is written to the other. The branch is durable on return, and outlives its parent. A name
    /// has 1 to 255 bytes and no control characters.
    ///
    /// The families of a branch are found by [`Branch::family`] alone: they are not among
    /// [`Db::families`].
    ///
    /// Cost: a flush if a family has something in memory, then one edit of the manifest with two
    /// references to each table. No entry is copied. What is removed or overwritten in `main` keeps
    /// its space until the branch is merged or dropped.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument`, for a bad name, or too many families: each counts as
    /// two; as [`Db::clone_family`]. There is no branch `name` then.
    pub fn create_branch(&self, name: &str) -> Result<Branch> {
        self.create_branch_with(name, &BranchOptions::new())
    }

    /// As [`Db::create_branch`], of chosen families, of another branch, or at a snapshot.
    ///
    /// # Errors
    /// As [`Db::create_branch`]; `NotFound`, if there is no such branch or family;
    /// `InvalidArgument`, for no family, one that is named twice, or a snapshot of another open
    /// database.
    pub fn create_branch_with(&self, name: &str, options: &BranchOptions) -> Result<Branch> {
        let parent = self.branch_id(options.from.as_deref().unwrap_or(MAIN))?;
        let sources = match &options.families {
            None => heads(&self.engine().database().catalog, parent)?,
            Some(names) => {
                check_distinct(names)?;
                let of = |family: &String| head(&self.engine().database().catalog, parent, family);
                names.iter().map(of).collect::<Result<_>>()?
            }
        };
        // This refuses a snapshot of another database.
        let at = options.at.as_ref().map(|at| at.family(&self.default)).transpose()?;
        let at = at.as_ref().map(Snapshot::live);
        let created =
            self.at_work_with(at, |rooms, at| create_branch(rooms, name, parent, &sources, at))?;
        Ok(Branch { place: self.default.place.clone(), id: created.id })
    }

    /// Returns the branch called `name`. `main` stands for the database's own families.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn branch(&self, name: &str) -> Result<Branch> {
        Ok(Branch { place: self.default.place.clone(), id: self.branch_id(name)? })
    }

    /// Returns all branches but `main`, sorted by name.
    #[must_use]
    pub fn branches(&self) -> Vec<BranchInfo> {
        let families = self.engine().database().catalog.families.load();
        let branches = families.branches();
        let info = |record: &Arc<BranchRecord>| {
            let names = record.families.iter().filter_map(|part| families.name(part.head));
            let mut names: Vec<String> = names.map(|name| name.to_string()).collect();
            names.sort_unstable();
            BranchInfo {
                name: record.name.clone(),
                parent: branches.name(record.parent).map(str::to_owned),
                sequence: record.begun.0,
                created_ms: record.begun_ms,
                families: names,
                is_checked_out: branches.checked_out() == record.id,
            }
        };
        let mut infos: Vec<BranchInfo> = branches.iter().map(info).collect();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        infos
    }

    /// Drops a branch with everything in it, durably on return. Branches that began with it stay.
    /// Handles of its families fail with `NotFound` from then on. The space comes back by itself.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument`, for `main` and for the branch that is checked out; as
    /// [`Db::drop_family`].
    pub fn drop_branch(&self, name: &str) -> Result<()> {
        self.engine().at_work(|database| drop_branch(&database.installer(), name))
    }

    /// Renames a branch, durably on return. Handles of it stay valid.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists`; `InvalidArgument`, for a bad name or `main`; as
    /// [`Db::rename_family`].
    pub fn rename_branch(&self, name: &str, to: &str) -> Result<()> {
        self.engine().at_work(|database| rename_branch(&database.installer(), name, to))
    }

    /// Makes a branch the one that is checked out, durably on return; `main` is at first. `silt`
    /// works on it unless it is told otherwise. Handles of this library do not follow it: a program
    /// that wants to asks for `db.branch(&db.checked_out())`.
    ///
    /// # Errors
    /// `NotFound`; as [`Db::rename_family`].
    pub fn checkout(&self, name: &str) -> Result<()> {
        self.engine().at_work(|database| check_out(&database.installer(), name))
    }

    /// Returns the name of the branch that is checked out.
    #[must_use]
    pub fn checked_out(&self) -> String {
        let families = self.engine().database().catalog.families.load();
        let branches = families.branches();
        branches.name(branches.checked_out()).unwrap_or(MAIN).to_owned()
    }

    /// Returns the keys that differ between two branches at one moment: family by family, sorted.
    /// Families that only one of them has are left out. Values are compared with their expiry.
    ///
    /// Reads the keys in the ranges of those tables and memtables that the two do not share. Holds
    /// a snapshot until it is dropped.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// db.put("same", "1")?;
    /// let branch = db.create_branch("feature")?;
    /// branch.default_family()?.put("new", "2")?;
    /// let differences = db.diff("main", "feature")?.collect::<siltdb::Result<Vec<_>>>()?;
    /// assert_eq!(differences.len(), 1);
    /// assert_eq!(differences[0].key, b"new");
    /// assert!(differences[0].left.is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound`; `Closed`.
    pub fn diff(&self, left: &str, right: &str) -> Result<BranchDiff> {
        let (left, right) = (self.branch_id(left)?, self.branch_id(right)?);
        let names = |id| -> Result<BTreeSet<String>> {
            Ok(heads(&self.engine().database().catalog, id)?
                .iter()
                .map(|head| head.name().to_string())
                .collect())
        };
        let names: Vec<String> = names(left)?.intersection(&names(right)?).cloned().collect();
        self.diff_ids(left, right, &names)
    }

    /// As [`Db::diff`], of these families only, in this order.
    ///
    /// # Errors
    /// As [`Db::diff`]; `NotFound`, if one of the branches lacks a family; `InvalidArgument`, if a
    /// family is named twice.
    pub fn diff_families(
        &self,
        left: &str,
        right: &str,
        families: &[String],
    ) -> Result<BranchDiff> {
        check_distinct(families)?;
        self.diff_ids(self.branch_id(left)?, self.branch_id(right)?, families)
    }

    fn diff_ids(&self, left: BranchId, right: BranchId, names: &[String]) -> Result<BranchDiff> {
        let engine = self.engine();
        let pair = |name: &String| -> Result<Pair> {
            Ok((
                name.clone(),
                head(&engine.database().catalog, left, name)?,
                head(&engine.database().catalog, right, name)?,
            ))
        };
        let pairs: Vec<_> = names.iter().map(pair).collect::<Result<_>>()?;
        let snapshot = self.snapshot();
        Ok(BranchDiff { snapshot, db: self.clone(), left: pairs.into_iter(), walk: None })
    }

    /// Merges what a branch has changed since it began, or since its last merge, into `main`. If
    /// there is a conflict, nothing is changed. As [`Db::merge_branch_with`].
    ///
    /// # Errors
    /// As [`Db::merge_branch_with`].
    pub fn merge_branch(&self, from: &str) -> Result<MergeReport> {
        self.merge_branch_with(from, &MergeOptions::new())
    }

    /// Merges what a branch has changed into another branch. With a branch and its parent it works
    /// both ways: into the parent, or from the parent into the branch. A second merge does not
    /// repeat the first. Between other branches it applies what `from` has changed since its last
    /// merge with its own parent, and a second merge compares the same again.
    ///
    /// A key that only `from` has changed gets its value, expiry and all, or is deleted. A key that
    /// both have changed to different values is a conflict; [`MergeOptions::on_conflict`] decides.
    /// Counters of [`Db::next_id`] are keys as any other: `Theirs` may set one back. Buckets are
    /// merged key by key, unless both sides have created, moved or deleted some, or one has moved
    /// or deleted some and the other has changed any.
    ///
    /// The merge is one commit: readers see all of it or nothing, and so does a reopen after a
    /// crash. It is durable on return. What is written to `from` during the call may be left to the
    /// next merge. A write during the call to a key that the merge writes makes it fail with
    /// `Conflict`, and nothing is overwritten.
    ///
    /// Cost: reads the keys in the ranges of those tables that `from` does not share with its base.
    /// All that is written is in memory, at most 256 MiB.
    ///
    /// # Errors
    /// `NotFound`, if there is no such branch or family; `Conflict`, as said, or if another merge
    /// of the branch came first; `InvalidArgument`, for a merge into itself, of more than 256 MiB,
    /// of buckets as said, or into a branch that began with `from` by way of another; `Busy`, if a
    /// transaction does not release its locks in time; as [`Db::write`] and [`Db::create_branch`].
    /// Nothing is merged then.
    pub fn merge_branch_with(&self, from: &str, options: &MergeOptions) -> Result<MergeReport> {
        let into = self.branch_id(options.into.as_deref().unwrap_or(MAIN))?;
        let linked = Some(LinkedKeys { prefix: &BUCKET_KEY_PREFIX, is_link });
        let request = MergeRequest { linked, ..options.request.clone() };
        let sides = MergeSides { from: self.branch_id(from)?, into };
        self.engine().at_work(|database| merge_branch(database, sides, &request))
    }

    fn branch_id(&self, name: &str) -> Result<BranchId> {
        let families = self.engine().database().catalog.families.load();
        Ok(families.branches().named(name)?.map_or(BranchId::MAIN, |record| record.id))
    }
}

impl Family {
    /// Returns the present name of the branch that the family is of; `None` for the database's own.
    #[must_use]
    pub fn branch(&self) -> Option<String> {
        let families = self.place.engine.database().catalog.families.load();
        let (record, _) = families.branches().of_family(self.id())?;
        Some(record.name.clone())
    }
}

fn check_distinct(names: &[String]) -> Result<()> {
    let mut known = BTreeSet::new();
    match names.iter().find(|name| !known.insert(*name)) {
        Some(name) => Err(Error::invalid(format!("family {name:?} is named twice"))),
        None => Ok(()),
    }
}

/// A key that two branches have with different values, or that only one of them has.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDifference {
    /// The name of its family.
    pub family: String,
    /// The key.
    pub key: Slice,
    /// The value in the first branch.
    pub left: Option<BranchValue>,
    /// The value in the second branch.
    pub right: Option<BranchValue>,
}

/// A value in a branch.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchValue {
    /// The value.
    pub value: Slice,
    /// When it expires, in ms since 1970.
    pub expiry_ms: Option<u64>,
}

impl BranchValue {
    fn of(seen: SeenValue<'_>) -> Self {
        Self { value: Slice::copy_from(seen.bytes), expiry_ms: seen.expiry_ms }
    }
}

/// The two families of one name of a [`BranchDiff`].
type Pair = (String, Arc<FamilyData>, Arc<FamilyData>);

/// The keys that differ between two branches; see [`Db::diff`]. It yields no more after an error.
pub struct BranchDiff {
    /// Holds the moment.
    snapshot: Snapshot,
    db: Db,
    /// The families that are left.
    left: vec::IntoIter<Pair>,
    /// The family at hand.
    walk: Option<(String, BranchWalk<2>)>,
}

impl fmt::Debug for BranchDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchDiff").field("snapshot", &self.snapshot).finish_non_exhaustive()
    }
}

impl BranchDiff {
    /// Goes on to the next difference; `None` at the end.
    fn find(&mut self) -> Result<Option<KeyDifference>> {
        loop {
            let Some((family, walk)) = &mut self.walk else {
                let Some((name, left, right)) = self.left.next() else { return Ok(None) };
                let point = self.snapshot.live().point();
                let walk = BranchWalk::new(
                    &self.db.engine().database().read_rooms(),
                    [&left, &right],
                    &point,
                )?;
                self.walk = Some((name, walk));
                continue;
            };
            if !walk.advance()? {
                self.walk = None;
                continue;
            }
            let [left, right] = walk.values()?;
            if left != right {
                return Ok(Some(KeyDifference {
                    family: family.clone(),
                    key: Slice::copy_from(walk.key()),
                    left: left.map(BranchValue::of),
                    right: right.map(BranchValue::of),
                }));
            }
        }
    }
}

impl Iterator for BranchDiff {
    type Item = Result<KeyDifference>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.find();
        if found.is_err() {
            (self.walk, self.left) = (None, Vec::new().into_iter());
        }
        found.transpose()
    }
}

impl FusedIterator for BranchDiff {}
