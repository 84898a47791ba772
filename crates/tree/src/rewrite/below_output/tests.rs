//! What lies deeper, by ranges.

use super::*;
use crate::{
    files::version::Version,
    fixture::{open_files, reference, version},
};
use siltdb_base::{fs::mem::MemFs, slice::Slice};

fn shape() -> Version {
    let files = open_files(&Arc::new(MemFs::new()));
    version(
        &files,
        &[
            (0, reference(9, (b"x", b"y"), (9, 9), 10)),
            (5, reference(1, (b"b", b"d"), (1, 1), 10)),
            (5, reference(2, (b"m", b"p"), (1, 1), 10)),
            (6, reference(3, (b"c", b"f"), (1, 1), 10)),
        ],
    )
}

fn tables() -> BelowOutput {
    let version = shape();
    let [level0, runs @ ..] = version.levels();
    BelowOutput::new(level0.tables().to_vec(), runs)
}

#[test]
fn keys_are_asked_for_in_order_and_found_in_any_level() {
    let mut below = tables();
    let found = ["a", "b", "d", "e", "f", "g", "m", "m", "q", "x", "z"]
        .map(|key| below.may_contain(key.as_bytes()) == OlderEntries::Possible);
    let expected = [false, true, true, true, true, false, true, true, false, true, false];
    assert_eq!(found, expected);
    assert_eq!(BelowOutput::anything().may_contain(b"a"), OlderEntries::Possible);
    assert_eq!(BelowOutput::default().may_contain(b"a"), OlderEntries::None);
}

#[test]
fn a_fragment_ends_before_its_end() {
    let below = tables();
    let has = |start: &str, end: &str| {
        let fragment = Fragment {
            start: Slice::copy_from(start.as_bytes()),
            end: Slice::copy_from(end.as_bytes()),
        };
        below.may_contain_any_of(&fragment) == OlderEntries::Possible
    };
    assert!(!has("a", "b") && has("a", "ba") && !has("g", "m") && has("g", "n"));
    assert!(has("a", "z") && has("y", "z") && !has("ya", "z"));
}
