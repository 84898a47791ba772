//! The keys in which buckets are stored: verbs hide them and leave them alone without `--raw-keys`.
//!
//! They are one range of the family, so that a range is split around it and no key is compared. In
//! a family without buckets such keys are ordinary ones. It writes nothing.

use crate::argument::FamilyArguments;
use crate::bounds::{KeyRange, is_empty, prefix_end, without_prefix};
use crate::failure::{Failure, Result};
use crate::key_form::KeyForm;
use crate::scope::ReadScope;
use crate::session::Session;
use clap::Args;
use siltdb::{
    Action, BUCKET_IDS_KEY, BUCKET_KEY_PREFIX, Db, ErrorKind, Family, KeyChange, KeyChanges,
    KeyOrder, Operation, Read as _,
};

/// Whether a verb also works on the keys in which buckets are stored.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct RawKeysArguments {
    /// Also the keys in which the buckets of the family are stored; without this they are hidden,
    /// and stay as they are
    #[arg(long, display_order = 90)]
    raw_keys: bool,
}

impl RawKeysArguments {
    /// Returns whether the option was given.
    pub fn is_given(self) -> bool {
        self.raw_keys
    }

    /// Returns the parts of `range` that a verb reads, in order: at most two. Where damage hides
    /// whether the family has buckets, that is all of the range.
    ///
    /// # Errors
    /// [`Failure::Usage`] if all of the range stores buckets; errors of the database.
    pub fn parts(
        self,
        keys: &KeyForm,
        scope: &ReadScope,
        range: Option<KeyRange>,
    ) -> Result<Vec<KeyRange>> {
        let contains = |key: &[u8]| match scope.contains(key) {
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
            found => found,
        };
        range.map_or(Ok(Vec::new()), |range| not_empty(self.parts_by(keys, range, contains)?))
    }

    /// Returns the parts of `range` that a verb deletes, in order: at most two.
    ///
    /// # Errors
    /// As [`RawKeysArguments::parts`]; and `Corruption`, where damage hides whether the family has
    /// buckets.
    pub fn parts_to_delete(
        self,
        keys: &KeyForm,
        scope: &ReadScope,
        range: Option<KeyRange>,
    ) -> Result<Vec<KeyRange>> {
        let contains = |key: &[u8]| scope.contains(key);
        range.map_or(Ok(Vec::new()), |range| not_empty(self.parts_by(keys, range, contains)?))
    }

    /// Returns the parts of `range` as [`RawKeysArguments::parts`] does, none of them if all of it
    /// stores buckets. `contains` tells whether the family has a key.
    ///
    /// # Errors
    /// Those of `contains`.
    pub fn parts_by(
        self,
        keys: &KeyForm,
        range: KeyRange,
        contains: impl FnOnce(&[u8]) -> siltdb::Result<bool>,
    ) -> siltdb::Result<Vec<KeyRange>> {
        if self.raw_keys || !keys.may_have_buckets() || is_empty(&range) {
            return Ok(vec![range]);
        }
        let parts = without_prefix(range.clone(), &BUCKET_KEY_PREFIX);
        let is_plain = matches!(&parts[..], [only] if *only == range);
        if is_plain || !contains(&BUCKET_IDS_KEY)? { Ok(vec![range]) } else { Ok(parts) }
    }

    /// Refuses as [`RawKeysArguments::check`] in the family that a verb works on.
    ///
    /// # Errors
    /// As [`RawKeysArguments::check`]; [`Failure::Missing`] if there is no such family.
    pub fn check_in(self, session: &Session, family: &FamilyArguments, key: &[u8]) -> Result<()> {
        let keys = KeyForm::of(session, family)?;
        self.check(&keys, &session.scope(family.name())?.into(), key)
    }

    /// Refuses to write `key` if it stores a bucket.
    ///
    /// # Errors
    /// [`Failure::Usage`]; errors of the database.
    pub fn check(self, keys: &KeyForm, scope: &ReadScope, key: &[u8]) -> Result<()> {
        let may_be_refused = !self.raw_keys && keys.may_have_buckets() && is_of_bucket(key);
        if may_be_refused && scope.contains(&BUCKET_IDS_KEY)? { refuse(key) } else { Ok(()) }
    }

    /// Returns the changes of a commit that a verb shows: not those of keys that store buckets.
    pub fn shown<'a>(
        self,
        db: &'a Db,
        changes: KeyChanges<'a>,
    ) -> impl Iterator<Item = KeyChange<'a>> {
        changes.filter(move |change| self.raw_keys || !changes_bucket(db, &change.operation))
    }
}

/// Whether all that an operation changes stores buckets. It does not, as far as is known, where the
/// family is gone or damaged.
fn changes_bucket(db: &Db, operation: &Operation<'_>) -> bool {
    let is_within = match operation.action {
        Action::DeleteRange(end) => {
            is_of_bucket(end) || prefix_end(&BUCKET_KEY_PREFIX).as_deref() == Some(end)
        }
        _ => true,
    };
    let has = || db.family_by_id(operation.family).and_then(|family| has_buckets(&family));
    is_within && is_of_bucket(operation.key) && has().unwrap_or(false)
}

/// Whether a key stores a bucket, if its family has any.
pub fn is_of_bucket(key: &[u8]) -> bool {
    key.starts_with(&BUCKET_KEY_PREFIX)
}

/// Whether a family has or had buckets.
///
/// # Errors
/// Errors of the database.
pub fn has_buckets(family: &Family) -> siltdb::Result<bool> {
    Ok(family.key_order() == KeyOrder::bytewise() && family.contains(BUCKET_IDS_KEY)?)
}

/// How many buckets the root holds, to tell of them. In a transaction it is 0, because a look at
/// them would count as read; also where damage hides them.
pub fn buckets_in(scope: &ReadScope) -> u64 {
    if matches!(scope, ReadScope::Transaction(_)) {
        return 0;
    }
    let names = scope.bucket(&[]).and_then(|root| root.children());
    names.map_or(0, |names| names.len() as u64)
}

/// Refuses a range of which nothing is left.
fn not_empty(parts: Vec<KeyRange>) -> Result<Vec<KeyRange>> {
    if parts.is_empty() { Err(refused("all keys of this range store")) } else { Ok(parts) }
}

/// Refuses a key that stores a bucket, in a family that has buckets.
///
/// # Errors
/// [`Failure::Usage`].
pub fn refuse(key: &[u8]) -> Result<()> {
    if is_of_bucket(key) { Err(refused("this key stores")) } else { Ok(()) }
}

/// The failure of a verb that is to work on keys of buckets; `what` says which.
fn refused(what: &str) -> Failure {
    Failure::Usage(format!("{what} buckets of the family; `--raw-keys` works on such keys, too"))
}
