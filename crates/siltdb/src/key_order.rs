//! Orders of keys by name, and keys as text in their order: for tools, which know no types.
//!
//! # Names
//! ```text
//! order:  u8 … u128  i8 … i128  f32  f64  bool  string  bytewise  caseless-ascii
//!         bytes[N]  le[N]  option(order)  reverse(order)  (order,order,…)
//!         a name with a dot: that of a program
//! ```
//!
//! `caseless` is the old name of `caseless-ascii`.
//!
//! It does not store names, and `typed` compares them.

mod text;

use crate::key::Key;
use siltdb_base::error::{Error, Result};
use siltdb_tree::{
    options::BYTEWISE,
    order_name::{KEY_ORDER_BYTES_MAX, present_name},
};
use std::{fmt, sync::Arc};

/// Widths of integers, in bytes.
const WIDTHS: [(&str, usize); 5] = [("8", 1), ("16", 2), ("32", 4), ("64", 8), ("128", 16)];

/// Most fields of a tuple: as many as a key type of the library has.
const FIELDS_MAX: usize = 6;

/// The order of the keys of a family: an encoding, by name.
///
/// The engine compares bytes; a [`Key`] type gives the encoding. The name is stored with the
/// family, and [`Family::typed`](crate::Family::typed) refuses another one. A program that knows
/// the name alone converts keys to text and back.
///
/// ```
/// use siltdb::{Key, KeyOrder};
/// use std::cmp::Reverse;
///
/// let order = KeyOrder::of::<(Reverse<u64>, String)>();
/// assert_eq!(order, KeyOrder::named("(reverse(u64),string)")?);
/// let key = (Reverse(7_u64), "a".to_owned()).to_key();
/// assert_eq!(order.text_of(&key)?, r#"(7,"a")"#);
/// assert_eq!(order.key_of(r#"(7, "a")"#)?, key);
/// # Ok::<(), siltdb::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyOrder {
    name: Arc<str>,
    field: Field,
}

impl fmt::Debug for KeyOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyOrder").field(&self.name).finish()
    }
}

/// The encoding of a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Field {
    Bytewise,
    Text,
    Caseless,
    Bool,
    /// An integer without sign; its width in bytes.
    Unsigned(usize),
    /// An integer with a sign; its width in bytes.
    Signed(usize),
    Float32,
    Float64,
    /// So many bytes.
    Bytes(usize),
    /// A little-endian integer; its width in bytes.
    LittleEndian(usize),
    Optional(Box<Field>),
    Reverse(Box<Field>),
    Tuple(Vec<Field>),
    /// An encoding of a program.
    Custom,
}

impl KeyOrder {
    /// The order of keys without an encoding: that of their bytes.
    #[must_use]
    pub fn bytewise() -> Self {
        Self { name: BYTEWISE.into(), field: Field::Bytewise }
    }

    /// The order of a key type.
    #[must_use]
    pub fn of<K: Key>() -> Self {
        // A program may have written an old name into a type of its own.
        Self::stored(Some(present_name(&K::order_name()).into()))
    }

    /// The order of this name: one that [`Key`] lists, or one of a program, which has a dot.
    ///
    /// # Errors
    /// `InvalidArgument` for any other name. `caseless` is taken for its present name.
    pub fn named(name: &str) -> Result<Self> {
        let unknown = || {
            Error::invalid(format!("unknown key order {name:?}"))
                .with_hint("orders of a program have a dot in their name, as geo.point")
        };
        let name = present_name(name);
        let field = parse(&name).ok_or_else(unknown)?;
        Ok(Self { name: name.into(), field })
    }

    /// The order with the name that a family has, a present one; `None` is bytewise.
    pub(crate) fn stored(name: Option<Arc<str>>) -> Self {
        let name = name.unwrap_or_else(|| BYTEWISE.into());
        let field = parse(&name).unwrap_or(Field::Custom);
        Self { name, field }
    }

    /// Returns the name in the form that a family stores.
    pub(crate) fn into_stored(self) -> Option<Arc<str>> {
        (*self.name != *BYTEWISE).then_some(self.name)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether keys have a text of their own. If not, they are shown as bytes: their order
    /// is bytewise, or the encoding is that of a program.
    #[must_use]
    pub fn has_text(&self) -> bool {
        self.field != Field::Bytewise && self.field.is_known()
    }
}

impl Field {
    fn is_known(&self) -> bool {
        match self {
            Self::Custom => false,
            Self::Optional(field) | Self::Reverse(field) => field.is_known(),
            Self::Tuple(fields) => fields.iter().all(Self::is_known),
            _ => true,
        }
    }
}

/// Parses a name that is an order as a whole.
fn parse(name: &str) -> Option<Field> {
    let (field, rest) = parse_field(name)?;
    rest.is_empty().then_some(field)
}

/// Parses the order at the beginning of `name`; returns what follows it. The depth is bounded by
/// the length of a name.
fn parse_field(name: &str) -> Option<(Field, &str)> {
    if name.len() > KEY_ORDER_BYTES_MAX {
        return None;
    }
    if let Some(mut rest) = name.strip_prefix('(') {
        let mut fields = Vec::new();
        loop {
            let (field, after) = parse_field(rest)?;
            fields.push(field);
            match after.strip_prefix(',') {
                Some(next) if fields.len() < FIELDS_MAX => rest = next,
                Some(_) => return None,
                None => {
                    let is_tuple = fields.len() > 1;
                    return is_tuple.then_some((Field::Tuple(fields), after.strip_prefix(')')?));
                }
            }
        }
    }
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let end = name.find(|c| !is_of_word(c)).unwrap_or(name.len());
    let (word, rest) = name.split_at(end);
    match word {
        "option" | "reverse" => {
            let (field, rest) = parse_field(rest.strip_prefix('(')?)?;
            let wrap = if word == "option" { Field::Optional } else { Field::Reverse };
            Some((wrap(Box::new(field)), rest.strip_prefix(')')?))
        }
        "bytes" | "le" => {
            let (length, rest) = rest.strip_prefix('[')?.split_once(']')?;
            let number = length.parse::<u16>().ok()?;
            let is_plain = number.to_string() == length;
            let field = match word {
                "le" if (1..=16).contains(&number) => Field::LittleEndian(number.into()),
                "bytes" => Field::Bytes(number.into()),
                _ => return None,
            };
            is_plain.then_some((field, rest))
        }
        _ => Some((parse_word(word)?, rest)),
    }
}

fn parse_word(word: &str) -> Option<Field> {
    let width =
        |bits: &str| WIDTHS.iter().find(|(known, _)| *known == bits).map(|(_, width)| *width);
    Some(match word {
        BYTEWISE => Field::Bytewise,
        "string" => Field::Text,
        "caseless-ascii" | "caseless" => Field::Caseless,
        "bool" => Field::Bool,
        "f32" => Field::Float32,
        "f64" => Field::Float64,
        _ if word.contains('.') => Field::Custom,
        _ => match (word.strip_prefix('u'), word.strip_prefix('i')) {
            (Some(bits), _) => Field::Unsigned(width(bits)?),
            (_, Some(bits)) => Field::Signed(width(bits)?),
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests;
