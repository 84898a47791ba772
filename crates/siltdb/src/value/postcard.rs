//! Values in the format [postcard](https://postcard.jamesmunns.com), for types that serde
//! serializes.
//!
//! The format has no names and no types. A field that is added, removed or moved makes another
//! type, for which stored values are damage or, worse, other values.

use super::Value;
use serde::{Serialize, de::DeserializeOwned};
use siltdb_base::error::{Error, Result};

/// A value in the format postcard.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{Postcard, TypedFamily};
/// use std::collections::BTreeMap;
///
/// type Tags = Postcard<BTreeMap<String, u64>>;
///
/// let photos: TypedFamily<Vec<u8>, Tags> = db.default_family().typed()?;
/// photos.put(&b"photo"[..], &Postcard(BTreeMap::from([("likes".to_owned(), 7)])))?;
/// assert_eq!(photos.get(&b"photo"[..])?.map(|tags| tags.0["likes"]), Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Postcard<T>(pub T);

impl<T: Serialize + DeserializeOwned> Value for Postcard<T> {
    fn pack(&self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = postcard::to_allocvec(&self.0);
        let bytes = bytes
            .map_err(|error| Error::invalid(format!("a value cannot be serialized: {error}")))?;
        out.extend_from_slice(&bytes);
        Ok(())
    }

    fn unpack(from: &mut &[u8]) -> Result<Self> {
        let (value, rest) = postcard::take_from_bytes(from)
            .map_err(|error| Error::corruption(format!("a value is no postcard: {error}")))?;
        *from = rest;
        Ok(Self(value))
    }
}

#[cfg(test)]
mod tests;
