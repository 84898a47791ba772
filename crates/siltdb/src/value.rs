//! Values of a type: encodings without an order.
//!
//! They carry no name of their type: a program has to know what it stored. The encodings of the
//! library's types never change, because databases keep them.

#[cfg(feature = "serde")]
pub(crate) mod postcard;

use siltdb_base::error::{Error, Result};

/// A type whose values are stored as values.
///
/// Every encoding decodes to the value that it was made from, and bytes that encode no value are an
/// error.
///
/// | type | encoding |
/// |---|---|
/// | integers, floats | little-endian |
/// | `bool` | 0, 1 |
/// | `String`, `Vec<u8>` | as they are; before other fields after their length, u32 le |
/// | `[u8; N]` | as they are |
/// | `()` | nothing |
/// | `Option<V>` | 0, or 1 and the value |
/// | tuples of 2 to 6 fields | one field after the other |
///
/// A type of a program composes these, as a [`Key`](crate::Key) does. It can also wrap the codec of
/// another library in [`pack`](Value::pack) and [`unpack`](Value::unpack): with the feature
/// `serde`, `Postcard<T>` does so for types that serde serializes.
///
/// ```
/// use siltdb::{Result, Value};
///
/// #[derive(Debug, PartialEq)]
/// struct Point { x: f64, y: f64 }
///
/// impl Value for Point {
///     fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
///         self.x.pack(out)?;
///         self.y.pack(out)
///     }
///
///     fn unpack(from: &mut &[u8]) -> Result<Self> {
///         Ok(Self { x: f64::unpack(from)?, y: f64::unpack(from)? })
///     }
/// }
///
/// let point = Point { x: 1.0, y: 2.0 };
/// assert_eq!(Point::from_value(&point.to_value()?)?, point);
/// assert!(Point::from_value(b"short").is_err());
/// # Ok::<(), siltdb::Error>(())
/// ```
pub trait Value: Sized {
    /// Appends the encoding. [`unpack`](Self::unpack) finds its end, because fields may follow.
    ///
    /// # Errors
    /// `InvalidArgument`, if the value has no encoding: for the types of the library, a field of
    /// 4 GiB or more.
    fn pack(&self, out: &mut Vec<u8>) -> Result<()>;

    /// Reads what [`pack`](Self::pack) wrote, and moves `from` behind it.
    ///
    /// # Errors
    /// `Corruption`, if the bytes encode no value.
    fn unpack(from: &mut &[u8]) -> Result<Self>;

    /// Appends the encoding as the last field, which ends where the value ends.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    fn pack_last(&self, out: &mut Vec<u8>) -> Result<()> {
        self.pack(out)
    }

    /// Reads what [`pack_last`](Self::pack_last) wrote, up to the end of the value.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack).
    fn unpack_last(from: &mut &[u8]) -> Result<Self> {
        Self::unpack(from)
    }

    /// Returns the encoding as a whole value.
    ///
    /// # Errors
    /// As [`pack`](Self::pack).
    fn to_value(&self) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.pack_last(&mut value)?;
        Ok(value)
    }

    /// Reads a whole value.
    ///
    /// # Errors
    /// As [`unpack`](Self::unpack).
    fn from_value(mut value: &[u8]) -> Result<Self> {
        let read = Self::unpack_last(&mut value)?;
        if value.is_empty() { Ok(read) } else { Err(Error::corruption("a value is too long")) }
    }
}

/// Takes the first `N` bytes.
fn array<const N: usize>(from: &mut &[u8]) -> Result<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk().ok_or_else(short)?;
    *from = rest;
    Ok(*bytes)
}

fn short() -> Error {
    Error::corruption("a value ends within a field")
}

macro_rules! number_values {
    ($($type:ident)*) => {$(
        impl Value for $type {
            fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
                out.extend_from_slice(&self.to_le_bytes());
                Ok(())
            }

            fn unpack(from: &mut &[u8]) -> Result<Self> {
                array(from).map(Self::from_le_bytes)
            }
        }
    )*};
}

number_values!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl Value for bool {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(u8::from(*self));
        Ok(())
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        match array(from)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Error::corruption("a field of a value is no bool")),
        }
    }
}

impl Value for () {
    fn pack(&self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn unpack(_: &mut &[u8]) -> Result<Self> {
        Ok(())
    }
}

impl<const N: usize> Value for [u8; N] {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        array(from)
    }
}

impl Value for Vec<u8> {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        pack_bytes(self, out)
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        let length = usize::try_from(u32::unpack(from)?).map_err(|_| short())?;
        let (bytes, rest) = from.split_at_checked(length).ok_or_else(short)?;
        *from = rest;
        Ok(bytes.to_vec())
    }

    fn pack_last(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self);
        Ok(())
    }

    fn unpack_last(from: &mut &[u8]) -> Result<Self> {
        Ok(std::mem::take(from).to_vec())
    }
}

impl Value for String {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        pack_bytes(self.as_bytes(), out)
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        text(Vec::unpack(from)?)
    }

    fn pack_last(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self.as_bytes());
        Ok(())
    }

    fn unpack_last(from: &mut &[u8]) -> Result<Self> {
        text(Vec::unpack_last(from)?)
    }
}

/// Appends bytes after their length.
fn pack_bytes(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(bytes.len());
    length.map_err(|_| Error::invalid("a field of a value is too long"))?.pack(out)?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Error::corruption("a field of a value is not UTF-8"))
}

impl<V: Value> Value for Option<V> {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        self.is_some().pack(out)?;
        self.as_ref().map_or(Ok(()), |value| value.pack(out))
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        Ok(if bool::unpack(from)? { Some(V::unpack(from)?) } else { None })
    }

    fn pack_last(&self, out: &mut Vec<u8>) -> Result<()> {
        self.is_some().pack(out)?;
        self.as_ref().map_or(Ok(()), |value| value.pack_last(out))
    }

    fn unpack_last(from: &mut &[u8]) -> Result<Self> {
        Ok(if bool::unpack(from)? { Some(V::unpack_last(from)?) } else { None })
    }
}

macro_rules! tuple_values {
    ($(($($type:ident $index:tt)+; $last:ident $last_index:tt))*) => {$(
        impl<$($type: Value,)+ $last: Value> Value for ($($type,)+ $last) {
            fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
                $(self.$index.pack(out)?;)+
                self.$last_index.pack(out)
            }

            fn unpack(from: &mut &[u8]) -> Result<Self> {
                Ok(($($type::unpack(from)?,)+ $last::unpack(from)?))
            }

            fn pack_last(&self, out: &mut Vec<u8>) -> Result<()> {
                $(self.$index.pack(out)?;)+
                self.$last_index.pack_last(out)
            }

            fn unpack_last(from: &mut &[u8]) -> Result<Self> {
                Ok(($($type::unpack(from)?,)+ $last::unpack_last(from)?))
            }
        }
    )*};
}

tuple_values! {
    (A 0; B 1)
    (A 0 B 1; C 2)
    (A 0 B 1 C 2; D 3)
    (A 0 B 1 C 2 D 3; E 4)
    (A 0 B 1 C 2 D 3 E 4; F 5)
}

#[cfg(test)]
mod tests;
