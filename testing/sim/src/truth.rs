//! What a family must show: the state of the model at one moment, and the first difference from it.

use crate::{
    model::{FamilyIndex, Model, Moment, Shared},
    violation::{Checked, Violation, must, show},
};
use siltdb::Read;

/// The pairs of a family, in order.
pub type Pairs = Vec<(Shared, Shared)>;

/// One family at one moment, as the model sees it.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// The model.
    pub model: &'a Model,
    /// The family.
    pub family: FamilyIndex,
    /// The moment.
    pub at: Moment,
}

impl Truth<'_> {
    /// All pairs of the family at that moment.
    #[must_use]
    pub fn pairs(&self) -> Pairs {
        self.model.pairs(self.family, self.at)
    }

    /// The value of a key at that moment.
    #[must_use]
    pub fn value(&self, key: &[u8]) -> Option<Shared> {
        self.model.value(self.family, key, self.at)
    }

    /// The keys of the family whose values expire.
    #[must_use]
    pub fn expiring(&self) -> Vec<Shared> {
        self.model.expiries(self.family, self.at).into_keys().collect()
    }

    /// Adds the place of the difference to a violation.
    #[must_use]
    pub fn blame(&self, violation: Violation) -> Violation {
        let (family, at) = (self.family.0, self.at);
        violation.during(format!("family #{family} at commit {}, {} ms", at.commit, at.wall_ms))
    }
}

/// All pairs of a family, not compared.
///
/// # Errors
/// If reading fails.
pub fn collect(source: &impl Read) -> Checked<Pairs> {
    let mut pairs = Vec::new();
    for pair in must(source.iter(), "iter")? {
        let (key, value) = must(pair, "iterating")?;
        pairs.push((Shared::from(&*key), Shared::from(&*value)));
    }
    Ok(pairs)
}

/// Describes the first difference of two lists of pairs.
///
/// # Errors
/// If they differ.
pub fn compare_pairs(found: &Pairs, expected: &Pairs) -> Checked<()> {
    let mut walks = (found.iter(), expected.iter());
    loop {
        match (walks.0.next(), walks.1.next()) {
            (None, None) => return Ok(()),
            (found, expected) if found == expected => {}
            (found, expected) => {
                let pair = |pair: Option<&(Shared, Shared)>| {
                    pair.map_or("the end".to_owned(), |(k, v)| {
                        format!("\"{}\" = \"{}\"", show(k), show(v))
                    })
                };
                let (found, expected) = (pair(found), pair(expected));
                return Err(Violation::new(format!("found {found}, expected {expected}")));
            }
        }
    }
}
