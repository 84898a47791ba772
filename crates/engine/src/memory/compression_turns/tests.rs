//! Memory of values that are compressed: charged, bounded, given back.

use super::*;
use siltdb_disk::cache::TableMemory;
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

const LIMIT: usize = 8 << 20;

fn turns() -> (Arc<Budget>, CompressionTurns) {
    let budget = Arc::new(Budget::new(LIMIT));
    let cache = Cache::new(Arc::clone(&budget), LIMIT, TableMemory::Within);
    let turns = CompressionTurns::new(&budget, &cache);
    (budget, turns)
}

#[test]
fn what_a_value_takes_is_charged_until_its_turn_ends() {
    let (budget, turns) = turns();
    for raw_bytes in [100, 4 << 10, 200 << 10] {
        let before = budget.used(Part::Jobs);
        let mut turn = turns.begin(Compression::Lz4, raw_bytes);
        let charged = budget.used(Part::Jobs) - before;
        assert!(charged >= raw_bytes, "{charged} for {raw_bytes}");
        turn.compress(&vec![7; raw_bytes]);
        drop(turn);
        let kept = lock(&turns.state).idle.iter().map(|(_, it)| it.memory_bytes()).sum();
        assert_eq!(budget.used(Part::Jobs), kept);
    }
    assert!(budget.used(Part::Jobs) > 0, "no compressor was kept");
    drop(turns.begin(Compression::None, 1 << 20));
    assert_eq!(lock(&turns.state).taken, 0);
    drop(turns);
    assert_eq!(budget.used(Part::Jobs), 0);
}

#[test]
fn callers_together_stay_within_the_share_and_a_longer_value_goes_alone() {
    let (budget, turns) = turns();
    let (most, going) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..8 {
            let (turns, budget, most, going) = (&turns, &budget, &most, &going);
            scope.spawn(move || {
                for round in 0..50 {
                    // Three of them are within the share of 1 MiB together; one in ten is not.
                    let is_long = (round + thread) % 10 == 0;
                    let raw_bytes = if is_long { 2 << 20 } else { 300 << 10 };
                    let mut turn = turns.begin(Compression::Lz4, raw_bytes);
                    let together = going.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(!is_long || together == 1, "{together} beside a long one");
                    most.fetch_max(budget.used(Part::Jobs), Ordering::SeqCst);
                    turn.compress(&vec![7; raw_bytes]);
                    going.fetch_sub(1, Ordering::SeqCst);
                    drop(turn);
                }
            });
        }
    });
    let alone = Compression::Lz4.working_bytes(2 << 20);
    let most = most.into_inner();
    assert!(most <= alone.max(LIMIT / SHARE), "{most} of {alone}");
    assert!(budget.used(Part::Jobs) <= LIMIT / SHARE);
}

#[cfg(feature = "zstd")]
#[test]
fn a_level_that_takes_more_than_the_share_is_lowered() {
    let (budget, turns) = turns();
    let raw_bytes = 256 << 10;
    assert!(Compression::Zstd(22).working_bytes(raw_bytes) > LIMIT / SHARE);
    let turn = turns.begin(Compression::Zstd(22), raw_bytes);
    assert!(budget.used(Part::Jobs) <= LIMIT / SHARE, "{}", budget.used(Part::Jobs));
    drop(turn);
    let lowered = Compression::Zstd(22).within(raw_bytes, LIMIT / SHARE);
    assert!(matches!(lowered, Compression::Zstd(1..22)), "{lowered}");
    assert_eq!(Compression::Zstd(22).within(1 << 10, 1 << 20), Compression::Zstd(22));
}
