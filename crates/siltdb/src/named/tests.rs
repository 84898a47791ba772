//! Options by name: values that are set are read back, and an unknown name is refused with a list.

use super::*;
use siltdb_base::error::ErrorKind;

#[test]
fn every_option_takes_the_text_that_it_gives() {
    let mut options = Options::new();
    for (name, value) in options.entries() {
        options.set(&name, &value).unwrap();
        assert_eq!(options.get(&name).unwrap(), value, "{name}");
    }
    let mut family = FamilyOptions::new();
    for (name, value) in family.entries() {
        assert!(!value.is_empty(), "{name}");
        family.set(name, &value).unwrap();
        assert_eq!(family.get(name).unwrap(), value, "{name}");
    }
}

#[test]
fn every_value_that_differs_from_the_default_is_read_back() {
    let changes = [
        ("create", "never"),
        ("create", "new"),
        ("read_only", "true"),
        ("lock_wait", "250ms"),
        ("lock_timeout", "20ms"),
        ("durability", "volatile"),
        ("durability", "synced"),
        ("durability", "interval:100"),
        ("memory_budget", "100000000"),
        ("cache_bytes", "1048576"),
        ("memtable_bytes", "65536"),
        ("retain_log_bytes", "1048576"),
        ("retain_log_for", "5000ms"),
        ("feed_bytes_max", "65536"),
        ("log_io", "map"),
        ("log_io", "write"),
        ("read_io", "map"),
        ("scrub_interval", "86400000ms"),
        ("scrub_bytes_per_second", "1048576"),
        ("cold_directory", "../cold"),
        ("tier_rate", "1048576"),
        ("background_rate", "1048576"),
        ("workers", "0"),
        ("recovery", "point_in_time"),
        ("seed", "7"),
        ("default_family.compression", "none"),
        ("default_family.compression", "zstd:19"),
        ("default_family.compression", "snappy"),
        ("default_family.compression_per_level", "none,lz4,zstd:-3"),
        ("default_family.dictionary_bytes", "16384"),
        ("default_family.filter_bits_per_level", "14,0"),
        ("default_family.table_kind", "btree"),
        ("default_family.block_bytes", "16384"),
        ("default_family.filter_bits_per_key", "0"),
        ("default_family.prefix_extractor", "fixed:8"),
        ("default_family.prefix_extractor", "separator:/:2"),
        ("default_family.whole_key_filter", "false"),
        ("default_family.table_bytes", "1048576"),
        ("default_family.base_level_bytes", "1048576"),
        ("default_family.level_size_ratio", "4"),
        ("default_family.level0_runs", "2"),
        ("default_family.compaction", "tiered:3:100"),
        ("default_family.compaction", "fifo:1048576"),
        ("default_family.compaction", "fifo:1048576:60000ms"),
        ("default_family.tombstone_percent", "30"),
        ("default_family.range_tombstone_percent", "10"),
        ("default_family.garbage_percent", "40"),
        ("default_family.cold_from_level", "3"),
        ("default_family.value_threshold", "4096"),
        ("default_family.blob_file_bytes", "65536"),
        ("default_family.blob_garbage_percent", "30"),
        ("default_family.ttl", "60000ms"),
        ("default_family.key_order", "(u64,reverse(string))"),
    ];
    let mut options = Options::new();
    let defaults = options.entries();
    for (name, value) in changes.into_iter().chain([("file_mode", "0600")]) {
        options.set(name, value).unwrap();
        assert_eq!(options.get(name).unwrap(), value, "{name}");
    }
    for ((name, before), (_, after)) in defaults.iter().zip(options.entries()) {
        assert_ne!(*before, after, "{name} was not changed");
    }
    assert_eq!(options.engine.memtable_bytes, 65536);
    assert_eq!(options.engine.access, Access::ReadOnly);
    assert_eq!(options.engine.tree.level0_runs_trigger, 2);
    assert_eq!(options.engine.durability, Durability::Interval(Duration::from_millis(100)));
}

