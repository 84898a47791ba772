//! Round trips, the saving that is asked for, and damaged payloads.

use super::*;
use proptest::prelude::*;

fn round_trip(compression: Compression, raw: &[u8]) -> Codec {
    let mut compressor = Compressor::new(compression);
    let (codec, payload) = compressor.compress(raw);
    let mut out = vec![9; 3];
    codec.decode(payload, raw.len(), &mut out).unwrap();
    assert_eq!(out, raw);
    codec
}

#[test]
fn compression_is_kept_only_if_it_saves_an_eighth() {
    assert_eq!(round_trip(Compression::Lz4, &[7; 4096]), Codec::Lz4);
    assert_eq!(round_trip(Compression::None, &[7; 4096]), Codec::Raw);
    assert_eq!(round_trip(Compression::Lz4, &[]), Codec::Raw);
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(4096)
    .collect();
    assert_eq!(round_trip(Compression::Lz4, &noise), Codec::Raw);
    // A twentieth of repetition compresses, but not by an eighth.
    let mut some = noise;
    some[..200].fill(1);
    assert_eq!(round_trip(Compression::Lz4, &some), Codec::Raw);
}

#[test]
fn short_inputs_after_long_ones_round_trip() {
    let mut compressor = Compressor::new(Compression::Lz4);
    for length in [200_000, 100, 70_000, 5_000, 65_534, 65_535, 65_536, 13] {
        let raw: Vec<u8> = (0..length).map(|index| (index / 50) as u8).collect();
        let (codec, payload) = compressor.compress(&raw);
        let mut out = Vec::new();
        codec.decode(payload, raw.len(), &mut out).unwrap();
        assert_eq!(out, raw);
    }
}

#[test]
fn a_stated_length_beyond_the_ratio_is_refused_before_allocating() {
    let mut out = Vec::new();
    assert!(Codec::Lz4.decode(&[0; 10], 1 << 40, &mut out).is_err());
    assert!(Codec::Raw.decode(&[0; 10], 1 << 40, &mut out).is_err());
    assert_eq!(out.capacity(), 0);
    // The real ratio never exceeds the bound.
    let raw = vec![0; 1 << 20];
    let mut compressor = Compressor::new(Compression::Lz4);
    let (codec, payload) = compressor.compress(&raw);
    assert!(codec.raw_bytes_max(payload.len() as u64) >= raw.len() as u64);
}

#[test]
fn unknown_codecs_are_unsupported() {
    let error = Codec::from_u8(2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

proptest! {
    #[test]
    fn any_bytes_round_trip(raw in proptest::collection::vec(0_u8..4, 0..3000)) {
        round_trip(Compression::Lz4, &raw);
    }

    #[test]
    fn any_payload_decodes_or_fails(
        payload in proptest::collection::vec(any::<u8>(), 0..300), raw_bytes in 0_usize..5000,
    ) {
        let mut out = Vec::new();
        if Codec::Lz4.decode(&payload, raw_bytes, &mut out).is_ok() {
            prop_assert_eq!(out.len(), raw_bytes);
        }
    }
}
