//! Finding tables, runs and ages, and what does not make a level.

use super::*;
use crate::{
    files::open_files::OpenFiles,
    fixture::{TestRandom, numbers, open_files, range, reference},
};
use siltdb_base::{error::ErrorKind, fs::mem::MemFs};
use siltdb_disk::table_meta::RangeEnd;

fn files() -> Arc<OpenFiles> {
    open_files(&Arc::new(MemFs::new()))
}

/// First key, last key, smallest and largest sequence number.
type Outline<'a> = (&'a [u8], &'a [u8], (u64, u64));

fn level(order: Order, tables: &[Outline<'_>]) -> Result<Level> {
    let files = files();
    let open = tables.iter().zip(1..).map(|((first, last, sequences), number)| {
        files.reference(reference(number, (first, last), *sequences, 10)).unwrap()
    });
    Level::new(order, open.collect())
}

#[test]
fn a_run_finds_the_table_of_a_key_like_a_linear_search() {
    let mut random = TestRandom::new(7);
    let files = files();
    for prefix in [&b""[..], b"user:", b"long common prefix of every key/"] {
        let mut keys: Vec<Vec<u8>> = (0..200)
            .map(|_| {
                let length = random.below(12) as usize;
                let tail = (0..length).map(|_| b'a' + random.below(3) as u8);
                prefix.iter().copied().chain(tail).collect()
            })
            .collect();
        keys.sort();
        keys.dedup();
        let mut tables = Vec::new();
        for (pair, number) in keys.chunks_exact(2).zip(1..) {
            let mut table = reference(number, (&pair[0], &pair[1]), (1, 1), 10);
            if number % 3 == 0 {
                table.meta.range.end = RangeEnd::Exclusive;
            }
            tables.push(files.reference(table).unwrap());
        }
        let level = Level::new(Order::Disjoint, tables.clone()).unwrap();
        let strange =
            [&b""[..], b"a", b"user", b"user;", b"long", b"m", b"zzz"].map(<[u8]>::to_vec);
        for key in keys.iter().chain(&strange) {
            let holder = tables.iter().find(|table| table.range().contains(key));
            assert_eq!(level.find(key).map(|table| table.id()), holder.map(|table| table.id()));
            let reaching = tables.iter().position(|table| !table.range().is_before(key));
            assert_eq!(level.index_reaching(key), reaching.unwrap_or(tables.len()));
        }
        for _ in 0..200 {
            let a = &keys[random.below(keys.len() as u64) as usize];
            let b = &keys[random.below(keys.len() as u64) as usize];
            let wanted = range(a.min(b), a.max(b));
            let expected: Vec<usize> = (0..tables.len())
                .filter(|&index| tables[index].range().overlaps(&wanted))
                .collect();
            assert_eq!(level.overlapping(&wanted), expected);
        }
    }
}

#[test]
fn tables_that_overlap_make_no_run() {
    let apart = [(&b"a"[..], &b"c"[..], (1, 1)), (b"d", b"f", (1, 1))];
    assert!(level(Order::Disjoint, &apart).is_ok());
    let touching = [(&b"a"[..], &b"d"[..], (1, 1)), (b"d", b"f", (1, 1))];
    assert_eq!(level(Order::Disjoint, &touching).unwrap_err().kind(), ErrorKind::Corruption);
    // The last key of the first table lacks the prefix that the others share.
    let backwards = [(&b"aaaa"[..], &b"b"[..], (1, 1)), (b"aaab", b"aaac", (1, 1))];
    assert_eq!(level(Order::Disjoint, &backwards).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn lengths_that_do_not_add_up_make_no_level() {
    let files = files();
    let level_of = |bytes: u64| {
        let keys: [(&[u8], &[u8]); 2] = [(b"a", b"b"), (b"c", b"d")];
        let open = keys.into_iter().zip(1..).map(|(keys, number)| {
            files.reference(reference(number, keys, (number, number), bytes)).unwrap()
        });
        let open: Vec<_> = open.collect();
        [Order::Disjoint, Order::Overlapping].map(|order| Level::new(order, open.clone()))
    };
    for level in level_of(LEVEL_BYTES_MAX / 2) {
        assert_eq!(level.unwrap().bytes(), LEVEL_BYTES_MAX);
    }
    for bytes in [LEVEL_BYTES_MAX / 2 + 1, 1 << 63, u64::MAX] {
        for level in level_of(bytes) {
            assert_eq!(level.unwrap_err().kind(), ErrorKind::Corruption);
        }
    }
}

#[test]
fn a_stack_is_ordered_by_age_and_refuses_mixed_ages_of_one_key() {
    let good = [(&b"a"[..], &b"f"[..], (1, 5)), (b"c", b"z", (6, 9)), (b"m", b"p", (10, 10))];
    let stack = level(Order::Overlapping, &good).unwrap();
    assert_eq!(numbers(stack.tables()), [3, 2, 1]);
    // Same ages, other keys: the parts of one flush.
    let parts = [(&b"a"[..], &b"f"[..], (1, 5)), (b"g", b"z", (2, 9))];
    assert!(level(Order::Overlapping, &parts).is_ok());
    let mixed = [(&b"a"[..], &b"f"[..], (1, 5)), (b"c", b"z", (4, 9))];
    assert_eq!(level(Order::Overlapping, &mixed).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn overlap_in_a_stack_is_followed_through_others() {
    let chain = [
        (&b"a"[..], &b"c"[..], (1, 1)),
        (b"c", b"f", (2, 2)),
        (b"f", b"h", (3, 3)),
        (b"x", b"z", (4, 4)),
    ];
    let stack = level(Order::Overlapping, &chain).unwrap();
    let taken = |first: &[u8], last: &[u8]| {
        let indexes = stack.overlapping(&range(first, last));
        numbers(indexes.iter().map(|&index| stack.table(index)))
    };
    assert_eq!(taken(b"a", b"a"), [3, 2, 1]);
    assert_eq!(taken(b"y", b"y"), [4]);
    assert_eq!(taken(b"i", b"w"), [0; 0]);
}

#[test]
fn runs_join_parts_and_ages_keep_them_together() {
    let parts = [
        (&b"a"[..], &b"f"[..], (1, 8)),
        (b"g", b"z", (2, 9)),
        (b"a", b"k", (10, 18)),
        (b"l", b"z", (11, 19)),
        (b"b", b"c", (20, 20)),
    ];
    let stack = level(Order::Overlapping, &parts).unwrap();
    assert_eq!(stack.runs(), 3);
    assert_eq!(stack.ages(), [1, 2, 2]);
    assert_eq!(Level::empty(Order::Overlapping).runs(), 0);
    assert_eq!(Level::empty(Order::Overlapping).ages(), [0; 0]);
}
