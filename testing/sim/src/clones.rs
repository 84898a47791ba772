//! Clones: families made of others, now or as of a snapshot that is held, and branches of one
//! family.
//!
//! Afterwards a clone is a family as any other, and so is that of a branch: what is written to it
//! and to its source, compacted and crashed is for the other steps. Merges are for
//! `crates/siltdb/tests/branches.rs`.

use crate::{
    database::Database,
    expected::Names,
    model::FamilyIndex,
    reads::compare_family,
    run::{Excuse, Outcome, Run},
    steps::FAMILIES_MAX,
    truth::Truth,
    violation::Checked,
    watch::Activity,
};
use siltdb::{BranchOptions, Family};

/// Keys of a new clone that are looked up, besides two scans.
const LOOKUPS_MAX: u64 = 60;

/// What a clone is made of.
struct Source {
    index: FamilyIndex,
    family: Family,
    /// The last commit that it shows.
    commit: u64,
    /// The snapshot, by its place among those that are held.
    snapshot: Option<usize>,
}

impl Run {
    /// Clones a family; where there are many, others go first.
    pub(crate) fn clone_family(&mut self) -> Checked<()> {
        if self.excuse() == Excuse::Fault || self.database.names.len() == FAMILIES_MAX {
            return self.change_families();
        }
        let source = self.source();
        if self.draw.chance(1, 2) {
            return self.create_branch(source);
        }
        let Source { index, family, commit, snapshot } = source;
        let mut names = self.database.names.clone();
        let is_free = |name: &String| !names.contains_key(name);
        let free: Vec<String> = (0..9).map(|number| format!("f{number}")).filter(is_free).collect();
        let name = free[self.draw.index(free.len())].clone();
        let clone = self.model.clone_family(index, commit);
        self.note(format!("clone family #{} at {commit} as {name} (#{})", index.0, clone.0));
        names.insert(name.clone(), clone);
        let snapshot = snapshot.map(|place| self.snapshots[place].snapshot.clone());
        let make = |database: &Database| match &snapshot {
            None => database.db.clone_family(&family, &name),
            Some(snapshot) => database.db.clone_family_at(snapshot, &family, &name),
        };
        if let Outcome::Done(made) = self.operate(Activity::Clone, Some(names.clone()), make)? {
            self.report.clones += 1;
            self.report.clones_at_snapshots += u64::from(snapshot.is_some());
            self.report.clones_of_clones += u64::from(self.clones.contains(&index));
            self.clones.insert(clone);
            self.compare_clone(clone, &made)?;
            self.database.families.insert(clone, made);
            self.database.names = names;
        }
        self.forget_half_changed()
    }

    /// Makes a branch of a family, of `main` or of another branch.
    fn create_branch(&mut self, source: Source) -> Checked<()> {
        let Source { index, commit, snapshot, .. } = source;
        let mut names = self.database.names.clone();
        let found = names.iter().find(|(_, other)| **other == index).map(|(name, _)| name.clone());
        let Some(label) = found else { return Ok(()) };
        let (parent, family) = label.split_once('/').unwrap_or(("main", &label));
        let name = self.free_branch_name();
        let clone = self.model.clone_family(index, commit);
        self.note(format!("branch {name} of {label} (#{}) at {commit} (#{})", index.0, clone.0));
        names.insert(format!("{name}/{family}"), clone);
        let mut options = BranchOptions::new().from(parent).families([family]);
        if let Some(place) = snapshot {
            options = options.at(&self.snapshots[place].snapshot);
        }
        let make =
            |database: &Database| database.db.create_branch_with(&name, &options)?.family(family);
        if let Outcome::Done(made) = self.operate(Activity::Clone, Some(names.clone()), make)? {
            self.report.branches += 1;
            self.clones.insert(clone);
            self.compare_clone(clone, &made)?;
            self.database.families.insert(clone, made);
            self.database.names = names;
        }
        self.forget_half_changed()
    }

    /// Drops the branch of a family, or renames it.
    pub(crate) fn change_branch(
        &mut self,
        mut names: Names,
        branch: &str,
        family: &str,
    ) -> Checked<()> {
        let Some(index) = names.remove(&format!("{branch}/{family}")) else { return Ok(()) };
        if self.draw.chance(1, 2) {
            self.note(format!("drop branch {branch} (#{})", index.0));
            let work = |database: &Database| database.db.drop_branch(branch);
            if let Outcome::Done(()) = self.operate(Activity::Family, Some(names.clone()), work)? {
                return self.dropped(names, index);
            }
        } else {
            let to = self.free_branch_name();
            self.note(format!("rename branch {branch} (#{}) to {to}", index.0));
            names.insert(format!("{to}/{family}"), index);
            let work = |database: &Database| database.db.rename_branch(branch, &to);
            if let Outcome::Done(()) = self.operate(Activity::Family, Some(names.clone()), work)? {
                self.database.names = names;
            }
        }
        self.forget_half_changed()
    }

    fn free_branch_name(&mut self) -> String {
        let names = &self.database.names;
        let is_free = |name: &String| {
            let mut branches = names.keys().filter_map(|label| label.split_once('/'));
            branches.all(|(branch, _)| branch != name)
        };
        let free: Vec<String> = (0..9).map(|number| format!("b{number}")).filter(is_free).collect();
        free[self.draw.index(free.len())].clone()
    }

    /// A family now, or one at a snapshot that knew it, if it is still there.
    fn source(&mut self) -> Source {
        let indexes: Vec<_> = self.database.families.keys().copied().collect();
        let index = self.draw.pick(&indexes);
        let family = self.database.families[&index].clone();
        if !self.snapshots.is_empty() && self.draw.chance(2, 3) {
            let place = self.draw.index(self.snapshots.len());
            let held = &self.snapshots[place];
            if held.families.contains_key(&index) {
                return Source { index, family, commit: held.at.commit, snapshot: Some(place) };
            }
        }
        Source { index, family, commit: self.visible, snapshot: None }
    }

    fn compare_clone(&mut self, index: FamilyIndex, family: &Family) -> Checked<()> {
        let truth = Truth { model: &self.model, family: index, at: self.now() };
        let faults = self.database.fs.faults();
        let mut compared = compare_family(family, truth, &mut self.draw, LOOKUPS_MAX);
        if self.database.fs.faults() > faults {
            // A call failed meanwhile: nothing wrong may have stayed behind.
            compared = compare_family(family, truth, &mut self.draw, LOOKUPS_MAX);
        }
        self.report.reads += compared.map_err(|violation| violation.during("a new clone"))?;
        Ok(())
    }
}
