//! The set of prepared transactions: its bounds, and who may decide what.

use super::*;

fn undecided(id: &[u8], number: u64) -> Undecided {
    let transaction = Arc::new(PreparedBatch { id: id.to_vec(), ..PreparedBatch::default() });
    Undecided { number: SequenceNumber(number), transaction, owner: LockOwner(1) }
}

fn prepared(set: &PreparedSet, id: &[u8], number: u64) {
    set.reserve(id, 10, &Arc::new(Budget::new(1 << 20))).unwrap();
    set.add(undecided(id, number));
}

#[test]
fn an_id_stands_for_one_transaction_until_it_is_decided() {
    let (set, budget) = (PreparedSet::default(), Arc::new(Budget::new(1 << 20)));
    set.reserve(b"a", 10, &budget).unwrap();
    assert_eq!(budget.used(Part::Transactions), 10);
    let kind = |result: Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(set.reserve(b"a", 10, &budget)), ErrorKind::AlreadyExists);
    assert_eq!(set.begin_decision(b"a", None).unwrap_err().kind(), ErrorKind::Busy);
    assert!(set.undecided().is_empty(), "its record is not in the log");
    set.cancel(b"a");
    assert_eq!(budget.used(Part::Transactions), 0);
    set.reserve(b"a", 10, &budget).unwrap();
    set.add(undecided(b"a", 7));
    set.cancel(b"a");
    assert_eq!(set.undecided().len(), 1, "what is in the log is not given back");
    assert_eq!(kind(set.reserve(b"a", 10, &budget)), ErrorKind::AlreadyExists);
    assert_eq!(set.begin_decision(b"a", None).unwrap().number, SequenceNumber(7));
    assert_eq!(set.begin_decision(b"a", None).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!(set.undecided().len(), 1, "it is undecided until the log has the decision");
    set.keep(b"a");
    set.begin_decision(b"a", Some(SequenceNumber(7))).unwrap();
    set.decided(b"a", SequenceNumber(9));
    assert_eq!(set.begin_decision(b"a", None).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(budget.used(Part::Transactions), 0);
    set.reserve(b"a", 10, &budget).unwrap();
}

#[test]
fn a_number_decides_no_later_transaction_of_the_same_id() {
    let set = PreparedSet::default();
    prepared(&set, b"a", 3);
    let other = set.begin_decision(b"a", Some(SequenceNumber(2)));
    assert_eq!(other.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(set.begin_decision(b"a", Some(SequenceNumber(3))).is_ok());
}

#[test]
fn a_flush_is_told_of_what_its_generation_has_and_of_later_decisions() {
    let set = PreparedSet::default();
    for (id, number) in [(b"a", 3), (b"b", 5), (b"c", 8)] {
        prepared(&set, id, number);
    }
    let numbers = |last: u64| {
        let view = set.flush_view(SequenceNumber(last));
        view.undecided.iter().map(|undecided| undecided.number.0).collect::<Vec<_>>()
    };
    assert_eq!((numbers(2), numbers(5), numbers(100)), (vec![], vec![3, 5], vec![3, 5, 8]));
    set.begin_decision(b"b", None).unwrap();
    assert_eq!(numbers(5), [3, 5]);
    set.decided(b"b", SequenceNumber(9));
    assert_eq!(numbers(5), [3]);
    assert_eq!(set.flush_view(SequenceNumber(5)).last_decision, SequenceNumber(9));
}

#[test]
fn bounds_hold_at_the_bound_and_not_one_past_it() {
    let (set, budget) = (PreparedSet::default(), Arc::new(Budget::new(1 << 20)));
    let refused = |id: &[u8], bytes| {
        let error = set.reserve(id, bytes, &budget).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    };
    refused(b"", 1);
    refused(&[1; PREPARED_ID_BYTES_MAX + 1], 1);
    refused(b"a", PREPARED_BYTES_MAX + 1);
    set.reserve(&[1; PREPARED_ID_BYTES_MAX], PREPARED_BYTES_MAX, &budget).unwrap();
    refused(b"a", 1);
    set.reserve(b"a", 0, &budget).unwrap();
    for number in 2..PREPARED_MAX as u32 {
        set.reserve(&number.to_be_bytes(), 0, &budget).unwrap();
    }
    refused(b"one more", 0);
    set.cancel(b"a");
    set.reserve(b"one more", 0, &budget).unwrap();
}
