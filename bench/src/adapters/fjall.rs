//! fjall 3: an LSM tree; its keyspaces are families.
//!
//! A commit reaches the page cache by default. For durability its documentation names `persist`
//! with `SyncData`.
//!
//! fjall is opened as an optimistic transactional database. Plain reads and writes bypass its
//! transactions and use the inner database.

use crate::{
    engine::{
        Arm, Batch, Body, Class, Codec, Config, Direction, Durability, Engine, Facts, Failure,
        Isolation, Result, Session, TableKind, Transaction, Write,
    },
    measure::{LOOK, wait_until_quiet},
};
use fjall::{
    CompressionType, Database, Guard, Keyspace, KeyspaceCreateOptions, OptimisticTxDatabase,
    OptimisticWriteTx, PersistMode, Readable,
    compaction::Leveled,
    config::{BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry},
};
use std::{path::Path, sync::Arc, thread, time::Instant};

/// At most this many flushes wait at once: fjall's queues hold a thousand messages, and drop some
/// beyond that.
const FLUSHES_QUEUED_MAX: usize = 100;

/// At most this many keyspaces with tables in level 0 can be opened. fjall queues a message for
/// each before any thread takes messages from that queue of a thousand; with more, opening blocks
/// forever.
const KEYSPACES_OPENED_MAX: usize = 1000;

/// An open database and its keyspaces.
pub struct Fjall {
    db: Database,
    transactional: OptimisticTxDatabase,
    keyspaces: Vec<Keyspace>,
    durability: Durability,
}

/// A thread's access to a [`Fjall`].
pub struct FjallSession<'a> {
    engine: &'a Fjall,
    keyspace: &'a Keyspace,
    /// Transactions that are held open.
    held: Vec<OptimisticWriteTx>,
}

/// An attempt of a transaction.
pub struct FjallTransaction<'a> {
    transaction: &'a mut OptimisticWriteTx,
    keyspace: &'a Keyspace,
}

impl Transaction for FjallTransaction<'_> {
    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.transaction.get(self.keyspace, key)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn scan(&mut self, from: &[u8], to: &[u8], mut seen: impl FnMut(&[u8], &[u8])) -> Result<u64> {
        let mut count = 0;
        for entry in self.transaction.range(self.keyspace, from..to) {
            let (key, value) = entry.into_inner()?;
            seen(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.transaction.insert(self.keyspace, key, value);
        Ok(())
    }
}

fn keyspace_options(config: &Config) -> KeyspaceCreateOptions {
    let compression = match config.codec {
        Codec::None => CompressionType::None,
        Codec::Lz4 => CompressionType::Lz4,
    };
    let options = KeyspaceCreateOptions::default()
        .data_block_compression_policy(CompressionPolicy::all(compression));
    match config.arm {
        Arm::Defaults => options,
        Arm::Equal => {
            let bits = BloomConstructionPolicy::BitsPerKey(config.bloom_bits_per_key as f32);
            let options = options
                .max_memtable_size(config.write_buffer_bytes)
                .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(bits)));
            match config.level0_runs {
                Some(runs) => {
                    let runs = u8::try_from(runs).unwrap_or(u8::MAX);
                    let leveled = Leveled::default().with_l0_threshold(runs);
                    options.compaction_strategy(Arc::new(leveled))
                }
                None => options,
            }
        }
    }
}

impl Fjall {
    /// Writes out the memtables of all keyspaces, and returns the time from which no work is left.
    /// fjall does not report queued compactions, but starts them at once.
    fn settled(&self) -> Result<Instant> {
        for keyspace in &self.keyspaces {
            while self.db.outstanding_flushes() >= FLUSHES_QUEUED_MAX {
                thread::sleep(LOOK);
            }
            keyspace.rotate_memtable()?;
        }
        wait_until_quiet(|| {
            Ok(self.db.outstanding_flushes() == 0
                && self.db.active_compactions() == 0
                && self.keyspaces.iter().all(|keyspace| keyspace.sealed_memtable_count() == 0))
        })
    }

    /// The durability mode of a batch or a transaction. Without a mode, journal bytes of a batch
    /// would stay in the process.
    fn mode(&self) -> PersistMode {
        match self.durability {
            Durability::Buffered => PersistMode::Buffer,
            Durability::Synced => PersistMode::SyncData,
        }
    }

    fn committed(&self) -> Result<()> {
        match self.durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => Ok(self.db.persist(PersistMode::SyncData)?),
        }
    }
}

