//! The key types of the library.
//!
//! Their encodings are kept in databases: they never change, and another encoding is another name.

use crate::key::{Key, KeyReader, invert, put_delimited};
use siltdb_base::error::{Error, Result};
use std::{
    cmp::{Ordering, Reverse},
    ops::RangeInclusive,
};

macro_rules! unsigned_keys {
    ($($type:ident)*) => {$(
        impl Key for $type {
            fn order_name() -> String {
                stringify!($type).to_owned()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
                from.array().map(Self::from_be_bytes)
            }
        }
    )*};
}

unsigned_keys!(u8 u16 u32 u64 u128);

macro_rules! signed_keys {
    ($($type:ident)*) => {$(
        impl Key for $type {
            fn order_name() -> String {
                stringify!($type).to_owned()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self ^ Self::MIN).to_be_bytes());
            }

            fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
                from.array().map(|bytes| Self::from_be_bytes(bytes) ^ Self::MIN)
            }
        }
    )*};
}

signed_keys!(i8 i16 i32 i64 i128);

macro_rules! float_keys {
    ($($type:ident $bits:ident)*) => {$(
        impl Key for $type {
            fn order_name() -> String {
                stringify!($type).to_owned()
            }

            fn encode(&self, out: &mut Vec<u8>) {
                let (bits, sign) = (self.to_bits(), 1 << ($bits::BITS - 1));
                let ordered = if bits & sign == 0 { bits ^ sign } else { !bits };
                out.extend_from_slice(&ordered.to_be_bytes());
            }

            fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
                let (ordered, sign) = ($bits::from_be_bytes(from.array()?), 1 << ($bits::BITS - 1));
                let bits = if ordered & sign == 0 { !ordered } else { ordered ^ sign };
                Ok(Self::from_bits(bits))
            }
        }
    )*};
}

float_keys!(f32 u32 f64 u64);

impl Key for bool {
    fn order_name() -> String {
        "bool".to_owned()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::corruption("a field of a key is no bool")),
        }
    }
}

impl Key for Vec<u8> {
    fn order_name() -> String {
        "bytewise".to_owned()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_delimited(out, self);
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        from.delimited()
    }

    fn encode_last(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode_last(from: &mut KeyReader<'_>) -> Result<Self> {
        Ok(from.rest())
    }
}

impl Key for String {
    fn order_name() -> String {
        "string".to_owned()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_delimited(out, self.as_bytes());
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        text(from.delimited()?)
    }

    fn encode_last(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn decode_last(from: &mut KeyReader<'_>) -> Result<Self> {
        text(from.rest())
    }
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::corruption("a field of a key is not UTF-8"))
}

impl<const N: usize> Key for [u8; N] {
    fn order_name() -> String {
        format!("bytes[{N}]")
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        from.array()
    }
}

/// An integer of `N` bytes that the program keeps in little-endian order: as a key it is in the
/// order of the numbers. `N` is 1 to 16.
///
/// ```
/// use siltdb::{Key, LittleEndian};
///
/// let (one, many) = (LittleEndian(1_u32.to_le_bytes()), LittleEndian(256_u32.to_le_bytes()));
/// assert!(one < many && one.to_key() < many.to_key());
/// assert!(one.0 > many.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LittleEndian<const N: usize>(pub [u8; N]);

impl<const N: usize> LittleEndian<N> {
    fn big_endian(mut self) -> [u8; N] {
        self.0.reverse();
        self.0
    }
}

impl<const N: usize> Ord for LittleEndian<N> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.big_endian().cmp(&other.big_endian())
    }
}

impl<const N: usize> PartialOrd for LittleEndian<N> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const N: usize> Key for LittleEndian<N> {
    fn order_name() -> String {
        const { assert!(N >= 1 && N <= 16, "an integer has 1 to 16 bytes") }
        format!("le[{N}]")
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.big_endian());
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        from.array().map(|bytes| Self(Self(bytes).big_endian()))
    }
}

/// Text in the order of its lower case: `a`, `B`, `b`, `c`. Only ASCII letters have a case, as the
/// name of the order says: `caseless-ascii`, formerly `caseless`.
///
/// The text is kept as it was given. Spellings that differ are different keys, beside each other,
/// with upper case first. [`Caseless::spellings`] is the range of them.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{Caseless, FamilyOptions, KeyOrder};
///
/// let options = FamilyOptions::new().key_order(KeyOrder::of::<Caseless>());
/// let files = db.create_family("files", options)?.typed::<Caseless, u64>()?;
/// for (size, name) in ["readme", "Zebra", "README", "apple"].into_iter().enumerate() {
///     files.put(&Caseless(name.to_owned()), &(size as u64))?;
/// }
/// let names: siltdb::Result<Vec<_>> = files.keys(..)?.map(|name| Ok(name?.0)).collect();
/// assert_eq!(names?, ["apple", "README", "readme", "Zebra"]);
/// assert_eq!(files.count(Caseless::spellings("ReadMe"))?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caseless(pub String);

impl Caseless {
    /// Returns the range of the keys that differ from `text` in case alone.
    #[must_use]
    pub fn spellings(text: &str) -> RangeInclusive<Self> {
        Self(text.to_ascii_uppercase())..=Self(text.to_ascii_lowercase())
    }
}

