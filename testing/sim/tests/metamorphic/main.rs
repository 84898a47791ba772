//! Metamorphic runs: one list of operations under many option sets gives one history.
//!
//! Options decide where bytes lie and when they move, and nothing that a program sees. So values,
//! their order, kinds of errors and sequence numbers must not depend on them. No model is needed:
//! the option sets are each other's.
//!
//! `METAMORPHIC_SEED`, `METAMORPHIC_RUNS` and `METAMORPHIC_OPERATIONS` choose the first seed, the
//! number of seeds, and the length of a list. A failure prints the seed, the option set, the first
//! operation that differs, and a part of the list that still differs.

mod ordered;
mod operations;
mod option_sets;
mod world;

use operations::{Operation, drawn};
use option_sets::{OptionSet, SETS, Size};
use std::{env, fmt::Debug, str::FromStr};
use world::{JobsDone, World};

/// The seed of a run without `METAMORPHIC_SEED`.
const SEED: u64 = 45;

/// The length of a list without `METAMORPHIC_OPERATIONS`.
const OPERATIONS: usize = 5000;

/// Pairs of histories that are tried to shorten a list that differs.
const ATTEMPTS_MAX: usize = 150;

/// What each operation of a list has shown.
struct History {
    shown: Vec<String>,
    jobs: JobsDone,
}

/// Names the operation that panics.
struct Running<'a> {
    set: OptionSet,
    at: Option<(usize, &'a Operation)>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("panicked under {:?} ({}) at {:?}", self.set.name, self.set.words(), self.at);
        }
    }
}

/// Runs `operations` under an option set.
fn history<'a>(
    set: OptionSet,
    operations: impl IntoIterator<Item = &'a Operation>,
) -> siltdb::Result<History> {
    let mut world = World::new(set)?;
    let mut running = Running { set, at: None };
    let mut shown = Vec::new();
    for (index, operation) in operations.into_iter().enumerate() {
        running.at = Some((index, operation));
        shown.push(world.run(operation));
    }
    shown.push(world.run(&Operation::All));
    Ok(History { shown, jobs: world.jobs_done() })
}

/// The first index at which two histories of one list differ.
fn difference(a: &History, b: &History) -> Option<usize> {
    a.shown.iter().zip(&b.shown).position(|(a, b)| a != b)
}

/// Whether a list gives one history under two sets. A set that does not open differs, too.
fn differs(sets: [OptionSet; 2], operations: &[&Operation]) -> bool {
    let [a, b] = sets.map(|set| history(set, operations.iter().copied()));
    match (a, b) {
        (Ok(a), Ok(b)) => difference(&a, &b).is_some(),
        _ => true,
    }
}

/// Leaves out parts of a list for as long as the rest differs.
fn shortened(sets: [OptionSet; 2], operations: &[Operation]) -> Vec<&Operation> {
    let mut left: Vec<&Operation> = operations.iter().collect();
    let (mut attempts, mut part) = (0, left.len().div_ceil(2));
    while part > 0 {
        let mut start = 0;
        while start < left.len() && attempts < ATTEMPTS_MAX {
            let end = (start + part).min(left.len());
            let without = [&left[..start], &left[end..]].concat();
            attempts += 1;
            if differs(sets, &without) {
                left = without;
            } else {
                start = end;
            }
        }
        part /= 2;
    }
    left
}

fn given<T: FromStr<Err: Debug>>(name: &str, default: T) -> T {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}: {error:?}")),
        Err(_) => default,
    }
}

/// Panics, with what is needed to find out why.
fn fail(seed: u64, sets: [OptionSet; 2], operations: &[Operation], found: [&str; 2]) -> ! {
    let [expected, set] = sets;
    let (operation, before) = operations.split_last().expect("at least one has differed");
    println!(
        "METAMORPHIC_SEED={seed}, {:?} against {:?}: {}",
        expected.name,
        set.name,
        set.words()
    );
    println!("operation {}: {operation:?}", before.len());
    println!("shown by {:?}: {}", expected.name, found[0]);
    println!("shown by {:?}: {}", set.name, found[1]);
    for operation in shortened(sets, operations) {
        println!("    {:.200}", format!("{operation:?}"));
    }
    panic!("seed {seed}: another history under the option set {:?}", set.name);
}

/// Compares the histories of the list of one seed. Returns that of the first set.
fn compare(seed: u64, count: usize) -> History {
    let mut operations = drawn(seed, count);
    let expected = history(SETS[0], &operations).expect("the first set opens");
    operations.push(Operation::All);
    for &set in &SETS[1..] {
        let found = history(set, &operations[..count]);
        let found = found.unwrap_or_else(|error| panic!("{:?} does not open: {error}", set.name));
        if let Some(index) = difference(&expected, &found) {
            let shown = [&expected, &found].map(|history| history.shown[index].as_str());
            fail(seed, [SETS[0], set], &operations[..=index], shown);
        }
        let JobsDone { flushes, compactions, .. } = found.jobs;
        let is_busy = set.size == Size::Default || flushes > 0 && compactions > 0;
        assert!(is_busy || count < OPERATIONS, "{:?}: nothing in tables", set.name);
    }
    expected
}

#[test]
fn every_option_set_gives_the_same_history() {
    let (seed, runs) = (given("METAMORPHIC_SEED", SEED), given("METAMORPHIC_RUNS", 1));
    let count = given("METAMORPHIC_OPERATIONS", OPERATIONS);
    assert!(SETS.len() >= 20);
    for seed in seed..seed + runs {
        println!("METAMORPHIC_SEED={seed}");
        let history = compare(seed, count);
        if count < OPERATIONS {
            continue;
        }
        // A history that shows little would be the same under any fault.
        let with = |part: &str| history.shown.iter().filter(|shown| shown.contains(part)).count();
        for (part, least) in [
            ("done", count / 5),
            ("=", count / 20),
            ("error Conflict", 3),
            ("error NotFound", 10),
            ("committed", 10),
            ("is_applied: true", 1),
            ("prepared", 10),
            ("swapped", 10),
        ] {
            assert!(with(part) >= least, "seed {seed}: {part:?} shown {} times", with(part));
        }
    }
}

#[test]
fn a_list_of_operations_is_the_same_for_the_same_seed() {
    let [a, b] = [(), ()].map(|()| format!("{:?}", drawn(7, 500)));
    assert_eq!(a, b);
    assert_ne!(a, format!("{:?}", drawn(8, 500)));
}
