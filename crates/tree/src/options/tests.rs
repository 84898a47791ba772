//! The codec at its ends, and the ranges.

use super::*;

#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok(operands.concat())
    }

    fn partial(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

fn find(name: &str) -> Option<Arc<dyn MergeOperator>> {
    (name == "append").then(|| Arc::new(Append) as Arc<dyn MergeOperator>)
}

fn unusual() -> TreeOptions {
    TreeOptions {
        table: TableOptions {
            block_bytes: 8192,
            compression: Compression::Zstd(-5),
            filter_bits_per_key: 0,
            dictionary_bytes: 16 << 10,
            prefix_extractor: Some(PrefixExtractor::Separator { separator: b'/', count: 255 }),
            whole_key_filter: false,
            kind: TableKind::BTree,
        },
        compression_per_level: vec![Compression::None, Compression::Snappy, Compression::Zstd(22)],
        filter_bits_per_level: vec![14, 0, 32],
        merge_operator: find("append"),
        compaction_filter: Some(NamedFilter::stored("filter")),
        level_size_ratio: 7,
        level0_runs_trigger: 9,
        table_bytes_target: 1 << 20,
        base_level_bytes: 5 << 20,
        tombstone_percent_trigger: 101,
        range_tombstone_percent_trigger: 20,
        garbage_percent_trigger: 30,
        compaction: CompactionStrategy::Tiered { runs_max: 3, space_percent_max: 150 },
        cold_from_level: 5,
        value_threshold: 4096,
        blob_file_bytes: 1 << 20,
        blob_garbage_percent_trigger: 30,
        key_order: Some("reverse(u64)".into()),
        ttl_ms: 0,
        unknown: UnknownFields::default(),
    }
}

#[test]
fn options_round_trip_and_absent_fields_have_their_defaults() {
    let mut bytes = Vec::new();
    unusual().encode(&mut bytes);
    let read = TreeOptions::decode(&bytes, &find).unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", unusual()));
    let default = TreeOptions::decode(&[], &find).unwrap();
    assert_eq!(format!("{default:?}"), format!("{:?}", TreeOptions::default()));
}

#[test]
fn every_truncation_and_flipped_bit_is_refused_or_read_without_panic() {
    let mut bytes = Vec::new();
    unusual().encode(&mut bytes);
    let mut refused = 0;
    for end in 0..bytes.len() {
        refused += usize::from(TreeOptions::decode(&bytes[..end], &find).is_err());
    }
    // A cut between two fields leaves absent fields; all other cuts are seen.
    assert_eq!(refused, bytes.len() - 25);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        if let Ok(options) = TreeOptions::decode(&flipped, &find) {
            options.check().unwrap();
        }
    }
}

#[test]
fn unknown_fields_and_operators_are_refused_by_their_kind() {
    let decode = |bytes: &[u8]| TreeOptions::decode(bytes, &|_| None).unwrap_err().kind();
    assert_eq!(decode(&[18, 0]), ErrorKind::Unsupported);
    assert_eq!(decode(&[16, 0]), ErrorKind::Corruption);
    assert_eq!(decode(&[11, 1, 2]), ErrorKind::Unsupported);
    assert_eq!(decode(&[11, 2, 0, 0]), ErrorKind::Corruption);
    assert_eq!(decode(&[15, 1, 0xff]), ErrorKind::Corruption);
    assert_eq!(decode(&[20, 1, 0]), ErrorKind::Corruption);
    assert_eq!(decode(&[10, 1, 0xff]), ErrorKind::Corruption);
    assert_eq!(decode(&[10, 1, b' ']), ErrorKind::InvalidArgument);
    assert_eq!(decode(&[10, 0]), ErrorKind::InvalidArgument);
    assert_eq!(decode(&[4, 1, b'x']), ErrorKind::InvalidArgument);
    assert_eq!(decode(&[5, 1, 4, 5, 1, 4]), ErrorKind::Corruption);
    assert_eq!(decode(&[5, 1, 1]), ErrorKind::InvalidArgument);
}

#[test]
fn options_of_later_versions_are_kept_or_refused_by_name() {
    let mut later = Vec::new();
    unusual().encode(&mut later);
    later.extend_from_slice(&[64, 2, 7, 7]);
    let read = TreeOptions::decode(&later, &find).unwrap();
    let mut again = Vec::new();
    read.encode(&mut again);
    assert_eq!(again, later);
    let error = TreeOptions::decode(&[18, 1, 0], &find).unwrap_err();
    assert!(error.to_string().contains("family options: encryption"), "{error}");
    let error = TreeOptions::decode(&[14, 1, 0], &find).unwrap_err();
    assert!(error.to_string().contains("unknown compaction strategy"), "{error}");
}

