//! Random histories against a model, and how views, memtables and versions change.

mod clones;

use super::*;
use crate::{
    files::open_files::TableId,
    fixture::{
        TestRandom, add, reference,
        world::{World, small_options},
    },
    planning::pick_leveled::WriteLoad,
    planning::pick_range::{Request, Step},
    planning::plan::PlanKind,
    read::visible::resolve::Resolver,
};
use siltdb_base::{clock::Clock, key::EntryKind, slice::Pinnable};
use siltdb_disk::edit::tier::Tier;
use std::time::Duration;

/// Keys of different lengths with long common parts, so that borders fall everywhere.
fn random_key(random: &mut TestRandom) -> Vec<u8> {
    let number = random.below(400);
    let tail = &b"abc"[..random.below(2) as usize];
    [format!("key{number:04}").as_bytes(), tail].concat()
}

fn random_write(world: &mut World, random: &mut TestRandom) {
    let key = random_key(random);
    let value = format!("v{}", world.sequence.0 + 1).repeat(1 + random.below(12) as usize);
    let value = value.as_bytes();
    match random.below(100) {
        0..55 => world.put(&key, value),
        55..70 => world.write(&key, EntryKind::Delete, b""),
        70..85 => world.write(&key, EntryKind::Merge, b"+"),
        85..92 => {
            let expiry_ms = world.clock.wall_ms() + random.below(2000);
            let payload = [&expiry_ms.to_le_bytes()[..], value].concat();
            world.write(&key, EntryKind::PutExpiring, &payload);
        }
        92..95 => {
            // A key of its own: the contract of single deletions.
            let key = [&b"single"[..], &world.sequence.0.to_be_bytes()].concat();
            world.put(&key, value);
            if random.below(3) == 0 {
                world.flush();
            }
            world.write(&key, EntryKind::SingleDelete, b"");
        }
        _ => {
            let number = random.below(400);
            let width_max = if random.below(4) == 0 { 200 } else { 10 };
            let width = 1 + random.below(width_max);
            let end = format!("key{:04}", number + width);
            world.write(
                format!("key{number:04}").as_bytes(),
                EntryKind::RangeDelete,
                end.as_bytes(),
            );
        }
    }
}

fn random_step(world: &mut World, random: &mut TestRandom) {
    match random.below(40) {
        0..20 => (0..random.below(60)).for_each(|_| random_write(world, random)),
        20..28 => world.flush(),
        28..32 => {
            if let Some(plan) = world.next_plan() {
                world.compact(&plan, 1 + random.below(4) as usize);
            } else {
                world.tree.scan_garbage();
            }
        }
        32..35 => world.snapshots.push(world.sequence),
        35..37 if !world.snapshots.is_empty() => {
            let index = random.below(world.snapshots.len() as u64) as usize;
            world.snapshots.swap_remove(index);
        }
        37 => world.clock.advance(Duration::from_millis(random.below(1500))),
        38 => {
            let [a, b] = [random_key(random), random_key(random)];
            let range = crate::fixture::range((&a).min(&b), (&a).max(&b));
            let rewrite_before = world.next_file();
            let request = Request::new(Some(range), SequenceNumber::MAX, rewrite_before);
            while let Step::Plan(plan) = world.tree.begin_request(&request) {
                world.compact(&plan, 1 + random.below(4) as usize);
            }
        }
        _ => world.purge(),
    }
}

#[test]
fn random_histories_show_what_the_model_shows() {
    let (mut levels_used, mut dropped, mut rewritten) = (0, 0, 0);
    for seed in 0..12 {
        let mut random = TestRandom::new(seed);
        let mut world = World::new(small_options());
        for step in 0..250 {
            random_step(&mut world, &mut random);
            if step % 10 == 0 {
                world.check(&mut random);
            }
        }
        world.settle();
        world.check(&mut random);
        world.purge();
        assert_eq!(world.files_there(), world.files_named());
        let view = world.tree.view();
        let deep = &view.version.levels()[1..];
        levels_used += deep.iter().filter(|level| level.tables().len() > 1).count();
        dropped += world.garbage_plans.0;
        rewritten += world.garbage_plans.1;
    }
    assert!(levels_used > 6, "hardly anything was compacted: {levels_used}");
    assert!(dropped > 0 && rewritten > 0, "{dropped} tables dropped, {rewritten} rewrites");
}

