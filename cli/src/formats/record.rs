//! What the formats read and write: a record, and how one can be bad.
//!
//! It knows no format.

use std::{fmt, io};

/// A key and its value. Readers refill it, so that its memory is reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// Where a record is not what its format asks for, and why.
#[derive(Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1: a field in csv and tsv, a byte in jsonl and lines.
    pub column: u64,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.reason)
    }
}

/// Why there is no next record.
#[derive(Debug)]
pub enum ReadError {
    /// The record is not what its format asks for; the one after it can be read.
    Bad(BadRecord),
    /// The input is not what its format asks for, and nothing after this can be read.
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

/// Why a record cannot be written.
#[derive(Debug)]
pub enum WriteError {
    /// The format cannot hold it.
    Unfit(String),
    /// The output cannot be written.
    Io(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
