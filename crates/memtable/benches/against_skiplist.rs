//! The memtable against `crossbeam-skiplist`, both in one run, in alternating rounds.
//!
//! 16-byte keys, 100-byte values. Each value that is read is added up and the sum is checked.
//! Prints medians of million operations per second, the spread of the rounds, and the ratio.
//!
//! `SILT_BENCH_ROUNDS` and `SILT_BENCH_KEYS` change the size; an argument that is no option picks
//! the rows whose name contains it. `SILT_BENCH_ALONE=1` leaves the skip list out, for profiling.

use crossbeam_skiplist::SkipMap;
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
        Arc, Barrier,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

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

    fn random(count: usize) -> Self {
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
        Self::new((0..count).map(key).collect())
    }

    fn sequential(count: usize) -> Self {
        let key = |number: usize| {
            let mut key = *b"user:00000000000";
            let digits = format!("{number:011}");
            key[5..].copy_from_slice(digits.as_bytes());
            key
        };
        Self::new((0..count).map(key).collect())
    }

    /// The same keys, each run of [`BATCH`] of them sorted.
    fn sorted_batches(&self) -> Self {
        let mut keys = self.keys.clone();
        keys.chunks_mut(BATCH).for_each(<[Key]>::sort_unstable);
        Self { keys, sum: self.sum }
    }
}

/// A way to insert all keys.
type Fill = fn(&dyn Side, &Data);

fn fill(side: &dyn Side, data: &Data) {
    for (key, sequence) in data.keys.iter().zip(1..) {
        side.insert(key, sequence, &value_of(key));
    }
}

fn fill_sorted(side: &dyn Side, data: &Data) {
    for (index, batch) in data.keys.chunks(BATCH).enumerate() {
        side.insert_sorted(batch, (index * BATCH + 1) as u64);
    }
}

/// Two threads that take pieces in turn, so that both end at the same time, whatever else the
/// machine does.
fn fill_by_two(side: &dyn Side, data: &Data) {
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

/// Lets the allocator join what was freed before, which it puts off until it is asked for a large
/// piece. Without this, the memtable's first chunk pays for the skip list's million nodes.
///
/// Each thread may have memory of its own, which its successors take over, so as many as insert at
/// the same time ask.
fn join_freed() {
    let ask = || drop(std::hint::black_box(Vec::<u8>::with_capacity(1 << 20)));
    ask();
    let both_run = Barrier::new(2);
    let ask_in_turn = || {
        both_run.wait();
        ask();
        both_run.wait();
    };
    std::thread::scope(|scope| {
        scope.spawn(ask_in_turn);
        scope.spawn(ask_in_turn);
    });
}

/// Million operations per second of `work` on `count` of them.
fn rate(count: usize, work: impl FnOnce()) -> f64 {
    join_freed();
    let start = Instant::now();
    work();
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// One figure of one side over all rounds.
#[derive(Default)]
struct Row {
    name: &'static str,
    skip_list: Vec<f64>,
    memtable: Vec<f64>,
    bar: f64,
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn spread(rates: &[f64]) -> String {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rates.iter().copied().fold(0.0, f64::max);
    format!("{least:.2}..{most:.2}")
}

struct Bench {
    pool: Arc<ArenaPool>,
    /// As many chunks as this has are kept for the next memtable.
    _in_use: MemtableSide,
    random: Data,
    batches: Data,
    sequential: Data,
    gets: Vec<Key>,
}

impl Bench {
    fn new(count: usize) -> Self {
        let mut options = ArenaOptions::default();
        options.idle_bytes_max = 1 << 30;
        let pool = ArenaPool::new(Arc::new(Budget::new(usize::MAX)), options);
        let random = Data::random(count);
        let mut gets = random.keys.clone();
        gets.sort_unstable_by_key(|key| key[11].wrapping_mul(91) as u64 ^ sum_of(key));
        let batches = random.sorted_batches();
        let in_use = MemtableSide(Memtable::new(&pool));
        fill(&in_use, &random);
        Self { pool, _in_use: in_use, random, batches, sequential: Data::sequential(count), gets }
    }

    fn side(&self, is_memtable: usize) -> Box<dyn Side> {
        match is_memtable {
            0 => Box::new(SkipSide(SkipMap::new())),
            _ => Box::new(MemtableSide(Memtable::new(&self.pool))),
        }
    }

    /// All rows of one round for one side, in order.
    fn round(&self, which: usize, wanted: &dyn Fn(&str) -> bool) -> Vec<f64> {
        let count = self.random.keys.len();
        let side = self.side(which);
        let mut rates = vec![rate(count, || fill(&*side, &self.random))];
        let read = |work: &dyn Fn() -> u64, name: &str| {
            if !wanted(name) {
                return 0.0;
            }
            rate(count, || assert_eq!(work(), self.random.sum, "values were lost"))
        };
        rates.push(read(&|| side.get_all(&self.gets), "get"));
        rates.push(read(&|| side.scan(), "scan"));
        drop(side);
        let fills: [(&str, Fill, &Data); 3] = [
            ("two threads insert", fill_by_two, &self.random),
            ("sorted batch", fill_sorted, &self.batches),
            ("sequential insert", fill, &self.sequential),
        ];
        for (name, fill, data) in fills {
            if !wanted(name) {
                rates.push(0.0);
                continue;
            }
            let side = self.side(which);
            rates.push(rate(count, || fill(&*side, data)));
            assert_eq!(side.scan(), data.sum, "values were lost");
        }
        rates
    }
}

const ROWS: [(&str, f64); 6] = [
    ("insert", 3.0),
    ("get", 2.5),
    ("scan", 4.0),
    ("two threads insert", 0.0),
    ("sorted batch", 4.0),
    ("sequential insert", 2.0),
];

fn main() {
    let number = |name: &str, default: usize| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (rounds, count) = (number("SILT_BENCH_ROUNDS", 9), number("SILT_BENCH_KEYS", 1_000_000));
    let first = number("SILT_BENCH_ALONE", 0).min(1);
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| filter.as_deref().is_none_or(|filter| name.contains(filter));
    let bench = Bench::new(count);
    let mut rows: Vec<Row> =
        ROWS.iter().map(|&(name, bar)| Row { name, bar, ..Row::default() }).collect();
    for _ in 0..rounds {
        for which in first..2 {
            for (row, rate) in rows.iter_mut().zip(bench.round(which, &wanted)) {
                if which == 0 { row.skip_list.push(rate) } else { row.memtable.push(rate) }
            }
        }
    }
    println!("{count} keys, {rounds} rounds, million operations per second: median (spread)");
    println!("{:20} {:>20} {:>20} {:>7} {:>5}", "", "skip list", "memtable", "ratio", "bar");
    for row in &rows {
        let (skip_list, memtable) = (median(&row.skip_list), median(&row.memtable));
        println!(
            "{:20} {:>6.2} {:>13} {:>6.2} {:>13} {:>6.2}x {:>4.1}x",
            row.name,
            skip_list,
            spread(&row.skip_list),
            memtable,
            spread(&row.memtable),
            memtable / skip_list,
            row.bar
        );
    }
    let scaling = |rates: fn(&Row) -> &[f64]| {
        let (one, two) = (rates(&rows[0]), rates(&rows[3]));
        let ratios: Vec<_> = one.iter().zip(two).map(|(one, two)| two / one).collect();
        format!("{:.2}x ({})", median(&ratios), spread(&ratios))
    };
    println!("two threads against one, median of the rounds (bar 1.7x):");
    println!("    skip list {}", scaling(|row| &row.skip_list));
    println!("    memtable  {}", scaling(|row| &row.memtable));
}
