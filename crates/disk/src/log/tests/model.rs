//! A model of what writes a log: files in memory, and records whose payloads say which they are.

use crate::log::{
    fill::{fill_record, fill_segment_header},
    record::{LogPosition, RecordHeader, RecordKind, Synced, record_bytes},
    recover::{Recovered, RecoveryOptions, SegmentFile, recover},
    segment::SegmentHeader,
};
use siltdb_base::{
    error::{Error, Result},
    fs::{File, LogFile, LogWay},
    id::{SegmentId, SequenceNumber},
};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

/// A file of a log in memory.
#[derive(Debug, Default)]
pub struct MemoryLog(pub Mutex<Vec<u8>>);

impl LogFile for MemoryLog {
    fn capacity(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn way(&self) -> LogWay {
        LogWay::Write
    }

    fn prepare(&self, _end: u64) -> Result<()> {
        Ok(())
    }

    fn prepared(&self) -> u64 {
        self.capacity()
    }

    fn release(&self, _start: u64) {}

    fn fill(&self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let whole = parts.concat();
        bytes[offset as usize..offset as usize + whole.len()].copy_from_slice(&whole);
        Ok(())
    }

    fn sync(&self, _end: u64) -> Result<()> {
        Ok(())
    }

    fn shorten(&self, end: u64) -> Result<()> {
        self.0.lock().unwrap().truncate(end as usize);
        Ok(())
    }
}

/// A file that is read.
#[derive(Debug)]
pub struct MemoryFile(pub Vec<u8>);

impl File for MemoryFile {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let end = offset as usize + buffer.len();
        let found = self.0.get(offset as usize..end);
        buffer.copy_from_slice(found.ok_or_else(|| Error::corruption("read past the end"))?);
        Ok(())
    }
}

pub fn segment_files(files: &[Vec<u8>]) -> Vec<SegmentFile> {
    let file = |(slot, bytes): (usize, &Vec<u8>)| SegmentFile {
        path: PathBuf::from(format!("{slot:06}.log")),
        file: Arc::new(MemoryFile(bytes.clone())),
    };
    files.iter().enumerate().map(file).collect()
}

/// The id of the segment of this count, with a random half that follows from it; an id as it is.
pub fn id(number: u64) -> SegmentId {
    SegmentId(if number >> 32 == 0 { (number << 32) + 7 * number } else { number })
}

/// The payloads that recovery delivers, and what it says.
pub fn recovered(
    files: &[Vec<u8>],
    options: &RecoveryOptions,
) -> Result<(Vec<Vec<u8>>, Recovered)> {
    let mut payloads = Vec::new();
    let report = recover(&segment_files(files), options, &mut |record| {
        payloads.push(record.payload.to_vec());
        Ok(())
    })?;
    Ok((payloads, report))
}

pub fn from_first(first: u64) -> RecoveryOptions {
    RecoveryOptions { first: id(first), ..RecoveryOptions::default() }
}

/// Writes a log as the engine does, one record after the other.
pub struct Writer {
    pub files: Vec<Vec<u8>>,
    /// What each file held when it was last synced.
    pub durable: Vec<Vec<u8>>,
    /// Every payload, in order.
    pub payloads: Vec<Vec<u8>>,
    /// Where each record of `payloads` begins and ends.
    pub places: Vec<(LogPosition, u64)>,
    /// Where the body of each ends; up to the end of the record only zeros follow.
    pub body_ends: Vec<u64>,
    /// Payloads that were durable at the last sync.
    pub synced_payloads: usize,
    pub position: LogPosition,
    pub synced: LogPosition,
    pub sequence: u64,
}

impl Writer {
    /// A log that begins with segment 1 in the first of `files`.
    pub fn new(first: u64, file: Vec<u8>) -> Self {
        let mut writer = Self {
            files: Vec::new(),
            durable: Vec::new(),
            payloads: Vec::new(),
            places: Vec::new(),
            body_ends: Vec::new(),
            synced_payloads: 0,
            position: LogPosition::ZERO,
            synced: LogPosition::ZERO,
            sequence: 1,
        };
        writer.begin(first, file);
        writer
    }

    /// Goes on in another segment, in a new or recycled file.
    pub fn begin(&mut self, number: u64, file: Vec<u8>) {
        let header = SegmentHeader {
            id: id(number),
            first_sequence: SequenceNumber(self.sequence),
            previous: self.position,
            synced: self.synced,
        };
        self.durable.push(file.clone());
        self.files.push(file);
        self.fill(|log| fill_segment_header(log, &header));
        self.position = header.first_record();
    }

    fn fill(&mut self, fill: impl FnOnce(&MemoryLog) -> Result<()>) {
        let file = self.files.last_mut().unwrap();
        let log = MemoryLog(Mutex::new(std::mem::take(file)));
        fill(&log).unwrap();
        *file = log.0.into_inner().unwrap();
    }

    pub fn append_kind(&mut self, kind: RecordKind, count: u32, payload: &[u8]) {
        let first_sequence = SequenceNumber(self.sequence);
        let at = self.position;
        let synced = Synced::new(self.synced, at.segment);
        let header = RecordHeader { first_sequence, count, kind, synced };
        let (head, tail) = payload.split_at(payload.len() / 3);
        self.fill(|log| fill_record(log, at, &header, &[head, tail]));
        self.position.offset += record_bytes(kind, count, payload.len());
        self.sequence += u64::from(count);
        if kind != RecordKind::End {
            self.payloads.push(payload.to_vec());
            self.places.push((at, self.position.offset));
            let count_bytes = if matches!(kind, RecordKind::Batch | RecordKind::Void) && count == 1
            {
                0
            } else {
                4
            };
            self.body_ends.push(at.offset + 24 + count_bytes + payload.len() as u64);
        }
    }

    pub fn append(&mut self, payload: &[u8]) {
        self.append_kind(RecordKind::Batch, 1 + payload.len() as u32 % 3, payload);
    }

    /// A payload that names itself and has the length asked for, 8 at least.
    pub fn append_numbered(&mut self, length: usize) {
        let number = self.payloads.len() as u64;
        let mut payload = vec![number as u8 | 1; length.max(8)];
        payload[..8].copy_from_slice(&number.to_le_bytes());
        self.append(&payload);
    }

    /// Makes everything so far durable.
    pub fn sync(&mut self) {
        self.durable.clone_from(&self.files);
        self.synced = self.position;
        self.synced_payloads = self.payloads.len();
    }

    pub fn close(&mut self) {
        self.sync();
        self.append_kind(RecordKind::End, 0, b"");
        self.durable.clone_from(&self.files);
    }

    /// Whether there is room for such a record, a short one and an `End` record.
    pub fn fits(&self, payload_bytes: usize) -> bool {
        let batch = |bytes| record_bytes(RecordKind::Batch, 2, bytes);
        let end_record = record_bytes(RecordKind::End, 0, 0);
        let end = self.position.offset + batch(payload_bytes) + batch(8) + end_record;
        end <= self.files.last().unwrap().len() as u64
    }
}

/// Three segments of records of many lengths; synced in the second, not closed.
pub fn small_log() -> Writer {
    let mut writer = Writer::new(1, vec![0; 1024]);
    for length in [9, 8, 40] {
        writer.append_numbered(length);
    }
    writer.begin(2, vec![0; 1024]);
    for length in [13, 24] {
        writer.append_numbered(length);
    }
    writer.sync();
    writer.append_numbered(30);
    writer.append_numbered(600);
    writer.begin(3, vec![0; 512]);
    for length in [11, 16, 9] {
        writer.append_numbered(length);
    }
    writer
}
