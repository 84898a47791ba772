//! Fields: the form of everything on disk that later versions may add to.
//!
//! It knows no field; those of a list and their meaning stand with their owner.
//!
//! ```text
//! | tag varint | length varint | value | ...      tags ascend strictly and begin with 1
//! ```
//!
//! A field that is absent has its default. Bit 6 of a tag says what a reader does that does not
//! know it. Without the bit the field is critical: the reader refuses the whole as unsupported.
//! With the bit the field is optional: the reader keeps its bytes and writes them back unchanged.

use siltdb_base::{
    codec::{ByteReader, put_bytes, put_varint},
    error::{Error, ErrorKind, Result},
};

/// The bit of a tag that says that its field is optional.
pub const OPTIONAL: u64 = 1 << 6;

/// A list of fields, for messages.
#[derive(Clone, Copy, Debug)]
pub struct FieldList {
    /// What the fields are of.
    pub of: &'static str,
    /// Tags that are reserved, and what for.
    pub reserved: &'static [(u64, &'static str)],
}

impl FieldList {
    /// The refusal of something critical with a tag that is not known.
    #[must_use]
    pub fn unsupported(&self, tag: u64) -> Error {
        let name = self.reserved.iter().find(|(reserved, _)| *reserved == tag);
        let name = name.map_or("a field of a later version", |(_, name)| name);
        let message = format!("{}: {name} is not supported by this version", self.of);
        Error::new(ErrorKind::Unsupported, message).with_mismatch("a tag that is known", tag)
    }
}

/// Optional fields that this build does not know, as they lay on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnknownFields(Box<[u8]>);

impl UnknownFields {
    /// Their tags, ascending.
    pub fn tags(&self) -> impl Iterator<Item = u64> + '_ {
        let mut reader = ByteReader::new(&self.0);
        std::iter::from_fn(move || next(&mut reader).ok().flatten().map(|(tag, _)| tag))
    }
}

/// Whether a field is one that its reader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredField {
    /// It is, and was read.
    Known,
    /// It is not, and nothing was read.
    Unknown,
}

/// Gives every field of `bytes` to `read`, which reads all of a value that it knows.
///
/// # Errors
/// Corruption, if tags do not ascend or a value is shorter or longer than what it holds.
/// `Unsupported`, for a critical field that `read` does not know. The errors of `read`.
pub fn read_fields<'a>(
    list: &FieldList,
    bytes: &'a [u8],
    mut read: impl FnMut(u64, &mut ByteReader<'a>) -> Result<StoredField>,
) -> Result<UnknownFields> {
    let (mut reader, mut last, mut unknown) = (ByteReader::new(bytes), 0, Vec::new());
    loop {
        let field = reader.rest();
        let Some((tag, value)) = next(&mut reader)? else { break };
        if tag <= last {
            return Err(Error::corruption(format!("{}: fields out of order", list.of))
                .with_mismatch(format_args!("a tag above {last}"), tag));
        }
        last = tag;
        let mut value = ByteReader::new(value);
        match read(tag, &mut value)? {
            StoredField::Known if value.is_empty() => {}
            StoredField::Known => {
                return Err(Error::corruption(format!("{}: a field is too long", list.of))
                    .with_mismatch(format_args!("the end of tag {tag}"), value.rest().len()));
            }
            StoredField::Unknown if tag & OPTIONAL == 0 => return Err(list.unsupported(tag)),
            StoredField::Unknown => {
                unknown.extend_from_slice(&field[..field.len() - reader.rest().len()]);
            }
        }
    }
    Ok(UnknownFields(unknown.into()))
}

/// The next field, and its value.
fn next<'a>(reader: &mut ByteReader<'a>) -> Result<Option<(u64, &'a [u8])>> {
    if reader.is_empty() {
        return Ok(None);
    }
    Ok(Some((reader.varint()?, reader.bytes()?)))
}

/// Writes fields in the order of their tags, and between them those that were kept.
#[derive(Debug)]
pub struct FieldsWriter<'a> {
    out: &'a mut Vec<u8>,
    /// What is still to be written of the fields that were kept.
    kept: &'a [u8],
    value: Vec<u8>,
    last: u64,
}

impl<'a> FieldsWriter<'a> {
    /// A writer of fields to the end of `out`.
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, kept: &'a UnknownFields) -> Self {
        Self { out, kept: &kept.0, value: Vec::new(), last: 0 }
    }

    /// Writes a field with the value that `encode` appends.
    ///
    /// # Panics
    /// If the tag is not above the one before.
    pub fn put(&mut self, tag: u64, encode: impl FnOnce(&mut Vec<u8>)) {
        assert!(tag > self.last, "tag {tag} after tag {}", self.last);
        self.last = tag;
        self.put_kept(tag);
        self.value.clear();
        encode(&mut self.value);
        put_varint(self.out, tag);
        put_bytes(self.out, &self.value);
    }

    /// Writes a field with a number.
    ///
    /// # Panics
    /// Where [`FieldsWriter::put`] does.
    pub fn put_number(&mut self, tag: u64, number: u64) {
        self.put(tag, |value| put_varint(value, number));
    }

    /// Writes a field with a number, unless that is 0 and so what an absent field says.
    ///
    /// # Panics
    /// Where [`FieldsWriter::put`] does.
    pub fn put_count(&mut self, tag: u64, number: u64) {
        if number != 0 {
            self.put_number(tag, number);
        }
    }

    /// Writes what is left of the fields that were kept.
    pub fn finish(self) {
        self.out.extend_from_slice(self.kept);
    }

    /// Writes the fields that were kept and have smaller tags.
    fn put_kept(&mut self, tag: u64) {
        let mut reader = ByteReader::new(self.kept);
        let mut end = 0;
        while let Ok(Some((kept, _))) = next(&mut reader) {
            if kept > tag {
                break;
            }
            assert_ne!(kept, tag, "a field that was kept is one that is written");
            end = self.kept.len() - reader.rest().len();
        }
        let (before, rest) = self.kept.split_at(end);
        self.out.extend_from_slice(before);
        self.kept = rest;
    }
}

#[cfg(test)]
mod tests;