#[test]
fn bytes_and_times_have_units() {
    let cases =
        [("7", Some(7)), ("4KiB", Some(4096)), ("2 MiB", Some(2 << 20)), ("1GiB", Some(1 << 30))];
    for (text, expected) in cases {
        assert_eq!(bytes(text), expected, "{text}");
    }
    for text in ["", "KiB", "-1", "1.5MiB", "4kb", "99999999999999999999", "99999999999GiB"] {
        assert_eq!(bytes::<usize>(text), None, "{text}");
    }
    assert_eq!(time("1500ms"), Some(Duration::from_millis(1500)));
    assert_eq!(time("2s"), Some(Duration::from_secs(2)));
    for text in ["", "s", "2", "2m", "-1s"] {
        assert_eq!(time(text), None, "{text}");
    }
    let ttls =
        [("0s", 0), ("1500ms", 1500), ("30m", 1_800_000), ("2h", 7_200_000), ("1d", 86_400_000)];
    for (text, expected) in ttls {
        assert_eq!(ttl(text), Some(expected), "{text}");
    }
    for text in ["", "d", "7", "-1d", "99999999999999999d"] {
        assert_eq!(ttl(text), None, "{text}");
    }
}

#[test]
fn an_unknown_name_lists_the_names_and_a_bad_value_what_is_permitted() {
    let mut options = Options::new();
    for name in ["memory", "", "block_bytes", "Create"] {
        let error = options.set(name, "1").unwrap_err();
        let hint = error.hint().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(OPTIONS.iter().all(|named| hint.contains(named.name)), "{hint}");
        assert!(hint.contains("default_family.NAME"), "{hint}");
        assert_eq!(options.get(name).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let error = options.set("default_family.blocks", "1").unwrap_err();
    assert!(error.hint().unwrap().contains("block_bytes"));
    for (name, value, permitted) in [
        ("workers", "many", "a number"),
        ("durability", "interval:0", "interval:MS"),
        ("create", "maybe", "if_missing"),
        ("default_family.block_bytes", "1", "1024..=1048576"),
        ("default_family.level0_runs", "0", "1..=1000"),
        ("default_family.compaction", "tiered:3", "tiered:RUNS:PERCENT"),
        ("default_family.compaction", "tiered:9:100", "2..=5"),
        ("default_family.compaction", "fifo", "fifo:BYTES"),
        ("default_family.compaction", "fifo:1MiB:1s:1", "fifo:BYTES:AGE"),
        ("default_family.compaction", "leveled:1", "leveled"),
        ("default_family.garbage_percent", "4", "5..=101"),
        ("default_family.ttl", "1y", "30m or 7d"),
        ("default_family.key_order", "u63", "name of an order"),
        ("default_family.prefix_extractor", "fixed:0", "separator:BYTE:COUNT"),
        ("default_family.whole_key_filter", "no", "true or false"),
    ] {
        let before = options.get(name).unwrap();
        let error = options.set(name, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(permitted), "{error}");
        assert_eq!(options.get(name).unwrap(), before);
    }
}

#[test]
fn compressions_and_lists_by_level_are_read_and_refused_by_name() {
    let mut options = FamilyOptions::new();
    options.set("compression", "zstd").unwrap();
    assert_eq!(options.get("compression").unwrap(), "zstd:3");
    options.set("compression_per_level", "none, snappy").unwrap();
    assert_eq!(options.get("compression_per_level").unwrap(), "none,snappy");
    options.set("compression_per_level", "uniform").unwrap();
    assert_eq!(options.get("compression_per_level").unwrap(), "uniform");
    let refused = [
        ("compression", "zstd:23"),
        ("compression", "zstd:"),
        ("compression", "brotli"),
        ("compression_per_level", ""),
        ("compression_per_level", "lz4,"),
        ("compression_per_level", "lz4,lz4,lz4,lz4,lz4,lz4,lz4,lz4"),
        ("filter_bits_per_level", "33"),
        ("filter_bits_per_level", "1,2,3,4,5,6,7,8"),
        ("dictionary_bytes", "1000"),
    ];
    for (name, value) in refused {
        let error = options.set(name, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name} {value}");
    }
}

#[test]
fn the_permissions_of_files_are_set_and_read_back_in_octal_digits() {
    let mut options = Options::new();
    assert_eq!(options.get("file_mode").unwrap(), "0666");
    options.set("file_mode", "0640").unwrap();
    assert_eq!(options.get("file_mode").unwrap(), "0640");
    for bad in ["", "0400", "0700", "999", "01666"] {
        assert!(options.set("file_mode", bad).is_err(), "{bad}");
    }
}
