//! A process with few open files. It is the only test of its process, because the limit applies to
//! the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use siltdb::{Compression, FamilyOptions, Options, Read};

#[test]
fn a_database_of_more_tables_than_may_be_open_is_read_and_compacted() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(48), maximum }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let family = FamilyOptions::new()
        .table_bytes(1 << 10)
        .block_bytes(1 << 10)
        .compression(Compression::None);
    let options = Options::new().workers(0).memtable_bytes(64 << 10).default_family(family);
    let db = options.open(dir.path()).unwrap();
    let value = |number: u32| format!("{number:0100}").into_bytes();
    for round in 0..2 {
        for number in 0..1_500_u32 {
            db.put(number.to_be_bytes(), value(number + round)).unwrap();
        }
        db.compact().unwrap();
        let tables: u64 = db.stats().tables.iter().sum();
        assert!(tables > 100, "{tables}");
        // The stride keeps consecutive reads in different tables.
        for number in (0..1_500_u32).map(|number| number * 2_741 % 1_500) {
            let found = db.get(number.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&value(number + round)[..]));
        }
        assert_eq!(db.iter().unwrap().count(), 1_500);
    }
}
