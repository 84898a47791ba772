//! What samples say of sets whose overlap is known, and the codec.

use super::*;
use siltdb_base::checksum::xxh3;

fn sample(keys: impl IntoIterator<Item = u64>) -> KeySketch {
    let mut builder = SketchBuilder::default();
    keys.into_iter().for_each(|key| builder.add(xxh3(&key.to_be_bytes()), || 100 + key));
    builder.finish()
}

fn overlap(samples: &[KeySketch]) -> Overlap {
    KeySketch::overlap(samples)
}

#[test]
fn small_sets_are_counted_exactly() {
    let sets = [sample(0..20), sample(10..30), sample(15..18)];
    assert_eq!(overlap(&sets), Overlap { sampled: 43, repeated: 13 });
    assert_eq!(overlap(&[]), Overlap { sampled: 0, repeated: 0 });
    // Neither the order of the keys nor their repetition matters.
    assert_eq!(sample((0..20).rev().chain(5..9)).hashes(), sets[0].hashes());
}

#[test]
fn sets_without_common_keys_never_overlap() {
    let sets: Vec<_> = (0..50).map(|set| sample(set * 1000..(set + 1) * 1000)).collect();
    let overlap = overlap(&sets);
    assert_eq!(overlap.repeated, 0);
    assert!(overlap.sampled >= HASHES_MAX as u64, "{overlap:?}");
}

#[test]
fn the_share_of_repeated_keys_is_estimated_for_sets_of_any_sizes() {
    // Each of many sets holds again what part of a large one holds.
    for (repeated_keys, all) in [(1000, 10_000), (5000, 10_000), (10_000, 20_000)] {
        let mut sampled = Overlap { sampled: 0, repeated: 0 };
        for round in 0..200 {
            let base = round * 1_000_000;
            let young = all / 4;
            let again = repeated_keys / 4;
            let mut sets = vec![sample(base..base + 100_000)];
            for set in 0..4 {
                let first = base + set * 20_000;
                let fresh = base + 200_000 + set * 20_000;
                sets.push(sample((first..first + again).chain(fresh..fresh + young - again)));
            }
            let one = overlap(&sets);
            sampled.sampled += one.sampled;
            sampled.repeated += one.repeated;
        }
        let share = sampled.repeated as f64 / sampled.sampled as f64;
        let expected = repeated_keys as f64 / (100_000 + all) as f64;
        assert!((share / expected - 1.0).abs() < 0.15, "{share} of {expected}");
    }
}

#[test]
fn a_sample_round_trips_and_refuses_every_truncation() {
    for keys in [0, 1, 5, HASHES_MAX as u64, 1000] {
        let sample = sample(0..keys);
        assert_eq!(sample.hashes.len(), HASHES_MAX.min(keys as usize));
        let mut bytes = Vec::new();
        sample.encode(&mut bytes);
        let mut reader = ByteReader::new(&bytes);
        let decoded = KeySketch::decode(&mut reader).unwrap();
        assert!(reader.is_empty() && decoded.hashes == sample.hashes);
        assert!(!decoded.has_bytes() && decoded.agrees(&sample));
        for end in 0..bytes.len() {
            assert!(KeySketch::decode(&mut ByteReader::new(&bytes[..end])).is_err());
        }
    }
}

#[test]
fn what_no_set_of_hashes_encodes_to_is_refused() {
    let decode = |numbers: &[u64]| {
        let mut bytes = Vec::new();
        numbers.iter().for_each(|&number| put_varint(&mut bytes, number));
        KeySketch::decode(&mut ByteReader::new(&bytes))
    };
    assert!(decode(&[2, 0, 1]).is_ok());
    assert!(decode(&[2, 7, 0]).is_err(), "twice the same hash");
    assert!(decode(&[2, 7, u64::MAX - 6]).is_err(), "a hash beyond 64 bits");
    let many: Vec<_> = (0..HASHES_MAX as u64 + 2).collect();
    let with_count = |count: u64| [&[count], &many[1..=count as usize]].concat();
    assert!(decode(&with_count(HASHES_MAX as u64)).is_ok());
    assert!(decode(&with_count(HASHES_MAX as u64 + 1)).is_err());
}

#[test]
fn what_the_entries_of_a_key_take_is_added_up() {
    let hashes: Vec<u64> = (0..HASHES_MAX as u64 * 2).map(|key| key * 10).collect();
    let draw = |hashes: &mut dyn Iterator<Item = &u64>| {
        let mut builder = SketchBuilder::default();
        for &hash in hashes {
            builder.add(hash, || hash);
            builder.add_version(|| 1);
            builder.add_version(|| 2);
        }
        builder.finish()
    };
    // In ascending order the sample is full when the largest hash of it comes.
    let sample = draw(&mut hashes.iter());
    assert_eq!(sample, draw(&mut hashes.iter().rev()));
    assert_eq!(sample.hashes(), &hashes[..HASHES_MAX]);
    for (place, hash) in sample.hashes().iter().enumerate() {
        assert_eq!(sample.bytes(place), Some(hash + 3));
    }
    assert_eq!(sample.bytes(HASHES_MAX), None);
    let mut large = SketchBuilder::default();
    large.add(7, || u64::MAX);
    large.add_version(|| 1);
    assert_eq!(large.finish().bytes(0), Some(u64::from(u32::MAX)));
}

#[test]
fn what_keys_take_round_trips_and_refuses_every_truncation() {
    for keys in [1, 5, 1000] {
        let sample = sample(0..keys);
        let (mut hashes, mut bytes) = (Vec::new(), Vec::new());
        sample.encode(&mut hashes);
        sample.encode_bytes(&mut bytes);
        let decode = |bytes: &[u8]| {
            let mut reader = ByteReader::new(bytes);
            let mut decoded = KeySketch::decode(&mut ByteReader::new(&hashes)).unwrap();
            decoded.decode_bytes(&mut reader).map(|()| (decoded, reader.is_empty()))
        };
        assert_eq!(decode(&bytes).unwrap(), (sample, true));
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err());
        }
    }
    let mut sample = sample(0..1);
    let mut large = Vec::new();
    put_varint(&mut large, 1 << 32);
    assert!(sample.decode_bytes(&mut ByteReader::new(&large)).is_err());
}

#[test]
fn a_sample_of_other_entries_does_not_agree() {
    let stated = sample(0..10);
    assert!(stated.agrees(&sample(0..10)));
    assert!(!stated.agrees(&sample(0..11)));
    assert!(!stated.agrees(&sample((0..10).chain(0..1))), "an entry more of a key");
}
