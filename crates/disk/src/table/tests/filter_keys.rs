//! Filters with prefixes: no key is lost, and most absent prefixes are told without a read.

use super::*;
use crate::filter_keys::PrefixExtractor;

/// Keys `NNN/MMM` of two slashes, some without any, with several versions here and there.
fn entries() -> Vec<Owned> {
    let mut entries = Vec::new();
    for user in (0..300_u64).step_by(3) {
        for item in 0..4 {
            let key = format!("{user:03}/{item}/x");
            entries.push(put(&key, 900 + item, "value".repeat(3)));
            if item == 2 {
                entries.push((key.into_bytes(), 7, EntryKind::Delete, Vec::new()));
            }
        }
    }
    for short in ["0", "03", "3", "no separator", "~"] {
        entries.push(put(short, 50, "short"));
    }
    sort(&mut entries);
    entries
}

fn extractors() -> Vec<PrefixExtractor> {
    vec![
        PrefixExtractor::Fixed(1),
        PrefixExtractor::Fixed(3),
        PrefixExtractor::Fixed(64),
        PrefixExtractor::Separator { separator: b'/', count: 1 },
        PrefixExtractor::Separator { separator: b'/', count: 2 },
        PrefixExtractor::Separator { separator: 0, count: 1 },
    ]
}

fn prefixed(extractor: PrefixExtractor, whole_key_filter: bool) -> TableOptions {
    TableOptions {
        prefix_extractor: Some(extractor),
        whole_key_filter,
        ..options(Compression::None)
    }
}

#[test]
fn every_key_is_found_whatever_the_filter_holds() {
    let entries = entries();
    for extractor in extractors() {
        for whole in [false, true] {
            // Verified as a job does, which asks the filter for each key and prefix.
            let table = table_of(&prefixed(extractor, whole), &entries, &[]);
            // The second time some lookups go through the maplet.
            for _ in 0..2 {
                for owned in &entries {
                    for visible in [owned.1 - 1, owned.1, SequenceNumber::MAX.0] {
                        check_get(&table, &entries, &owned.0, visible).unwrap();
                    }
                    assert!(table.may_hold(LookupKey::new(&owned.0)), "{extractor} {whole}");
                    let absent = [&owned.0[..], b"-"].concat();
                    check_get(&table, &entries, &absent, SequenceNumber::MAX.0).unwrap();
                }
                verify_and_keep(&table);
            }
        }
    }
}

#[test]
fn a_range_within_one_prefix_is_denied_only_if_it_is_empty() {
    let entries = entries();
    for extractor in extractors() {
        for whole in [false, true] {
            let table = table_of(&prefixed(extractor, whole), &entries, &[]);
            let filter = table.filter().unwrap();
            let (mut denied, mut asked) = (0, 0);
            for user in 0..300_u64 {
                let (lower, upper) = (format!("{user:03}/"), format!("{user:03}0"));
                let (lower, upper) = (lower.as_bytes(), upper.as_bytes());
                let holds =
                    entries.iter().any(|owned| &owned.0[..] >= lower && &owned.0[..] < upper);
                let may_hold = filter.may_contain_range(lower, Some(upper));
                assert!(may_hold || !holds, "{extractor} {user}");
                asked += u64::from(!holds);
                denied += u64::from(!may_hold);
            }
            let tells = [
                PrefixExtractor::Fixed(3),
                PrefixExtractor::Separator { separator: b'/', count: 1 },
            ];
            assert_eq!(asked, 200);
            match tells.contains(&extractor) {
                true => assert!(denied > 180, "{extractor}: {denied} of {asked}"),
                false => assert_eq!(denied, 0, "{extractor}"),
            }
            assert!(filter.may_contain_range(b"0", None));
        }
    }
}

#[test]
fn a_filter_of_prefixes_alone_is_smaller_and_denies_keys_by_their_prefix() {
    let entries = entries();
    let bytes = |options: &TableOptions| table_of(options, &entries, &[]).filter().unwrap().bytes();
    let extractor = PrefixExtractor::Separator { separator: b'/', count: 1 };
    let (both, alone) = (bytes(&prefixed(extractor, true)), bytes(&prefixed(extractor, false)));
    assert!(alone * 3 < both, "{alone} and {both} bytes");

    let table = table_of(&prefixed(extractor, false), &entries, &[]);
    let may_hold = |key: &str| table.may_hold(LookupKey::new(key.as_bytes()));
    let of_absent = (0..300).filter(|user| user % 3 != 0);
    let passed = of_absent.filter(|user| may_hold(&format!("{user:03}/1/x"))).count();
    assert!(passed < 20, "{passed} of 200 absent prefixes");
    // The prefix is there, the key is not: only a search can tell.
    assert!(may_hold("003/9"));
    // A key without a prefix is asked for as a whole.
    let short = (0..200).filter(|number| may_hold(&format!("short {number}"))).count();
    assert!(short < 20, "{short} of 200 absent keys");
}

#[test]
fn copied_blocks_bring_their_prefixes() {
    let entries = entries();
    for whole in [false, true] {
        let extractor = PrefixExtractor::Separator { separator: b'/', count: 1 };
        // Written without prefixes, copied into a table that has them.
        let source = table_of(&options(Compression::None), &entries, &[]);
        let mut file = Bytes::default();
        let mut writer = TableWriter::new(&mut file, &prefixed(extractor, whole), TableUid(8));
        for block in 0..source.block_count() {
            writer.add_sealed(&source.read_sealed(block).unwrap()).unwrap();
        }
        let meta = writer.finish().unwrap();
        assert_eq!(meta.filter_keys.extractor(), Some(extractor));
        let copy = open(&file.0, Some(&meta), &new_cache(1 << 20)).unwrap();
        verify(&copy).unwrap();
        for owned in &entries {
            check_get(&copy, &entries, &owned.0, SequenceNumber::MAX.0).unwrap();
        }
        assert!(copy.filter().unwrap().may_contain_range(b"003/", Some(b"0030")));
        assert!(!copy.filter().unwrap().may_contain_range(b"004/", Some(b"0040")));
    }
}
