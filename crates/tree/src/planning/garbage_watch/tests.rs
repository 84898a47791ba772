//! Space that comes back by itself, counted in bytes; and what must stay.

use super::*;
use crate::{
    fixture::{
        TestRandom,
        world::{World, small_options},
    },
    planning::pick_range::{Request, Step},
    planning::plan::PlanKind,
};
use siltdb_base::{clock::Clock, id::FileNumber, key::EntryKind};
use std::{cell::Cell, time::Duration};

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// A tree with a value of 100 bytes that do not compress at each key, brought down.
fn filled(keys: u64) -> (World, TestRandom) {
    let (mut world, mut random) = (World::new(small_options()), TestRandom::new(5));
    for number in 0..keys {
        world.put(&key(number), &random.bytes(100));
    }
    world.flush();
    world.settle();
    (world, random)
}

fn put_until(world: &mut World, number: u64, expiry_ms: u64, random: &mut TestRandom) {
    let payload = [&expiry_ms.to_le_bytes()[..], &random.bytes(100)].concat();
    world.write(&key(number), EntryKind::PutExpiring, &payload);
}

fn delete_range(world: &mut World, start: u64, end: u64) {
    world.write(&key(start), EntryKind::RangeDelete, &key(end));
}

fn bytes(world: &World) -> u64 {
    world.tree.view().version.bytes().iter().sum()
}

fn moment(world: &World) -> Moment {
    Moment {
        stripes: world.stripes(),
        newest_snapshot: world.snapshots.iter().copied().max(),
        now_ms: world.clock.wall_ms(),
    }
}

#[test]
fn tables_that_a_range_delete_covers_go_unread() {
    let (mut world, mut random) = filled(2000);
    delete_range(&mut world, 0, 5000);
    world.flush();
    // Nothing but an edit comes of it: no table is merged.
    let plan = world.tree.begin_drop(&moment(&world)).unwrap();
    assert_eq!(plan.kind, PlanKind::DeleteOnly);
    world.compact(&plan, 1);
    assert_eq!(bytes(&world), 0, "the range tombstone goes with what it covers");
    world.check(&mut random);
}

#[test]
fn nine_tenths_deleted_by_ranges_leave_about_a_tenth() {
    for step in [2000, 400, 50, 20] {
        let (mut world, mut random) = filled(2000);
        let before = bytes(&world);
        for start in (0..2000).step_by(step) {
            delete_range(&mut world, start, start + step as u64 * 9 / 10);
        }
        world.flush();
        world.settle();
        let after = bytes(&world);
        assert!(after * 100 <= before * 13, "by {step}: {after} of {before} bytes are left");
        world.check(&mut random);
    }
}

#[test]
fn a_snapshot_keeps_the_tables_that_it_sees_and_they_go_once_it_is_gone() {
    let (mut world, mut random) = filled(2000);
    let before = bytes(&world);
    world.snapshots.push(world.sequence);
    delete_range(&mut world, 0, 5000);
    world.flush();
    assert!(world.tree.begin_drop(&moment(&world)).is_none());
    world.settle();
    assert!(bytes(&world) >= before);
    world.check(&mut random);
    world.snapshots.clear();
    world.settle();
    assert_eq!(bytes(&world), 0);
    world.check(&mut random);
}

#[test]
fn a_snapshot_older_or_younger_than_both_does_not_keep_what_is_covered() {
    let mut world = World::new(small_options());
    let mut random = TestRandom::new(3);
    world.put(b"zz", b"old");
    world.snapshots.push(world.sequence);
    (0..500).for_each(|number| world.put(&key(number), &random.bytes(100)));
    world.flush();
    world.settle();
    delete_range(&mut world, 0, 5000);
    world.snapshots.push(world.sequence);
    world.put(b"zz", b"new");
    world.flush();
    world.settle();
    assert!(bytes(&world) < 5000, "{} bytes", bytes(&world));
    world.check(&mut random);
}

#[test]
fn what_has_expired_goes_unread_wherever_it_lies() {
    for brings_down in [false, true] {
        let mut world = World::new(small_options());
        let mut random = TestRandom::new(3);
        let expiry_ms = world.clock.wall_ms() + 60_000;
        for number in 0..2000 {
            put_until(&mut world, number, expiry_ms + number, &mut random);
            if brings_down && number % 100 == 99 {
                world.flush();
                world.settle();
            }
        }
        world.flush();
        world.settle();
        assert!(bytes(&world) > 200_000);
        world.check(&mut random);
        world.clock.advance(Duration::from_secs(3600));
        let merged = world.next_file();
        world.settle();
        assert_eq!(bytes(&world), 0);
        assert_eq!(world.next_file(), merged, "no table was written");
        world.check(&mut random);
    }
}