#[test]
fn limits_are_accepted_and_one_past_them_is_not() {
    let check = |change: &dyn Fn(&mut TreeOptions)| {
        let mut options = TreeOptions::default();
        change(&mut options);
        options.check().is_ok()
    };
    assert!(check(&|options| options.level_size_ratio = 2));
    assert!(!check(&|options| options.level_size_ratio = 1));
    assert!(check(&|options| options.level0_runs_trigger = 1000));
    assert!(!check(&|options| options.level0_runs_trigger = 1001));
    assert!(check(&|options| options.table_bytes_target = 1 << 10));
    assert!(!check(&|options| options.table_bytes_target = (1 << 10) - 1));
    assert!(check(&|options| options.base_level_bytes = 1 << 48));
    assert!(!check(&|options| options.base_level_bytes = (1 << 48) + 1));
    assert!(check(&|options| options.value_threshold = 0));
    assert!(!check(&|options| options.value_threshold = 31));
    assert!(check(&|options| options.value_threshold = 32));
    assert!(check(&|options| options.value_threshold = VALUE_BYTES_MAX as u64));
    assert!(!check(&|options| options.value_threshold = VALUE_BYTES_MAX as u64 + 1));
    assert!(!check(&|options| options.blob_file_bytes = (4 << 10) - 1));
    assert!(check(&|options| options.blob_file_bytes = 4 << 10));
    assert!(!check(&|options| options.blob_file_bytes = (1 << 40) + 1));
    assert!(!check(&|options| options.blob_garbage_percent_trigger = 0));
    assert!(check(&|options| options.blob_garbage_percent_trigger = 101));
    assert!(!check(&|options| options.blob_garbage_percent_trigger = 102));
    assert!(!check(&|options| options.tombstone_percent_trigger = 0));
    assert!(check(&|options| options.range_tombstone_percent_trigger = 1));
    assert!(!check(&|options| options.range_tombstone_percent_trigger = 102));
    assert!(check(&|options| options.garbage_percent_trigger = 101));
    assert!(!check(&|options| options.garbage_percent_trigger = 4));
    assert!(check(&|options| options.cold_from_level = 7));
    assert!(!check(&|options| options.cold_from_level = 8));
    let name = |bytes: usize| Some("n".repeat(bytes).into());
    assert!(check(&|options| options.key_order = name(KEY_ORDER_BYTES_MAX)));
    assert!(!check(&|options| options.key_order = name(KEY_ORDER_BYTES_MAX + 1)));
    assert!(!check(&|options| options.key_order = name(0)));
    assert!(check(&|options| options.ttl_ms = u64::MAX));
    assert!(!check(&|options| *options = TreeOptions { ttl_ms: 1, ..unusual() }));
}

#[test]
fn a_ttl_round_trips_and_none_is_not_stored() {
    let encoded = |ttl_ms| {
        let mut bytes = Vec::new();
        TreeOptions { ttl_ms, ..TreeOptions::default() }.encode(&mut bytes);
        bytes
    };
    for ttl_ms in [1, 60_000, u64::MAX] {
        let read = TreeOptions::decode(&encoded(ttl_ms), &|_| None).unwrap();
        assert_eq!(read.ttl_ms, ttl_ms);
        assert!(encoded(ttl_ms).len() > encoded(0).len());
    }
    assert_eq!(TreeOptions::decode(&encoded(0), &|_| None).unwrap().ttl_ms, 0);
}

#[test]
fn the_last_of_a_list_by_level_holds_for_all_deeper_levels() {
    let options = unusual();
    let at = |level| options.table_at(level);
    assert_eq!((at(0).compression, at(0).filter_bits_per_key), (Compression::None, 14));
    assert_eq!((at(1).compression, at(1).filter_bits_per_key), (Compression::Snappy, 0));
    assert_eq!((at(6).compression, at(6).filter_bits_per_key), (Compression::Zstd(22), 32));
    assert_eq!(at(6).block_bytes, 8192);
    assert_eq!(options.level_kinds(), [0, 1, 2, 2, 2, 2, 2]);
    let uniform = TreeOptions::default();
    assert_eq!(uniform.table_at(3), uniform.table);
    assert_eq!(uniform.level_kinds(), [0; LEVELS]);
}

#[test]
fn a_dictionary_is_at_most_a_hundredth_of_a_table() {
    let used = |table_bytes_target, dictionary_bytes| {
        let table = TableOptions { dictionary_bytes, ..TableOptions::default() };
        TreeOptions { table, table_bytes_target, ..TreeOptions::default() }
            .table_at(3)
            .dictionary_bytes
    };
    assert_eq!(used(32 << 20, 128 << 10), 128 << 10);
    assert_eq!(used(1 << 20, 128 << 10), (1 << 20) / 100);
    assert_eq!(used(1 << 10, 128 << 10), 1 << 10);
    assert_eq!(used(1 << 10, 0), 0);
}

#[test]
fn lists_by_level_are_checked_at_their_bounds() {
    let compressions = |count| TreeOptions {
        compression_per_level: vec![Compression::Snappy; count],
        ..TreeOptions::default()
    };
    compressions(LEVELS).check().unwrap();
    assert!(compressions(LEVELS + 1).check().is_err());
    let filters = |count, bits| TreeOptions {
        filter_bits_per_level: vec![bits; count],
        ..TreeOptions::default()
    };
    filters(LEVELS, 32).check().unwrap();
    assert!(filters(LEVELS + 1, 10).check().is_err());
    assert!(filters(1, 33).check().is_err());
}