#[test]
fn a_request_is_done_although_something_is_flushed_at_each_step() {
    for with_others in [false, true] {
        let mut random = TestRandom::new(7);
        let mut world = World::new(small_options());
        for _ in 0..1_500 {
            world.put(&random_key(&mut random), &[b'x'; 50]);
            if random.below(100) == 0 {
                world.flush();
            }
        }
        world.settle();
        world.put(b"newest", b"y");
        world.flush();
        let (newest, rewrite_before) = (world.sequence, world.next_file());
        let request = Request::new(None, newest, rewrite_before);
        let mut steps = 0;
        while let Step::Plan(plan) = world.tree.begin_request(&request) {
            world.compact(&plan, 1);
            for _ in 0..20 {
                world.put(&random_key(&mut random), &[b'z'; 50]);
            }
            world.flush();
            if with_others
                && let Some(plan) = world.tree.begin_plan(world.oldest_snapshot(), WriteLoad::Light)
            {
                world.compact(&plan, 1);
            }
            steps += 1;
            assert!(steps < 200, "it is never done");
        }
        let view = world.tree.view();
        let old = view.version.tables().filter(|(_, table)| table.sequence_min() <= newest);
        let old: Vec<_> = old.collect();
        assert!(old.len() > 1 && old.iter().all(|(level, _)| *level == old[0].0));
        assert!(old.iter().all(|(_, table)| table.id().file >= rewrite_before));
        world.check(&mut random);
    }
}

#[test]
fn a_view_outlives_what_happens_to_the_tree() {
    let mut world = World::new(small_options());
    for number in 0..500_u32 {
        world.put(format!("key{number:04}").as_bytes(), &[b'x'; 50]);
    }
    world.flush();
    let snapshot = world.sequence;
    let mut iter = world.iter(snapshot, Default::default());
    iter.seek_to_first().unwrap();
    let view = world.tree.view.load_full();
    for number in 0..500_u32 {
        world.write(format!("key{number:04}").as_bytes(), EntryKind::Delete, b"");
    }
    world.flush();
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 1);
    }
    world.purge();
    assert!(world.files_named().is_empty(), "everything is deleted");
    assert!(!world.files_there().is_empty(), "the reader's files stay");
    for number in 0..500_u32 {
        assert_eq!(iter.key(), Some(format!("key{number:04}").as_bytes()));
        iter.next().unwrap();
    }
    drop((iter, view));
    world.purge();
    assert!(world.files_there().is_empty());
}

#[test]
fn memtables_of_late_writers_take_their_place_in_the_order() {
    let world = World::new(small_options());
    let tree = &world.tree;
    let memtable = |generation| tree.memtable(Generation(generation), world.arenas());
    let third = memtable(3);
    let second = memtable(2);
    assert!(Arc::ptr_eq(&second, &memtable(2)) && Arc::ptr_eq(&third, &memtable(3)));
    let order: Vec<_> =
        tree.view().memory.tables().iter().map(|table| table.generation.0).collect();
    assert_eq!(order, [3, 2]);
    tree.apply(&[], Some(Generation(2))).unwrap();
    assert_eq!(tree.view().memory.oldest(), Some(Generation(3)));
    // A generation that this tree has nothing of leaves no trace.
    tree.apply(&[], Some(Generation(2))).unwrap();
}

#[test]
#[should_panic(expected = "the generation is gone")]
fn nothing_is_written_to_a_generation_that_was_flushed() {
    let world = World::new(small_options());
    world.tree.memtable(Generation(2), world.arenas());
    world.tree.apply(&[], Some(Generation(2))).unwrap();
    world.tree.memtable(Generation(2), world.arenas());
}

