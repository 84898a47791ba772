//! What the index of uncommitted writes takes.

use super::*;
use crate::{engine::Engine, fixture::open};
use siltdb_base::fs::mem::MemFs;

/// The bytes that one empty memtable takes, with some to spare.
const MEMTABLE_BYTES: usize = 8 << 10;

fn indexed_bytes(engine: &Engine, writes: &BatchBytes) -> usize {
    let mut indexed = IndexedWrites::default();
    indexed.of(&engine.database().memory, writes, FamilyId(0)).unwrap();
    indexed.families.iter().map(|(_, memtable)| memtable.used_bytes()).sum()
}

#[test]
fn the_index_takes_no_more_than_is_said_before() {
    let engine = open(&MemFs::new());
    for value_bytes in [0, 1, 10, 100, 1000, 10_000, 100_000, 900_000] {
        let count = (20_000_000 / (value_bytes as u64 + 1)).clamp(20, 5000);
        for step in [1_u64, 0x9e37_79b9_7f4a_7c15] {
            let mut writes = BatchBytes::new();
            for index in 0..count {
                let key = index.wrapping_mul(step).to_be_bytes();
                match index % 8 {
                    0 => writes.delete(FamilyId(0), &key).unwrap(),
                    _ => writes.put(FamilyId(0), &key, &vec![1; value_bytes]).unwrap(),
                }
            }
            let (takes, said) =
                (indexed_bytes(&engine, &writes), IndexedWrites::bytes_max(&writes));
            assert!(takes <= said + MEMTABLE_BYTES, "{takes} of {said} at {value_bytes}, {step}");
            eprintln!(
                "{value_bytes} {step} {takes} {said} {}",
                (takes as f64 - writes.as_bytes().len() as f64) / 5000.0
            );
            assert!(takes * 3 >= said, "{takes} of {said} at {value_bytes}, {step}");
        }
    }
}
