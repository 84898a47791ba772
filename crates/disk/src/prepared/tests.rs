//! Prepared transactions and decisions are read back as they were written, and anything else is an
//! error.

use super::*;
use siltdb_base::error::ErrorKind;

fn locks() -> Vec<HeldLock> {
    let (key, end) = (b"key".to_vec(), b"kez".to_vec());
    let keys = [
        HeldKeys::Key(key.clone()),
        HeldKeys::Range(key.clone(), Some(end)),
        HeldKeys::Range(Vec::new(), None),
    ];
    let lock = |keys| {
        let modes = [HeldMode::Shared, HeldMode::Exclusive];
        modes.map(|mode| HeldLock { family: FamilyId(u32::MAX), keys: HeldKeys::clone(keys), mode })
    };
    keys.iter().flat_map(lock).collect()
}

fn prepared(id_bytes: usize) -> PreparedBatch {
    let mut batch = BatchBytes::new();
    batch.put(FamilyId(0), b"a", b"1").unwrap();
    batch.delete_range(FamilyId(7), b"b", b"c").unwrap();
    PreparedBatch { id: vec![0xff; id_bytes], since_ms: u64::MAX, locks: locks(), batch }
}

fn encoded(transaction: &PreparedBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    transaction.encode(&mut bytes);
    bytes
}

#[test]
fn a_prepared_transaction_is_read_back() {
    for id_bytes in [1, PREPARED_ID_BYTES_MAX] {
        let transaction = prepared(id_bytes);
        assert_eq!(PreparedBatch::decode(&encoded(&transaction)).unwrap(), transaction);
    }
    let empty = PreparedBatch { id: b"x".to_vec(), ..PreparedBatch::default() };
    assert_eq!(PreparedBatch::decode(&encoded(&empty)).unwrap(), empty);
}

#[test]
fn a_decision_is_read_back() {
    for decision in [Decision::Commit, Decision::RollBack] {
        for operations in [&b""[..], b"operations"] {
            let mut payload = Vec::new();
            encode_decision(SequenceNumber::MAX, decision, b"id", &mut payload);
            payload.extend_from_slice(operations);
            let number = SequenceNumber::MAX;
            let expected = DecisionRecord { number, decision, id: b"id", operations };
            assert_eq!(split_decision(&payload).unwrap(), expected);
        }
    }
}

#[test]
fn ids_out_of_their_bounds_and_unknown_forms_are_refused() {
    for id_bytes in [0, PREPARED_ID_BYTES_MAX + 1] {
        let error = PreparedBatch::decode(&encoded(&prepared(id_bytes))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let mut payload = Vec::new();
        encode_decision(SequenceNumber(1), Decision::Commit, &vec![0; id_bytes], &mut payload);
        assert_eq!(split_decision(&payload).unwrap_err().kind(), ErrorKind::Corruption);
    }
    for decision in [0, 3, 255] {
        let error = split_decision(&[1, decision, 1, b'x']).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }
    for form in [3, 7, 8, 255] {
        let bytes = [1, b'x', 0, 1, form, 0, 0, 0];
        assert!(PreparedBatch::decode(&bytes).unwrap_err().to_string().contains("no such form"));
    }
    // So many locks would not fit into memory; there are none.
    let mut many = vec![1, b'x', 0];
    put_varint(&mut many, u64::MAX);
    assert_eq!(PreparedBatch::decode(&many).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn what_is_cut_or_damaged_never_panics() {
    let bytes = encoded(&prepared(3));
    let mut decision = Vec::new();
    encode_decision(SequenceNumber(300), Decision::Commit, b"id", &mut decision);
    for end in 0..decision.len() {
        assert!(split_decision(&decision[..end]).is_err(), "{end}");
    }
    for end in 0..bytes.len() {
        // Behind the locks, what is cut may end with a whole operation.
        let _ = PreparedBatch::decode(&bytes[..end]);
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let _ = (PreparedBatch::decode(&damaged), split_decision(&damaged));
        }
    }
}
