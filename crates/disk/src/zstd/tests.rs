//! Frames and dictionaries that libzstd made, whole and damaged.

use super::*;
use proptest::prelude::*;
use siltdb_base::error::{ErrorKind, Result};

/// Rows that share much with each other.
fn rows(first: u32, count: u32) -> Vec<u8> {
    (first..first + count).flat_map(row).collect()
}

fn row(number: u32) -> Vec<u8> {
    let town = ["Bern", "Lyon", "Turin", "Graz"][number as usize % 4];
    let score = number.wrapping_mul(2_654_435_761) >> 12;
    format!("{{\"id\":{number},\"town\":\"{town}\",\"score\":{score},\"active\":true}}")
        .into_bytes()
}

/// A dictionary for rows, and a frame of two rows made with it. Written by libzstd 1.5.7; see
/// `the_stored_frames_are_those_of_the_encoder`.
const STORED: &str = include_str!("tests/stored.txt");

fn stored(name: &str) -> Vec<u8> {
    let line = STORED.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let digits = line.unwrap_or_else(|| panic!("no {name} is stored")).as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn decoded(payload: &[u8], dictionary: Option<&Dictionary>, raw_bytes: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; raw_bytes];
    decode(payload, dictionary, &mut out).map(|()| out)
}

/// Each stored frame, what it needs, and what it decodes to.
fn frames() -> Vec<(Vec<u8>, Option<Dictionary>, Vec<u8>)> {
    let dictionary = || Some(Dictionary::read(&stored("dictionary")).unwrap());
    vec![
        (stored("short"), None, rows(0, 40)),
        (stored("long"), None, rows(0, 4000)),
        (stored("fast"), None, rows(0, 400)),
        (stored("with_dictionary"), dictionary(), rows(90_000, 3)),
        (stored("bytes"), None, b"abc".repeat(3000)),
    ]
}

#[test]
fn stored_frames_decode() {
    for (payload, dictionary, raw) in frames() {
        for _ in 0..2 {
            // The second time with the decoder that was kept.
            let out = decoded(&payload, dictionary.as_ref(), raw.len()).unwrap();
            assert!(out == raw, "{} bytes", raw.len());
        }
    }
}