#[test]
#[should_panic(expected = "oldest first")]
fn generations_leave_oldest_first() {
    let world = World::new(small_options());
    world.tree.memtable(Generation(1), world.arenas());
    world.tree.memtable(Generation(2), world.arenas());
    world.tree.apply(&[], Some(Generation(2))).unwrap();
}

#[test]
fn changes_that_do_not_fit_leave_the_tree_as_it_is() {
    let world = World::new(small_options());
    let table = reference(1, (b"a", b"c"), (1, 1), 10);
    world.tree.apply(&[add(3, table.clone())], None).unwrap();
    let before = world.tree.view().version.clone();
    assert!(world.tree.apply(&[add(3, table)], None).is_err());
    assert!(Arc::ptr_eq(&before, &world.tree.view().version));
}

#[test]
fn a_reader_that_registers_nothing_sees_all_that_is_published() {
    // A writer rotates generations and publishes after each insert; readers must find what the
    // published number promises, whichever memtable or table it is in.
    let mut world = World::new(small_options());
    let published = AtomicU64::new(0);
    let missing = std::thread::scope(|scope| {
        let (published, tree) = (&published, &world.tree);
        let reader = scope.spawn(move || {
            let resolver = Resolver::default();
            let mut reads = 0_u64;
            loop {
                let (view, present) =
                    tree.pin(|| SequenceNumber(published.load(Ordering::Acquire)));
                let number = |value: Pinnable<'_>| {
                    u64::from_be_bytes(value.bytes().try_into().expect("8 bytes"))
                };
                let found = view.get(b"key", present, || resolver, number).unwrap();
                let number = found.unwrap_or(0);
                if number != present.0 {
                    return Some((number, present.0));
                }
                reads += 1;
                if present.0 == 3000 {
                    assert!(reads > 10, "the reader never ran");
                    return None;
                }
            }
        });
        let arenas = world.arenas();
        for number in 1..=3000_u64 {
            let generation = Generation(number / 3);
            let memtable = tree.memtable(generation, arenas);
            memtable.insert(siltdb_base::key::Entry {
                key: b"key",
                sequence: SequenceNumber(number),
                kind: EntryKind::Put,
                value: &number.to_be_bytes(),
            });
            published.store(number, Ordering::Release);
            if number % 9 == 8 {
                let oldest = tree.view().memory.oldest().unwrap();
                let input = tree.flush_input(oldest).unwrap();
                if oldest < generation {
                    let stripes = Stripes::new(&[], SequenceNumber(number));
                    let output = world
                        .with_context(|context| {
                            crate::rewrite::flush::Flush::new(
                                vec![input],
                                stripes.clone(),
                                Arc::default(),
                                1,
                            )
                            .run(context)
                        })
                        .unwrap();
                    tree.apply(&output.changes, Some(oldest)).unwrap();
                }
            }
        }
        reader.join().unwrap()
    });
    assert_eq!(missing, None);
    world.sequence = SequenceNumber(3000);
    world.settle();
    assert!(world.get(b"key", world.sequence).is_some());
}

/// A tree whose level 0 is due to be compacted.
fn with_a_due_plan() -> World {
    let mut world = World::new(small_options());
    for round in 0..4_u32 {
        for number in 0..100_u32 {
            world.put(format!("key{number:04}").as_bytes(), &round.to_be_bytes());
        }
        world.flush();
    }
    world
}

#[test]
fn a_plan_is_running_until_it_is_ended() {
    let mut world = with_a_due_plan();
    let plan = world.tree.begin_plan(world.sequence, WriteLoad::Light).unwrap();
    assert_eq!(plan.kind, PlanKind::Rewrite);
    assert!(world.tree.begin_plan(world.sequence, WriteLoad::Light).is_none());
    // Given up: it is due again.
    world.tree.end_plan(plan.name());
    let again = world.tree.begin_plan(world.sequence, WriteLoad::Light).unwrap();
    assert_eq!(again.range, plan.range);
    world.compact(&again, 2);
}

