//! Prefixes of keys and of ranges against their definition, the codec, and the text.

use super::*;
use siltdb_base::error::ErrorKind;

const SLASH: PrefixExtractor = PrefixExtractor::Separator { separator: b'/', count: 1 };
const SECOND_SLASH: PrefixExtractor = PrefixExtractor::Separator { separator: b'/', count: 2 };

fn all() -> Vec<PrefixExtractor> {
    vec![
        PrefixExtractor::Fixed(1),
        PrefixExtractor::Fixed(2),
        PrefixExtractor::Fixed(*PREFIX_BYTES.end()),
        SLASH,
        SECOND_SLASH,
        PrefixExtractor::Separator { separator: 0xff, count: 1 },
        PrefixExtractor::Separator { separator: 0, count: 255 },
        PrefixExtractor::Separator { separator: b':', count: 3 },
    ]
}

/// All keys of up to three bytes out of a few.
fn keys() -> Vec<Vec<u8>> {
    let bytes = [0, b'/', b'0', 0xfe, 0xff];
    let mut keys = vec![Vec::new()];
    let mut last = keys.clone();
    for _ in 0..3 {
        let longer =
            last.iter().flat_map(|key| bytes.iter().map(move |byte| [&key[..], &[*byte]].concat()));
        last = longer.collect();
        keys.extend_from_slice(&last);
    }
    keys.sort();
    keys
}

#[test]
fn a_prefix_is_that_of_each_key_that_begins_with_it() {
    assert_eq!(PrefixExtractor::Fixed(3).prefix(b"abcd"), Some(&b"abc"[..]));
    assert_eq!(PrefixExtractor::Fixed(3).prefix(b"ab"), None);
    assert_eq!(SLASH.prefix(b"a/b/c"), Some(&b"a/"[..]));
    assert_eq!(SECOND_SLASH.prefix(b"a/b/c"), Some(&b"a/b/"[..]));
    assert_eq!(SECOND_SLASH.prefix(b"a/b"), None);
    let mut seen = 0;
    for extractor in all() {
        for key in keys() {
            let Some(prefix) = extractor.prefix(&key) else { continue };
            for other in keys().iter().filter(|other| other.starts_with(prefix)) {
                assert_eq!(extractor.prefix(other), Some(prefix), "{extractor} of {other:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 1000);
}

#[test]
fn a_range_has_a_prefix_only_if_all_of_its_keys_have_it() {
    let keys = keys();
    let mut found = 0;
    for extractor in all() {
        let filter = FilterKeys::Prefixes(extractor);
        for lower in &keys {
            for upper in keys.iter().map(Some).chain([None]) {
                let upper = upper.map(|upper| &upper[..]);
                let Some(prefix) = filter.prefix_of_range(lower, upper) else { continue };
                found += 1;
                let range = keys
                    .iter()
                    .filter(|key| *key >= lower && upper.is_none_or(|upper| &key[..] < upper));
                for key in range {
                    assert_eq!(extractor.prefix(key), Some(prefix), "{lower:?}..{upper:?}");
                }
            }
        }
    }
    assert!(found > 1000, "{found}");
    let first = FilterKeys::WholeAndPrefixes(PrefixExtractor::Fixed(2));
    assert_eq!(first.prefix_of_range(b"abc", Some(b"ac")), Some(&b"ab"[..]));
    assert_eq!(first.prefix_of_range(b"abc", Some(b"abd")), Some(&b"ab"[..]));
    assert_eq!(first.prefix_of_range(b"abc", Some(b"ac\0")), None);
    assert_eq!(first.prefix_of_range(b"abc", None), None);
    assert_eq!(first.prefix_of_range(b"a", Some(b"b")), None);
    assert_eq!(first.prefix_of_range(b"\xff\xff", None), Some(&b"\xff\xff"[..]));
    assert_eq!(FilterKeys::Whole.prefix_of_range(b"abc", Some(b"abd")), None);
}

#[test]
fn extractors_are_read_back_from_bytes_and_from_text() {
    for extractor in all() {
        assert_eq!(extractor.to_string().parse::<PrefixExtractor>().unwrap(), extractor);
        for keys in [FilterKeys::WholeAndPrefixes(extractor), FilterKeys::Prefixes(extractor)] {
            let mut bytes = Vec::new();
            keys.encode(&mut bytes);
            assert_eq!(FilterKeys::decode(&mut ByteReader::new(&bytes)).unwrap(), keys);
            for end in 0..bytes.len() {
                assert!(FilterKeys::decode(&mut ByteReader::new(&bytes[..end])).is_err());
            }
        }
    }
    let texts = ["fixed:4", "separator:/", "separator:::2", "separator:0x00:3", "separator:0"];
    for text in texts {
        assert_eq!(text.parse::<PrefixExtractor>().unwrap().to_string(), text);
    }
    let bad = [
        "",
        "fixed",
        "fixed:",
        "fixed:0",
        "fixed:65537",
        "fixed:x",
        "separator:",
        "separator:/:0",
        "separator:/:256",
        "separator:/2",
        "separator:ä",
        "first:4",
    ];
    for text in bad {
        let error = text.parse::<PrefixExtractor>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
    }
}

#[test]
fn bytes_out_of_range_are_damage_and_unknown_kinds_are_not() {
    let decode = |bytes: &[u8]| FilterKeys::decode(&mut ByteReader::new(bytes)).unwrap_err().kind();
    assert_eq!(decode(&[1, 0, 0]), ErrorKind::Corruption);
    assert_eq!(decode(&[1, 0, 0x81, 0x80, 0x04]), ErrorKind::Corruption);
    assert_eq!(decode(&[2, 1, b'/', 0]), ErrorKind::Corruption);
    assert_eq!(decode(&[1, 2, 0]), ErrorKind::Unsupported);
    assert_eq!(decode(&[3, 0, 1]), ErrorKind::Unsupported);
}
