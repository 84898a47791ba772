//! A tree in its states (memtable, level 0, last level): get, scan, flush, compaction, and the
//! fixed cost of a read and of a write.
//!
//! It measures memory and processor, not a disk. `TREE_KEYS` (default 1000000) sets the number of
//! keys, `TREE_ROUNDS` (default 3) how often each figure is taken; medians are printed.

use siltdb_base::{
    budget::Budget,
    clock::ManualClock,
    cursor::Fetch,
    fs::{Fs, ReadIo, mem::MemFs},
    id::{FamilyId, FileNumber, SequenceNumber, TableUid},
    key::{Entry, EntryKind},
};
use siltdb_disk::cache::{Cache, TableMemory};
use siltdb_memtable::arena::{ArenaOptions, ArenaPool};
use siltdb_tree::{
    compaction_filter::CompactionFilters,
    files::open_files::OpenFiles,
    memory::Generation,
    options::TreeOptions,
    planning::pick_range::{Request, Step},
    planning::plan::PlanKind,
    read::visible::{bounds::Bounds, reader::Reader, resolve::Resolver},
    retain::stripes::Stripes,
    rewrite::compact::FilterSources,
    rewrite::flush::Flush,
    rewrite::job::{JobContext, JobOutput},
    tree::Tree,
};
use std::{
    hint::black_box,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const VALUE: [u8; 100] = *b"It is as long as values often are, and compresses about as well as \
      words do when they are many.     ";

struct Bench {
    tree: Tree,
    arenas: Arc<ArenaPool>,
    numbers: AtomicU64,
    keys: u64,
    rounds: usize,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

impl Bench {
    fn new() -> Self {
        let fs = Arc::new(MemFs::new());
        let dir = Path::new("/db");
        fs.create_dir_all(dir).expect("a new file system takes a directory");
        let directory = fs.open_dir(dir).expect("it was just created");
        let budget = Arc::new(Budget::new(8 << 30));
        let cache = Cache::new(budget.clone(), 2 << 30, TableMemory::Beside);
        let files = OpenFiles::new(directory, ReadIo::Read, cache);
        Self {
            tree: Tree::new(FamilyId(0), TreeOptions::default(), files),
            arenas: ArenaPool::new(budget, ArenaOptions::default()),
            numbers: AtomicU64::new(1),
            keys: setting("TREE_KEYS", 1_000_000),
            rounds: setting("TREE_ROUNDS", 3) as usize,
        }
    }

    fn present(&self) -> SequenceNumber {
        SequenceNumber(self.keys)
    }

    /// Every key once, in an order without order.
    fn key(&self, index: u64) -> [u8; 16] {
        let number = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.keys;
        let mut key = *b"user000000000000";
        for (place, byte) in key[4..].iter_mut().rev().enumerate() {
            *byte += (number / 10_u64.pow(place as u32) % 10) as u8;
        }
        key
    }

    fn median(&self, what: &str, count: u64, mut run: impl FnMut(u64)) {
        let mut times: Vec<f64> = (0..self.rounds)
            .map(|round| {
                let start = Instant::now();
                run(round as u64);
                start.elapsed().as_nanos() as f64 / count as f64
            })
            .collect();
        times.sort_by(f64::total_cmp);
        println!("{what:<28} {:>9.1} ns", times[times.len() / 2]);
    }

    fn reads(&self, state: &str) {
        let resolver = Resolver::default();
        let count = self.keys / 2;
        self.median(&format!("{state}: get"), count, |round| {
            for index in 0..count {
                let key = self.key(index * 7 + round);
                let (view, present) = self.tree.pin(|| self.present());
                let found = view.get(&key, present, || resolver, |value| value.pin());
                black_box(found.expect("memory can be read"));
            }
        });
        let reader = Reader {
            snapshot: self.present(),
            clock: Arc::new(ManualClock::default()),
            operator: None,
            blobs: None,
            fetch: Fetch::Values,
            streamed_from: None,
            empty_ranges: None,
            sequence_lock: None,
            own: None,
            folds: None,
        };
        let iter = self.tree.view().iter(reader, Bounds::default());
        let mut iter = iter.expect("memory can be read");
        self.median(&format!("{state}: scan"), self.keys, |_| {
            iter.seek_to_first().expect("memory can be read");
            while let Some(key) = iter.key() {
                black_box(key);
                iter.next().expect("memory can be read");
            }
        });
    }

    fn job(&self, job: impl FnOnce(&JobContext<'_>) -> JobOutput) -> JobOutput {
        let next = || self.numbers.fetch_add(1, Ordering::Relaxed);
        job(&JobContext {
            files: self.tree.files(),
            file_numbers: &|| FileNumber(next()),
            uids: &|| TableUid(next()),
            family_names: &|_| None,
            log_start: siltdb_base::id::SegmentId(0),
            clock: &ManualClock::at(Duration::ZERO),
            cancelled: &AtomicBool::new(false),
            given_up: None,
            should_yield: &AtomicBool::new(false),
            mover: None,
            progress: None,
            rate: None,
        })
    }

    fn compact(&self, rewrite_before: FileNumber) {
        let request = Request::new(None, SequenceNumber::MAX, rewrite_before);
        while let Step::Plan(plan) = self.tree.begin_request(&request) {
            let changes = match plan.kind {
                PlanKind::TrivialMove | PlanKind::DeleteOnly => plan.edit_changes(FamilyId(0)),
                PlanKind::Rewrite => {
                    let stripes = Stripes::new(&[], self.present());
                    let filters = CompactionFilters::default();
                    let sources = FilterSources { filters: &filters, blobs: None };
                    let merge = self.tree.compaction(plan.clone(), |_| stripes, sources, 1);
                    let merge = merge.expect("memory can be read");
                    self.job(|context| merge.run(context).expect("memory takes files")).changes
                }
            };
            self.tree.apply(&changes, None).expect("the changes fit");
            self.tree.end_plan(&plan);
        }
    }
}

fn main() {
    let bench = Bench::new();
    let generation = Generation(1);
    let tree = &bench.tree;
    let start = Instant::now();
    for index in 0..bench.keys {
        let (key, sequence) = (bench.key(index), SequenceNumber(index + 1));
        let entry = Entry { key: &key, sequence, kind: EntryKind::Put, value: &VALUE };
        tree.memtable(generation, &bench.arenas).insert(entry);
    }
    let each = |start: Instant| start.elapsed().as_nanos() as f64 / bench.keys as f64;
    println!("{:<28} {:>9.1} ns", "insert", each(start));
    bench.reads("memtable");
    let input = tree.flush_input(generation).expect("there is a memtable");
    let stripes = Stripes::new(&[], bench.present());
    let start = Instant::now();
    let output = bench.job(|context| {
        Flush::new(vec![input], stripes.clone(), Arc::default(), 1).run(context).expect("memory")
    });
    println!("{:<28} {:>9.1} ns", "flush, per entry", each(start));
    tree.apply(&output.changes, Some(generation)).expect("the changes fit");
    bench.reads("level 0");
    bench.compact(FileNumber(0));
    bench.reads("last level");
    let start = Instant::now();
    bench.compact(FileNumber(bench.numbers.load(Ordering::Relaxed)));
    println!("{:<28} {:>9.1} ns", "rewrite, per entry", each(start));
    bench.median("pin", 1_000_000, |_| {
        for _ in 0..1_000_000 {
            black_box(tree.pin(|| bench.present()));
        }
    });
    let generation = Generation(2);
    tree.memtable(generation, &bench.arenas);
    bench.median("memtable of a commit", 1_000_000, |_| {
        for _ in 0..1_000_000 {
            black_box(tree.memtable(generation, &bench.arenas));
        }
    });
}
