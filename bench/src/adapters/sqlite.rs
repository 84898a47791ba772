//! SQLite through rusqlite: a B+tree in a file, with a write-ahead log and a single writer. A
//! family is a table `WITHOUT ROWID`, whose rows lie in the tree of its primary key.
//!
//! With `synchronous=NORMAL` a commit writes its pages into the log without a sync, and survives
//! the process. After a power loss the database is intact, but may be older. With `FULL` each
//! commit is synced. All sessions write through one connection; each reads through its own, in a
//! transaction that is renewed after writes. Compacting is `VACUUM`.

use crate::engine::{
    Arm, Batch, Class, Config, Direction, Durability, Engine, Facts, Failure, Result, Session,
    Write,
};
use rusqlite::{Connection, Row, params};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Bytes of a page, SQLite's own default.
const PAGE_BYTES: u64 = 4096;
/// Time that a checkpoint or a `VACUUM` waits for readers of this process.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of statements that a connection keeps compiled.
const STATEMENTS_MAX: usize = 128;

/// An open database.
pub struct Sqlite {
    /// The connection for writes.
    writer: Mutex<Connection>,
    path: PathBuf,
    config: Config,
    tables: Vec<Statements>,
}

/// A thread's access to an [`Sqlite`].
pub struct SqliteSession<'a> {
    engine: &'a Sqlite,
    /// The table in use.
    sql: &'a Statements,
    /// The connection for reads.
    reader: Connection,
    /// Whether the reader is in a transaction.
    is_pinned: bool,
}

/// The SQL of one table.
struct Statements {
    create: String,
    put: String,
    delete: String,
    delete_range: String,
    get: String,
    seek: String,
    scan: String,
    scan_reverse: String,
    scan_reverse_from_end: String,
}

impl Statements {
    fn new(family: u32) -> Self {
        let table = format!("family_{family}");
        let entries = format!("SELECT key, value FROM {table}");
        Self {
            create: format!(
                "CREATE TABLE IF NOT EXISTS {table} \
                 (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            ),
            put: format!("REPLACE INTO {table} (key, value) VALUES (?1, ?2)"),
            delete: format!("DELETE FROM {table} WHERE key = ?1"),
            delete_range: format!("DELETE FROM {table} WHERE key >= ?1 AND key < ?2"),
            get: format!("SELECT value FROM {table} WHERE key = ?1"),
            seek: format!("{entries} WHERE key >= ?1 ORDER BY key LIMIT 1"),
            scan: format!("{entries} WHERE key >= ?1 ORDER BY key LIMIT ?2"),
            scan_reverse: format!("{entries} WHERE key <= ?1 ORDER BY key DESC LIMIT ?2"),
            scan_reverse_from_end: format!("{entries} ORDER BY key DESC LIMIT ?2"),
        }
    }
}

/// A connection with the options of a configuration.
fn connect(path: &Path, config: &Config) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match config.durability {
        Durability::Buffered => "NORMAL",
        Durability::Synced => "FULL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    if config.arm == Arm::Equal {
        // A negative size counts KiB.
        let cache_kib = i64::try_from(config.cache_bytes >> 10)?;
        connection.pragma_update(None, "cache_size", -cache_kib)?;
        let log_pages = i64::try_from(config.write_buffer_bytes / PAGE_BYTES)?;
        connection.pragma_update(None, "wal_autocheckpoint", log_pages.max(1))?;
    }
    Ok(connection)
}

/// Moves the log into the database file, as far as readers permit, and syncs the file.
fn checkpoint(connection: &Connection) -> Result<()> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

/// The columns of an entry.
fn entry<'a>(row: &'a Row<'_>) -> Result<(&'a [u8], &'a [u8])> {
    Ok((row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?))
}

impl Sqlite {
    fn writer(&self) -> MutexGuard<'_, Connection> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Sqlite {
    type Session<'a> = SqliteSession<'a>;

    const ID: &'static str = "sqlite";

    fn facts(config: &Config) -> Facts {
        let (class, why) = match config.durability {
            Durability::Buffered => (
                Class::Process,
                "WAL, synchronous=NORMAL: the log is in the page cache, and synced at checkpoints",
            ),
            Durability::Synced => (Class::Power, "WAL, synchronous=FULL: each commit is synced"),
        };
        let knobs = match config.arm {
            Arm::Defaults => "its own defaults".to_owned(),
            Arm::Equal => format!(
                "page cache {} MiB for each connection, a checkpoint every {} MiB of log",
                config.cache_bytes >> 20,
                config.write_buffer_bytes >> 20
            ),
        };
        let options = format!("{knobs}, no compression; {why}");
        let version = format!("{} (rusqlite 0.43.0)", rusqlite::version());
        Facts { version, class, options }
    }

