//! Databases of other engines, told by names and first bytes.

use super::*;
use siltdb_base::fs::mem::MemFs;

/// A file of a test: its name and its first bytes.
struct TestFile {
    name: &'static str,
    head: Vec<u8>,
}

fn at(name: &'static str, offset: usize, magic: &[u8]) -> TestFile {
    let mut head = vec![0; offset];
    head.extend_from_slice(magic);
    head.resize(4096, 0);
    TestFile { name, head }
}

fn directory_of(files: &[TestFile]) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("dir")).unwrap();
    for TestFile { name, head } in files {
        let path = Path::new("dir").join(name);
        fs.create_dir_all(path.parent().unwrap()).unwrap();
        fs.write_all(&path, head).unwrap();
    }
    fs
}

fn refused(fs: &MemFs, path: &str) -> Option<String> {
    let error = check_not_foreign(fs, Path::new(path)).err()?;
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    Some(error.message().to_owned())
}

#[test]
fn files_of_other_engines_are_named() {
    let files = [
        (at("a.db", 0, b"SQLite format 3\0"), "SQLite"),
        (at("a.db", 0, b"redb\x1a\x0a\xa9\x0d\x0a"), "redb"),
        (at("data.mdb", 16, &0xbeef_c0de_u32.to_le_bytes()), "LMDB"),
        (at("data.mdb", 16, &0xbeef_c0de_u32.to_be_bytes()), "LMDB"),
        (at("data.mdb", 12, &0xbeef_c0de_u32.to_le_bytes()), "LMDB"),
        (at("bolt.db", 16, &0xed0c_daed_u32.to_le_bytes()), "bbolt"),
        (at("mdbx.dat", 20, &(0x59_659d_bdef_4c11_u64 << 8 | 3).to_le_bytes()), "libmdbx"),
    ];
    for (file, engine) in files {
        let path = Path::new("dir").join(file.name);
        let fs = directory_of(&[file]);
        // The file alone, and the directory that has it.
        for path in [&*path.to_string_lossy(), "dir"] {
            let message = refused(&fs, path).unwrap();
            assert!(message.contains(&format!("of {engine},")), "{message}");
        }
    }
}

#[test]
fn directories_of_other_engines_are_named() {
    let manifest = || [at("CURRENT", 0, b"MANIFEST-000004\n"), at("MANIFEST-000004", 0, b"x")];
    let with = |more: TestFile| manifest().into_iter().chain([more]).collect::<Vec<_>>();
    let directories = [
        (with(at("OPTIONS-000007", 0, b"[Version]")), "RocksDB"),
        (with(at("000003.log", 0, b"x")), "LevelDB"),
        (vec![at("marker.manifest.000001.MANIFEST-000001", 0, b"")], "Pebble"),
        (vec![at("conf", 0, b"x"), at("db", 0, b"x"), at("blobs/1", 0, b"x")], "sled"),
        (vec![at("version", 0, b"FJL\x02")], "fjall"),
    ];
    for (files, engine) in directories {
        let message = refused(&directory_of(&files), "dir").unwrap();
        assert!(message.contains(&format!("of {engine},")), "{message}");
    }
}

#[test]
fn a_database_with_a_foreign_file_in_it_is_ours() {
    let current = at("CURRENT", 0, b"siltdb manifest 000001 crc32c 00000000\n");
    let sqlite = || at("a.db", 0, b"SQLite format 3\0");
    assert_eq!(refused(&directory_of(&[current, sqlite()]), "dir"), None);
    // Without its `CURRENT`, too.
    let table = at("000004.table", 0, b"x");
    assert_eq!(refused(&directory_of(&[table, sqlite()]), "dir"), None);
    assert_eq!(refused(&directory_of(&[]), "dir"), None);
    assert_eq!(refused(&directory_of(&[]), "absent"), None);
    assert_eq!(refused(&directory_of(&[at("short", 0, b"x")]), "dir/short"), None);
}
