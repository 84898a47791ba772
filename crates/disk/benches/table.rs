//! Cached tables against `BTreeMap<Vec<u8>, Vec<u8>>`: get, seek, scan; and how fast they are
//! written.
//!
//! It measures memory and processor, not a disk. `TABLE_KEYS` (default 1000000) sets the number of
//! keys, `TABLE_ROUNDS` (default 5) the rounds, which alternate between the contestants; medians
//! and the range are printed. `TABLE_ONLY` runs the measurements whose name contains it. Tables
//! hold 64 MiB each.

use siltdb_base::{
    budget::{Budget, Part},
    cursor::EntryCursor,
    error::{Error, Result},
    fs::{File, ReadIo, WriteFile},
    id::{SequenceNumber, TableUid},
    key::{Entry, EntryKind, LookupKey},
};
use siltdb_disk::{
    cache::{Cache, TableMemory},
    options::TableOptions,
    table::{FoundEntry, Table, TableLocation, TableScan, TableWriter},
    table_meta::TableMeta,
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

/// As after random inserts: neighbours have unrelated sequence numbers.
fn entry<'a>(index: usize, key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
    let sequence = SequenceNumber((index as u64).wrapping_mul(0x9e37_79b9) % 1_000_000 + 1);
    Entry { key, sequence, kind: EntryKind::Put, value }
}

struct Tables {
    tables: Vec<Arc<Table>>,
    /// The same tables, to be read once each.
    passing: Vec<Arc<TableScan>>,
    cache: Arc<Cache>,
}