#[test]
fn no_plan_begins_by_itself_while_the_way_is_clear_for_a_request() {
    let world = with_a_due_plan();
    let pauses = [(); 2].map(|()| world.tree.cancel_redundant().unwrap());
    for pause in pauses {
        assert!(world.tree.begin_plan(world.sequence, WriteLoad::Light).is_none());
        assert_eq!(world.tree.idle_after(), None);
        drop(pause);
    }
    assert_eq!(world.tree.idle_after(), Some(2), "a pause that is over is told");
    assert!(world.tree.begin_plan(world.sequence, WriteLoad::Light).is_some());
    assert_eq!(world.tree.idle_after(), None);
}

#[test]
fn a_memtable_that_comes_while_a_reader_pins_is_seen_by_it() {
    let mut world = World::new(small_options());
    world.put(b"key", b"old");
    let old = world.sequence;
    let calls = std::cell::Cell::new(0);
    let tree = &world.tree;
    // Between the view and the published number a writer begins a generation and publishes.
    let (view, present) = tree.pin(|| {
        calls.set(calls.get() + 1);
        let memtable = tree.memtable(Generation(world.generation.0 + 1), world.arenas());
        if calls.get() == 1 {
            memtable.insert(siltdb_base::key::Entry {
                key: b"key",
                sequence: old.next(),
                kind: EntryKind::Put,
                value: b"new",
            });
        }
        old.next()
    });
    let resolver = Resolver::default();
    assert_eq!((present, calls.get()), (old.next(), 2));
    let found = view.get(b"key", present, || resolver, |value| value.pin()).unwrap();
    assert_eq!(found.unwrap(), b"new");
}

#[test]
fn a_table_moves_to_another_tier_only_while_no_plan_and_no_request_needs_it() {
    let mut world = World::new(small_options());
    for number in 0..40_u32 {
        world.put(&number.to_be_bytes(), &[7; 100]);
    }
    world.flush();
    let all = SequenceNumber::MAX;
    let next = |world: &World| world.tree.next_move(all, &|_| false);
    assert!(next(&world).is_none() && world.tree.bytes_to_move(all) == 0);
    let options = TreeOptions { cold_from_level: 0, ..TreeOptions::clone(&world.tree.options()) };
    world.tree.set_options(options);
    let (table, to) = next(&world).unwrap();
    assert_eq!(to, Tier::Cold);
    assert!(world.tree.bytes_to_move(all) >= table.bytes());
    assert_eq!(world.tree.bytes_to_move(SequenceNumber::ZERO), 0);
    assert!(world.tree.next_move(SequenceNumber::ZERO, &|_| false).is_none());
    assert!(world.tree.begin_move(table.id(), Tier::Hot).is_none(), "it lies there");
    assert!(world.tree.begin_move(TableId::MAX, to).is_none(), "there is no such table");
    // A request that counts on file numbers.
    let kept = world.tree.keep_numbers();
    assert!(next(&world).is_none() && world.tree.begin_move(table.id(), to).is_none());
    drop(kept);
    // A running plan.
    let request = Request::new(None, all, world.next_file());
    let Step::Plan(plan) = world.tree.begin_request(&request) else { panic!("nothing to do") };
    assert!(plan.tables().any(|taken| taken.id() == table.id()));
    assert!(next(&world).is_none_or(|(other, _)| other.id() != table.id()));
    assert!(world.tree.begin_move(table.id(), to).is_none());
    world.tree.end_plan(plan.name());
    // The move itself holds the table.
    let plan = world.tree.begin_move(table.id(), to).unwrap();
    assert!(world.tree.begin_move(table.id(), to).is_none());
    assert!(next(&world).is_none_or(|(other, _)| other.id() != table.id()));
    world.tree.end_plan(plan.name());
    assert!(world.tree.begin_move(table.id(), to).is_some());
}