#[test]
fn expired_values_go_also_where_live_ones_lie_between() {
    for deeper in [false, true] {
        let (mut world, mut random) = filled(if deeper { 2000 } else { 0 });
        let now_ms = world.clock.wall_ms();
        for number in 0..2000 {
            if number % 4 == 0 {
                world.put(&key(number), &random.bytes(100));
            } else {
                let expiry_ms = now_ms + 1 + random.below(60_000);
                put_until(&mut world, number, expiry_ms, &mut random);
            }
        }
        world.flush();
        world.settle();
        let before = bytes(&world);
        for _ in 0..60 {
            world.clock.advance(Duration::from_secs(1));
            world.settle();
        }
        world.clock.advance(Duration::from_secs(1));
        world.settle();
        let after = bytes(&world);
        let live = bytes(&filled(500).0);
        // Small tables are left, and each takes some 350 bytes beside its entries.
        let tables = world.tree.view().version.tables().count() as u64;
        let most = live * 13 / 10 + tables * 100;
        assert!(before > live * 3 && after <= most, "{deeper}: {after}, {live} live");
        world.check(&mut random);
    }
}

#[test]
fn an_expired_value_that_hides_an_older_one_goes_on_hiding_it() {
    let mut world = World::new(small_options());
    let mut random = TestRandom::new(3);
    world.put(b"a", b"older");
    world.put(b"c", b"older");
    world.flush();
    let expiry_ms = world.clock.wall_ms() + 10;
    let payload = [&expiry_ms.to_le_bytes()[..], b"newer"].concat();
    world.write(b"a", EntryKind::PutExpiring, &payload);
    world.write(b"b", EntryKind::PutExpiring, &payload);
    world.flush();
    world.clock.advance(Duration::from_secs(1));
    assert!(world.tree.begin_drop(&moment(&world)).is_none());
    world.check(&mut random);
    world.settle();
    world.check(&mut random);
    assert_eq!(world.get(b"a", world.sequence), None);
}

#[test]
fn operands_over_an_expired_or_covered_base_begin_anew() {
    let mut world = World::new(small_options());
    let mut random = TestRandom::new(3);
    let expiry_ms = world.clock.wall_ms() + 10;
    for number in 0..200 {
        put_until(&mut world, number, expiry_ms, &mut random);
    }
    (1000..1200).for_each(|number| world.put(&key(number), &random.bytes(100)));
    world.flush();
    world.settle();
    delete_range(&mut world, 1000, 1200);
    for number in (0..200).chain(1000..1200).step_by(7) {
        world.write(&key(number), EntryKind::Merge, b"operand");
    }
    world.flush();
    world.clock.advance(Duration::from_secs(1));
    world.check(&mut random);
    world.settle();
    world.check(&mut random);
    assert!(world.garbage_plans.0 > 0, "nothing was dropped");
    assert_eq!(world.get(&key(7), world.sequence).as_deref(), Some(&b"operand"[..]));
}

#[test]
fn versions_of_a_snapshot_that_is_gone_go_too() {
    let (mut world, mut random) = filled(2000);
    let live = bytes(&world);
    for round in 0..3 {
        world.snapshots.push(world.sequence);
        for number in 0..2000 {
            match (number + round) % 5 {
                0 => world.write(&key(number), EntryKind::Delete, b""),
                _ => world.put(&key(number), &random.bytes(100)),
            }
        }
        world.flush();
        world.settle();
    }
    let request = Request::new(None, world.sequence, FileNumber(0));
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 1);
    }
    world.settle();
    assert!(bytes(&world) > live * 3);
    world.check(&mut random);
    world.snapshots.remove(1);
    world.settle();
    world.check(&mut random);
    assert!(bytes(&world) < live * 13 / 10 * 3, "{} of {live}", bytes(&world));
    world.snapshots.clear();
    world.settle();
    assert!(bytes(&world) <= live * 13 / 10, "{} of {live}", bytes(&world));
    world.check(&mut random);
}

#[test]
fn versions_above_a_floor_stay_and_a_higher_floor_lets_them_go() {
    let (mut world, mut random) = filled(2000);
    let live = bytes(&world);
    world.floor = Some(world.sequence);
    for round in 0..3 {
        for number in 0..2000 {
            match (number + round) % 5 {
                0 => world.write(&key(number), EntryKind::Delete, b""),
                _ => world.put(&key(number), &random.bytes(100)),
            }
        }
        world.flush();
        world.settle();
    }
    let request = Request::new(None, world.sequence, FileNumber(0));
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 1);
    }
    world.settle();
    assert!(bytes(&world) > live * 3);
    world.check(&mut random);
    world.floor = Some(world.sequence);
    world.settle();
    assert!(bytes(&world) <= live * 13 / 10, "{} of {live}", bytes(&world));
    world.check(&mut random);
}

