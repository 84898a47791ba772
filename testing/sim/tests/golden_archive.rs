//! Archives of released versions, as they lie in `testing/golden/NAME.siltar`: today's code reads,
//! verifies and imports them, and writes the newest of them byte by byte as it lies there.
//!
//! `GOLDEN=write` writes it again.

use siltdb::{Compression, Db, FamilyOptions, Options, Read, archive::Archive, merge};
use siltdb_base::{clock::ManualClock, fs::mem::MemFs};
use std::{collections::BTreeMap, fs, ops::ControlFlow, path::Path, sync::Arc, time::Duration};

/// The archive that today's code writes.
const NEWEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/0.1.siltar");

/// When it was made: 2025.
const WRITTEN_MS: u64 = 1_750_000_000_000;

const FILE: &str = "golden.siltar";

/// Keys and values of each family.
type Contents = BTreeMap<String, Vec<(Vec<u8>, Vec<u8>)>>;

fn contents(db: &Db) -> Contents {
    let of = |name: String| {
        let entries = db.family(&name).unwrap().iter().unwrap().map(Result::unwrap);
        let pairs = entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        (name, pairs)
    };
    db.families().into_iter().map(of).collect()
}

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Duration::from_millis(WRITTEN_MS)))
}

/// The bytes of the archive, and what it holds.
fn written() -> (Vec<u8>, Contents) {
    let fs = MemFs::new();
    let options = Options::new().workers(0).seed(1).fs(Arc::new(fs.clone())).clock(clock());
    let sum = merge::associative("append", |_, older, newer| Ok([older, newer].concat()));
    let db = options.merge_operator(sum.clone()).open("golden").unwrap();
    let small = FamilyOptions::new().table_bytes(2 << 10).block_bytes(1 << 10);
    let users = db.create_family("ünïcode", small.clone()).unwrap();
    let plain = small.compression(Compression::None).filter_bits_per_key(0);
    let sums = db.create_family("sums", plain.merge_operator(sum)).unwrap();
    db.create_family("nothing", FamilyOptions::new()).unwrap();
    for number in 0..200_u32 {
        db.put(format!("row {number:04}"), format!("value {number}")).unwrap();
        users.put_for(number.to_be_bytes(), b"user", Duration::from_secs(number.into())).unwrap();
        sums.merge(format!("sum {}", number % 7), [number as u8]).unwrap();
    }
    users.put(b"large", vec![7; 3000]).unwrap();
    db.delete_range("row 0010".."row 0020").unwrap();
    db.archive(FILE).unwrap();
    (fs.read_all(Path::new(FILE)).unwrap(), contents(&db))
}

#[test]
fn a_stored_archive_is_verified_read_and_imported() {
    let (_, expected) = written();
    let options = Options::new().clock(clock());
    let archive = Archive::open_with(NEWEST, &options).unwrap();
    archive.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    let info = archive.info();
    assert_eq!((info.created_ms, &info.source[..]), (WRITTEN_MS, "golden"));
    let names: Vec<&str> = info.families.iter().map(|family| &family.name[..]).collect();
    assert_eq!(names, ["default", "nothing", "sums", "ünïcode"]);
    assert_eq!(info.families[2].merge_operator.as_deref(), Some("append"));
    for (name, pairs) in &expected {
        let found = archive.family(name).unwrap().iter().unwrap().map(Result::unwrap);
        let found: Vec<_> = found.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        assert!(found == *pairs, "{name}");
    }
    let place = tempfile::tempdir().unwrap();
    let db = options.open(place.path().join("db")).unwrap();
    let import = siltdb::archive::ImportOptions::new().merge_operators(false);
    db.import_archive_with(NEWEST, &import, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(contents(&db) == expected);
    assert!(db.check(&mut |_| {}).unwrap().is_clean());
}

#[test]
fn todays_code_writes_the_newest_stored_archive_byte_by_byte() {
    let (bytes, _) = written();
    if std::env::var_os("GOLDEN").is_some_and(|what| what == "write") {
        fs::write(NEWEST, &bytes).unwrap();
    }
    let advice = "the archive is not written as testing/golden/0.1.siltar was: see the advice in \
                  golden.rs";
    assert!(bytes == fs::read(NEWEST).unwrap(), "{advice}");
    assert!(bytes.len() < 40 << 10, "{}", bytes.len());
}