#[test]
fn a_frame_needs_the_dictionary_that_it_names() {
    let (payload, dictionary, raw) = frames().swap_remove(3);
    assert_eq!(decoded(&payload, None, raw.len()).unwrap_err().kind(), ErrorKind::Corruption);
    let mut other = stored("dictionary");
    other[4] ^= 1;
    let other = Dictionary::read(&other).unwrap();
    let error = decoded(&payload, Some(&other), raw.len()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    // A frame that names none does without.
    let plain = decoded(&stored("short"), dictionary.as_ref(), rows(0, 40).len()).unwrap();
    assert_eq!(plain, rows(0, 40));
}

#[test]
fn a_frame_of_another_length_or_cut_short_is_refused() {
    for (payload, dictionary, raw) in frames() {
        let refused = |payload: &[u8], raw_bytes| {
            let error = decoded(payload, dictionary.as_ref(), raw_bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
        };
        refused(&payload, raw.len() - 1);
        refused(&payload, raw.len() + 1);
        refused(&payload[..payload.len() - 1], raw.len());
        refused(&[&payload[..], b"x"].concat(), raw.len());
    }
}

#[test]
fn every_truncated_dictionary_is_refused_or_read() {
    let bytes = stored("dictionary");
    let mut refused = 0;
    for end in 0..bytes.len() {
        refused += usize::from(Dictionary::read(&bytes[..end]).is_err());
    }
    assert!(refused > 100, "{refused}");
}

#[test]
fn a_frame_with_a_long_window_is_refused_before_allocating() {
    // Magic, four bytes of length, a window of 2 GiB, 5 bytes raw.
    let payload =
        [&[0x28, 0xb5, 0x2f, 0xfd, 0x80, 0xa8, 5, 0, 0, 0, 41, 0, 0][..], b"hello"].concat();
    let error = decoded(&payload, None, 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    // The same within one segment.
    let payload = [&[0x28, 0xb5, 0x2f, 0xfd, 0x20, 5, 41, 0, 0][..], b"hello"].concat();
    assert_eq!(decoded(&payload, None, 5).unwrap(), b"hello");
}

#[test]
fn a_frame_that_says_little_and_holds_much_is_refused_early() {
    // A thousand blocks of 128 KiB of the same byte, in a frame of 5 bytes.
    let mut payload = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, 5];
    for _ in 0..1000 {
        payload.extend_from_slice(&[0x02, 0x00, 0x10, 7]);
    }
    let error = decoded(&payload, None, 5).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn damaged_frames_decode_or_fail(
        which in 0_usize..5,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let (mut payload, dictionary, raw) = frames().swap_remove(which);
        for (at, byte) in changes {
            let at = at % payload.len();
            payload[at] = byte;
        }
        if let Ok(out) = decoded(&payload, dictionary.as_ref(), raw.len()) {
            prop_assert_eq!(out.len(), raw.len());
        }
    }

    #[test]
    fn damaged_dictionaries_are_refused_or_decode(at in any::<usize>(), byte in any::<u8>()) {
        let mut bytes = stored("dictionary");
        let length = bytes.len();
        // Most of what can go wrong is in front.
        bytes[at % 200 % length] = byte;
        let Ok(dictionary) = Dictionary::read(&bytes) else { return Ok(()) };
        let (payload, _, raw) = frames().swap_remove(3);
        let _ = decoded(&payload, Some(&dictionary), raw.len());
    }
}

#[cfg(feature = "zstd")]
mod encoder {
    use super::*;
    use std::fmt::Write;

    fn encoded(level: i8, dictionary: Option<&[u8]>, raw: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let length = Encoder::new(level, dictionary).encode(raw, &mut out).unwrap();
        out.truncate(length);
        out
    }

    fn trained() -> Vec<u8> {
        let samples: Vec<Vec<u8>> = (0..2000).map(|number| rows(number * 3, 3)).collect();
        let lengths: Vec<usize> = samples.iter().map(Vec::len).collect();
        train(&samples.concat(), &lengths, 2 << 10, || ()).unwrap()
    }

    /// `ZSTD=write` writes them again, for another version of the library.
    #[test]
    fn the_stored_frames_are_those_of_the_encoder() {
        let dictionary = trained();
        let made = [
            ("dictionary", dictionary.clone()),
            ("short", encoded(3, None, &rows(0, 40))),
            ("long", encoded(3, None, &rows(0, 4000))),
            ("fast", encoded(-7, None, &rows(0, 400))),
            ("with_dictionary", encoded(3, Some(&dictionary), &rows(90_000, 3))),
            ("bytes", encoded(19, None, &b"abc".repeat(3000))),
        ];
        let mut text = String::new();
        for (name, bytes) in made {
            write!(text, "{name}: ").unwrap();
            bytes.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
        if std::env::var("ZSTD").is_ok_and(|mode| mode == "write") {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/zstd/tests/stored.txt");
            std::fs::write(path, &text).unwrap();
        } else {
            assert!(text == STORED, "the library makes other frames");
        }
    }

    #[test]
    fn every_level_round_trips_with_and_without_a_dictionary() {
        let bytes = trained();
        let dictionary = Dictionary::read(&bytes).unwrap();
        for level in [-7, -1, 0, 1, 3, 9, 19, 22] {
            for raw in [rows(5, 1), rows(7, 50), rows(100_000, 3000), vec![7; 300_000]] {
                let plain = encoded(level, None, &raw);
                assert!(decoded(&plain, None, raw.len()).unwrap() == raw, "level {level}");
                let with = encoded(level, Some(&bytes), &raw);
                let out = decoded(&with, Some(&dictionary), raw.len()).unwrap();
                assert!(out == raw, "level {level} with a dictionary");
            }
        }
        let raw = rows(100_000, 5);
        let (plain, with) = (encoded(3, None, &raw), encoded(3, Some(&bytes), &raw));
        assert!(with.len() * 10 < plain.len() * 8, "{} of {}", with.len(), plain.len());
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip(
            raw in proptest::collection::vec(0_u8..9, 1..9000), level in -7_i8..10,
        ) {
            prop_assert_eq!(decoded(&encoded(level, None, &raw), None, raw.len()).unwrap(), raw);
        }
    }
}

/// Bytes that no encoder finds much in, so that it uses all of its tables.
#[cfg(feature = "zstd")]
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 59) as u8
    };
    (0..bytes).map(next).collect()
}

#[cfg(feature = "zstd")]
#[test]
fn an_encoder_takes_no_more_than_is_said_before() {
    let raw = noise(600 << 10);
    for level in crate::options::ZSTD_LEVEL {
        for raw_bytes in [1, 1 << 10, 16 << 10, 17 << 10, 130 << 10, 300 << 10, 600 << 10] {
            let mut encoder = Encoder::new(level, None);
            encoder.encode(&raw[..raw_bytes], &mut Vec::new()).unwrap();
            let (said, taken) = (Encoder::working_bytes(level, raw_bytes), encoder.memory_bytes());
            assert!(taken <= said, "level {level}, {raw_bytes} bytes: {taken} of {said}");
            assert!(said <= 2 * taken, "level {level}, {raw_bytes} bytes: {taken} of {said}");
        }
    }
}
