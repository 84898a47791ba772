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
fn decisions_are_counted_and_a_failure_keeps_the_value() {
    let filters = CompactionFilters::new(vec![Arc::new(ByValue)]);
    let filter = filters.for_job(&NamedFilter::stored("by value"), 3).unwrap();
    let decide = |value: &[u8], expiry_ms| {
        let sequence = SequenceNumber(9);
        filter.decide(&FilteredEntry { key: b"k", value, expiry_ms, sequence, level: 0 })
    };
    assert!(filter.needs_values());
    assert_eq!(decide(b"drop", None), FilterDecision::Drop);
    assert_eq!(decide(b"other", None), FilterDecision::Keep);
    assert_eq!(decide(b"level", None), FilterDecision::Change(b"3".to_vec()));
    assert_eq!(decide(b"expiry", Some(77)), FilterDecision::Change(b"Some(77)".to_vec()));
    assert_eq!(decide(b"panic", None), FilterDecision::Keep);
    assert_eq!(filter.fail(), FilterDecision::Keep);
    assert_eq!(filters.counts(), FilterCounts { dropped: 1, changed: 2, failed: 2 });
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
    for named in [&stored, &given] {
        let error = filters.check_given(Some(named)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(filters.for_job(named, 0).is_none() && !filters.are_given());
    }
    filters.learn(Some(&given)).unwrap();
    for named in [None, Some(&stored), Some(&given)] {
        filters.check_given(named).unwrap();
    }
    filters.learn(Some(&stored)).unwrap();
    assert!(filters.for_job(&stored, 0).is_some());
}
