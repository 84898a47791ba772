//! Decisions about plain and expiring values, panics, and filters by name.

use super::*;
use siltdb_base::error::ErrorKind;

#[derive(Debug)]
struct ByValue;

impl CompactionFilter for ByValue {
    fn name(&self) -> &str {
        "by value"
    }

    fn decide(&self, entry: &FilteredEntry<'_>) -> FilterDecision {
        match entry.value {
            b"drop" => FilterDecision::Drop,
            b"panic" => panic!("as the test wants"),
            b"level" => FilterDecision::Change(entry.level.to_string().into_bytes()),
            b"expiry" => FilterDecision::Change(format!("{:?}", entry.expiry_ms).into_bytes()),
            _ => FilterDecision::Keep,
        }
    }
}

#[test]
fn values_are_shown_without_their_expiry_and_keep_it() {
    let filters = CompactionFilters::new(vec![Arc::new(ByValue)]);
    let filter = filters.for_job(&NamedFilter::stored("by value"), 3).unwrap();
    let decide = |kind: EntryKind, value: &[u8]| {
        filter.decide(&Entry { key: b"k", sequence: SequenceNumber(9), kind, value })
    };
    let expiring = |value: &[u8]| [&77_u64.to_le_bytes()[..], value].concat();
    assert_eq!(decide(EntryKind::Put, b"drop"), FilterDecision::Drop);
    assert_eq!(decide(EntryKind::Put, b"other"), FilterDecision::Keep);
    assert_eq!(decide(EntryKind::Put, b"level"), FilterDecision::Change(b"3".to_vec()));
    assert_eq!(decide(EntryKind::Put, b"expiry"), FilterDecision::Change(b"None".to_vec()));
    assert_eq!(decide(EntryKind::PutExpiring, &expiring(b"drop")), FilterDecision::Drop);
    let changed = FilterDecision::Change(expiring(b"Some(77)"));
    assert_eq!(decide(EntryKind::PutExpiring, &expiring(b"expiry")), changed);
    assert_eq!(decide(EntryKind::Put, b"panic"), FilterDecision::Keep);
    assert_eq!(filters.counts(), FilterCounts { dropped: 2, changed: 3, failed: 1 });
}

#[test]
fn a_filter_is_learned_once_and_missed_by_name() {
    let filters = CompactionFilters::default();
    let (stored, given) = (NamedFilter::stored("by value"), NamedFilter::given(Arc::new(ByValue)));
    filters.learn(None).unwrap();
    assert!(filters.for_job(&stored, 0).is_none());
    let error = filters.learn(Some(&stored)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("\"by value\""), "{error}");
    filters.learn(Some(&given)).unwrap();
    filters.learn(Some(&stored)).unwrap();
    assert!(filters.for_job(&stored, 0).is_some());
}
