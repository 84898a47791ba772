//! A golden database in `testing/golden` whose tables have every codec, and its damage.
//!
//! `0.1-codecs` holds families of all codecs, `zstd` and `rows` of Zstandard, the latter with a
//! dictionary; their options now say LZ4, so that every build opens it. `0.1-codecs.unwritable` is
//! the same before that. A build with the feature `zstd` writes both, with `GOLDEN=write`.

use siltdb::{Compression, Db, ErrorKind, FamilyOptions, Options, Read};
use siltdb_base::fs::LogIo;
#[cfg(feature = "zstd")]
use siltdb_base::{clock::ManualClock, fs::mem::MemFs};
use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/0.1-codecs");

/// The families with the codecs of their tables.
const FAMILIES: [(&str, &[&str]); 5] = [
    ("default", &["lz4"]),
    ("levels", &["none", "snappy"]),
    ("rows", &["zstd"]),
    ("snappy", &["snappy"]),
    ("zstd", &["zstd"]),
];

/// Rows of the family `rows`: enough to train a dictionary.
const ROWS: u64 = 2000;

type Contents = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn options() -> Options {
    Options::new()
        .workers(0)
        .memory_budget(8 << 20)
        .memtable_bytes(1 << 20)
        .log_io(LogIo::Write)
        .default_family(small(Compression::Lz4))
}

fn small(compression: Compression) -> FamilyOptions {
    FamilyOptions::new()
        .compression(compression)
        .block_bytes(1 << 10)
        .table_bytes(8 << 10)
        .base_level_bytes(16 << 10)
        .level0_runs(2)
}

/// What the families hold.
fn contents() -> Contents {
    let mut contents = Contents::new();
    for (family, _) in FAMILIES {
        for number in 0..if family == "rows" { ROWS } else { 300 } {
            let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
            let value =
                format!("{{\"state\":\"active\",\"balance\":{noise},\"currency\":\"EUR\"}}");
            let key = format!("account:{number:06}").into_bytes();
            contents.insert((family.to_owned(), key), value.into_bytes());
        }
    }
    contents
}

fn read(db: &Db) -> Contents {
    let mut contents = Contents::new();
    for name in db.families() {
        let family = db.family(&name).unwrap();
        for entry in family.iter().unwrap() {
            let (key, value) = entry.unwrap();
            assert_eq!(family.get(&key).unwrap().as_deref(), Some(&value[..]));
            contents.insert((name.clone(), key.to_vec()), value.to_vec());
        }
    }
    contents
}

/// A copy of the stored database `name`.
fn copied(name: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(name).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.path().join(entry.file_name())).unwrap();
    }
    place
}

fn codecs(db: &Db, family: &str) -> Vec<&'static str> {
    db.family(family).unwrap().compression_stats().iter().map(|stats| stats.codec).collect()
}

#[test]
fn tables_of_every_codec_are_read_and_converted_by_every_build() {
    let place = copied(STORED);
    let db = options().open(place.path()).unwrap();
    assert!(read(&db) == contents());
    for (family, expected) in FAMILIES {
        assert_eq!(codecs(&db, family), expected, "{family}");
    }
    let rows = db.family("rows").unwrap();
    let zstd = rows.compression_stats()[0];
    assert!(zstd.dictionaries > 0, "{zstd:?}");
    assert!(zstd.stored_bytes < zstd.raw_bytes * 7 / 10, "{zstd:?}");
    // The options say LZ4 by now: no block may be copied as it is.
    for family in ["rows", "zstd"] {
        let family = db.family(family).unwrap();
        assert_eq!(family.options().get("compression").unwrap(), "lz4");
        family.put(b"account:000100", b"new").unwrap();
        family.compact().unwrap();
        let stats = family.compression_stats();
        assert_eq!((stats[0].codec, stats[0].dictionaries, stats.len()), ("lz4", 0, 1));
    }
    let mut expected = contents();
    for family in ["rows", "zstd"] {
        expected.insert((family.to_owned(), b"account:000100".to_vec()), b"new".to_vec());
    }
    assert!(read(&db) == expected);
    assert!(db.check(&mut |_| {}).unwrap().errors.is_empty());
}

