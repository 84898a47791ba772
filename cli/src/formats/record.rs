//! Records, and the faults of records.
//!
//! It knows no format.

use siltdb::{Expiry, WriteOptions};
use std::{fmt, io, time::Duration};

/// A key and its value. Readers refill it to reuse its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// When the value expires, in ms since 1970, if the record says so.
    pub expires_at: Option<u64>,
}

impl Record {
    /// Returns the options of its put: with its own expiry, or else after `ttl`, if that is given.
    pub fn write_options(&self, ttl: Option<Duration>) -> WriteOptions {
        let options = WriteOptions::new();
        match (self.expires_at, ttl) {
            (Some(ms), _) => options.expiry(Expiry::at_ms(ms)),
            (None, Some(ttl)) => options.ttl(ttl),
            (None, None) => options,
        }
    }
}

/// A record to write.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// When the value expires, in ms since 1970.
    pub expires_at: Option<u64>,
}

/// Position and reason of a bad record.
#[derive(Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1: a field in csv and tsv, a byte in jsonl and lines.
    pub column: u64,
    /// The fault.
    pub reason: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

/// The reason why there is no next record.
#[derive(Debug)]
pub enum ReadError {
    /// The record violates the format; the next one can be read.
    Bad(BadRecord),
    /// The input violates the format, and nothing after this can be read.
    Broken(BadRecord),
    /// The input cannot be read.
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BadRecord> for ReadError {
    fn from(bad: BadRecord) -> Self {
        Self::Bad(bad)
    }
}

/// The reason why a record cannot be written.
#[derive(Debug)]
pub enum WriteError {
    /// The format cannot represent it.
    Unfit(String),
    /// The output cannot be written.
    Io(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