impl Tables {
    fn write(map: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<(Arc<Bytes>, TableMeta)> {
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
                writer.add(entry(index, key, value)).expect("memory");
            }
            let meta = writer.finish().expect("not empty");
            written.push((Arc::new(file), meta));
        }
        written
    }

    /// Writes one table of entries that lie one after the other, over the contents of `file`.
    fn rewrite(flat: &[u8], file: &mut Bytes) {
        file.0.clear();
        let mut writer = TableWriter::new(file, &TableOptions::default(), TableUid(1));
        for (index, chunk) in flat.chunks_exact(16 + VALUE_BYTES).enumerate() {
            let (key, value) = chunk.split_at(16);
            writer.add(entry(index, key, value)).expect("memory");
        }
        writer.finish().expect("not empty");
    }

    fn open(written: &[(Arc<Bytes>, TableMeta)]) -> Self {
        let budget = Arc::new(Budget::new(usize::MAX));
        let cache = Cache::new(budget, usize::MAX >> 1, TableMemory::Beside);
        let open = |(file, meta): &(Arc<Bytes>, TableMeta)| {
            let (file, length) = (Arc::clone(file) as Arc<dyn File>, meta.file_bytes);
            let path = Path::new("bench");
            Table::open(TableLocation::new(file, path, 0, length), Some(meta), ReadIo::Read, &cache)
                .expect("just written")
        };
        let pass = |(file, meta): &(Arc<Bytes>, TableMeta)| {
            let (file, length) = (Arc::clone(file) as Arc<dyn File>, meta.file_bytes);
            TableScan::open(TableLocation::new(file, Path::new("bench"), 0, length), meta)
                .expect("just written")
        };
        let tables = written.iter().map(open).collect();
        Self { tables, passing: written.iter().map(pass).collect(), cache }
    }

    fn table_of(&self, key: &[u8]) -> Option<&Arc<Table>> {
        let index = self.tables.partition_point(|table| table.meta().range.last[..] < *key);
        self.tables.get(index)
    }

    fn get(&self, key: &[u8]) -> Option<usize> {
        let look = |found: FoundEntry<'_>| usize::from(found.value.bytes()[50]);
        self.table_of(key)?.get(LookupKey::new(key), SequenceNumber::MAX, look).expect("sound")
    }

    fn scan(&self) -> usize {
        Self::walk(self.tables.iter().map(Table::cursor))
    }

    fn scan_passing(&self) -> usize {
        Self::walk(self.passing.iter().map(|table| table.cursor().expect("sound")))
    }

    /// Walks everything through spans, as a merge with nothing else in the way would.
    fn walk(cursors: impl Iterator<Item = impl EntryCursor>) -> usize {
        let (mut sum, mut entries) = (0, 0);
        for mut cursor in cursors {
            cursor.seek_to_first().expect("sound");
            while let Some(span) = cursor.stretch() {
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
        let mut cursor = self.table_of(key)?.cursor();
        cursor.seek(key, SequenceNumber::MAX).expect("sound");
        cursor.entry().map(|entry| usize::from(entry.value[50]))
    }
}

/// Results of the rounds, in millions per second.
#[derive(Default)]
struct Results {
    /// Name, rates of the clock, rates of the processor time of the measuring thread.
    measured: Vec<(&'static str, Vec<f64>, Vec<f64>)>,
    only: Option<String>,
}

/// Nanoseconds that this thread was on a processor; on a busy machine they say more than the clock.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

impl Results {
    fn measure(&mut self, name: &'static str, count: usize, work: impl FnOnce()) {
        if self.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return;
        }
        let (start, processor_start) = (Instant::now(), processor_ns());
        work();
        let processor = (processor_ns() - processor_start) as f64 / 1e9;
        let rate = count as f64 / start.elapsed().as_secs_f64() / 1e6;
        let processor_rate = count as f64 / processor / 1e6;
        match self.measured.iter_mut().find(|result| result.0 == name) {
            Some(result) => {
                result.1.push(rate);
                result.2.push(processor_rate);
            }
            None => self.measured.push((name, vec![rate], vec![processor_rate])),
        }
    }

    fn print(&mut self) {
        println!("{:<28} {:>14} {:>26}", "M/s", "clock", "processor time");
        for (name, clock, processor) in &mut self.measured {
            let [clock, processor] = [clock, processor].map(|rates| {
                rates.sort_by(f64::total_cmp);
                let (low, high) = (rates[0], rates[rates.len() - 1]);
                format!("{:.2} ({low:.2}..{high:.2})", rates[rates.len() / 2])
            });
            println!("{name:<28} {clock:>24} {processor:>24}");
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

/// What is compared, and what is asked of it.
struct Contest {
    map: BTreeMap<Vec<u8>, Vec<u8>>,
    written: Vec<(Arc<Bytes>, TableMeta)>,
    tables: Tables,
    /// Keys that are there, in another order than they were inserted.
    keys: Vec<[u8; 16]>,
    absent: Vec<[u8; 16]>,
    /// Entries one after the other, and a file to write them to.
    flat: Vec<u8>,
    file: Bytes,
}

/// Most keys asked for in one round.
const GETS_MAX: usize = 1_000_000;

fn ask(get: impl Fn(&[u8; 16]) -> Option<usize>, keys: &[[u8; 16]]) {
    black_box(keys.iter().filter_map(get).sum::<usize>());
}

impl Contest {
    fn new(count: usize) -> Self {
        let mut random = Random(1);
        let mut keys: Vec<[u8; 16]> = (0..count).map(|_| random.key()).collect();
        let mut map = BTreeMap::new();
        for key in &keys {
            map.insert(key.to_vec(), random.value());
        }
        // In the order of insertion the map's allocations would follow each other.
        for index in (1..keys.len()).rev() {
            keys.swap(index, random.next() as usize % (index + 1));
        }
        keys.truncate(GETS_MAX);
        let absent = keys.iter().map(|_| random.key()).collect();
        let written = Tables::write(&map);
        let tables = Tables::open(&written);
        assert_eq!(tables.scan(), count);
        let few = map.iter().take(500_000);
        let flat: Vec<u8> = few.flat_map(|(key, value)| [&key[..], &value[..]].concat()).collect();
        let mut file = Bytes::default();
        Tables::rewrite(&flat, &mut file);
        Self { map, written, tables, keys, absent, flat, file }
    }

    fn print_sizes(&self) {
        let summaries = || self.written.iter().map(|(_, meta)| meta);
        let budget = self.tables.cache.budget();
        let megabytes = [
            summaries().map(|meta| meta.logical_bytes).sum(),
            summaries().map(|meta| meta.file_bytes).sum(),
            budget.used(Part::Blocks) as u64,
            budget.used(Part::Tables) as u64,
        ];
        let [logical, stored, cached, beside] = megabytes.map(|bytes| bytes as f64 / 1e6);
        println!("{} keys, {} tables", self.map.len(), self.written.len());
        println!(
            "MB: {logical:.1} logical, {stored:.1} stored, {cached:.1} cached, {beside:.1} beside"
        );
    }

    fn map_get(&self, key: &[u8; 16]) -> Option<usize> {
        self.map.get(&key[..]).map(|value| usize::from(value[50]))
    }

    fn map_seek(&self, key: &[u8; 16]) -> Option<usize> {
        let from = (Bound::Included(&key[..]), Bound::Unbounded);
        let found = self.map.range::<[u8], _>(from).next();
        found.map(|(_, value)| usize::from(value[50]))
    }

    fn lookups(&self, results: &mut Results) {
        let (keys, absent, gets) = (&self.keys, &self.absent, self.keys.len());
        let half = gets / 2;
        let map_get = |key: &[u8; 16]| self.map_get(key);
        let table_get = |key: &[u8; 16]| self.tables.get(key);
        results.measure("map get hit", gets, || ask(map_get, keys));
        results.measure("table get hit", gets, || ask(table_get, keys));
        results.measure("map get hit, 2 threads", 2 * half, || {
            on_two_threads(|thread| ask(map_get, &keys[thread * half..][..half]));
        });
        results.measure("table get hit, 2 threads", 2 * half, || {
            on_two_threads(|thread| ask(table_get, &keys[thread * half..][..half]));
        });
        results.measure("map get miss", gets, || ask(map_get, absent));
        results.measure("table get miss", gets, || ask(table_get, absent));
        results.measure("map seek", gets, || ask(|key| self.map_seek(key), absent));
        results.measure("table seek", gets, || ask(|key| self.tables.seek(key), absent));
    }

    fn scans(&self, results: &mut Results) {
        let count = self.map.len();
        results.measure("map scan", count, || {
            let sum =
                |(key, value): (&Vec<u8>, &Vec<u8>)| usize::from(key[0]) + usize::from(value[50]);
            black_box(self.map.iter().map(sum).sum::<usize>());
        });
        let scan = || assert_eq!(self.tables.scan(), count);
        results.measure("table scan", count, scan);
        results.measure("table scan, 2 threads", 2 * count, || on_two_threads(|_| scan()));
    }

    fn files(&mut self, results: &mut Results) {
        let (cold, count) = (Tables::open(&self.written), self.map.len());
        results.measure("table scan, not cached", count, || {
            assert_eq!(cold.scan_passing(), count);
        });
        results.measure("table verify", count, || {
            for table in &cold.passing {
                table.verify(&mut |_, _, _| Ok(())).expect("sound");
            }
        });
        let some = self.keys.len().min(200_000);
        results.measure("table get, not cached", some, || {
            ask(|key| cold.get(key), &self.keys[..some]);
        });
        results.measure("table write (lz4)", self.flat.len() / (16 + VALUE_BYTES), || {
            Tables::rewrite(&self.flat, &mut self.file);
        });
    }
}

fn main() {
    let mut contest = Contest::new(number("TABLE_KEYS", 1_000_000));
    contest.print_sizes();
    let only = std::env::var("TABLE_ONLY").ok();
    let mut results = Results { only, ..Results::default() };
    for _ in 0..number("TABLE_ROUNDS", 5) {
        contest.lookups(&mut results);
        contest.scans(&mut results);
        contest.files(&mut results);
    }
    results.print();
}
