//! Cached tables against `BTreeMap<Vec<u8>, Vec<u8>>`: get, seek, scan; and how fast they are written.
//!
//! It measures memory and processor, not a disk. `TABLE_KEYS` (default 1000000) sets the number of
//! keys, `TABLE_ROUNDS` (default 5) the rounds, which alternate between the contestants; medians and
//! the range are printed. Tables hold 64 MiB each.

use siltdb_base::{
    budget::{Budget, Part},
    cursor::{Cursor, SpanContent},
    error::{Error, Result},
    fs::{File, WriteFile},
    id::{SequenceNumber, TableUid},
    key::{Entry, EntryKind},
};
use siltdb_disk::{
    cache::{Cache, CacheFill},
    options::TableOptions,
    summary::TableSummary,
    table::{Table, TableWriter},
};
use std::{
    collections::BTreeMap, hint::black_box, ops::Bound, path::Path, sync::Arc, time::Instant,
};

const VALUE_BYTES: usize = 100;
const TABLE_BYTES: u64 = 64 << 20;

#[derive(Debug, Default)]
struct Bytes(Vec<u8>);

impl File for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let found = self.0.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(found.ok_or_else(|| Error::corruption("file ends early"))?);
        Ok(())
    }
}

impl WriteFile for Bytes {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn key(&mut self) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.next().to_be_bytes());
        key[8..].copy_from_slice(&self.next().to_be_bytes());
        key
    }

    /// Half of it compresses.
    fn value(&mut self) -> Vec<u8> {
        let mut value = vec![b'v'; VALUE_BYTES];
        for chunk in value[..VALUE_BYTES / 2].chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_be_bytes()[..chunk.len()]);
        }
        value
    }
}

struct Tables {
    tables: Vec<Arc<Table>>,
    cache: Arc<Cache>,
}

