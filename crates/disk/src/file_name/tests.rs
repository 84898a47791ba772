//! Names there and back, and names that are not ours.

use super::*;
use proptest::prelude::*;
use std::path::{Component, Path};

fn any_name() -> impl Strategy<Value = FileName> {
    let number = prop_oneof![0..2_000_000_u64, 0..=FILE_NUMBER_MAX];
    (0..7, number).prop_map(|(which, number)| match which {
        0 => FileName::Table(FileNumber(number)),
        1 => FileName::Segment(number),
        2 => FileName::Manifest(FileNumber(number)),
        3 => FileName::Blob(FileNumber(number)),
        4 => FileName::Temporary(FileNumber(number)),
        5 => FileName::Current,
        _ => FileName::Lock,
    })
}

#[test]
fn names_print_as_documented() {
    assert_eq!(FileName::Table(FileNumber(12)).to_string(), "000012.table");
    assert_eq!(FileName::Segment(3).to_string(), "000003.log");
    assert_eq!(FileName::Manifest(FileNumber(1)).to_string(), "000001.manifest");
    assert_eq!(FileName::Blob(FileNumber(1_234_567)).to_string(), "1234567.blob");
    assert_eq!(FileName::Temporary(FileNumber(1 << 62)).to_string(), "4611686018427387904.tmp");
    assert_eq!(FileName::Current.to_string(), "CURRENT");
    assert_eq!(FileName::Lock.to_string(), "LOCK");
}

#[test]
fn foreign_names_are_not_ours() {
    for name in [
        "",
        ".",
        "..",
        "current",
        "CURRENT ",
        "LOG",
        "12.table",
        "0000012.table",
        "000012.Table",
        "000012.table.tmp",
        "000012.",
        "000012",
        ".table",
        "+00012.table",
        "-00012.table",
        "000 12.table",
        "../000012.table",
        "/000012.table",
        "000012.table/",
        "000012.log\0",
        "4611686018427387905.log",
        "18446744073709551615.log",
        "18446744073709551616.log",
        "99999999999999999999999999.log",
        "٠٠٠٠١٢.table",
    ] {
        assert_eq!(FileName::parse(name), None, "{name:?}");
    }
}

proptest! {
    #[test]
    fn every_name_round_trips_and_stays_in_its_directory(name in any_name()) {
        let text = name.to_string();
        prop_assert_eq!(FileName::parse(&text), Some(name));
        let mut parts = Path::new(&text).components();
        prop_assert!(matches!(parts.next(), Some(Component::Normal(_))));
        prop_assert_eq!(parts.next(), None);
    }

    #[test]
    fn what_parses_prints_as_it_was(
        text in prop_oneof![any::<String>(), "[0-9./+A-Z]{0,22}\\.(table|log|manifest|blob|tmp)"],
    ) {
        if let Some(name) = FileName::parse(&text) {
            prop_assert_eq!(name.to_string(), text);
        }
    }
}
