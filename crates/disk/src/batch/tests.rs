//! Batches there and back, at their limits, cut off, and made of anything.

use super::*;
use proptest::prelude::*;
use siltdb_base::{error::ErrorKind, id::FileNumber};

const FAMILY: FamilyId = FamilyId(3);

fn sample() -> BatchBytes {
    let mut batch = BatchBytes::new();
    batch.put(FAMILY, b"key", b"value").unwrap();
    batch.put(FamilyId(u32::MAX), b"", b"").unwrap();
    batch.put_expiring(FAMILY, b"soon", b"gone", 1234).unwrap();
    batch.delete(FAMILY, b"key").unwrap();
    batch.single_delete(FAMILY, b"once").unwrap();
    batch.delete_range(FAMILY, b"a", b"m").unwrap();
    batch.merge(FAMILY, b"sum", &[7; 300]).unwrap();
    let pointer = BlobPointer {
        file: FileNumber(9),
        offset: 1 << 33,
        length: u32::MAX,
        stored_bytes: 5,
        codec: 1,
        checksum: 77,
        expiry_ms: Some(5),
    };
    let mut payload = Vec::new();
    pointer.encode(&mut payload);
    let kind = EntryKind::BlobPointer;
    batch.push(&BatchOperation { family: FAMILY, kind, key: b"large", payload: &payload }).unwrap();
    batch
}

#[test]
fn every_kind_round_trips() {
    let batch = sample();
    let found: Vec<_> = batch.operations().map(|operation| operation.unwrap()).collect();
    assert_eq!(found.len(), batch.count() as usize);
    let kinds: Vec<_> = found.iter().map(|operation| operation.kind).collect();
    assert_eq!(
        kinds,
        [
            EntryKind::Put,
            EntryKind::Put,
            EntryKind::PutExpiring,
            EntryKind::Delete,
            EntryKind::SingleDelete,
            EntryKind::RangeDelete,
            EntryKind::Merge,
            EntryKind::BlobPointer,
        ]
    );
    assert_eq!((found[0].key, found[0].payload), (&b"key"[..], &b"value"[..]));
    assert_eq!(found[1].family, FamilyId(u32::MAX));
    assert_eq!(split_expiring(found[2].payload).unwrap(), (1234, &b"gone"[..]));
    assert_eq!((found[3].payload, found[4].payload), (&b""[..], &b""[..]));
    assert_eq!((found[5].key, found[5].payload), (&b"a"[..], &b"m"[..]));
    assert_eq!(found[6].payload, [7; 300]);
    assert_eq!(BlobPointer::decode(found[7].payload).unwrap().offset, 1 << 33);
    let mut copy = BatchBytes::with_capacity(64);
    for operation in &found {
        copy.push(operation).unwrap();
    }
    assert_eq!(copy, batch);
}

