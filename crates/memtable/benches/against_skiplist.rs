//! The memtable beside `crossbeam-skiplist`: `cargo bench -p siltdb-memtable`.
//!
//! 16-byte keys, 100-byte values. Each value that is read is added up, and the sum is checked.

use crossbeam_skiplist::SkipMap;
use divan::{Bencher, counter::ItemsCount};
use siltdb_base::{
    budget::Budget,
    cursor::EntryCursor,
    id::SequenceNumber,
    key::{Entry, EntryKind},
};
use siltdb_memtable::{
    arena::{ArenaOptions, ArenaPool},
    memtable::Memtable,
};
use std::{
    cmp::Reverse,
    ops::Bound,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Keys of a round: enough that they do not fit into the caches of a processor.
const KEYS: usize = 1_000_000;
const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const BATCH: usize = 1_000;

type Key = [u8; KEY_BYTES];

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SkipKey(Box<[u8]>, Reverse<u64>);

/// The keys, in the order they are inserted, and what their values add up to.
struct Data {
    keys: Vec<Key>,
    sum: u64,
}

/// What both sides can do.
trait Side: Sync {
    fn new() -> Self;
    fn insert(&self, key: &Key, sequence: u64, value: &[u8]);
    fn insert_sorted(&self, batch: &[Key], first_sequence: u64);
    fn get_all(&self, keys: &[Key]) -> u64;
    fn scan(&self) -> u64;
}

struct SkipSide(SkipMap<SkipKey, Box<[u8]>>);
struct MemtableSide(Arc<Memtable>);

/// The value of a key: cheap to make, different for each key.
fn value_of(key: &Key) -> [u8; VALUE_BYTES] {
    let mut value = [key[0]; VALUE_BYTES];
    value[..KEY_BYTES].copy_from_slice(key);
    value[VALUE_BYTES - KEY_BYTES..].copy_from_slice(key);
    value
}

/// Adds up all of a value.
fn sum_of(value: &[u8]) -> u64 {
    let words = value
        .chunks_exact(4)
        .map(|word| u64::from(u32::from_le_bytes(word.try_into().expect("chunks of four bytes"))));
    words.sum()
}

impl Side for SkipSide {
    fn new() -> Self {
        Self(SkipMap::new())
    }

    fn insert(&self, key: &Key, sequence: u64, value: &[u8]) {
        self.0.insert(SkipKey(key[..].into(), Reverse(sequence)), value.into());
    }

    fn insert_sorted(&self, batch: &[Key], first_sequence: u64) {
        for (key, sequence) in batch.iter().zip(first_sequence..) {
            self.insert(key, sequence, &value_of(key));
        }
    }

    fn get_all(&self, keys: &[Key]) -> u64 {
        // One key for all searches: allocating would be charged to the search.
        let mut probe = SkipKey(Box::new([0; KEY_BYTES]), Reverse(u64::MAX));
        let get = |key: &Key| {
            probe.0.copy_from_slice(key);
            let found = self.0.lower_bound(Bound::Included(&probe));
            found.filter(|entry| *entry.key().0 == *key).map_or(0, |entry| sum_of(entry.value()))
        };
        keys.iter().map(get).fold(0, u64::wrapping_add)
    }

    fn scan(&self) -> u64 {
        self.0.iter().map(|entry| sum_of(entry.value())).fold(0, u64::wrapping_add)
    }
}

impl Side for MemtableSide {
    fn new() -> Self {
        static POOL: LazyLock<Arc<ArenaPool>> = LazyLock::new(|| {
            let mut options = ArenaOptions::default();
            options.idle_bytes_max = 1 << 30;
            ArenaPool::new(Arc::new(Budget::new(usize::MAX)), options)
        });
        Self(Memtable::new(&POOL))
    }

    fn insert(&self, key: &Key, sequence: u64, value: &[u8]) {
        let sequence = SequenceNumber(sequence);
        self.0.insert(Entry { key, sequence, kind: EntryKind::Put, value });
    }

    fn insert_sorted(&self, batch: &[Key], first_sequence: u64) {
        let values: Vec<_> = batch.iter().map(value_of).collect();
        let entries: Vec<_> = (batch.iter().zip(&values).zip(first_sequence..))
            .map(|((key, value), sequence)| {
                let sequence = SequenceNumber(sequence);
                Entry { key, sequence, kind: EntryKind::Put, value }
            })
            .collect();
        self.0.insert_batch(&entries);
    }

    fn get_all(&self, keys: &[Key]) -> u64 {
        let get =
            |key: &Key| self.0.get(key, SequenceNumber::MAX).map_or(0, |entry| sum_of(entry.value));
        keys.iter().map(get).fold(0, u64::wrapping_add)
    }

    fn scan(&self) -> u64 {
        let mut cursor = self.0.cursor();
        cursor.seek_to_first().expect("memory does not fail");
        let mut sum = 0_u64;
        while let Some(entry) = cursor.entry() {
            sum = sum.wrapping_add(sum_of(entry.value));
            cursor.next().expect("memory does not fail");
        }
        sum
    }
}

impl Data {
    fn new(keys: Vec<Key>) -> Self {
        let sum = keys.iter().map(|key| sum_of(&value_of(key))).fold(0, u64::wrapping_add);
        Self { keys, sum }
    }

    fn random() -> Self {
        let mut state = 1_u64;
        let mut next = || {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = state;
            word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ word >> 31
        };
        let key = |_| {
            let mut key = [0; KEY_BYTES];
            key[..8].copy_from_slice(&next().to_be_bytes());
            key[8..].copy_from_slice(&next().to_be_bytes());
            key
        };
        Self::new((0..KEYS).map(key).collect())
    }

    fn sequential() -> Self {
        let key = |number: usize| {
            let mut key = *b"user:00000000000";
            let digits = format!("{number:011}");
            key[5..].copy_from_slice(digits.as_bytes());
            key
        };
        Self::new((0..KEYS).map(key).collect())
    }

    /// The same keys, each run of [`BATCH`] of them sorted.
    fn sorted_batches(&self) -> Self {
        let mut keys = self.keys.clone();
        keys.chunks_mut(BATCH).for_each(<[Key]>::sort_unstable);
        Self { keys, sum: self.sum }
    }
}

static RANDOM: LazyLock<Data> = LazyLock::new(Data::random);

fn fill(side: &impl Side, data: &Data) {
    for (key, sequence) in data.keys.iter().zip(1..) {
        side.insert(key, sequence, &value_of(key));
    }
}

fn fill_sorted(side: &impl Side, data: &Data) {
    for (index, batch) in data.keys.chunks(BATCH).enumerate() {
        side.insert_sorted(batch, (index * BATCH + 1) as u64);
    }
}

/// Two threads that take pieces in turn, so that both end at the same time, whatever else the
/// machine does.
fn fill_by_two(side: &impl Side, data: &Data) {
    let next = AtomicUsize::new(0);
    let fill_pieces = || {
        let piece = || data.keys.chunks(BATCH).enumerate().nth(next.fetch_add(1, Relaxed));
        while let Some((index, keys)) = piece() {
            for (key, sequence) in keys.iter().zip((index * BATCH + 1) as u64..) {
                side.insert(key, sequence, &value_of(key));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(fill_pieces);
        scope.spawn(fill_pieces);
    });
}

/// Measures `work` on all keys of `data`, each time on a new side.
fn bench_insert<S: Side>(bencher: Bencher<'_, '_>, data: &Data, work: impl Fn(&S, &Data) + Sync) {
    let bencher = bencher.counter(ItemsCount::new(KEYS)).with_inputs(S::new);
    bencher.bench_local_refs(|side| work(side, data));
}

#[divan::bench(types = [SkipSide, MemtableSide])]
fn insert<S: Side>(bencher: Bencher<'_, '_>) {
    bench_insert::<S>(bencher, &RANDOM, |side, data| fill(side, data));
}

#[divan::bench(types = [SkipSide, MemtableSide])]
fn two_threads_insert<S: Side>(bencher: Bencher<'_, '_>) {
    bench_insert::<S>(bencher, &RANDOM, |side, data| fill_by_two(side, data));
}

#[divan::bench(types = [SkipSide, MemtableSide])]
fn insert_sorted_batches<S: Side>(bencher: Bencher<'_, '_>) {
    bench_insert::<S>(bencher, &RANDOM.sorted_batches(), |side, data| fill_sorted(side, data));
}

#[divan::bench(types = [SkipSide, MemtableSide])]
fn insert_in_order<S: Side>(bencher: Bencher<'_, '_>) {
    bench_insert::<S>(bencher, &Data::sequential(), |side, data| fill(side, data));
}

/// Measures `read` on a side that has all keys.
fn bench_read<S: Side>(bencher: Bencher<'_, '_>, read: impl Fn(&S) -> u64) {
    let side = S::new();
    fill(&side, &RANDOM);
    bencher.counter(ItemsCount::new(KEYS)).bench_local(|| assert_eq!(read(&side), RANDOM.sum));
}

#[divan::bench(types = [SkipSide, MemtableSide])]
fn get<S: Side>(bencher: Bencher<'_, '_>) {
    let mut keys = RANDOM.keys.clone();
    keys.sort_unstable_by_key(|key| key[11].wrapping_mul(91) as u64 ^ sum_of(key));
    bench_read::<S>(bencher, |side| side.get_all(&keys));
}

#[divan::bench(types = [SkipSide, MemtableSide])]
fn scan<S: Side>(bencher: Bencher<'_, '_>) {
    bench_read::<S>(bencher, S::scan);
}

fn main() {
    divan::Divan::from_args().sample_count(9).sample_size(1).main();
}