impl Tables {
    fn write(map: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<(Arc<Bytes>, TableSummary)> {
        let options = TableOptions::default();
        let mut written = Vec::new();
        let mut entries = map.iter().enumerate().peekable();
        while entries.peek().is_some() {
            let mut file = Bytes(Vec::with_capacity(80 << 20));
            let uid = TableUid(1 + written.len() as u64);
            let mut writer = TableWriter::new(&mut file, &options, uid);
            while writer.estimated_bytes() < TABLE_BYTES
                && let Some((index, (key, value))) = entries.next()
            {
                // As after random inserts: neighbours have unrelated sequence numbers.
                let sequence = (index as u64).wrapping_mul(0x9e37_79b9) % map.len() as u64 + 1;
                let sequence = SequenceNumber(sequence);
                writer.add(Entry { key, sequence, kind: EntryKind::Put, value }).expect("memory");
            }
            let summary = writer.finish().expect("not empty");
            written.push((Arc::new(file), summary));
        }
        written
    }

    fn open(written: &[(Arc<Bytes>, TableSummary)]) -> Self {
        let cache = Cache::new(Arc::new(Budget::new(usize::MAX)), usize::MAX >> 1);
        let open = |(file, summary): &(Arc<Bytes>, TableSummary)| {
            let (file, length) = (Arc::clone(file) as Arc<dyn File>, summary.file_bytes);
            let path = Path::new("bench");
            Table::open(file, path, 0, length, Some(summary), &cache).expect("just written")
        };
        let tables = written.iter().map(open).collect();
        Self { tables, cache }
    }

    fn table_of(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let index = self.tables.partition_point(|table| table.summary().range.last[..] < *key);
        self.tables.get(index)
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let found = self.table_of(key)?.get(key, SequenceNumber::MAX).expect("sound");
        found.map(|found| usize::from(found.value[50]))
    }

    /// Walks everything through spans, as a merge with nothing else in the way would.
    fn scan(&self, fill: CacheFill) -> usize {
        let (mut sum, mut entries) = (0, 0);
        for table in &self.tables {
            let mut cursor = table.cursor(fill);
            cursor.seek_to_first().expect("sound");
            while let Some(span) = cursor.span() {
                assert_eq!(span.content, SpanContent::Plain);
                for _ in 0..=span.after {
                    if let Some(entry) = cursor.entry() {
                        sum += usize::from(entry.key[0]) + usize::from(entry.value[50]);
                        entries += 1;
                    }
                    cursor.next().expect("sound");
                }
            }
        }
        black_box(sum);
        entries
    }

    fn seek(&self, key: &[u8]) -> Option<usize> {
        let mut cursor = self.table_of(key)?.cursor(CacheFill::Keep);
        cursor.seek(key, SequenceNumber::MAX).expect("sound");
        cursor.entry().map(|entry| usize::from(entry.value[50]))
    }
}

/// Results of the rounds, in millions per second.
struct Results(Vec<(&'static str, Vec<f64>)>);

impl Results {
    fn measure(&mut self, name: &'static str, count: usize, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        let rate = count as f64 / start.elapsed().as_secs_f64() / 1e6;
        match self.0.iter_mut().find(|result| result.0 == name) {
            Some(result) => result.1.push(rate),
            None => self.0.push((name, vec![rate])),
        }
    }

    fn print(&mut self) {
        for (name, rates) in &mut self.0 {
            rates.sort_by(f64::total_cmp);
            let (low, high) = (rates[0], rates[rates.len() - 1]);
            println!("{name:<32} {:>8.2} M/s  ({low:.2}..{high:.2})", rates[rates.len() / 2]);
        }
    }
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn on_two_threads(work: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(0);
        other.join().expect("the other thread");
    });
}

fn main() {
    let (count, rounds) = (number("TABLE_KEYS", 1_000_000), number("TABLE_ROUNDS", 5));
    let mut random = Random(1);
    let mut keys: Vec<[u8; 16]> = (0..count).map(|_| random.key()).collect();
    let mut map = BTreeMap::new();
    for key in &keys {
        map.insert(key.to_vec(), random.value());
    }
    // Asked for in another order than inserted, or the map's allocations would follow each other.
    for index in (1..keys.len()).rev() {
        keys.swap(index, random.next() as usize % (index + 1));
    }
    let gets = count.min(1_000_000);
    let absent: Vec<[u8; 16]> = (0..gets).map(|_| random.key()).collect();
    let written = Tables::write(&map);
    let tables = Tables::open(&written);
    let logical: u64 = written.iter().map(|(_, summary)| summary.logical_bytes).sum();
    let stored: u64 = written.iter().map(|(_, summary)| summary.file_bytes).sum();
    assert_eq!(tables.scan(CacheFill::Keep), count);
    let budget = tables.cache.budget();
    println!(
        "{count} keys, {} tables, {:.1} MB logical, {:.1} MB stored, {:.1} MB cached, {:.1} MB beside",
        written.len(),
        logical as f64 / 1e6,
        stored as f64 / 1e6,
        budget.used(Part::Blocks) as f64 / 1e6,
        budget.used(Part::Tables) as f64 / 1e6,
    );

    let mut results = Results(Vec::new());
    let half = gets / 2;
    let map_get = |key: &[u8; 16]| map.get(&key[..]).map(|value| usize::from(value[50]));
    for _ in 0..rounds {
        let gets_of = |get: &dyn Fn(&[u8; 16]) -> Option<usize>, keys: &[[u8; 16]]| {
            black_box(keys.iter().filter_map(get).sum::<usize>());
        };
        let table_get = |key: &[u8; 16]| tables.get(key);
        let table_seek = |key: &[u8; 16]| tables.seek(key);
        results.measure("map get hit", gets, || gets_of(&map_get, &keys[..gets]));
        results.measure("table get hit", gets, || gets_of(&table_get, &keys[..gets]));
        results.measure("map get hit, 2 threads", 2 * half, || {
            on_two_threads(|thread| gets_of(&map_get, &keys[thread * half..][..half]));
        });
        results.measure("table get hit, 2 threads", 2 * half, || {
            on_two_threads(|thread| gets_of(&table_get, &keys[thread * half..][..half]));
        });
        results.measure("map get miss", gets, || gets_of(&map_get, &absent));
        results.measure("table get miss", gets, || gets_of(&table_get, &absent));
        results.measure("map seek", gets, || {
            let seek = |key: &[u8; 16]| {
                let from = (Bound::Included(&key[..]), Bound::Unbounded);
                let found = map.range::<[u8], _>(from).next();
                found.map(|(_, value)| usize::from(value[50]))
            };
            gets_of(&seek, &absent);
        });
        results.measure("table seek", gets, || gets_of(&table_seek, &absent));
        results.measure("map scan", count, || {
            let sum =
                |(key, value): (&Vec<u8>, &Vec<u8>)| usize::from(key[0]) + usize::from(value[50]);
            black_box(map.iter().map(sum).sum::<usize>());
        });
        results.measure("table scan", count, || assert_eq!(tables.scan(CacheFill::Keep), count));
        results.measure("table scan, 2 threads", 2 * count, || {
            on_two_threads(|_| assert_eq!(tables.scan(CacheFill::Keep), count));
        });
        let cold = Tables::open(&written);
        results.measure("table scan, not cached", count, || {
            assert_eq!(cold.scan(CacheFill::Pass), count);
        });
        let some = gets.min(200_000);
        results.measure("table get, not cached", some, || {
            gets_of(&|key| cold.get(key), &keys[..some]);
        });
        results.measure("table write (lz4)", count, || {
            black_box(Tables::write(&map));
        });
    }
    results.print();
}