    fn open(dir: &Path, config: &Config) -> Result<Self> {
        config.must_have_no_levels()?;
        let path = dir.join("data.sqlite");
        let writer = connect(&path, config)?;
        let tables: Vec<_> = (0..config.families).map(Statements::new).collect();
        for table in &tables {
            writer.execute(&table.create, [])?;
        }
        Ok(Self { writer: Mutex::new(writer), path, config: config.clone(), tables })
    }

    fn session(&self) -> Result<SqliteSession<'_>> {
        let reader = connect(&self.path, &self.config)?;
        Ok(SqliteSession { engine: self, sql: &self.tables[0], reader, is_pinned: false })
    }

    fn flush(&self) -> Result<()> {
        checkpoint(&self.writer())
    }

    /// SQLite has no background work; settling moves the log into the database file.
    fn settle(&self) -> Result<Instant> {
        self.flush()?;
        Ok(Instant::now())
    }

    fn compact(&mut self) -> Result<()> {
        let writer = self.writer();
        writer.execute("VACUUM", [])?;
        checkpoint(&writer)
    }

    fn close(self) -> Result<()> {
        let writer = self.writer.into_inner().unwrap_or_else(PoisonError::into_inner);
        writer.close().map_err(|(_, error)| error.into())
    }
}

impl SqliteSession<'_> {
    /// The connection for reads, in a transaction.
    fn view(&mut self) -> Result<&Connection> {
        if !self.is_pinned {
            self.reader.prepare_cached("BEGIN")?.execute([])?;
            self.is_pinned = true;
        }
        Ok(&self.reader)
    }
}

impl Session for SqliteSession<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.engine.writer().prepare_cached(&self.sql.put)?.execute([key, value])?;
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.engine.writer().prepare_cached(&self.sql.delete)?.execute([key])?;
        Ok(())
    }

    fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let mut writer = self.engine.writer();
        let transaction = writer.transaction()?;
        {
            let mut put = transaction.prepare_cached(&self.sql.put)?;
            let mut delete = transaction.prepare_cached(&self.sql.delete)?;
            batch.for_each(|write| {
                match write {
                    Write::Put { key, value } => put.execute([key, value])?,
                    Write::Delete { key } => delete.execute([key])?,
                };
                Ok(())
            })?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, key: &[u8], seen: impl FnOnce(&[u8])) -> Result<bool> {
        let sql = &self.sql.get;
        let mut statement = self.view()?.prepare_cached(sql)?;
        let mut rows = statement.query([key])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        seen(row.get_ref(0)?.as_blob()?);
        Ok(true)
    }

    fn seek(&mut self, key: &[u8], seen: impl FnOnce(&[u8], &[u8])) -> Result<bool> {
        let sql = &self.sql.seek;
        let mut statement = self.view()?.prepare_cached(sql)?;
        let mut rows = statement.query([key])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        let (key, value) = entry(row)?;
        seen(key, value);
        Ok(true)
    }

    fn scan(
        &mut self,
        from: Option<&[u8]>,
        limit: u64,
        direction: Direction,
        mut seen: impl FnMut(&[u8], &[u8]),
    ) -> Result<u64> {
        let sql = match (direction, from) {
            (Direction::Forward, _) => &self.sql.scan,
            (Direction::Reverse, Some(_)) => &self.sql.scan_reverse,
            (Direction::Reverse, None) => &self.sql.scan_reverse_from_end,
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = self.view()?.prepare_cached(sql)?;
        // The empty key is the smallest.
        let mut rows = statement.query(params![from.unwrap_or_default(), limit])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            let (key, value) = entry(row)?;
            seen(key, value);
            count += 1;
        }
        Ok(count)
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.engine.writer().prepare_cached(&self.sql.delete_range)?.execute([from, to])?;
        Ok(())
    }

    fn select_family(&mut self, index: u32) -> Result<()> {
        let table = self.engine.tables.get(index as usize);
        self.sql = table.ok_or_else(|| Failure::error("a table that was not created"))?;
        Ok(())
    }

    fn refresh(&mut self) -> Result<()> {
        if self.is_pinned {
            self.reader.prepare_cached("COMMIT")?.execute([])?;
            self.is_pinned = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
