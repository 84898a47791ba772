//! The families of which a compaction may be due, and those that had none under a write load.
//!
//! It judges no family: see `jobs::compact`. A look finds more the less the write load is. A family
//! in which nothing was due is looked at again when its tables or options have changed, when the
//! load becomes less, and when all families are noted. Otherwise each flush would have thousands of
//! branches looked at that have nothing due and are not quiet.
//!
//! # Seeded fault
//! `noted_family_passed`: a look passes a family that was noted after it began.

use siltdb_base::{id::FamilyId, seeded_fault};
use siltdb_tree::planning::pick_leveled::WriteLoad;
use std::collections::BTreeMap;

/// The families of which a compaction may be due. In the others one may become due by less load, by
/// time or by the release of a snapshot.
#[derive(Debug, Default)]
pub struct DueFamilies {
    /// Those to be looked at, each with the number of its last note.
    due: BTreeMap<FamilyId, u64>,
    /// Those that had nothing due under a load, each with the load.
    passed: BTreeMap<FamilyId, WriteLoad>,
    /// The load of the last look.
    load: Option<WriteLoad>,
    /// How many times a family was noted.
    notes: u64,
}

/// What was due when a thread began to look.
#[derive(Debug)]
pub struct Look {
    /// The families to be looked at.
    pub families: Vec<FamilyId>,
    /// How much writers leave to background work.
    pub writers: WriteLoad,
    /// How many notes there were.
    notes: u64,
}

impl DueFamilies {
    /// A compaction of the family may be due.
    pub fn note(&mut self, family: FamilyId) {
        self.notes += 1;
        self.passed.remove(&family);
        self.due.insert(family, self.notes);
    }

    /// The family is gone.
    pub fn forget(&mut self, family: FamilyId) {
        self.passed.remove(&family);
        self.due.remove(&family);
    }

    /// Begins a look at all families of which a compaction may be due under the load `writers`.
    pub fn look(&mut self, writers: WriteLoad) -> Look {
        if self.load != Some(writers) {
            self.load = Some(writers);
            let (due, notes) = (&mut self.due, self.notes);
            self.passed.retain(|family, load| {
                let stays = *load <= writers;
                if !stays {
                    due.insert(*family, notes);
                }
                stays
            });
        }
        Look { families: self.due.keys().copied().collect(), writers, notes: self.notes }
    }

    /// The look found nothing due of the family, and nothing kept it from finding. A family that
    /// was noted after the look began stays due: the look may have seen less.
    pub fn pass(&mut self, look: &Look, family: FamilyId, until: Until) {
        let is_seen = |number: &u64| *number <= look.notes || seeded_fault!("noted_family_passed");
        if !self.due.get(&family).is_some_and(is_seen) {
            return;
        }
        match until {
            Until::Noted => {}
            // Writers may wait for what is due under less load, so no family waits for its turn.
            Until::LessLoad if look.writers == WriteLoad::Throttled => return,
            Until::LessLoad if self.load.is_some_and(|load| look.writers <= load) => {
                self.passed.insert(family, look.writers);
            }
            Until::LessLoad => return,
        }
        self.due.remove(&family);
    }
}

/// Until when nothing is due of a family that was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until it is noted again.
    Noted,
    /// Until it is noted again, or the load is less than that of the look.
    LessLoad,
}

#[cfg(test)]
mod tests;
