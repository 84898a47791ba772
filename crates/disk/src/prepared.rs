//! Prepared transactions as the log and the manifest hold them, and the decisions about them.
//!
//! It knows neither when a transaction is prepared nor what a decision does.
//!
//! ```text
//! Prepare: | id: bytes | prepared ms | locks | lock | ... | operations of a batch |
//! lock:    | form u8 | family | first key: bytes | end: bytes, if the form has one |
//! Decide:  | number | decision u8: 1 commit, 2 roll back | id: bytes | operations of a batch |
//! ```
//!
//! Numbers are varints unless a width is given; *bytes* are a varint length and so many bytes. The
//! number of a transaction is the sequence number of its Prepare record. The low 2 bits of a lock's
//! form say what it covers: 0 a key, 1 a range, 2 a range without an end. Bit 2: it is exclusive.

use crate::batch::BatchBytes;
use siltdb_base::{
    codec::{ByteReader, put_bytes, put_varint},
    error::{Error, Result},
    id::{FamilyId, SequenceNumber},
    limits::PREPARED_ID_BYTES_MAX,
};

/// The bit of a lock's form that says that it is exclusive.
const EXCLUSIVE: u8 = 1 << 2;

/// A transaction that waits for its decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedBatch {
    /// The id that the caller gave it.
    pub id: Vec<u8>,
    /// When it was prepared, in ms since 1970.
    pub since_ms: u64,
    /// What it holds locked besides what it writes.
    pub locks: Vec<HeldLock>,
    /// What it writes.
    pub batch: BatchBytes,
}

/// A lock that a prepared transaction holds, also after a reopen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// The family of the keys.
    pub family: FamilyId,
    /// What it covers.
    pub keys: HeldKeys,
    /// Beside which other locks.
    pub mode: HeldMode,
}

/// What a lock covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldKeys {
    /// One key.
    Key(Vec<u8>),
    /// The keys from the first one on up to the second one, if there is one.
    Range(Vec<u8>, Option<Vec<u8>>),
}

/// Whether other locks may cover the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldMode {
    /// Other shared ones.
    Shared,
    /// None.
    Exclusive,
}

/// What becomes of a prepared transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Its operations take effect.
    Commit,
    /// Nothing of it does.
    RollBack,
}

/// A decision as a record of the log says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionRecord<'a> {
    /// The number of the transaction.
    pub number: SequenceNumber,
    /// What becomes of it.
    pub decision: Decision,
    /// Its id.
    pub id: &'a [u8],
    /// The operations that take effect, as a batch encodes them.
    pub operations: &'a [u8],
}

impl PreparedBatch {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.id);
        put_varint(out, self.since_ms);
        put_varint(out, self.locks.len() as u64);
        for lock in &self.locks {
            lock.encode(out);
        }
        out.extend_from_slice(self.batch.as_bytes());
    }

    /// Reads an encoding that fills all of `bytes`, which may be anything.
    ///
    /// # Errors
    /// `Corruption`, if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes);
        let id = id(&mut reader)?.to_vec();
        let since_ms = reader.varint()?;
        let count = reader.varint()?;
        let mut locks = Vec::new();
        // Each takes some bytes, so that a count that is too large ends at the end of them.
        for _ in 0..count {
            locks.push(HeldLock::decode(&mut reader)?);
        }
        let batch = BatchBytes::decode(reader.rest()).map_err(|error| {
            Error::corruption("a prepared transaction has no batch").with_source(error)
        })?;
        Ok(Self { id, since_ms, locks, batch })
    }
}

impl HeldLock {
    fn encode(&self, out: &mut Vec<u8>) {
        let (covers, first, end) = match &self.keys {
            HeldKeys::Key(key) => (0, key, None),
            HeldKeys::Range(first, Some(end)) => (1, first, Some(end)),
            HeldKeys::Range(first, None) => (2, first, None),
        };
        let exclusive = if self.mode == HeldMode::Exclusive { EXCLUSIVE } else { 0 };
        out.push(covers | exclusive);
        put_varint(out, u64::from(self.family.0));
        put_bytes(out, first);
        if let Some(end) = end {
            put_bytes(out, end);
        }
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        let form = reader.u8()?;
        let family = FamilyId(reader.varint_u32()?);
        let first = reader.bytes()?.to_vec();
        let keys = match form & !EXCLUSIVE {
            0 => HeldKeys::Key(first),
            1 => HeldKeys::Range(first, Some(reader.bytes()?.to_vec())),
            2 => HeldKeys::Range(first, None),
            _ => {
                return Err(Error::corruption("a lock of a prepared transaction has no such form")
                    .with_mismatch("0..=2 or 4..=6", form));
            }
        };
        let mode = if form & EXCLUSIVE == 0 { HeldMode::Shared } else { HeldMode::Exclusive };
        Ok(Self { family, keys, mode })
    }
}

/// Appends what precedes the operations of a decision about the transaction `number`.
pub fn encode_decision(number: SequenceNumber, decision: Decision, id: &[u8], out: &mut Vec<u8>) {
    put_varint(out, number.0);
    out.push(match decision {
        Decision::Commit => 1,
        Decision::RollBack => 2,
    });
    put_bytes(out, id);
}

/// The parts of a payload, which may be anything.
///
/// # Errors
/// `Corruption`, if it is no decision.
pub fn split_decision(payload: &[u8]) -> Result<DecisionRecord<'_>> {
    let mut reader = ByteReader::new(payload);
    let number = SequenceNumber(reader.varint()?);
    let decision = match reader.u8()? {
        1 => Decision::Commit,
        2 => Decision::RollBack,
        other => {
            return Err(Error::corruption("a prepared transaction has an unknown decision")
                .with_mismatch("1 or 2", other));
        }
    };
    let id = id(&mut reader)?;
    Ok(DecisionRecord { number, decision, id, operations: reader.rest() })
}

fn id<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8]> {
    let id = reader.bytes()?;
    if (1..=PREPARED_ID_BYTES_MAX).contains(&id.len()) {
        return Ok(id);
    }
    Err(Error::corruption("no such id of a prepared transaction")
        .with_mismatch(format_args!("1 to {PREPARED_ID_BYTES_MAX} bytes"), id.len()))
}

#[cfg(test)]
mod tests;
