//! An engine that does nothing: its figures are the cost of the benchmark itself.

use crate::{
    engine::{
        Batch, Body, Class, Config, Direction, Engine, Facts, Isolation, Result, Session,
        Transaction, Write,
    },
    keys::{KEY_BYTES_MIN, KeyMaker, KeyStyle},
    values::mark,
};
use std::{hint::black_box, path::Path, time::Instant};

/// Accepts every write, stores nothing, and always returns the same entry.
#[derive(Debug)]
pub struct Null {
    entries: u64,
}

/// A thread's access to [`Null`].
#[derive(Debug)]
pub struct NullSession {
    entries: u64,
    key: [u8; KEY_BYTES_MIN as usize],
    value: [u8; 100],
}

/// The version of all counters.
const VERSION: u32 = 2;

/// A transaction on [`Null`]; every counter exists.
#[derive(Debug)]
pub struct NullTransaction<'a> {
    value: &'a mut [u8; 100],
}

impl NullTransaction<'_> {
    /// A value with the marks of an id.
    fn value(&mut self, id: u32) -> &[u8] {
        let mark = mark(id, VERSION);
        self.value[..8].copy_from_slice(&mark.to_le_bytes());
        self.value[92..].copy_from_slice(&(!mark).to_le_bytes());
        &self.value[..]
    }
}

impl Transaction for NullTransaction<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        seen(self.value(black_box(KeyStyle::id_of_sparse(key))));
        Ok(true)
    }

    fn scan(&mut self, from: &[u8], to: &[u8], mut seen: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let ids = KeyStyle::id_of_sparse(from)..KeyStyle::id_of_sparse(to);
        let mut keys = KeyMaker::new(KeyStyle::Sparse, from.len() as u32);
        for id in ids.clone() {
            seen(keys.key(id), self.value(id));
        }
        Ok(ids.len() as u64)
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }
}

impl Engine for Null {
    type Session<'a> = NullSession;

    const ID: &'static str = "null";

    fn facts(_: &Config) -> Facts {
        let options = "does nothing: measures the benchmark itself".to_owned();
        Facts { version: "1".to_owned(), class: Class::Memory, options }
    }

    fn open(_: &Path, config: &Config) -> Result<Self> {
        Ok(Self { entries: config.entries_max })
    }

    fn session(&self) -> Result<NullSession> {
        Ok(NullSession { entries: self.entries, key: [7; 8], value: [7; 100] })
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn settle(&self) -> Result<Instant> {
        Ok(Instant::now())
    }

    fn compact(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Session for NullSession {
    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    #[inline]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        black_box(key);
        Ok(())
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        batch.for_each(|write| {
            match write {
                Write::Put { key, value } => drop(black_box((key, value))),
                Write::Delete { key } => drop(black_box((key, key))),
            }
            Ok(())
        })
    }

    #[inline]
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        black_box(key);
        seen(black_box(&self.value));
        Ok(true)
    }

    #[inline]
    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        seen(black_box(key), black_box(&self.value));
        Ok(true)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        _: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        black_box(from);
        let count = limit.min(self.entries);
        for _ in 0..count {
            seen(black_box(&self.key), black_box(&self.value));
        }
        Ok(count)
    }

    #[inline]
    fn transact<B: Body>(&mut self, _: Isolation, body: &mut B) -> Result<()> {
        body.attempt(&mut NullTransaction { value: &mut self.value })
    }

    fn hold(&mut self, count: u32, _: Isolation, key: &[u8]) -> Result<()> {
        black_box((count, key));
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        black_box((from, to));
        Ok(())
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        black_box(index);
        Ok(())
    }
}
