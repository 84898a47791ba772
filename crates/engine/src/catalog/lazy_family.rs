//! A family that is made when it is first used.
//!
//! A database with thousands of branches uses few of them between two openings. Until its first use
//! a family is what the manifest says of it. Families that were copied from one another share most
//! of that.
//!
//! # Seeded fault
//! `made_without_tables`: a family that is made has none of its tables.

use crate::catalog::{branches::FamilyRole, family::FamilyData};
use siltdb_base::{
    budget::{Charge, Part},
    id::FamilyId,
    seeded_fault,
    sync::lock,
};
use siltdb_tree::{
    files::{open_files::OpenFiles, version::Version},
    memory::{Holders, Memtables},
    options::TreeOptions,
    read::view::View,
    tree::Tree,
};
use std::sync::{Arc, Mutex, OnceLock};

/// What a family takes that is not made, in bytes: itself, its places in maps, and its share of a
/// branch.
const STORED_BYTES: usize = 3 * size_of::<LazyFamily>();

/// A family that may not be made yet.
///
/// # Thread safety
/// Any thread may ask and use it. Threads that use it first make it once.
///
/// # Invariants
/// 1. A family that is not made has no memtables, readers and running plans, and is written by
///    nothing: each of these begins with its first use.
/// 2. The tables as stored are dropped when the family is made. Tables that a compaction replaces
///    later would stay on disk otherwise.
#[derive(Debug)]
pub struct LazyFamily {
    /// The family's id.
    pub id: FamilyId,
    /// What it is to the branches.
    pub role: FamilyRole,
    made: OnceLock<Arc<FamilyData>>,
    state: Mutex<State>,
    _charge: Charge,
}

#[derive(Debug)]
enum State {
    Stored(StoredFamily),
    Made(Arc<FamilyData>),
}

/// What the manifest says of a family, and what making it needs.
#[derive(Clone, Debug)]
pub struct StoredFamily {
    /// The name.
    pub name: Arc<str>,
    /// The options.
    pub options: Arc<TreeOptions>,
    /// The tables.
    pub version: Arc<Version>,
    /// The files of the database.
    pub files: Arc<OpenFiles>,
    /// Where the family notes its memtables.
    pub holders: Arc<Holders>,
}

impl StoredFamily {
    fn make(&self, id: FamilyId, role: FamilyRole) -> Arc<FamilyData> {
        let version = match seeded_fault!("made_without_tables") {
            true => Version::none(),
            false => Arc::clone(&self.version),
        };
        let tree = Tree::new(id, Arc::clone(&self.options), Arc::clone(&self.files))
            .with_holders(Arc::clone(&self.holders))
            .with_view(Memtables::default(), version);
        Arc::new(FamilyData::new(id, &self.name, tree).with_role(role))
    }
}

impl LazyFamily {
    /// A family as it is stored.
    #[must_use]
    pub fn stored(id: FamilyId, role: FamilyRole, stored: StoredFamily) -> Self {
        let _charge = Charge::new(stored.files.cache().budget(), Part::Families, STORED_BYTES);
        Self { id, role, made: OnceLock::new(), state: Mutex::new(State::Stored(stored)), _charge }
    }

    /// A family that is made.
    #[must_use]
    pub fn made(family: Arc<FamilyData>) -> Self {
        let (id, role) = (family.id, family.role);
        let budget = family.tree.files().cache().budget();
        let _charge = Charge::new(budget, Part::Families, STORED_BYTES);
        let state = Mutex::new(State::Made(Arc::clone(&family)));
        Self { id, role, made: OnceLock::from(family), state, _charge }
    }

    /// The family, which this makes if nothing did before. Cost then: some allocations, no IO.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &Arc<FamilyData> {
        self.made.get_or_init(|| {
            let mut state = lock(&self.state);
            let family = match &*state {
                State::Stored(stored) => stored.make(self.id, self.role),
                State::Made(family) => Arc::clone(family),
            };
            *state = State::Made(Arc::clone(&family));
            family
        })
    }

    /// The family, if it is made. If it is not, nothing is in its memory and nothing runs in it, by
    /// (1).
    #[inline]
    #[must_use]
    pub fn if_made(&self) -> Option<&Arc<FamilyData>> {
        self.made.get()
    }

    /// The present name.
    #[must_use]
    pub fn name(&self) -> Arc<str> {
        self.look(|stored| Arc::clone(&stored.name), FamilyData::name)
    }

    /// The present options.
    #[must_use]
    pub fn options(&self) -> Arc<TreeOptions> {
        self.look(|stored| Arc::clone(&stored.options), |family| family.tree.options())
    }

    /// The present tables.
    #[must_use]
    pub fn version(&self) -> Arc<Version> {
        let of_made = |family: &FamilyData| Arc::clone(&family.tree.view().version);
        self.look(|stored| Arc::clone(&stored.version), of_made)
    }

    /// What its tree is now.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        let memory = Memtables::default();
        let of_stored =
            |stored: &StoredFamily| View { memory, version: Arc::clone(&stored.version) };
        self.look(|stored| Arc::new(of_stored(stored)), |family| Arc::clone(&family.tree.view()))
    }

    /// A family that is as this one in its tables, with nothing in memory, and shares nothing that
    /// changes with it.
    #[must_use]
    pub fn copy_of_tables(&self) -> Self {
        let of_made = |family: &FamilyData| StoredFamily {
            name: family.name(),
            options: family.tree.options(),
            version: Arc::clone(&family.tree.view().version),
            files: Arc::clone(family.tree.files()),
            holders: Arc::clone(family.tree.holders()),
        };
        Self::stored(self.id, self.role, self.look(StoredFamily::clone, of_made))
    }

    fn look<T>(
        &self,
        of_stored: impl FnOnce(&StoredFamily) -> T,
        of_made: impl FnOnce(&FamilyData) -> T,
    ) -> T {
        if let Some(family) = self.made.get() {
            return of_made(family);
        }
        match &*lock(&self.state) {
            State::Stored(stored) => of_stored(stored),
            State::Made(family) => of_made(family),
        }
    }
}

#[cfg(test)]
mod tests;