#[test]
fn every_truncation_and_a_wrong_count_are_refused() {
    let batch = sample();
    let bytes = batch.as_bytes();
    for end in 0..bytes.len() {
        let found: Vec<_> = operations(&bytes[..end], batch.count()).collect();
        assert_eq!(found.last().unwrap().as_ref().unwrap_err().kind(), ErrorKind::Corruption);
        assert!(found[..found.len() - 1].iter().all(Result::is_ok));
    }
    for count in [0, batch.count() - 1, batch.count() + 1, u32::MAX] {
        let error = operations(bytes, count).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
}

#[test]
fn limits_hold_at_the_bound_and_one_past_it() {
    let mut batch = BatchBytes::new();
    let long = vec![1; KEY_BYTES_MAX + 1];
    let key = &long[..KEY_BYTES_MAX];
    batch.put(FAMILY, key, b"v").unwrap();
    batch.delete_range(FAMILY, key, key).unwrap();
    let before = batch.clone();
    let errors = [
        batch.put(FAMILY, &long, b"v").unwrap_err(),
        batch.delete(FAMILY, &long).unwrap_err(),
        batch.delete_range(FAMILY, b"a", &long).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("65536"), "{error}");
    }
    assert_eq!(batch, before);
    assert!(batch.operations().all(|operation| operation.is_ok()));

    let mut out = [0; HEAD_BYTES_MAX];
    let head = OperationHead {
        kind: EntryKind::Put,
        family: FamilyId(u32::MAX),
        key_bytes: KEY_BYTES_MAX,
        payload_bytes: VALUE_BYTES_MAX,
    };
    assert_eq!(head.encode(&mut out).unwrap(), HEAD_BYTES_MAX);
    let head = OperationHead { payload_bytes: VALUE_BYTES_MAX + 1, ..head };
    assert_eq!(head.encode(&mut out).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_head_with_key_and_payload_is_a_batch_of_one() {
    let mut batch = BatchBytes::new();
    batch.put_expiring(FAMILY, b"key", b"value", 99).unwrap();
    let head = OperationHead {
        kind: EntryKind::PutExpiring,
        family: FAMILY,
        key_bytes: 3,
        payload_bytes: 8 + 5,
    };
    let mut out = [0; HEAD_BYTES_MAX];
    let used = head.encode(&mut out).unwrap();
    let bytes = [&out[..used], b"key", &99_u64.to_le_bytes(), b"value"].concat();
    assert_eq!(bytes, batch.as_bytes());
}

#[test]
fn a_cleared_batch_is_empty() {
    let mut batch = sample();
    batch.clear();
    assert!(batch.is_empty() && batch.as_bytes().is_empty());
    assert!(batch.operations().next().is_none());
}

#[test]
fn a_key_longer_than_the_limit_is_refused_when_read() {
    let mut bytes = vec![EntryKind::Delete as u8, 0];
    siltdb_base::codec::put_varint(&mut bytes, KEY_BYTES_MAX as u64 + 1);
    bytes.extend_from_slice(&vec![0; KEY_BYTES_MAX + 1]);
    let error = operations(&bytes, 1).next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

type Written = (u8, u32, Vec<u8>, Vec<u8>);

fn add(batch: &mut BatchBytes, (which, family, key, value): &Written) {
    let family = FamilyId(*family);
    match which {
        0 => batch.put(family, key, value),
        1 => batch.put_expiring(family, key, value, u64::from(family.0) << 20),
        2 => batch.delete(family, key),
        3 => batch.single_delete(family, key),
        4 => batch.delete_range(family, key, value),
        _ => batch.merge(family, key, value),
    }
    .unwrap();
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        written in proptest::collection::vec(
            (0..6_u8, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..40),
             proptest::collection::vec(any::<u8>(), 0..300)), 0..20),
    ) {
        let mut batch = BatchBytes::new();
        for operation in &written {
            add(&mut batch, operation);
        }
        prop_assert_eq!(batch.count() as usize, written.len());
        let mut found = batch.operations();
        for (which, family, key, value) in &written {
            let operation = found.next().unwrap().unwrap();
            prop_assert_eq!(operation.family, FamilyId(*family));
            prop_assert_eq!(operation.key, &key[..]);
            match which {
                1 => prop_assert_eq!(split_expiring(operation.payload).unwrap().1, &value[..]),
                2 | 3 => prop_assert!(operation.payload.is_empty()),
                _ => prop_assert_eq!(operation.payload, &value[..]),
            }
        }
        prop_assert!(found.next().is_none());
    }

    #[test]
    fn no_bytes_panic_and_reading_ends(
        bytes in proptest::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..200),
        count in prop_oneof![0..20_u32, any::<u32>()],
    ) {
        let found: Vec<_> = operations(&bytes, count).collect();
        prop_assert!(found.len() <= bytes.len() + 1);
        let wrong = found.iter().filter(|operation| operation.is_err()).count();
        prop_assert!(wrong <= 1);
        if wrong == 0 {
            prop_assert_eq!(found.len(), count as usize);
            let mut again = BatchBytes::new();
            for operation in &found {
                again.push(operation.as_ref().unwrap()).unwrap();
            }
            prop_assert!(again.as_bytes().len() <= bytes.len());
        }
    }
}
