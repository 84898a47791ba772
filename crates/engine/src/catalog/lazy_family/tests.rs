//! A family is made once, is as it was stored, and keeps nothing of that.

use super::*;
use siltdb_base::{
    budget::Budget,
    fs::{ReadIo, mem::MemFs},
};
use siltdb_disk::cache::{Cache, TableMemory};
use std::sync::Barrier;

const ID: FamilyId = FamilyId(7);

fn stored(version: &Arc<Version>) -> (LazyFamily, Arc<Budget>) {
    let budget = Arc::new(Budget::new(usize::MAX));
    let cache = Cache::new(Arc::clone(&budget), 0, TableMemory::Beside);
    let stored = StoredFamily {
        name: "head".into(),
        options: Arc::new(TreeOptions { ttl_ms: 5, ..TreeOptions::default() }),
        version: Arc::clone(version),
        files: OpenFiles::new(Arc::new(MemFs::new()), ReadIo::Read, cache),
        holders: Arc::default(),
    };
    (LazyFamily::stored(ID, FamilyRole::Head, stored), budget)
}

#[test]
fn a_family_is_made_once_by_its_first_users_and_is_as_it_was_stored() {
    let (family, _) = stored(&Arc::new(Version::empty()));
    assert!(family.if_made().is_none());
    let (name, options, version) = (family.name(), family.options(), family.version());
    assert!(Arc::ptr_eq(&family.view().version, &version));
    assert!(family.if_made().is_none(), "a look makes nothing");
    let barrier = Barrier::new(4);
    let first = || {
        barrier.wait();
        Arc::clone(family.get())
    };
    let made: Vec<_> = std::thread::scope(|scope| {
        let users: Vec<_> = (0..4).map(|_| scope.spawn(first)).collect();
        users.into_iter().map(|user| user.join().unwrap()).collect()
    });
    assert!(made.iter().all(|other| Arc::ptr_eq(other, family.get())));
    let made = family.if_made().unwrap();
    assert_eq!((made.id, made.role, made.name()), (ID, FamilyRole::Head, name));
    assert!(Arc::ptr_eq(&made.tree.options(), &options) && made.tree.ttl_ms() == 5);
    assert!(Arc::ptr_eq(&made.tree.view().version, &version));
    assert!(made.check().is_ok() && made.was_created());
}

#[test]
fn a_made_family_shows_what_it_is_now_and_keeps_nothing_that_was_stored() {
    let version = Arc::new(Version::empty());
    let (family, _) = stored(&version);
    assert_eq!(Arc::strong_count(&version), 2);
    let made = Arc::clone(family.get());
    assert_eq!(Arc::strong_count(&version), 2, "that of the tree is all that is left");
    made.tree.set_options(TreeOptions { ttl_ms: 9, ..TreeOptions::default() });
    made.set_name(&"other".into());
    assert_eq!((family.options().ttl_ms, &*family.name()), (9, "other"));
    made.tree.apply(&[], None).unwrap();
    assert_eq!(Arc::strong_count(&version), 1, "the tree has another one");
    let copy = family.copy_of_tables();
    assert_eq!((copy.id, copy.role, &*copy.name()), (ID, FamilyRole::Head, "other"));
    assert!(Arc::ptr_eq(&copy.version(), &family.version()));
    assert!(copy.if_made().is_none() && !Arc::ptr_eq(copy.get(), &made));
}

#[test]
fn the_budget_is_charged_for_little_until_a_family_is_made() {
    let (family, budget) = stored(&Version::none());
    let before = budget.used(Part::Families);
    assert_eq!(before, STORED_BYTES);
    let _ = family.get();
    assert!(budget.used(Part::Families) > 2 * before, "{} bytes", budget.used(Part::Families));
    drop(family);
    assert_eq!(budget.used(Part::Families), 0);
}