impl Engine for Fjall {
    type Session<'a> = FjallSession<'a>;

    const ID: &'static str = "fjall";

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => (Class::Process, "the journal reaches the page cache"),
            Durability::Synced => (Class::Power, "PersistMode::SyncData after each commit"),
        };
        let options = format!("{}, {:?}; {why}", config.knobs(), config.codec);
        Facts { version: "3.1.13".to_owned(), class, options }
    }

    /// fjall has no other level.
    fn isolation(_: &Config, _: Isolation) -> &'static str {
        "serializable"
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        if config.table == TableKind::Btree {
            return Err(Failure::unsupported("one kind of table"));
        }
        let mut builder = OptimisticTxDatabase::builder(dir.join("data"));
        if config.arm == Arm::Equal {
            builder = builder.cache_size(config.cache_bytes);
        }
        let transactional = builder.open()?;
        let db = transactional.inner().clone();
        let open = |index| db.keyspace(&format!("data-{index}"), || keyspace_options(config));
        let keyspaces = (0..config.families).map(open).collect::<fjall::Result<Vec<_>>>()?;
        Ok(Self { db, transactional, keyspaces, durability: config.durability })
    }

    fn session(&self) -> Result<FjallSession<'_>> {
        Ok(FjallSession { engine: self, keyspace: &self.keyspaces[0], held: Vec::new() })
    }

    fn flush(&self) -> Result<()> {
        self.settled().map(drop)
    }

    fn settle(&self) -> Result<Instant> {
        self.settled()
    }

    fn compact(&mut self) -> Result<()> {
        self.flush()?;
        for keyspace in &self.keyspaces {
            keyspace.major_compact()?;
        }
        Ok(())
    }

    /// Compacts the keyspaces if there are more than a later open could take.
    fn close(mut self) -> Result<()> {
        if self.keyspaces.len() > KEYSPACES_OPENED_MAX {
            self.compact()?;
        }
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}

impl Session for FjallSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.keyspace.insert(key, value)?;
        self.engine.committed()
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.keyspace.remove(key)?;
        self.engine.committed()
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let writes = fjall::OwnedWriteBatch::with_capacity(self.engine.db.clone(), batch.len());
        let mut writes = writes.durability(Some(self.engine.mode()));
        batch.for_each(|write| {
            match write {
                Write::Put { key, value } => writes.insert(self.keyspace, key, value),
                Write::Delete { key } => writes.remove(self.keyspace, key),
            }
            Ok(())
        })?;
        Ok(writes.commit()?)
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let found = self.keyspace.get(key)?;
        if let Some(value) = &found {
            seen(value);
        }
        Ok(found.is_some())
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let Some(entry) = self.keyspace.range(key..).next() else { return Ok(false) };
        let (key, value) = entry.into_inner()?;
        seen(&key, &value);
        Ok(true)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let mut range = match (from, direction) {
            (None, _) => self.keyspace.iter(),
            (Some(key), Direction::Forward) => self.keyspace.range(key..),
            (Some(key), Direction::Reverse) => self.keyspace.range(..=key),
        };
        let mut count = 0;
        while count < limit {
            let entry: Option<Guard> = match direction {
                Direction::Forward => range.next(),
                Direction::Reverse => range.next_back(),
            };
            let Some(entry) = entry else { break };
            let (key, value) = entry.into_inner()?;
            seen(&key, &value);
            count += 1;
        }
        Ok(count)
    }

    fn transact<B: Body>(&mut self, _: Isolation, body: &mut B) -> Result<()> {
        let (engine, keyspace) = (self.engine, self.keyspace);
        loop {
            let transaction = engine.transactional.write_tx()?;
            let mut transaction = transaction.durability(Some(engine.mode()));
            body.attempt(&mut FjallTransaction { transaction: &mut transaction, keyspace })?;
            if transaction.commit()?.is_ok() {
                return Ok(());
            }
        }
    }

    fn hold(&mut self, count: u32, _: Isolation, key: &[u8]) -> Result<()> {
        for _ in 0..count {
            let transaction = self.engine.transactional.write_tx()?;
            transaction.get(self.keyspace, key)?;
            self.held.push(transaction);
        }
        Ok(())
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let keyspace = self.engine.keyspaces.get(index as usize);
        self.keyspace = keyspace.ok_or_else(|| Failure::error("a keyspace that was not opened"))?;
        Ok(())
    }
}