#[test]
fn a_range_delete_above_a_floor_keeps_what_it_covers() {
    let (mut world, mut random) = filled(2000);
    let before = bytes(&world);
    world.floor = Some(world.sequence);
    delete_range(&mut world, 0, 5000);
    world.flush();
    assert!(world.tree.begin_drop(&moment(&world)).is_none());
    world.settle();
    assert!(bytes(&world) >= before);
    world.check(&mut random);
    world.floor = None;
    world.settle();
    assert_eq!(bytes(&world), 0);
    world.check(&mut random);
}

/// A rewrite would keep them: `settle` fails if it is tried again and again.
#[test]
fn expired_values_above_a_floor_among_live_ones_wait_for_a_higher_floor() {
    let (mut world, mut random) = filled(0);
    let expiry_ms = world.clock.wall_ms() + 60_000;
    for number in 0..2000 {
        match number % 2 {
            0 => put_until(&mut world, number, expiry_ms, &mut random),
            _ => world.put(&key(number), &random.bytes(100)),
        }
    }
    world.floor = Some(SequenceNumber(100));
    world.flush();
    world.settle();
    let before = bytes(&world);
    world.clock.advance(Duration::from_secs(61));
    world.settle();
    assert!(bytes(&world) * 100 > before * 93, "{} of {before}", bytes(&world));
    world.check(&mut random);
    world.floor = Some(world.sequence);
    world.settle();
    assert!(bytes(&world) * 100 < before * 60, "{} of {before}", bytes(&world));
    world.check(&mut random);
}

#[test]
fn a_tree_without_garbage_is_looked_at_once() {
    let (mut world, mut random) = filled(500);
    let expiry_ms = world.clock.wall_ms() + 60_000;
    put_until(&mut world, 7, expiry_ms, &mut random);
    world.flush();
    let (watch, busy) = (GarbageWatch::default(), Mutex::default());
    let version = world.tree.view().version.clone();
    let options = world.tree.options();
    let looks = Cell::new(0);
    let look = |world: &World| {
        // A look that is not in vain loads the version once more.
        let load = || {
            looks.set(looks.get() + 1);
            Arc::clone(&version)
        };
        looks.set(0);
        let plan = watch.begin_rewrite(load, &busy, &moment(world), WriteLoad::Idle, &options);
        (plan.is_some(), looks.get())
    };
    assert_eq!(look(&world), (false, 2));
    assert_eq!(watch.quiet_until_ms(&version, &options), Some(expiry_ms));
    assert_eq!(look(&world), (false, 1));
    world.floor = Some(SequenceNumber(1));
    assert_eq!(look(&world), (false, 2), "there is another floor");
    assert_eq!(look(&world), (false, 1));
    world.floor = None;
    assert_eq!(look(&world), (false, 2));
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(look(&world), (true, 2));
    world.put(b"more", b"x");
    world.flush();
    assert_eq!(watch.quiet_until_ms(&world.tree.view().version, &world.tree.options()), None);
}

#[test]
fn ranges_deleted_one_by_one_read_an_index_seldom() {
    let (mut world, _) = filled(2000);
    let mut read = 0;
    for number in 0..400 {
        delete_range(&mut world, number * 5, number * 5 + 1);
        world.flush();
        let plan = world.next_plan();
        plan.inspect(|plan| world.tree.end_plan(plan.name()));
        while world.tree.scan_garbage() {
            read += 1;
        }
    }
    let tables = world.tree.view().version.levels()[6].count();
    assert!(tables > 20 && read < tables * 8, "{read} looks at the indexes of {tables} tables");
}

#[test]
fn a_range_tombstone_calls_for_another_look_at_what_tables_supersede() {
    let (mut world, _) = filled(500);
    let (watch, busy) = (GarbageWatch::default(), Mutex::default());
    let options = world.tree.options();
    let look = |world: &World| {
        let version = || Arc::clone(&world.tree.view().version);
        let plan = watch.begin_rewrite(version, &busy, &moment(world), WriteLoad::Idle, &options);
        assert!(plan.is_none());
        let known = lock(&watch.known_io);
        let few = known.superseded.as_ref().expect("newer tables supersede little");
        (few.entries_added, few.covering.len())
    };
    let (first, covering) = look(&world);
    assert_eq!((first, covering), (world.tree.view().version.entries_added(), 0));
    world.put(&key(7), b"newer");
    world.flush();
    assert_eq!(look(&world), (first, 0), "one entry makes no fair part");
    delete_range(&mut world, 100, 102);
    world.flush();
    let (second, covering) = look(&world);
    assert_eq!((second, covering), (world.tree.view().version.entries_added(), 1));
    // What an index tells is one more reason.
    while watch.scan(|| Arc::clone(&world.tree.view().version)) {}
    assert!(lock(&watch.known_io).superseded.is_none());
}
