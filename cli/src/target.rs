//! The target of a verb that writes: a family, whether keys of buckets count, and the durability;
//! or a bucket.
//!
//! It runs a change in the transaction of the shell, or in one of its own.

use crate::argument::{DurabilityArguments, FamilyArguments};
use crate::failure::Result;
use crate::key_form::KeyForm;
use crate::raw_keys::RawKeysArguments;
use crate::scope::{Scope, all_or_none};
use crate::session::Session;
use clap::Args;
use siltdb::{Bucket, Durability, Transaction, UpdateOptions};
use std::ffi::OsStr;

/// The target of a verb that writes.
#[derive(Args, Debug)]
pub struct WriteArguments {
    #[command(flatten)]
    pub family: FamilyArguments,
    #[command(flatten)]
    pub raw_keys: RawKeysArguments,
    #[command(flatten)]
    pub durability: DurabilityArguments,
}

impl WriteArguments {
    /// Returns the form of the keys, and the key that `text` writes in it.
    ///
    /// # Errors
    /// [`Failure::Usage`](crate::failure::Failure::Usage) if it is no key, or stores a bucket;
    /// errors of the database.
    pub fn key(&self, session: &Session, text: &OsStr) -> Result<(KeyForm, Vec<u8>)> {
        let keys = KeyForm::of(session, &self.family)?;
        let key = keys.parse(text)?;
        self.raw_keys.check_in(session, &self.family, &key)?;
        Ok((keys, key))
    }

    /// Runs `change` as [`write()`] does.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn write<T>(
        &self,
        session: &Session,
        change: impl FnMut(&Transaction) -> siltdb::Result<T>,
    ) -> Result<T> {
        write(session, &self.family, self.durability, change)
    }
}

/// Runs `change` in the current transaction, or in one of its own with `durability`.
///
/// # Errors
/// Errors of the database and of `change`.
pub fn write<T>(
    session: &Session,
    family: &FamilyArguments,
    durability: DurabilityArguments,
    mut change: impl FnMut(&Transaction) -> siltdb::Result<T>,
) -> Result<T> {
    let family = match session.scope(family.name())? {
        Scope::Committed(family) => family,
        Scope::Transaction(transaction) => {
            durability.refuse_in_transaction()?;
            return all_or_none(&transaction, || Ok(change(&transaction)?));
        }
    };
    let durability = durability.or(Durability::Synced);
    let options = UpdateOptions::new().durability(durability);
    let value = session.db().update_with(&options, |tx| change(&tx.family(&family)?))?;
    session.finish_once(durability)?;
    Ok(value)
}

/// Runs `change` as [`write()`] does, in the bucket that a data verb names.
///
/// # Errors
/// As [`write()`].
pub fn write_in(
    session: &Session,
    path: &[Vec<u8>],
    family: &FamilyArguments,
    durability: DurabilityArguments,
    mut change: impl FnMut(&Bucket<Transaction>) -> siltdb::Result<()>,
) -> Result<()> {
    write(session, family, durability, |tx| change(&tx.bucket(path)?))
}
