//! What guests show, compared with the model.
//!
//! It never writes; the caller gives the expected state.

use crate::{
    database::Database,
    draw::Draw,
    guests::{GuestSettings, NEWEST, TTL},
    model::{FamilyIndex, Model, Moment, Shared},
    reads::{compare_family, compare_get},
    truth::{Pairs, Truth, collect, compare_pairs},
    violation::{Checked, Violation, must, show},
};
use siltdb::Read;

/// Keys of a guest that are looked up in a comparison, besides two scans.
pub(crate) const LOOKUPS_MAX: u64 = 40;

/// Whether the pairs of a guest are what is left of those that were written.
///
/// # Errors
/// If not.
pub fn compare_guest_pairs(
    (guest, settings): (FamilyIndex, GuestSettings),
    found: &Pairs,
    written: &Pairs,
) -> Checked<()> {
    if guest == TTL {
        return compare_pairs(found, written);
    }
    let is_row = |pair: &&(Shared, Shared)| pair.0[..] != NEWEST;
    let rows = |pairs: &Pairs| pairs.iter().filter(is_row).cloned().collect::<Pairs>();
    let (found_rows, written_rows) = (rows(found), rows(written));
    let left = written_rows.len().saturating_sub(found_rows.len());
    compare_pairs(&found_rows, &written_rows[left..].to_vec())
        .map_err(|violation| violation.during("the end of a FIFO family"))?;
    let newest = |pairs: &Pairs| pairs.iter().find(|pair| !is_row(pair)).cloned();
    let Some(last) = newest(written) else {
        return compare_pairs(&newest(found).into_iter().collect(), &Pairs::new());
    };
    match (newest(found), found_rows.first()) {
        (Some(found), _) => compare_pairs(&vec![found], &vec![last]),
        // It was written after all rows up to that of its commit.
        (None, Some((row, _))) if row[..8] <= last.1[..8] => {
            let message = format!("the newest pair has left, the older row {} is there", show(row));
            Err(Violation::new(message))
        }
        // It is in the newest table, which never leaves by the size of the family.
        (None, _) if settings.age_max.is_none() => {
            Err(Violation::new("the newest pair of a FIFO family has left"))
        }
        (None, _) => Ok(()),
    }
}

/// What a comparison of the guests has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Reads compared.
    pub reads: u64,
    /// Pairs that have left the FIFO family.
    pub left: u64,
    /// Pairs of the TTL family that have expired.
    pub expired: u64,
}

impl Database {
    /// Compares the guests with what the model has at `at`.
    ///
    /// # Errors
    /// If anything differs.
    pub fn compare_guests(
        &self,
        settings: GuestSettings,
        (model, at): (&Model, Moment),
        draw: &mut Draw,
    ) -> Checked<Seen> {
        let mut seen = Seen::default();
        for (index, family) in &self.guests {
            let truth = Truth { model, family: *index, at };
            let written = truth.pairs().len();
            if *index == TTL {
                let at_first = Moment { wall_ms: 0, ..at };
                seen.expired = (model.pairs(TTL, at_first).len() - written) as u64;
                seen.reads += compare_family(family, truth, draw, LOOKUPS_MAX)?;
                continue;
            }
            let found = compare_fifo(family, settings, truth, draw)?;
            seen.reads += found.len() as u64;
            seen.left = (written - found.len()) as u64;
        }
        Ok(seen)
    }
}

/// Compares a FIFO family in both directions and by lookups. Returns its pairs.
fn compare_fifo(
    source: &impl Read,
    settings: GuestSettings,
    truth: Truth<'_>,
    draw: &mut Draw,
) -> Checked<Pairs> {
    let compare = |draw: &mut Draw| -> Checked<Pairs> {
        let found = collect(source)?;
        compare_guest_pairs((truth.family, settings), &found, &truth.pairs())?;
        let mut backward = Pairs::new();
        for pair in must(source.iter(), "iter")?.rev() {
            let (key, value) = must(pair, "iterating backward")?;
            backward.push((Shared::from(&*key), Shared::from(&*value)));
        }
        backward.reverse();
        compare_pairs(&backward, &found).map_err(|violation| violation.during("backward"))?;
        let keys = truth.model.keys(truth.family).count() as u64;
        for key in truth.model.keys(truth.family) {
            if !draw.chance(LOOKUPS_MAX, keys) {
                continue;
            }
            let is_found = found.binary_search_by(|(found, _)| found.cmp(key)).is_ok();
            if is_found {
                compare_get(source, truth, key)?;
            } else if let Some(value) = must(source.get(key), "get")? {
                let shown = [show(key), show(&value)];
                return Err(Violation::new(format!("get of {shown:?}, which no scan shows")));
            }
        }
        Ok(found)
    };
    compare(draw).map_err(|violation| truth.blame(violation))
}

#[cfg(test)]
mod tests;
