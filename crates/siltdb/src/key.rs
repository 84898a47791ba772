//! Keys of a type: encodings whose bytes have the order of the values.
//!
//! The engine compares bytes and nothing else. A key type is an encoding and a name, which a family
//! stores. The types of this library are in `key_types`; programs add their own.
//!
//! A field before others is *delimited*: no encoding of its type begins with another one. The last
//! field of a key need not be, because the key ends there. Text as the last field lies in the key
//! as it is; before others, it lies as
//!
//! ```text
//! | bytes, each 00 as 00 ff | 00 00 |
//! ```

use siltdb_base::error::{Error, Result};

/// Byte after a zero byte of the content, which is greater than that of the end.
const ESCAPED: u8 = 0xff;

/// Byte after the zero byte that ends the content.
const END: u8 = 0;

/// A type whose values are keys, in their order.
///
/// The order of the encodings, byte by byte, is the order of the type. That is `Ord`, and for
/// floats `total_cmp`. Every encoding decodes to the value that it was made from, and bytes that
/// encode no value are an error.
///
/// | type | name of the order | encoding |
/// |---|---|---|
/// | `u8` to `u128` | `u8` … | big-endian |
/// | `i8` to `i128` | `i8` … | big-endian, sign bit inverted |
/// | `f32`, `f64` | `f32`, `f64` | big-endian; negative: all bits inverted, else the sign bit |
/// | `bool` | `bool` | 0, 1 |
/// | `Vec<u8>`, `String` | `bytewise`, `string` | as they are; before other fields delimited |
/// | `[u8; N]` | `bytes[N]` | as they are; also integers that are big-endian already |
/// | [`LittleEndian<N>`](crate::LittleEndian) | `le[N]` | the bytes from the last to the first |
/// | [`Caseless`](crate::Caseless) | `caseless-ascii` | lower case, delimited; a bit a byte |
/// | [`Reverse<K>`](std::cmp::Reverse) | `reverse(K)` | delimited, all bits inverted |
/// | `Option<K>` | `option(K)` | 0, or 1 and the value |
/// | tuples of 2 to 6 fields | `(A,B)` … | one field after the other |
///
/// A type of a program composes these. Its name has a dot, so that it is no name of this library:
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{FamilyOptions, Key, KeyOrder, KeyReader, Result};
///
/// /// Days in their order.
/// #[derive(Debug, PartialEq)]
/// struct Day { year: u16, day: u16 }
///
/// impl Key for Day {
///     fn order_name() -> String {
///         "calendar.day".to_owned()
///     }
///
///     fn encode(&self, out: &mut Vec<u8>) {
///         self.year.encode(out);
///         self.day.encode(out);
///     }
///
///     fn decode(from: &mut KeyReader<'_>) -> Result<Self> {
///         Ok(Self { year: u16::decode(from)?, day: u16::decode(from)? })
///     }
/// }
///
/// let options = FamilyOptions::new().key_order(KeyOrder::of::<Day>());
/// let rain = db.create_family("rain", options)?.typed::<Day, f64>()?;
/// rain.put(&Day { year: 2026, day: 300 }, &1.5)?;
/// rain.put(&Day { year: 2026, day: 7 }, &0.0)?;
/// assert_eq!(rain.last()?, Some((Day { year: 2026, day: 300 }, 1.5)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Key: Sized {
    /// Returns the name of the order. Another encoding needs another name: data outlives programs.
    /// At most 255 printable ASCII characters; one of a program has a dot.
    fn order_name() -> String;

    /// Appends the encoding. It is not the beginning of another value's encoding, because fields
    /// may follow.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// `Corruption`, if the bytes encode no value.
    fn decode(from: &mut KeyReader<'_>) -> Result<Self>;

    /// Appends the encoding as the last field of a key. It may be the beginning of another one, but
    /// only of that of a greater value.
    fn encode_last(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    /// Reads what [`encode_last`](Self::encode_last) wrote, up to the end of the key.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn decode_last(from: &mut KeyReader<'_>) -> Result<Self> {
        Self::decode(from)
    }

    /// Returns the encoding as a whole key: for buckets, locks and other verbs that take bytes.
    fn to_key(&self) -> Vec<u8> {
        let mut key = Vec::new();
        self.encode_last(&mut key);
        key
    }

    /// Reads a whole key, such as one of the change feed.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn from_key(key: &[u8]) -> Result<Self> {
        let mut from = KeyReader::new(key);
        let read = Self::decode_last(&mut from).and_then(|value| from.finish().map(|()| value));
        read.map_err(|error| error.with_mismatch(Self::order_name(), key.escape_ascii()))
    }
}

/// The bytes of a key that are left to decode.
#[derive(Debug)]
pub struct KeyReader<'a> {
    bytes: &'a [u8],
    /// 0xff within a reversed field, else 0.
    inverted: u8,
}

impl<'a> KeyReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, inverted: 0 }
    }

    /// Reads a byte.
    ///
    /// # Errors
    /// `Corruption`, if none is left.
    pub fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Reads `N` bytes.
    ///
    /// # Errors
    /// `Corruption`, if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or_else(|| Error::corruption("a key ends within a field"))?;
        self.bytes = rest;
        Ok(bytes.map(|byte| byte ^ self.inverted))
    }

    /// Reads delimited bytes.
    ///
    /// # Errors
    /// `Corruption`, if they do not end, or have an unknown escape.
    pub fn delimited(&mut self) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        loop {
            match self.byte()? {
                0 => match self.byte()? {
                    END => return Ok(content),
                    ESCAPED => content.push(0),
                    _ => return Err(Error::corruption("unknown escape in a key")),
                },
                byte => content.push(byte),
            }
        }
    }

    /// Reads all bytes that are left.
    pub fn rest(&mut self) -> Vec<u8> {
        let inverted = self.inverted;
        std::mem::take(&mut self.bytes).iter().map(|byte| byte ^ inverted).collect()
    }

    /// Reads a field of which all bits are inverted.
    pub(crate) fn reversed<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.inverted = !self.inverted;
        let field = read(self);
        self.inverted = !self.inverted;
        field
    }

    /// Succeeds if nothing is left.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Error::corruption("a key is too long")) }
    }
}

/// Appends `content` so that it is delimited, as [`KeyReader::delimited`] reads it.
pub fn put_delimited(out: &mut Vec<u8>, content: &[u8]) {
    for &byte in content {
        out.push(byte);
        if byte == 0 {
            out.push(ESCAPED);
        }
    }
    out.extend_from_slice(&[0, END]);
}

/// Inverts all bits, which reverses the order of delimited fields.
pub(crate) fn invert(bytes: &mut [u8]) {
    for byte in bytes {
        *byte = !*byte;
    }
}
