//! Tests that every limit is measured, and that no work is omitted.

use super::*;
use crate::result::LimitUnit;

const LITTLE: Effort =
    Effort { memory_bytes: 1 << 20, file_bytes: 1 << 20, calls: 2000, syncs: 2, repeat: 3 };

#[test]
fn every_limit_is_measured_once_and_none_beats_physics() {
    let dir = tempfile::tempdir().unwrap();
    let mut groups = Vec::new();
    let limits = measure(dir.path(), &LITTLE, |group| groups.push(group.to_owned())).unwrap();
    let names: Vec<&str> = limits.iter().map(|limit| &limit.limit[..]).collect();
    assert_eq!(
        names,
        [
            "checksum",
            "lz4-encode",
            "lz4-decode",
            "memory-copy",
            "dram-miss-dependent",
            "dram-miss-independent",
            "page-cache-write",
            "cached-pread",
            "write-call",
            "mapping-fill",
            "page-touch",
            "fdatasync-written",
            "fdatasync-append",
        ]
    );
    assert_eq!(groups, ["processor", "memory", "files"]);
    for limit in limits {
        let possible = match (limit.unit, &limit.limit[..]) {
            (LimitUnit::BytesPerS, _) => 1e6..1e12,
            // A system call, or a pass over 4 KiB, takes at least this time.
            (LimitUnit::Ns, "dram-miss-dependent" | "dram-miss-independent") => 0.1..1e6,
            (LimitUnit::Ns, _) => 20.0..1e10,
        };
        let value = limit.value;
        assert!(possible.contains(&value.min) && possible.contains(&value.max), "{limit:?}");
        assert!(value.min <= value.median && value.median <= value.max, "{limit:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert!(measure(&dir.path().join("missing"), &LITTLE, |_| ()).is_err());
}
