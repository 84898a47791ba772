//! Steps on a part of the database: one family, a range of keys, options.
//!
//! None of them changes what readers see.

use crate::{
    database::Database,
    model::{FamilyIndex, Shared},
    reads::bound,
    run::{Outcome, Run},
    settings::FamilySettings,
    violation::{Checked, Violation, show},
    watch::Activity,
};
use siltdb::FamilyOptions;
use std::ops::Bound;

impl Run {
    /// A family or a guest.
    pub(crate) fn any_family(&mut self) -> FamilyIndex {
        let all = self.database.families.keys().chain(self.database.guests.keys());
        self.draw.pick(&all.copied().collect::<Vec<_>>())
    }

    /// Flushes one family, if its memtables hold anything.
    pub(crate) fn flush_family(&mut self) -> Checked<()> {
        let family = self.any_family();
        self.note(format!("flush #{}", family.0));
        let flush = |database: &Database| database.family(family).flush();
        let outcome = self.operate(Activity::Jobs, None, flush)?;
        let held = self.database.find(family).map_or(0, |f| f.stats().memtable_entries);
        match outcome {
            Outcome::Done(()) if held > 0 => {
                Err(Violation::new(format!("{held} entries are in memory after a flush")))
            }
            _ => Ok(()),
        }
    }

    /// Compacts the tables that hold keys of a range, and compares the estimated sizes of range and
    /// family.
    pub(crate) fn compact_range(&mut self) -> Checked<()> {
        let family = self.any_family();
        let (shape, count) = (self.settings.key_shape, self.settings.key_count);
        let mut end = || bound(shape.key(self.draw.below(count)), &mut self.draw);
        let range = (end(), end());
        let shown = |bound: &Bound<Shared>| format!("{:?}", bound.as_ref().map(|key| show(key)));
        self.note(format!("compact #{} {}..{}", family.0, shown(&range.0), shown(&range.1)));
        let outcome = self.operate(Activity::Jobs, None, |database| {
            let family = database.family(family);
            family.compact_range(&range)?;
            Ok((family.size_of(&range)?, family.size_of(..)?))
        })?;
        match outcome {
            Outcome::Done((part, whole)) if part.entries > whole.entries => {
                Err(Violation::new(format!("a part takes {part:?}, the whole {whole:?}")))
            }
            _ => Ok(()),
        }
    }

    /// The options of a family or a guest with these settings.
    fn options_of(&self, family: FamilyIndex, settings: FamilySettings) -> FamilyOptions {
        match self.database.guests.contains_key(&family) {
            true => self.settings.guests.options(family, settings.options_without_merges()),
            false => settings.options(self.settings.operator),
        }
    }

    /// Changes the options of a family.
    pub(crate) fn change_options(&mut self) -> Checked<()> {
        let family = self.any_family();
        let settings = FamilySettings::new(&mut self.draw);
        let options = self.options_of(family, settings);
        self.note(format!("options of #{}: {settings:?}", family.0));
        let outcome = self.operate(Activity::Family, None, |database| {
            database.family(family).set_options(&options)?;
            Ok(database.family(family).options())
        })?;
        match outcome {
            Outcome::Done(found) => {
                let mut kept = settings;
                kept.key_order = self.model.key_order(family);
                let options = self.options_of(family, kept);
                if found.entries() == options.entries() {
                    return Ok(());
                }
                Err(Violation::new(format!("options {found:?}, expected {options:?}")))
            }
            _ => Ok(()),
        }
    }
}
