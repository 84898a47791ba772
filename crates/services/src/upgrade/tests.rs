//! The format of a database that is closed, open, or absent.

use super::*;
use siltdb_base::fs::mem::MemFs;
use siltdb_engine::fixture::{DIR, files, open, put};

#[test]
fn a_database_of_the_newest_version_says_so_and_is_not_changed() {
    let fs = MemFs::new();
    let engine = open(&fs);
    put(&engine, "default", b"key", b"value");
    assert_eq!(upgrade(&fs, Path::new(DIR)).unwrap_err().kind(), ErrorKind::Locked);
    engine.close().unwrap();
    drop(engine);
    let bytes = || files(&fs, "").into_iter().map(|path| fs.read_all(&path).unwrap());
    let before: Vec<_> = bytes().collect();
    let format = upgrade(&fs, Path::new(DIR)).unwrap();
    assert_eq!(format, DatabaseFormat { version: FORMAT_VERSION, features: 0 });
    assert!(bytes().eq(before));
}

#[test]
fn what_is_no_database_is_not_found() {
    let fs = MemFs::new();
    assert_eq!(upgrade(&fs, Path::new(DIR)).unwrap_err().kind(), ErrorKind::NotFound);
    fs.create_dir_all(Path::new(DIR)).unwrap();
    assert_eq!(upgrade(&fs, Path::new(DIR)).unwrap_err().kind(), ErrorKind::NotFound);
}