impl Ord for Caseless {
    fn cmp(&self, other: &Self) -> Ordering {
        let folded = |text: &Self| text.0.to_ascii_lowercase();
        folded(self).cmp(&folded(other)).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Caseless {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Key for Caseless {
    fn order_name() -> String {
        "caseless-ascii".to_owned()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_delimited(out, self.0.to_ascii_lowercase().as_bytes());
        // From the highest bit on, 0 for upper case: upper case comes first, as in ASCII.
        let bit = |(index, byte): (usize, &u8)| u8::from(!byte.is_ascii_uppercase()) << (7 - index);
        let bits = |bytes: &[u8]| bytes.iter().enumerate().map(bit).sum::<u8>();
        out.extend(self.0.as_bytes().chunks(8).map(bits));
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        let mut spelled = from.delimited()?;
        for bytes in spelled.chunks_mut(8) {
            let mut bits = from.byte()?;
            for byte in bytes {
                let is_upper = bits & 0x80 == 0;
                bits <<= 1;
                match (byte.is_ascii_lowercase(), is_upper) {
                    (true, true) => byte.make_ascii_uppercase(),
                    (false, true) => return Err(bad_case()),
                    (_, false) if byte.is_ascii_uppercase() => return Err(bad_case()),
                    (_, false) => {}
                }
            }
            if bits != 0 {
                return Err(bad_case());
            }
        }
        text(spelled).map(Self)
    }
}

fn bad_case() -> Error {
    Error::corruption("a field of a key has bad letter cases")
}

impl<K: Key> Key for Reverse<K> {
    fn order_name() -> String {
        format!("reverse({})", K::order_name())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        self.0.encode(out);
        invert(&mut out[start..]);
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        from.reversed(K::decode).map(Self)
    }
}

impl<K: Key> Key for Option<K> {
    fn order_name() -> String {
        format!("option({})", K::order_name())
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode(out);
        }
    }

    fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
        Ok(if bool::decode(from)? { Some(K::decode(from)?) } else { None })
    }

    fn encode_last(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode_last(out);
        }
    }

    fn decode_last(from: &mut KeyReader<'_>) -> Result<Self> {
        Ok(if bool::decode(from)? { Some(K::decode_last(from)?) } else { None })
    }
}

macro_rules! tuple_keys {
    ($(($($type:ident $index:tt)+; $last:ident $last_index:tt))*) => {$(
        impl<$($type: Key,)+ $last: Key> Key for ($($type,)+ $last) {
            fn order_name() -> String {
                let fields = [$($type::order_name(),)+ $last::order_name()];
                format!("({})", fields.join(","))
            }

            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)+
                self.$last_index.encode(out);
            }

            fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
                Ok(($($type::decode(from)?,)+ $last::decode(from)?))
            }

            fn encode_last(&self, out: &mut Vec<u8>) {
                $(self.$index.encode(out);)+
                self.$last_index.encode_last(out);
            }

            fn decode_last(from: &mut KeyReader<'_>) -> Result<Self> {
                Ok(($($type::decode(from)?,)+ $last::decode_last(from)?))
            }
        }
    )*};
}

tuple_keys! {
    (A 0; B 1)
    (A 0 B 1; C 2)
    (A 0 B 1 C 2; D 3)
    (A 0 B 1 C 2 D 3; E 4)
    (A 0 B 1 C 2 D 3 E 4; F 5)
}

/// A key of type `K`, by value or in a borrowed form: a `&str` for a `String`, a `&[u8]` for a
/// `Vec<u8>`.
pub trait KeyForm<K> {
    /// Returns the encoding as a whole key.
    fn form(&self) -> Vec<u8>;
}

impl<K: Key> KeyForm<K> for K {
    fn form(&self) -> Vec<u8> {
        self.to_key()
    }
}

impl KeyForm<String> for str {
    fn form(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl KeyForm<Vec<u8>> for [u8] {
    fn form(&self) -> Vec<u8> {
        self.to_vec()
    }
}

/// The beginning of keys of type `K`: the first fields of a tuple, or a part of a text.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{FamilyOptions, KeyOrder};
///
/// let options = FamilyOptions::new().key_order(KeyOrder::of::<(String, u32)>());
/// let pages = db.create_family("pages", options)?.typed::<(String, u32), String>()?;
/// for (book, page) in [("a", 1), ("a", 2), ("ab", 1)] {
///     pages.put(&(book.to_owned(), page), &"text".to_owned())?;
/// }
/// assert_eq!(pages.prefix(&("a".to_owned(),))?.count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait KeyPrefix<K> {
    /// Returns the bytes with which the keys begin.
    fn prefix(&self) -> Vec<u8>;
}

impl KeyPrefix<String> for str {
    fn prefix(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl KeyPrefix<Vec<u8>> for [u8] {
    fn prefix(&self) -> Vec<u8> {
        self.to_vec()
    }
}

macro_rules! tuple_prefixes {
    ($(($($type:ident $index:tt)+; $($rest:ident)+))*) => {$(
        impl<$($type: Key,)+ $($rest: Key),+> KeyPrefix<($($type,)+ $($rest),+)> for ($($type,)+) {
            fn prefix(&self) -> Vec<u8> {
                let mut prefix = Vec::new();
                $(self.$index.encode(&mut prefix);)+
                prefix
            }
        }
    )*};
}

tuple_prefixes! {
    (A 0; B)
    (A 0; B C)
    (A 0; B C D)
    (A 0; B C D E)
    (A 0; B C D E F)
    (A 0 B 1; C)
    (A 0 B 1; C D)
    (A 0 B 1; C D E)
    (A 0 B 1; C D E F)
    (A 0 B 1 C 2; D)
    (A 0 B 1 C 2; D E)
    (A 0 B 1 C 2; D E F)
    (A 0 B 1 C 2 D 3; E)
    (A 0 B 1 C 2 D 3; E F)
    (A 0 B 1 C 2 D 3 E 4; F)
}

#[cfg(test)]
mod tests;
