//! The base of [`Read`](crate::Read): the value of one key, and a pinned view.
//!
//! The trait is sealed, so that new methods break no implementation.

use crate::reads::Reads;
use siltdb_base::{
    error::Result,
    seeded_fault,
    slice::{Pinnable, Slice},
};
use siltdb_engine::{
    catalog::family::FamilyData,
    engine::Engine,
    kit::open_id::OpenId,
    options::Durability,
    read::{self, ExpiringValue, PinnedReader, stream::ValueStream},
    snapshots::read_point::ReadPoint,
    write::commit::{Payload, commit},
};
use std::{fmt, sync::Arc, time::Duration};

/// A source of reads: a database, a family, a snapshot or a transaction.
pub trait ReadSource {
    /// Calls `look` with the value of a key, if it has one.
    ///
    /// # Errors
    /// As [`Read::get`](crate::Read::get).
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>>;

    /// Pins the present state of all keys and values.
    ///
    /// # Errors
    /// As [`Read::get`](crate::Read::get).
    fn pin(&self) -> Result<Pinned>;
}

/// A family at one sequence number, pinned.
#[derive(Clone, Debug)]
pub struct Pinned {
    pub(crate) reader: PinnedReader,
    /// Records what is read; `None` outside of a transaction that checks reads.
    pub(crate) reads: Option<Reads>,
}

impl Pinned {
    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        if let Some(reads) = &self.reads {
            reads.key(key);
        }
        self.reader.get(key)
    }

    /// Returns the values of keys in the order of `keys`.
    pub(crate) fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        if let Some(reads) = &self.reads {
            keys.iter().for_each(|key| reads.key(key.as_ref()));
        }
        self.reader.get_many(keys)
    }

    /// Returns the length of the value of a key.
    pub(crate) fn value_len(&self, key: &[u8]) -> Result<Option<u64>> {
        if let Some(reads) = &self.reads {
            reads.key(key);
        }
        self.reader.value_len(key)
    }

    /// Returns the value of a key as a stream.
    pub(crate) fn stream(&self, key: &[u8]) -> Result<Option<ValueStream>> {
        if let Some(reads) = &self.reads {
            reads.key(key);
        }
        self.reader.stream(key)
    }

    /// Returns the value of a key and its expiry.
    pub(crate) fn get_expiring(&self, key: &[u8]) -> Result<Option<ExpiringValue>> {
        if let Some(reads) = &self.reads {
            reads.key(key);
        }
        self.reader.get_expiring(key)
    }
}

/// A family at a sequence number or at the present, read by a database, a family or a snapshot.
#[derive(Clone)]
pub(crate) struct ReadPlace {
    pub(crate) engine: Engine,
    /// The open database that it belongs to.
    pub(crate) open_id: OpenId,
    pub(crate) family: Arc<FamilyData>,
    /// `None` reads the present.
    pub(crate) point: Option<ReadPoint>,
}

impl ReadPlace {
    /// Commits `payload` with `durability`, or with that of the options.
    #[inline]
    pub(crate) fn commit(
        &self,
        payload: &Payload<'_>,
        durability: Option<Durability>,
    ) -> Result<()> {
        let durability = durability.unwrap_or(self.engine.database().options.durability);
        commit(self.engine.writable()?, payload, durability)
    }

    /// Checks that its family may be written.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.engine.writable()?.check(&self.family)
    }

    /// Returns the expiry of a value that lasts for `time` from now on, in ms since 1970.
    pub(crate) fn expiry_ms(&self, time: Duration) -> u64 {
        self.engine.database().options.clock.wall_ms().saturating_add(whole_ms(time))
    }

    /// Returns the expiry of a value that is put now without one; `None` for none.
    ///
    /// # Seeded faults
    /// `ttl_not_applied`: a family with a TTL keeps values that gave no expiry.
    #[inline]
    pub(crate) fn ttl_expiry_ms(&self) -> Option<u64> {
        match self.family.tree.ttl_ms() {
            0 => None,
            _ if seeded_fault!("ttl_not_applied") => None,
            ttl_ms => Some(self.expiry_ms(Duration::from_millis(ttl_ms))),
        }
    }
}

/// Converts to milliseconds, rounded up.
pub(crate) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl ReadPlace {
    /// Begins the text of a handle called `handle`: the names of family and database, and nothing
    /// of what they hold.
    pub(crate) fn describe<'a, 'f>(
        &self,
        f: &'a mut fmt::Formatter<'f>,
        handle: &str,
    ) -> fmt::DebugStruct<'a, 'f> {
        let mut fields = f.debug_struct(handle);
        fields.field("family", &self.family.name()).field("database", &self.engine.database().dir);
        if let Some(point) = &self.point {
            fields.field("sequence", &point.sequence.0);
        }
        fields
    }
}

impl fmt::Debug for ReadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f, "ReadPlace").finish()
    }
}

impl ReadSource for ReadPlace {
    #[inline]
    fn look<R>(&self, key: &[u8], look: impl FnOnce(Pinnable<'_>) -> R) -> Result<Option<R>> {
        read::get(self.engine.database(), &self.family, key, self.point.as_ref(), look)
    }

    fn pin(&self) -> Result<Pinned> {
        Ok(Pinned {
            reader: PinnedReader::new(
                &self.engine.database().read_rooms(),
                &self.family,
                self.point.as_ref(),
            )?,
            reads: None,
        })
    }
}
