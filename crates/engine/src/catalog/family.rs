//! One family of a database: a named tree that shares the log with the others.
//!
//! It does not find families (see `family_map`). Creating, renaming and dropping them are edits
//! (see `install`).

use crate::{blobs::BlobSet, catalog::branches::FamilyRole, lock_state::lock_table::LockFlag};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    id::FamilyId,
    limits::FAMILY_NAME_BYTES_MAX,
    sync::lock,
};
use siltdb_disk::branch_record::BranchRecord;
use siltdb_tree::tree::Tree;
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// The family that every database has.
pub const DEFAULT_FAMILY: &str = "default";

/// Its id, the first that is given.
pub const DEFAULT_FAMILY_ID: FamilyId = FamilyId(0);

/// One named tree.
#[derive(Debug)]
pub struct FamilyData {
    /// The family's id, which never changes.
    pub id: FamilyId,
    /// What it is to the branches, which never changes.
    pub role: FamilyRole,
    name: Mutex<Arc<str>>,
    /// The ordered map.
    pub tree: Tree,
    /// Whether any key of the family is locked.
    pub lock_flag: Arc<LockFlag>,
    /// Whether the family is in no map: not created yet, or dropped.
    absent: AtomicBool,
    created: AtomicBool,
    /// Whether a drop that is no commit is under way.
    leaving: AtomicBool,
    /// Of a dropped family: the blob files that its readers may need.
    kept_blobs: OnceLock<BlobSet>,
}

impl FamilyData {
    /// A family called `name` that exists.
    #[must_use]
    pub fn new(id: FamilyId, name: &str, tree: Tree) -> Self {
        let (absent, created) = (AtomicBool::new(false), AtomicBool::new(true));
        let lock_flag = Arc::new(LockFlag::new(id));
        let (role, name) = (FamilyRole::Own, Mutex::new(name.into()));
        let (leaving, kept_blobs) = (AtomicBool::new(false), OnceLock::new());
        Self { id, role, name, tree, lock_flag, absent, created, leaving, kept_blobs }
    }

    /// The same family with another role.
    #[must_use]
    pub fn with_role(self, role: FamilyRole) -> Self {
        Self { role, ..self }
    }

    /// A prepared family, called `name` once a commit creates it.
    #[must_use]
    pub fn prepared(id: FamilyId, name: &str, tree: Tree) -> Self {
        let (absent, created) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { absent, created, ..Self::new(id, name, tree) }
    }

    /// Whether the family exists or existed; `false` for a prepared one.
    #[must_use]
    pub fn was_created(&self) -> bool {
        // Relaxed: it changes under `changing_io`; elsewhere it only selects an error message.
        self.created.load(Ordering::Relaxed)
    }

    /// The present name.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&lock(&self.name))
    }

    /// Whether the family was dropped. Readers that hold it keep reading their view.
    #[inline]
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.is_absent() && self.was_created()
    }

    /// Whether the family was dropped, or is being dropped by an edit that is no commit.
    #[inline]
    #[must_use]
    pub fn is_going(&self) -> bool {
        // Acquire pairs with the release in `set_leaving`: after the drop the family is absent.
        self.leaving.load(Ordering::Acquire) || self.is_dropped()
    }

    /// Says whether a drop that is no commit is under way.
    pub fn set_leaving(&self, leaving: DropState) {
        // Release: see `is_going`.
        self.leaving.store(leaving == DropState::Begun, Ordering::Release);
    }

    #[inline]
    fn is_absent(&self) -> bool {
        // Relaxed: a commit that races with the drop may still succeed; recovery passes over its
        // entries.
        self.absent.load(Ordering::Relaxed)
    }

    /// Gives the family another name. To be called while the map that has the name comes in force.
    pub(super) fn set_name(&self, name: &Arc<str>) {
        *lock(&self.name) = Arc::clone(name);
    }

    /// Notes that the family is in the map in force, where a commit has put it.
    pub(super) fn set_created(&self) {
        assert!(!self.was_created(), "family {} would be created twice", self.id);
        // Relaxed: as in `was_created` and `is_absent`.
        self.created.store(true, Ordering::Relaxed);
        self.absent.store(false, Ordering::Relaxed);
    }

    /// Notes that the family is about to leave the map in force.
    pub(super) fn set_dropped(&self) {
        assert!(!self.is_absent(), "family {} would be dropped twice", self.id);
        // Relaxed: this is a hint; every call that matters refuses a dropped family itself.
        self.absent.store(true, Ordering::Relaxed);
    }

    /// Keeps those of the blob files in `set` that the family refers to. To be called with
    /// `manifest_io` held, before the family leaves the map: from then on its references do not
    /// count.
    pub fn keep_blobs(&self, set: &BlobSet) {
        let view = self.tree.view();
        let mut files = BTreeSet::new();
        for (_, table) in view.version.below(|sum| sum.totals.with_blobs > 0) {
            files.extend(table.meta().blobs.files().iter().map(|reference| reference.file));
        }
        // What is in memory may refer to any file.
        let is_any = view.memory.oldest().is_some();
        self.kept_blobs.get_or_init(|| set.filtered(|file| is_any || files.contains(&file)));
    }

    /// The blob files that readers of a dropped family need, and that others may not.
    #[must_use]
    pub fn kept_blobs(&self) -> Option<&BlobSet> {
        self.kept_blobs.get()
    }

    /// Succeeds while the family exists.
    ///
    /// # Errors
    /// `NotFound`, if it was dropped, or is prepared and not created yet.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_absent() { Err(self.absence()) } else { Ok(()) }
    }

    #[cold]
    fn absence(&self) -> Error {
        let error = not_found(&self.name());
        if self.was_created() {
            return error;
        }
        error.with_hint("it is prepared: write a batch that creates it first")
    }

    /// Succeeds if the family accepts merge operands.
    ///
    /// # Errors
    /// `InvalidArgument`, if it has no merge operator.
    pub fn check_operator(&self) -> Result<()> {
        if self.tree.peek_options().merge_operator.is_some() {
            return Ok(());
        }
        Err(Error::invalid(format!("family {:?} has no merge operator", self.name())).with_hint(
            "set one when it is created or by its options; for the default family, at open",
        ))
    }
}

/// The state of a drop that is no commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropState {
    /// It is under way.
    Begun,
    /// It was carried out, or has failed.
    Over,
}

/// Families that a commit creates and drops.
#[derive(Clone, Debug, Default)]
pub struct FamilyChanges {
    /// Prepared families to create.
    pub created: Vec<Arc<FamilyData>>,
    /// Families to drop. They are dropped first, so that a new family may take the name of an old
    /// one.
    pub dropped: Vec<FamilyId>,
    /// Branches as they are from then on.
    pub branches: Vec<Arc<BranchRecord>>,
}

impl FamilyChanges {
    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.dropped.is_empty() && self.branches.is_empty()
    }
}

/// Checks that a family may have the name `name`.
///
/// # Errors
/// `InvalidArgument`, if the name is empty, too long or has control characters.
pub fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > FAMILY_NAME_BYTES_MAX {
        return Err(Error::invalid("bad length of a family name, in bytes")
            .with_mismatch(format!("1..={FAMILY_NAME_BYTES_MAX}"), name.len()));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid("a family name has control characters"));
    }
    Ok(())
}

pub(super) fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no family {name:?}"))
}

pub(super) fn already_exists(name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("family {name:?} exists"))
}
