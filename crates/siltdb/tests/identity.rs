//! The identity of a database: given once, kept by restores and moves, new for every other copy.
//!
//! # Seeded fault
//! `checkpoint_keeps_the_identity`: a checkpoint has the identity of its source.

use siltdb::{
    Db, Options,
    backup::Backups,
    salvage::salvage,
    testing::{Crash, MemFs},
};
use std::{path::Path, sync::Arc};

fn options(fs: &MemFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).workers(0)
}

fn open(fs: &MemFs, dir: &str) -> Db {
    options(fs).open(dir).unwrap()
}

fn identity(fs: &MemFs, dir: &str) -> siltdb::DatabaseId {
    let db = open(fs, dir);
    let identity = db.identity().unwrap();
    db.close().unwrap();
    identity
}

#[test]
fn a_database_has_one_identity_from_its_creation_on() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    let id = db.identity().unwrap();
    db.put("key", "value").unwrap();
    assert_eq!(id.to_string().len(), 32);
    let killed = fs.crash_clone(Crash::Kill);
    assert_eq!(identity(&killed, "db"), id);
    db.close().unwrap();
    fs.move_directory(Path::new("db"), Path::new("moved")).unwrap();
    // Enough edits for a new manifest, which begins with a snapshot.
    let db = open(&fs, "moved");
    for number in 0..400 {
        db.create_family(&format!("family {number}"), siltdb::FamilyOptions::new()).unwrap();
    }
    db.close().unwrap();
    assert_eq!(identity(&fs, "moved"), id);
    assert_ne!(identity(&fs, "another"), id);
    let reader = options(&fs).read_only(true).open("moved").unwrap();
    assert_eq!(reader.identity(), Some(id));
}

#[test]
fn a_restore_keeps_the_identity_and_other_copies_get_new_ones() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    let id = db.identity().unwrap();
    db.put("key", "value").unwrap();
    db.backup("backups").unwrap();
    Backups::with_options("backups", options(&fs)).restore(None, "restored").unwrap();
    assert_eq!(identity(&fs, "restored"), id);

    db.checkpoint("checkpoint").unwrap();
    db.archive("archive.siltar").unwrap();
    open(&fs, "imported").import_archive("archive.siltar").unwrap();
    db.close().unwrap();
    salvage("db", "saved", options(&fs), &mut |_| {}).unwrap();
    let copies = ["db", "checkpoint", "imported", "saved"].map(|dir| identity(&fs, dir));
    assert_eq!(copies[0], id);
    for (index, copy) in copies.iter().enumerate() {
        assert!(!copies[..index].contains(copy), "{copies:?}");
    }
}
