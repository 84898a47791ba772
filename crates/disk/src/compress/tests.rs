//! Round trips, the saving that is asked for, and damaged payloads, of each codec.

use super::*;
use proptest::prelude::*;

/// What this build can write.
fn writable() -> impl Iterator<Item = Compression> {
    let all = [Compression::None, Compression::Lz4, Compression::Snappy, Compression::Zstd(-7)];
    all.into_iter()
        .chain([Compression::ZSTD, Compression::Zstd(19)])
        .filter(|compression| compression.check_writable().is_ok())
}

/// The codec of what compresses well.
fn codec_of(compression: Compression) -> Codec {
    Codec::from_u8(compression.to_bytes()[0]).unwrap()
}

fn round_trip(compression: Compression, raw: &[u8]) -> Codec {
    let mut compressor = Compressor::new(compression);
    let (codec, payload) = compressor.compress(raw);
    let mut out = vec![9; 3];
    codec.decode(payload, None, raw.len(), &mut out).unwrap();
    assert_eq!(out, raw);
    codec
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(bytes)
    .collect()
}

#[test]
fn compression_is_kept_only_if_it_saves_an_eighth() {
    for compression in writable() {
        let rows: Vec<u8> =
            (0..400).flat_map(|row| format!("row {row:05};").into_bytes()).collect();
        assert_eq!(round_trip(compression, &rows), codec_of(compression), "{compression}");
        assert_eq!(round_trip(compression, &[]), Codec::Raw, "{compression}");
        assert_eq!(round_trip(compression, &noise(4096)), Codec::Raw, "{compression}");
        // A twentieth of repetition compresses, but not by an eighth.
        let mut some = noise(4096);
        some[..200].fill(1);
        assert_eq!(round_trip(compression, &some), Codec::Raw, "{compression}");
    }
}

#[test]
fn short_inputs_after_long_ones_round_trip() {
    for compression in writable() {
        let mut compressor = Compressor::new(compression);
        for length in [200_000, 100, 70_000, 5_000, 65_534, 65_535, 65_536, 13] {
            let raw: Vec<u8> = (0..length).map(|index| (index / 50) as u8).collect();
            let (codec, payload) = compressor.compress(&raw);
            let mut out = Vec::new();
            codec.decode(payload, None, raw.len(), &mut out).unwrap();
            assert!(out == raw, "{compression}: {length}");
        }
    }
}

#[test]
fn a_stated_length_beyond_the_ratio_is_refused_before_allocating() {
    for codec in CODECS {
        let mut out = Vec::new();
        assert!(codec.decode(&[0; 10], None, 1 << 40, &mut out).is_err());
        assert!(codec.decode(&[0; 10], None, 10 * 255 + 65, &mut out).is_err());
        assert_eq!(out.capacity(), 0, "{codec:?}");
    }
    // What is written never exceeds the bound.
    for compression in writable() {
        let raw = vec![0; 1 << 20];
        let mut compressor = Compressor::new(compression);
        let (codec, payload) = compressor.compress(&raw);
        assert!(codec.raw_bytes_max(payload.len() as u64) >= raw.len() as u64);
        assert_ne!(codec == Codec::Raw, compression != Compression::None, "{compression}");
        let mut out = Vec::new();
        codec.decode(payload, None, raw.len(), &mut out).unwrap();
        assert!(out == raw);
    }
}

#[test]
fn unknown_codecs_are_unsupported() {
    for codec in CODECS {
        assert_eq!(Codec::from_u8(codec as u8).unwrap(), codec);
    }
    let error = Codec::from_u8(4).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn a_payload_of_another_length_is_corruption() {
    let raw: Vec<u8> = (0..3000).map(|index| (index / 40) as u8).collect();
    for compression in writable() {
        let mut compressor = Compressor::new(compression);
        let (codec, payload) = compressor.compress(&raw);
        for wrong in [raw.len() - 1, raw.len() + 1] {
            let error = codec.decode(payload, None, wrong, &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{compression}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_round_trip(raw in proptest::collection::vec(0_u8..4, 0..3000)) {
        for compression in writable() {
            round_trip(compression, &raw);
        }
    }

    #[test]
    fn any_payload_decodes_or_fails(
        payload in proptest::collection::vec(any::<u8>(), 0..300), raw_bytes in 0_usize..5000,
    ) {
        for codec in CODECS {
            let mut out = Vec::new();
            if codec.decode(&payload, None, raw_bytes, &mut out).is_ok() {
                prop_assert_eq!(out.len(), raw_bytes);
            }
        }
    }

    #[test]
    fn any_damaged_payload_decodes_or_fails(
        raw in proptest::collection::vec(0_u8..6, 500..3000),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        for compression in writable() {
            let mut compressor = Compressor::new(compression);
            let (codec, payload) = compressor.compress(&raw);
            let mut payload = payload.to_vec();
            for (at, byte) in &changes {
                let at = at % payload.len();
                payload[at] ^= byte;
            }
            let mut out = Vec::new();
            if codec.decode(&payload, None, raw.len(), &mut out).is_ok() {
                prop_assert_eq!(out.len(), raw.len());
            }
        }
    }
}
