//! Trees that share tables: each against a model of its own, whatever is done to the others.

use super::{random_step, random_write};
use crate::{
    fixture::{
        TestRandom,
        world::{World, small_options},
    },
    planning::pick_range::{Request, Step},
    planning::plan::PlanKind,
};
use siltdb_base::{id::SequenceNumber, key::EntryKind};
use std::collections::BTreeSet;

/// Trees in one test, at most.
const WORLDS_MAX: usize = 4;

/// Rewrites all of a tree.
fn rewrite(world: &mut World) {
    let request = Request::new(None, SequenceNumber::MAX, world.next_file());
    while let Step::Plan(plan) = world.tree.begin_request(&request) {
        world.compact(&plan, 3);
    }
}

/// How many references of a tree hide something of their table.
fn narrow(world: &World) -> usize {
    let view = world.tree.view();
    view.version.tables().filter(|(_, table)| !table.is_whole()).count()
}

fn named(worlds: &[World]) -> BTreeSet<u64> {
    worlds.iter().flat_map(World::files_named).collect()
}

#[test]
fn clones_and_their_sources_show_what_their_models_show() {
    let (mut narrow_references, mut shared, mut dropped_sources) = (0, 0, 0);
    for seed in 0..8 {
        let mut random = TestRandom::new(seed);
        let mut worlds = vec![World::new(small_options())];
        for step in 0..240 {
            let index = random.below(worlds.len() as u64) as usize;
            random_step(&mut worlds[index], &mut random);
            if step % 30 == 29 && worlds.len() < WORLDS_MAX {
                let source = &mut worlds[index];
                let moments = [&source.snapshots[..], &[source.sequence]].concat();
                let moment = moments[random.below(moments.len() as u64) as usize];
                let clone = source.clone_at(moment);
                narrow_references += narrow(&clone);
                shared += clone.files_named().intersection(&source.files_named()).count();
                clone.check(&mut random);
                worlds.push(clone);
            }
            if step % 50 == 49 && worlds.len() > 2 {
                // Not always the youngest: clones outlive what they were made of.
                let index = random.below(worlds.len() as u64) as usize;
                worlds.swap_remove(index);
                dropped_sources += usize::from(index == 0);
            }
            if step % 10 == 0 {
                worlds.iter().for_each(|world| world.check(&mut random));
            }
        }
        for index in 0..worlds.len() {
            worlds[index].settle();
            rewrite(&mut worlds[index]);
            assert_eq!(narrow(&worlds[index]), 0, "a rewrite leaves hidden entries");
            worlds.iter().for_each(|world| world.check(&mut random));
        }
        worlds[0].purge();
        assert_eq!(worlds[0].files_there(), named(&worlds));
    }
    assert!(narrow_references > 20, "hardly a clone had to hide anything: {narrow_references}");
    assert!(
        shared > 50 && dropped_sources > 0,
        "{shared} shared, {dropped_sources} sources dropped"
    );
}

/// A write by its name.
type NamedWrite = (&'static str, fn(&mut World));

/// What the source did after the moment hides, deletes, cancels and folds nothing in the clone, in
/// tables that have both.
#[test]
fn each_kind_of_later_write_is_hidden_in_a_shared_table() {
    let later: [NamedWrite; 6] = [
        ("put", |world| world.put(b"b", b"later")),
        ("new key", |world| world.put(b"bb", b"later")),
        ("delete", |world| world.write(b"b", EntryKind::Delete, b"")),
        ("single delete", |world| world.write(b"b", EntryKind::SingleDelete, b"")),
        ("range delete", |world| world.write(b"a", EntryKind::RangeDelete, b"d")),
        ("merge", |world| world.write(b"b", EntryKind::Merge, b"+")),
    ];
    for (what, write) in later {
        let mut random = TestRandom::new(3);
        let mut world = World::new(small_options());
        for key in [b"a", b"b", b"c"] {
            world.put(key, b"before");
        }
        let moment = world.sequence;
        world.snapshots.push(moment);
        write(&mut world);
        // One table has what was written before and after the moment.
        let mut clone = world.clone_at(moment);
        assert_eq!((narrow(&world), narrow(&clone)), (0, 1), "{what}");
        world.snapshots.clear();
        clone.snapshots.clear();
        clone.check(&mut random);
        let seen = clone.model.all(clone.sequence, 0);
        assert_eq!(seen.len(), 3, "{what}");
        assert_ne!(world.model.all(world.sequence, 0), seen, "{what}");
        // The source drops what only the clone needs; the clone what only the source does.
        rewrite(&mut world);
        world.purge();
        clone.check(&mut random);
        clone.put(b"c", b"of the clone");
        clone.flush();
        rewrite(&mut clone);
        clone.check(&mut random);
        world.check(&mut random);
        assert_eq!(clone.model.all(clone.sequence, 0).len(), 3, "{what}");
    }
}

#[test]
fn a_narrow_reference_moves_as_it_is() {
    let mut random = TestRandom::new(9);
    let mut world = World::new(small_options());
    world.put(b"key", b"before");
    let moment = world.sequence;
    world.snapshots.push(moment);
    world.put(b"key", b"after");
    let mut clone = world.clone_at(moment);
    let request = Request::new(None, SequenceNumber::MAX, clone.next_file());
    let Step::Plan(plan) = clone.tree.begin_request(&request) else { panic!("nothing to do") };
    assert_eq!(plan.kind, PlanKind::TrivialMove);
    clone.compact(&plan, 1);
    assert_eq!(narrow(&clone), 1);
    clone.check(&mut random);
}

/// Without a snapshot between, entries of the source that the clone does not need are not copied
/// into its tables, and blocks are not taken over as they lie.
#[test]
fn a_table_without_an_entry_of_the_moment_is_not_shared() {
    let mut random = TestRandom::new(2);
    let mut world = World::new(small_options());
    (0..50).for_each(|_| random_write(&mut world, &mut random));
    world.flush();
    let (moment, before) = (world.sequence, world.files_named());
    world.snapshots.push(moment);
    world.put(b"later", b"");
    let clone = world.clone_at(moment);
    assert_eq!(clone.files_named(), before);
    assert!(world.files_named().len() > before.len());
    assert_eq!(narrow(&clone), 0);
    clone.check(&mut random);
}
