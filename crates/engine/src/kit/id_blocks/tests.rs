//! Ids in blocks: ascending, each handed out once, with bounded memory.

use super::{COUNTERS_MAX, IdBlocks};
use siltdb_base::{
    error::{Error, ErrorKind},
    id::FamilyId,
    sync::lock,
};
use std::collections::HashMap;

#[test]
fn a_block_is_used_up_before_the_next_is_reserved() {
    let (blocks, family) = (IdBlocks::default(), FamilyId(7));
    let mut told = Vec::new();
    let ids: Vec<_> = (0..7)
        .map(|_| {
            let reserve = |least| {
                told.push(least);
                let start = u64::max(least, 10);
                Ok(start..start + 3)
            };
            blocks.next(family, b"k", reserve).unwrap()
        })
        .collect();
    assert_eq!(ids, [10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(told, [0, 13, 16]);
    assert_eq!(blocks.next(FamilyId(8), b"k", |_| Ok(1..2)).unwrap(), 1);
    assert_eq!(blocks.next(family, b"other", |_| Ok(5..6)).unwrap(), 5);
}

#[test]
fn a_failed_reservation_gives_no_id() {
    let (blocks, family) = (IdBlocks::default(), FamilyId(0));
    let failed = blocks.next(family, b"k", |_| Err(Error::invalid("no")));
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(blocks.next(family, b"k", |_| Ok(1..9)).unwrap(), 1);
}

#[test]
fn the_number_of_counters_is_bounded() {
    let blocks = IdBlocks::default();
    for number in 0..2 * COUNTERS_MAX {
        let family = FamilyId(u32::try_from(number % 3).unwrap());
        blocks.next(family, number.to_string().as_bytes(), |_| Ok(0..2)).unwrap();
        let counters = lock(&blocks.families).values().map(HashMap::len).sum::<usize>();
        assert!(counters <= COUNTERS_MAX, "{counters}");
    }
}
