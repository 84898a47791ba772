//! The contract of workers in other languages, byte for byte: keys, values, orders, plans and
//! expected sums of reads. It is stored in `vectors.json`, which their tests read.
//!
//! `SILT_BENCH_VECTORS=write` in the environment writes the file.

use serde::{Deserialize, Serialize};
use siltdb_bench::{
    engine::Isolation,
    expect::{Live, Model, Tally},
    job::{Op, Run, Seed, SeedOp, State, Work},
    keys::{KeyMaker, KeyStyle, splitmix64},
    order::{Order, draw},
    pass::{prepare, special},
    plan::{Plan, Step, Thread},
    trial::OPS,
    values::{Shape, ValueMaker, ValueStyle},
};
use std::{env, fs, path::PathBuf};

const ORDERS: [Order; 7] = [
    Order::Sequential,
    Order::Reverse,
    Order::Random,
    Order::Uniform,
    Order::Zipfian,
    Order::ZipfianFirst,
    Order::Timestamp,
];

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Vectors {
    keys: Vec<Key>,
    values: Vec<Value>,
    orders: Vec<Drawn>,
    workloads: Vec<Workload>,
}

/// A key and an adjacent one that no id has, in hexadecimal digits.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    style: KeyStyle,
    bytes: u32,
    id: u32,
    key: String,
    missing: String,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Value {
    style: ValueStyle,
    bytes: u32,
    compressible_percent: u32,
    id: u32,
    version: u32,
    digest: u64,
    fold: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Drawn {
    order: Order,
    size: u32,
    count: u64,
    seed: u64,
    first: Vec<u32>,
    digest: u64,
}

/// A workload, with digests of its seed phases and its plans, thread by thread. Then the expected
/// sum of each complete thread, and digests of the contents before and after.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Workload {
    work: Work,
    seeds: Vec<Vec<u64>>,
    plans: Vec<u64>,
    seeded: u64,
    expected: Vec<Expected>,
    after: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Expected {
    sum: u64,
    found: u64,
    value_bytes: u64,
}

fn digest(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, |digest, number| splitmix64(digest ^ number))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn keys() -> Vec<Key> {
    let of_style = |(style, bytes)| {
        let mut maker = KeyMaker::new(style, bytes);
        [0, 1, 77, 1_000_000, u32::MAX].map(|id| {
            let key = hexadecimal(maker.key(id));
            Key { style, bytes, id, key, missing: hexadecimal(maker.missing(id)) }
        })
    };
    let sparse = [8, 16, 20, 40].map(|bytes| (KeyStyle::Sparse, bytes));
    let digits = [(KeyStyle::Counter, 16), (KeyStyle::ReversedCounter, 16)];
    sparse.into_iter().chain(digits).flat_map(of_style).collect()
}

fn values() -> Vec<Value> {
    let mut values = Vec::new();
    let marked = [(16, 0), (100, 50), (128, 90), (4096, 100), (70_000, 50)];
    let marked = marked.map(|(bytes, percent)| (ValueStyle::Marked, bytes, percent));
    let ramps = [(ValueStyle::Ramp, 16, 50), (ValueStyle::Ramp, 300, 50)];
    for (style, bytes, compressible_percent) in marked.into_iter().chain(ramps) {
        let shape = Shape { style, bytes, compressible_percent };
        let mut maker = ValueMaker::new(shape);
        for (id, version) in [(0, 1), (5, 1), (5, 2), (900_000, 77), (3, u32::MAX)] {
            let digest = digest(maker.value(id, version).iter().map(|byte| u64::from(*byte)));
            let fold = shape.fold_of(id, version);
            values.push(Value { style, bytes, compressible_percent, id, version, digest, fold });
        }
    }
    values
}

fn orders() -> Vec<Drawn> {
    let mut orders = Vec::new();
    for order in ORDERS {
        for (size, count, seed) in [(1, 3, 9), (2, 20, 1), (1000, 2500, 0x5eed), (99_991, 5000, 7)]
        {
            let drawn = draw(order, size, count, seed);
            let first = drawn.iter().copied().take(5).collect();
            let digest = digest(drawn.into_iter().map(u64::from));
            orders.push(Drawn { order, size, count, seed, first, digest });
        }
    }
    orders
}

/// Threads, batches and the order of a workload differ by its operation, so that all occur.
fn work(index: usize, op: Op) -> Work {
    let order = ORDERS[index % ORDERS.len()];
    let threads = match op {
        Op::Queue => 1,
        _ => 1 + index as u32 % 3,
    };
    let ops = match op {
        Op::Open => 5,
        Op::RangeDelete => 30,
        _ => 2000,
    };
    let batch = if index.is_multiple_of(2) { 1 } else { 7 };
    let seed = |op, order, percent| Seed { op, order, percent, batch: 50 };
    Work {
        keys: 701,
        key_style: KeyStyle::Sparse,
        key_bytes: 16,
        value_style: ValueStyle::Marked,
        value_bytes: 100,
        compressible_percent: 50,
        threads,
        seed: vec![seed(SeedOp::Put, Order::Random, 130), seed(SeedOp::Delete, Order::Uniform, 20)],
        state: State::Settled,
        warm_up: false,
        run: Run {
            op,
            order,
            ops,
            batch,
            reads_percent: 30,
            range: 9,
            open_loop_percent: 0,
            open_loop_per_s: 0,
            isolation: Isolation::Serializable,
            held: 0,
        },
    }
}

fn digest_of_plan(plan: &Plan) -> u64 {
    let steps = plan.ids.iter().enumerate().flat_map(|(index, id)| {
        let step = match plan.step(index) {
            Step::Put => 0,
            Step::Delete => 1,
            Step::Get => 2,
            Step::Miss => 3,
            Step::Seek => 4,
            Step::Range => 5,
            Step::Modify => 6,
            Step::DeleteRange => 7,
        };
        [u64::from(*id), step, u64::from(plan.version(index)), plan.range(index)]
    });
    digest(steps.chain([u64::from(plan.batch), u64::from(plan.next_version())]))
}

fn digest_of_model(model: &Model) -> u64 {
    digest(model.live().flat_map(|(id, version)| [u64::from(id), u64::from(version)]))
}

/// The expected sum of a complete thread; scans read everything once.
fn expected(
    work: &Work,
    before: &Model,
    plan: &Plan,
    thread: Thread,
    after: &mut Model,
) -> Expected {
    let live = Live::new(before);
    let Tally { sum, found, value_bytes } = match work.run.op {
        Op::Scan | Op::ScanReverse | Op::Iterate => special::expected_scan(work, &live, thread, 1),
        Op::Queue => special::expected_queue(work, after, work.run.ops),
        Op::RangeDelete => {
            special::expected_range_delete(work, after, thread, u64::MAX);
            Tally::default()
        }
        Op::Open => opened(work, before),
        _ => after.parts()[thread.index as usize].replay(plan, plan.ids.len(), &live),
    };
    Expected { sum, found, value_bytes }
}

/// The expected sum if a key is read after each opening.
fn opened(work: &Work, model: &Model) -> Tally {
    let mut tally = Tally::default();
    special::opened_ids(work, work.run.ops).for_each(|id| model.get(id, &mut tally));
    tally
}

fn workload(work: Work) -> Workload {
    let drawn = prepare::draw(&work).expect("the workloads make sense");
    let mut after = drawn.model.clone();
    let threads = Thread::all(work.threads).zip(&drawn.plans);
    let expected = threads
        .map(|(thread, plan)| expected(&work, &drawn.model, plan, thread, &mut after))
        .collect();
    let seeds = drawn.seeds.iter().map(|seed| seed.iter().map(digest_of_plan).collect()).collect();
    Workload {
        seeds,
        plans: drawn.plans.iter().map(digest_of_plan).collect(),
        seeded: digest_of_model(&drawn.model),
        expected,
        after: digest_of_model(&after),
        work,
    }
}

fn vectors() -> Vectors {
    // Workers in other languages have no separate iterator.
    let ops = OPS.into_iter().filter(|op| *op != Op::Iterate);
    let works = ops.enumerate().map(|(index, op)| work(index, op));
    // Each order again, with threads that draw repeatedly and batches that wait.
    let mixed = ORDERS.into_iter().map(|order| {
        let mut work = work(1, Op::Mixed);
        work.threads = 4;
        work.run.order = order;
        work
    });
    // Ranges and reads over keys that are not in the order of ids, as published benchmarks make
    // them.
    let styles = [KeyStyle::Counter, KeyStyle::ReversedCounter];
    let published = styles.into_iter().flat_map(|key_style| {
        [Op::Get, Op::Seek, Op::Range, Op::Scan, Op::ScanReverse].map(|op| {
            let value_style = ValueStyle::Ramp;
            Work { key_style, value_style, ..work(2, op) }
        })
    });
    let workloads = works.chain(mixed).chain(published).map(workload).collect();
    Vectors { keys: keys(), values: values(), orders: orders(), workloads }
}

#[test]
fn workers_in_other_languages_are_told_what_this_one_makes() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/vectors.json");
    let made = vectors();
    if env::var_os("SILT_BENCH_VECTORS").is_some_and(|value| value == "write") {
        let text = serde_json::to_string_pretty(&made).expect("vectors are plain data");
        fs::write(&path, text + "\n").expect("the folder of tests can be written to");
        return;
    }
    let text = fs::read_to_string(&path).expect("the file is part of the package");
    let told: Vectors = serde_json::from_str(&text).expect("the file holds vectors");
    for (told, made) in told.workloads.iter().zip(&made.workloads) {
        assert_eq!(told, made);
    }
    assert_eq!(told, made);
}
