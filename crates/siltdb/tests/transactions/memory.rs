//! The bound of the memory of transactions, and what is not bound by it.

use super::open;
use siltdb::{ErrorKind, Isolation, Options, Read, TransactionOptions};

/// The memory that a transaction may take, in bytes.
const BOUND: usize = 8 << 20;

#[test]
fn what_was_written_within_the_bound_can_be_read() {
    for value_bytes in [0, 10, 100, 1000, 20_000] {
        let (_dir, db) = open();
        let options = TransactionOptions::new().memory_bytes(BOUND);
        let transaction = db.begin_with(&options);
        let value = vec![7; value_bytes];
        let mut written = 0_u64;
        let error = loop {
            match transaction.put(written.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &value)
            {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        // These reads record nothing, so the index is all that they take.
        let read = transaction.snapshot_reads();
        assert_eq!(read.get(0_u64.to_be_bytes()).unwrap().unwrap().len(), value_bytes);
        assert_eq!(read.count(..).unwrap(), written, "{value_bytes}");
        // The newest chunk of the index is charged whole, and half of it may be unused.
        let taken = db.stats().memory.transactions;
        assert!(taken <= BOUND as u64 * 3 / 2, "{taken} bytes with values of {value_bytes}");
        transaction.rollback().unwrap();
    }
}

#[test]
fn a_single_key_takes_a_value_as_long_as_a_put_does() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memory_budget(64 << 20).open(dir.path()).unwrap();
    let long = vec![1_u8; (64 << 20) + 1];
    db.put("put", &long).unwrap();
    assert_eq!(db.put_if_absent("absent", &long).unwrap(), None);
    assert!(db.compare_and_swap("swap", None, Some(&long)).unwrap().is_swapped());
    db.fetch_and_update("update", |_| Some(long.clone())).unwrap();
    for key in ["put", "absent", "swap", "update"] {
        assert_eq!(db.value_len(key).unwrap(), Some(long.len() as u64), "{key}");
    }
    assert_eq!(db.take("swap").unwrap().unwrap().len(), long.len());
    // A transaction has its bound, and says how to raise it.
    let transaction = db.begin(Isolation::Serializable);
    let error = transaction.put("k", &long).unwrap_err().to_string();
    assert!(error.contains("memory_bytes"), "{error}");
}
