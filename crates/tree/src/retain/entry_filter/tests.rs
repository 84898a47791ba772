//! Plain, expiring and separated values, and payloads that cannot be read.

use super::*;
use crate::compaction_filter::{CompactionFilter, CompactionFilters, FilterCounts, NamedFilter};
use siltdb_base::{
    error::{Error, Result},
    id::{FileNumber, SequenceNumber},
};
use std::sync::Mutex;

/// What a filter was asked: value, expiry and level.
type Seen = (Vec<u8>, Option<u64>, usize);

/// Decides by the value, and notes what it is shown.
#[derive(Debug)]
struct ByValue {
    needs_values: bool,
    seen: Mutex<Vec<Seen>>,
}

impl CompactionFilter for ByValue {
    fn name(&self) -> &str {
        "by value"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        let seen = (entry.value.to_vec(), entry.expiry_ms, entry.level);
        self.seen.lock().unwrap().push(seen);
        match entry.value {
            b"drop" => FilterDecision::Drop,
            b"change" => FilterDecision::Change(b"up".to_vec()),
            _ => FilterDecision::Keep,
        }
    }

    fn needs_values(&self) -> bool {
        self.needs_values
    }
}

/// The filter, and that of a job on level 4 in which only the blob at offset 1 can be read.
fn filter(needs_values: bool) -> (Arc<ByValue>, CompactionFilters, EntryFilter) {
    let code = Arc::new(ByValue { needs_values, seen: Mutex::default() });
    let filters = CompactionFilters::new(vec![code.clone()]);
    let job = filters.for_job(&NamedFilter::stored("by value"), 4).unwrap();
    let blobs = |pointer: &BlobPointer| -> Result<Slice> {
        match pointer.offset {
            1 => Ok(Slice::copy_from(b"change")),
            _ => Err(Error::corruption("as the test wants")),
        }
    };
    (code, filters, EntryFilter::new(job, Some(Arc::new(blobs))))
}

fn pointer(offset: u64, expiry_ms: Option<u64>) -> Vec<u8> {
    let file = FileNumber(7);
    let pointer =
        BlobPointer { file, offset, length: 6, stored_bytes: 6, codec: 0, checksum: 0, expiry_ms };
    let mut payload = Vec::new();
    pointer.encode(&mut payload);
    payload
}

fn decide(filter: &EntryFilter, kind: EntryKind, value: &[u8]) -> FilteredAs {
    filter.decide(&Entry { key: b"k", sequence: SequenceNumber(9), kind, value })
}

#[test]
fn values_are_shown_as_they_were_put_and_keep_their_expiry() {
    let (code, filters, filter) = filter(true);
    let expiring = |value: &[u8]| [&77_u64.to_le_bytes()[..], value].concat();
    let up = FilteredAs::Changed(EntryKind::Put, b"up".to_vec());
    let up_expiring = FilteredAs::Changed(EntryKind::PutExpiring, expiring(b"up"));
    assert_eq!(decide(&filter, EntryKind::Put, b"drop"), FilteredAs::Deletion);
    assert_eq!(decide(&filter, EntryKind::Put, b"other"), FilteredAs::Same);
    assert_eq!(decide(&filter, EntryKind::Put, b"change"), up);
    assert_eq!(decide(&filter, EntryKind::PutExpiring, &expiring(b"drop")), FilteredAs::Deletion);
    assert_eq!(decide(&filter, EntryKind::PutExpiring, &expiring(b"change")), up_expiring);
    assert_eq!(decide(&filter, EntryKind::BlobPointer, &pointer(1, None)), up);
    assert_eq!(decide(&filter, EntryKind::BlobPointer, &pointer(1, Some(77))), up_expiring);
    assert_eq!(filters.counts(), FilterCounts { dropped: 2, changed: 4, failed: 0 });
    let seen = code.seen.lock().unwrap();
    assert_eq!(
        seen[4..],
        [
            (b"change".to_vec(), Some(77), 4),
            (b"change".to_vec(), None, 4),
            (b"change".to_vec(), Some(77), 4),
        ]
    );
}

#[test]
fn what_cannot_be_read_stays_and_counts_as_a_failure() {
    let (code, filters, filter) = filter(true);
    assert_eq!(decide(&filter, EntryKind::BlobPointer, &pointer(2, None)), FilteredAs::Same);
    assert_eq!(decide(&filter, EntryKind::BlobPointer, b""), FilteredAs::Same);
    assert_eq!(decide(&filter, EntryKind::PutExpiring, b"short"), FilteredAs::Same);
    // No value at all: nothing is shown, and nothing fails.
    assert_eq!(decide(&filter, EntryKind::Merge, b"drop"), FilteredAs::Same);
    assert_eq!(filters.counts(), FilterCounts { dropped: 0, changed: 0, failed: 3 });
    assert!(code.seen.lock().unwrap().is_empty());
}

#[test]
fn a_filter_that_needs_no_values_is_shown_none_and_reads_none() {
    let (code, filters, filter) = filter(false);
    assert_eq!(decide(&filter, EntryKind::Put, b"drop"), FilteredAs::Same);
    // This one cannot be read.
    assert_eq!(decide(&filter, EntryKind::BlobPointer, &pointer(2, Some(5))), FilteredAs::Same);
    assert_eq!(filters.counts(), FilterCounts::default());
    assert_eq!(*code.seen.lock().unwrap(), [(Vec::new(), None, 4), (Vec::new(), Some(5), 4)]);
}