#[test]
fn a_family_that_this_build_cannot_write_is_refused_by_name_and_read_all_the_same() {
    let place = copied(&format!("{STORED}.unwritable"));
    let read_only = options().read_only(true).open(place.path()).unwrap();
    assert!(read(&read_only) == contents());
    let zstd = read_only.family("zstd").unwrap();
    assert_eq!(zstd.options().get("compression").unwrap(), "zstd:9");
    drop((zstd, read_only));
    let opened = options().open(place.path());
    let created =
        |db: &Db| db.create_family("more", FamilyOptions::new().compression(Compression::ZSTD));
    if cfg!(feature = "zstd") {
        created(&opened.unwrap()).unwrap();
        return;
    }
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("zstd for the family"), "{error}");
    assert!(error.hint().unwrap().contains("feature `zstd`"), "{error}");
    let other = tempfile::tempdir().unwrap();
    let db = options().open(other.path().join("db")).unwrap();
    let error = created(&db).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let family = db.default_family();
    let changed = family.options().compression_per_level(&[Compression::Lz4, Compression::ZSTD]);
    assert_eq!(family.set_options(&changed).unwrap_err().kind(), ErrorKind::Unsupported);
    let options =
        Options::new().default_family(FamilyOptions::new().compression(Compression::ZSTD));
    let error = options.open(other.path().join("new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    // A salvage saves it with another codec.
    let saved = other.path().join("saved");
    let report = siltdb::salvage::salvage(place.path(), &saved, Options::new(), &mut |_| {});
    assert!(report.unwrap().lost.is_empty());
    let saved = Options::new().open(saved).unwrap();
    assert!(read(&saved) == contents());
}

/// The files of tables with their bytes.
fn tables(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "table");
    files.filter(is_table).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn damaged_tables_of_every_codec_give_an_error_or_the_true_data() {
    let place = copied(STORED);
    let expected = contents();
    let (mut noticed, mut tried) = (0, 0);
    for (path, bytes) in tables(place.path()) {
        for step in 0..24 {
            let mut damaged = bytes.clone();
            let at = bytes.len() * step / 24 + step % 7;
            let Some(byte) = damaged.get_mut(at) else { continue };
            *byte ^= 1 << (step % 8);
            fs::write(&path, &damaged).unwrap();
            let seen = catch_unwind(AssertUnwindSafe(|| -> siltdb::Result<()> {
                let db = options().read_only(true).open(place.path())?;
                for name in db.families() {
                    let family = db.family(&name)?;
                    for ((_, key), value) in expected.range((name.clone(), Vec::new())..).take(50) {
                        if let Some(found) = family.get(key)? {
                            assert_eq!(found.as_bytes(), value, "a wrong value");
                        }
                    }
                    for entry in family.iter()? {
                        let (key, value) = entry?;
                        let right = expected.get(&(name.clone(), key.to_vec()));
                        assert_eq!(
                            right.map(Vec::as_slice),
                            Some(value.as_bytes()),
                            "a wrong value"
                        );
                    }
                }
                Ok(())
            }));
            let result = seen.unwrap_or_else(|_| panic!("{}: byte {at}", path.display()));
            if let Err(error) = result {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.file().is_some() && error.offset().is_some(), "{error}");
                noticed += 1;
            }
            tried += 1;
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert!(noticed * 10 > tried * 8, "{noticed} of {tried}");
}

/// Writes the stored databases.
#[cfg(feature = "zstd")]
#[test]
fn the_stored_databases_are_written_on_request() {
    if std::env::var_os("GOLDEN").is_none_or(|what| what != "write") {
        return;
    }
    let (fs, clock) =
        (MemFs::new(), ManualClock::at(std::time::Duration::from_millis(1_750_000_000_000)));
    let clock = std::sync::Arc::new(clock);
    let db =
        options().fs(std::sync::Arc::new(fs.clone())).clock(clock).seed(1).open("golden").unwrap();
    let upper = [Compression::None, Compression::Lz4, Compression::Lz4];
    let levels = [&upper[..], &[Compression::Snappy]].concat();
    let rows = small(Compression::Zstd(9)).dictionary_bytes(1 << 10).table_bytes(1 << 20);
    let more = [
        ("levels", small(Compression::Lz4).compression_per_level(&levels)),
        ("rows", rows),
        ("snappy", small(Compression::Snappy)),
        ("zstd", small(Compression::Zstd(9))),
    ];
    more.into_iter().for_each(|(name, options)| drop(db.create_family(name, options).unwrap()));
    write_all(&db);
    store(&fs, &format!("{STORED}.unwritable"));
    for name in ["rows", "zstd"] {
        let family = db.family(name).unwrap();
        let options = family.options().compression(Compression::Lz4).dictionary_bytes(0);
        family.set_options(&options).unwrap();
    }
    drop(db);
    store(&fs, STORED);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = |((family, key), value): (&(String, Vec<u8>), &Vec<u8>)| {
        format!("{family}\t{}\t{}\n", hex(key), hex(value))
    };
    let text: String = contents().iter().map(line).collect();
    fs::write(format!("{STORED}.txt"), text).unwrap();
}

/// Fills all families: most lies at the bottom, some in level 0, and a little in the log.
#[cfg(feature = "zstd")]
fn write_all(db: &Db) {
    let put = |of: &dyn Fn(usize) -> bool| {
        for (index, ((family, key), value)) in contents().iter().enumerate() {
            if of(index) {
                db.family(family).unwrap().put(key, value).unwrap();
            }
        }
    };
    put(&|index| index % 50 != 7);
    db.flush().unwrap();
    for (family, _) in FAMILIES {
        db.family(family).unwrap().compact().unwrap();
    }
    put(&|index| index % 50 == 7 && index % 100 != 7);
    db.flush().unwrap();
    put(&|index| index % 100 == 7);
}

#[cfg(feature = "zstd")]
fn store(files: &MemFs, place: &str) {
    use siltdb_base::fs::Fs;
    let _ = fs::remove_dir_all(place);
    fs::create_dir_all(place).unwrap();
    for entry in files.list(Path::new("golden")).unwrap() {
        let mut bytes = files.read_all(&Path::new("golden").join(&entry.name)).unwrap();
        if entry.name.ends_with(".log") || entry.name.ends_with(".manifest") {
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(end.next_multiple_of(8).min(bytes.len()));
        }
        fs::write(Path::new(place).join(entry.name), bytes).unwrap();
    }
}