#[test]
fn compressions_are_stored_with_their_levels_and_refused_if_unknown() {
    for compression in
        [Compression::None, Compression::Lz4, Compression::ZSTD, Compression::Zstd(9)]
    {
        let table = TableOptions { compression, ..TableOptions::default() };
        let mut bytes = Vec::new();
        TreeOptions { table, ..TreeOptions::default() }.encode(&mut bytes);
        assert_eq!(TreeOptions::stored_compression(&bytes), Some(compression));
        let read = TreeOptions::decode(&bytes, &find).unwrap();
        assert_eq!(read.table.compression, compression);
    }
    let kind = |bytes: &[u8]| TreeOptions::decode(bytes, &find).unwrap_err().kind();
    assert_eq!(kind(&[2, 1, 4]), ErrorKind::Unsupported);
    assert_eq!(kind(&[2, 1, 2, 24, 1, 23]), ErrorKind::Corruption);
    assert_eq!(kind(&[2, 1, 1, 24, 1, 3]), ErrorKind::Corruption);
    assert_eq!(kind(&[25, 2, 4, 0]), ErrorKind::Unsupported);
    assert_eq!(kind(&[25, 1, 1]), ErrorKind::Corruption);
    assert_eq!(kind(&[27, 1, 33]), ErrorKind::InvalidArgument);
}

#[test]
fn what_this_build_cannot_write_is_named_and_replaced_on_request() {
    let options = unusual();
    if cfg!(feature = "zstd") {
        options.check_writable().unwrap();
        return;
    }
    assert_eq!(options.check_writable().unwrap_err().kind(), ErrorKind::Unsupported);
    // Separated values are compressed as well, whatever the levels say.
    let table = TableOptions { compression: Compression::ZSTD, ..TableOptions::default() };
    let levels = vec![Compression::Lz4];
    let hidden =
        TreeOptions { table, compression_per_level: levels.clone(), ..TreeOptions::default() };
    assert_eq!(hidden.check_writable().unwrap_err().kind(), ErrorKind::Unsupported);
    TreeOptions { compression_per_level: levels, ..TreeOptions::default() }
        .check_writable()
        .unwrap();
    // It can be read all the same.
    let mut bytes = Vec::new();
    options.encode(&mut bytes);
    let read = TreeOptions::decode(&bytes, &find).unwrap().or_writable();
    read.check_writable().unwrap();
    assert_eq!(read.table_at(6).compression, Compression::Lz4);
    assert_eq!(read.table_at(6).filter_bits_per_key, 32);
}

#[test]
fn strategies_round_trip_and_check_their_parameters() {
    let tiered =
        |runs_max, space_percent_max| CompactionStrategy::Tiered { runs_max, space_percent_max };
    let fifo = |bytes_max, age_ms: Option<u64>| CompactionStrategy::Fifo {
        bytes_max,
        age_max: age_ms.map(Duration::from_millis),
    };
    let with = |compaction| TreeOptions { compaction, ..TreeOptions::default() };
    for strategy in [tiered(2, 10), tiered(5, 10_000), fifo(1 << 10, None), fifo(1 << 60, Some(1))]
    {
        let mut bytes = Vec::new();
        with(strategy).check().unwrap();
        with(strategy).encode(&mut bytes);
        assert_eq!(TreeOptions::decode(&bytes, &find).unwrap().compaction, strategy);
    }
    let refused = [
        tiered(1, 200),
        tiered(6, 200),
        tiered(4, 9),
        tiered(4, 10_001),
        fifo((1 << 10) - 1, None),
        fifo((1 << 60) + 1, None),
        fifo(1 << 20, Some(0)),
        fifo(1 << 20, Some((1 << 48) + 1)),
    ];
    for strategy in refused {
        let error = with(strategy).check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{strategy:?}");
    }
    // An operand would get another result when its value leaves.
    let counter = TreeOptions { merge_operator: find("append"), ..with(fifo(1 << 20, None)) };
    assert!(counter.check().unwrap_err().to_string().contains("merge operator"));
    // A number that is not known, and a parameter without a strategy.
    let decode = |bytes: &[u8]| TreeOptions::decode(bytes, &find).unwrap_err().kind();
    assert_eq!(decode(&[14, 1, 3]), ErrorKind::Unsupported);
    assert_eq!(decode(&[22, 1, 3]), ErrorKind::Corruption);
}

#[test]
fn an_old_name_of_a_key_order_is_read_as_the_present_one() {
    let order = |name: &str| TreeOptions { key_order: Some(name.into()), ..TreeOptions::default() };
    let read = |options: &TreeOptions| {
        let mut bytes = Vec::new();
        options.encode(&mut bytes);
        TreeOptions::decode(&bytes, &find).unwrap().key_order
    };
    let present = Some("(u8,reverse(caseless-ascii))".into());
    assert_eq!(read(&order("(u8,reverse(caseless))")), present);
    assert_eq!(read(&order("(u8,reverse(caseless-ascii))")), present);
}
