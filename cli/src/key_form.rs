//! Keys of a family on the command line: as text in its key order, or as bytes.
//!
//! In the plain form, keys of a family with a key order are the text of that order: `7` and not
//! eight bytes. With `--escape` and `--hex`, and without an order, they are the stored bytes.

use crate::argument::{BoundsArguments, FamilyArguments, bytes};
use crate::bounds::{KeyRange, key_range};
use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::session::Session;
use crate::text::Form;
use siltdb::{Error, Key, KeyOrder};
use std::{borrow::Cow, ffi::OsStr};

/// The form of the keys of one family.
pub struct KeyForm {
    form: Form,
    /// `None` if keys are shown and taken as bytes.
    order: Option<KeyOrder>,
    /// Whether the family sorts keys by their bytes.
    is_bytewise: bool,
}

impl KeyForm {
    /// The form of the keys of a family with `order`, in output of `form`.
    pub fn new(form: Form, order: KeyOrder) -> Self {
        let is_bytewise = order == KeyOrder::bytewise();
        let order = Some(order).filter(|order| form == Form::Plain && order.has_text());
        Self { form, order, is_bytewise }
    }

    /// The form of the keys of the family that a verb works on.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is no such family.
    pub fn of(session: &Session, family: &FamilyArguments) -> Result<Self> {
        let order = session.family_of(family.name())?.key_order();
        Ok(Self::new(session.output.settings().form, order))
    }

    /// Parses an argument as a key.
    ///
    /// # Errors
    /// [`Failure::Usage`] if it is not in the form.
    pub fn parse(&self, text: &OsStr) -> Result<Vec<u8>> {
        let key = bytes(text, self.form)?;
        Ok(self.encoded(&key)?.into_owned())
    }

    /// Returns the stored bytes of a key of which `key` is the text.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the text is not a key of the order.
    pub fn encoded<'a>(&self, key: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let Some(order) = &self.order else { return Ok(Cow::Borrowed(key)) };
        let usage = |reason: String| Failure::Usage(reason);
        let text = str::from_utf8(key).map_err(|_| usage("a key is not UTF-8".to_owned()))?;
        let key = order.key_of(text).map_err(|error| usage(told(&error)))?;
        Ok(Cow::Owned(key))
    }

    /// Returns whether the text of a key differs from its stored bytes.
    pub fn has_text(&self) -> bool {
        self.order.is_some()
    }

    /// Returns whether the family may have buckets: one with a key order has none.
    pub fn may_have_buckets(&self) -> bool {
        self.is_bytewise
    }

    /// Returns the key as output shows it, before the form of the output escapes it.
    ///
    /// # Errors
    /// An error of the database: the stored bytes are not a key of the order.
    pub fn shown<'a>(&self, key: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        let Some(order) = &self.order else { return Ok(Cow::Borrowed(key)) };
        let hint = "`--escape` and `--hex` show the bytes of keys";
        let text = order.text_of(key).map_err(|error: Error| error.with_hint(hint))?;
        Ok(Cow::Owned(text.into_bytes()))
    }

    /// Returns the key as [`KeyForm::shown`] does, or its bytes if they are not a key of the order,
    /// as the bound of a deleted range.
    pub fn shown_or_bytes<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        self.shown(key).unwrap_or(Cow::Borrowed(key))
    }

    /// Parses the beginning of keys.
    ///
    /// # Errors
    /// [`Failure::Usage`] where the text of a key does not begin as its bytes do, and for a text
    /// that is not in the form.
    pub fn prefix(&self, text: &OsStr) -> Result<Vec<u8>> {
        let is_plain = |order: &KeyOrder| order.name() == String::order_name();
        if self.order.as_ref().is_none_or(is_plain) {
            return bytes(text, self.form);
        }
        let reason = "--prefix takes bytes in a family with a key order: add --escape or --hex";
        Err(Failure::Usage(reason.to_owned()))
    }

    /// Returns the range of keys between `bounds`; `None` if it is empty.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a key that is not in the form, and for a prefix where the text of a
    /// key does not begin as its bytes do.
    pub fn range(&self, bounds: &BoundsArguments) -> Result<Option<KeyRange>> {
        let (prefix, from, to) = bounds.texts();
        let prefix = prefix.map(|text| self.prefix(text)).transpose()?;
        let parse = |text: Option<&OsStr>| text.map(|text| self.parse(text)).transpose();
        Ok(key_range(prefix, parse(from)?, parse(to)?))
    }
}
