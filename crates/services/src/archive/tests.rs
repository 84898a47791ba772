//! What an import does to the catalog, and what readers of the default family then see.

use super::{
    create::{ArchiveRequest, create_archive},
    import::{ExistingFamilies, ImportRequest, import_archive},
};
use crate::check::check;
use siltdb_base::{
    error::Result,
    fs::{Fs, mem::MemFs},
    key::EntryKind,
};
use siltdb_engine::{
    engine::Engine,
    fixture::{
        commit_payload, compact_all, contents, create_family, files, flush, killed,
        leave_manifest_unfinished, open, options, picture, put, put_range, tree_options,
    },
    write::commit::Payload,
};
use std::{collections::BTreeMap, ops::ControlFlow, path::Path};

const FILE: &str = "archives/a.siltar";

fn export(fs: &MemFs, engine: &Engine) {
    fs.create_dir_all(Path::new("archives")).unwrap();
    let request = ArchiveRequest::default();
    let mut go_on = |_| ControlFlow::Continue(());
    create_archive(engine.database(), Path::new(FILE), None, &request, &mut go_on).unwrap();
}

fn import(engine: &Engine, names: &[(&str, &str)], existing: ExistingFamilies) -> Result<()> {
    let names = names.iter().map(|(from, name)| ((*from).to_owned(), (*name).to_owned()));
    let families = Some(names.collect::<BTreeMap<_, _>>());
    let request = ImportRequest { families, existing, ..ImportRequest::default() };
    import_archive(
        engine.writable()?,
        Path::new(FILE),
        &request,
        &mut |_| ControlFlow::Continue(()),
    )
    .map(drop)
}

/// A database with an archive of itself.
fn filled(fs: &MemFs) -> Engine {
    let engine = open(fs);
    create_family(&engine, "other", tree_options()).unwrap();
    put_range(&engine, "a", 0..300, &[1; 50]);
    put(&engine, "other", b"key", b"value");
    export(fs, &engine);
    engine
}

#[test]
fn an_import_is_in_the_manifest_also_in_one_that_is_begun_anew() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    // The name that a family has until it gets that of the old one is taken.
    let next = engine.database().catalog.ids.next_family();
    create_family(&engine, &format!("import-{}", next.0 + 1), tree_options()).unwrap();
    import(&engine, &[("default", "copy")], ExistingFamilies::Refuse).unwrap();
    let before = engine.database().catalog.families.named("copy").unwrap().id;
    import(&engine, &[("default", "copy")], ExistingFamilies::Replace).unwrap();
    assert_ne!(engine.database().catalog.families.named("copy").unwrap().id, before);
    assert_eq!(contents(&engine, "copy", None), contents(&engine, "default", None));
    let expected = picture(&engine);
    assert_eq!(expected.len(), 4);
    assert_eq!(picture(&open(&killed(&fs))), expected);
    engine.close().unwrap();
    leave_manifest_unfinished(&fs);
    let engine = open(&fs);
    import(&engine, &[("other", "copy")], ExistingFamilies::Replace).unwrap();
    let expected = picture(&engine);
    assert_eq!(contents(&engine, "copy", None), [(b"key".to_vec(), b"value".to_vec())]);
    assert_eq!(picture(&open(&killed(&fs))), expected);
}

#[test]
fn the_files_of_a_family_that_was_replaced_go() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    flush(&engine).unwrap();
    import(&engine, &[("default", "copy")], ExistingFamilies::Refuse).unwrap();
    let with_copy = files(&fs, ".table");
    import(&engine, &[("other", "copy")], ExistingFamilies::Replace).unwrap();
    let left = files(&fs, ".table");
    let gone = with_copy.iter().filter(|file| !left.contains(file)).count();
    let new = left.iter().filter(|file| !with_copy.contains(file)).count();
    assert!(gone > 0 && new > 0, "{with_copy:?}, {left:?}");
    drop(engine);
    let engine = open(&fs);
    assert_eq!(files(&fs, ".table"), left, "an orphan");
    assert!(check(engine.database(), &mut |_| {}).unwrap().is_clean());
}

/// Readers have walked over deleted keys of the default family, and remember where nothing is.
#[test]
fn a_reader_that_knew_of_an_empty_range_sees_what_fills_the_default_family() {
    let source = MemFs::new();
    let expected = contents(&filled(&source), "default", None);
    let fs = MemFs::new();
    let engine = Engine::open(Path::new("db"), options(&fs)).unwrap();
    let archive = source.read_all(Path::new(FILE)).unwrap();
    fs.create_dir_all(Path::new("archives")).unwrap();
    fs.write_all(Path::new(FILE), &archive).unwrap();
    let default = engine.database().catalog.families.named("default").unwrap();
    for _ in 0..2 {
        put_range(&engine, "a", 0..2000, b"");
        for number in 0..2000 {
            let key = format!("a{number:05}");
            let payload = Payload::one(&default, EntryKind::Delete, key.as_bytes(), b"");
            commit_payload(&engine, &payload).unwrap();
        }
        assert!(contents(&engine, "default", None).is_empty());
    }
    assert!(default.tree.empty_ranges().is_tracking());
    flush(&engine).unwrap();
    compact_all(&engine).unwrap();
    import(&engine, &[("default", "default")], ExistingFamilies::Refuse).unwrap();
    assert_eq!(contents(&engine, "default", None), expected);
    // Empty ranges are found again, once there is something newer.
    put(&engine, "default", b"z", b"");
    assert_eq!(contents(&engine, "default", None).len(), expected.len() + 1);
}
