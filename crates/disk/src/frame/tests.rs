//! Frames at their place and elsewhere, whole and damaged.

use super::*;
use crate::options::Compression;
use proptest::prelude::*;
use siltdb_base::error::ErrorKind;

const HERE: FramePlace = FramePlace { table: TableUid(0x1234_5678_9abc_def0), offset: 4096 };

fn sealed(compression: Compression, raw: &[u8]) -> Vec<u8> {
    let mut out = vec![1, 2, 3];
    seal(FrameKind::Data, HERE, raw, &mut Compressor::new(compression), &mut out);
    out.split_off(3)
}

fn opened(bytes: &[u8], kind: FrameKind, place: FramePlace) -> Result<Vec<u8>> {
    Ok(Frame::open(bytes, kind, place)?.decode(None, &mut Vec::new())?.to_vec())
}

#[test]
fn a_frame_opens_where_it_was_written_and_nowhere_else() {
    for raw in [&[][..], b"x", &[5; 5000]] {
        for compression in [Compression::None, Compression::Lz4] {
            let frame = sealed(compression, raw);
            assert_eq!(opened(&frame, FrameKind::Data, HERE).unwrap(), raw);
            assert!(opened(&frame, FrameKind::Index, HERE).is_err());
            let offset = FramePlace { offset: HERE.offset + 1, ..HERE };
            let table = FramePlace { table: TableUid(7), ..HERE };
            for elsewhere in [offset, table] {
                assert!(opened(&frame, FrameKind::Data, elsewhere).is_err());
                let mut moved = frame.clone();
                let checksum = moved_checksum(&moved, HERE, elsewhere);
                *moved.last_chunk_mut().unwrap() = checksum;
                assert_eq!(opened(&moved, FrameKind::Data, elsewhere).unwrap(), raw);
                assert!(opened(&moved, FrameKind::Data, HERE).is_err());
            }
        }
    }
}

#[test]
fn every_flipped_bit_truncation_and_extension_is_noticed() {
    let raw: Vec<u8> = (0..600_u32).flat_map(|index| (index / 9).to_le_bytes()).collect();
    for compression in [Compression::None, Compression::Lz4] {
        let frame = sealed(compression, &raw);
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(opened(&damaged, FrameKind::Data, HERE).is_err(), "bit {bit}");
        }
        for end in 0..frame.len() {
            assert!(opened(&frame[..end], FrameKind::Data, HERE).is_err(), "end {end}");
        }
        let mut longer = frame.clone();
        longer.push(0);
        assert!(opened(&longer, FrameKind::Data, HERE).is_err());
    }
}

#[test]
fn filter_and_properties_are_refused_if_compressed() {
    let frame = sealed(Compression::Lz4, &[5; 5000]);
    let kinds = [
        (FrameKind::Data, true),
        (FrameKind::Index, true),
        (FrameKind::Filter, false),
        (FrameKind::RangeTombstones, true),
        (FrameKind::Properties, false),
        (FrameKind::Dictionary, false),
    ];
    for (kind, may_be_compressed) in kinds {
        let mut bytes = frame[..frame.len() - CHECKSUM_BYTES].to_vec();
        assert_eq!(bytes[1], Codec::Lz4 as u8);
        bytes[0] = kind as u8;
        let checksum = crc32c(&bytes).wrapping_add(mix(HERE));
        bytes.extend_from_slice(&checksum.to_le_bytes());
        match opened(&bytes, kind, HERE) {
            Ok(raw) => assert!(may_be_compressed && raw == [5; 5000], "{kind:?}"),
            Err(error) => {
                assert!(!may_be_compressed, "{kind:?}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
        let mut compressor = Compressor::new(Compression::None);
        let mut bytes = Vec::new();
        seal(kind, HERE, &[5; 5000], &mut compressor, &mut bytes);
        assert_eq!(opened(&bytes, kind, HERE).unwrap(), [5; 5000]);
    }
}

#[test]
fn the_bytes_are_the_documented_ones() {
    let place = FramePlace { table: TableUid(1), offset: 0 };
    let mut frame = Vec::new();
    seal(FrameKind::Filter, place, b"abc", &mut Compressor::new(Compression::None), &mut frame);
    assert_eq!(frame[..7], [3, 0, 3, 3, b'a', b'b', b'c']);
    let checksum = crc32c(&frame[..7]).wrapping_add(mix(place));
    assert_eq!(frame[7..], checksum.to_le_bytes());
    // splitmix64's first output for the state 1, without its increment.
    assert_eq!(mix(place), 0x5692_161d);
}

/// A frame of `kind` that claims `raw_bytes` raw bytes, with a payload that is long enough for
/// its codec.
fn claiming(kind: FrameKind, codec: Codec, raw_bytes: u64) -> Vec<u8> {
    let payload_bytes = match codec {
        Codec::Raw => raw_bytes,
        Codec::Lz4 | Codec::Zstd | Codec::Snappy => raw_bytes.div_ceil(255),
    };
    let mut bytes = vec![kind as u8, codec as u8];
    put_varint(&mut bytes, raw_bytes);
    put_varint(&mut bytes, payload_bytes);
    bytes.resize(bytes.len() + payload_bytes as usize, 0);
    let checksum = crc32c(&bytes).wrapping_add(mix(HERE));
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

#[test]
fn each_kind_of_frame_has_its_longest_raw_form() {
    let bounded = [
        (FrameKind::Index, Codec::Lz4),
        (FrameKind::Index, Codec::Raw),
        (FrameKind::RangeTombstones, Codec::Lz4),
        (FrameKind::RangeTombstones, Codec::Zstd),
        (FrameKind::RangeTombstones, Codec::Snappy),
        (FrameKind::Properties, Codec::Raw),
        (FrameKind::Dictionary, Codec::Raw),
    ];
    for (kind, codec) in bounded {
        let most = kind.raw_bytes_max(codec) as u64;
        let longest = claiming(kind, codec, most);
        assert!(longest.len() as u64 <= kind.frame_bytes_max());
        assert_eq!(Frame::open(&longest, kind, HERE).unwrap().raw_bytes as u64, most);
        for claim in [most + 1, 900 << 20] {
            if codec == Codec::Raw && claim > most + 1 {
                continue;
            }
            let error = Frame::open(&claiming(kind, codec, claim), kind, HERE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption, "{kind:?} of {claim}");
            assert!(error.to_string().contains("raw length"), "{error}");
        }
    }
}

#[test]
fn a_frame_too_long_to_be_compressed_is_stored_as_it_is() {
    for more in [0, 1] {
        let raw = vec![0; COMPRESSED_TOMBSTONES_BYTES_MAX + more];
        let mut frame = Vec::new();
        let mut compressor = Compressor::new(Compression::Lz4);
        seal(FrameKind::RangeTombstones, HERE, &raw, &mut compressor, &mut frame);
        let codec = Frame::open(&frame, FrameKind::RangeTombstones, HERE).unwrap().codec;
        assert_eq!(codec, if more == 0 { Codec::Lz4 } else { Codec::Raw });
        assert!(opened(&frame, FrameKind::RangeTombstones, HERE).unwrap() == raw);
    }
}

proptest! {
    #[test]
    fn any_bytes_with_a_good_checksum_open_or_fail(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
        kind in 0_u8..8,
        codec in 0_u8..5,
    ) {
        if let [first, second, ..] = &mut bytes[..] {
            (*first, *second) = (kind, codec);
        }
        let checksum = crc32c(&bytes).wrapping_add(mix(HERE));
        bytes.extend_from_slice(&checksum.to_le_bytes());
        for kind in [FrameKind::Data, FrameKind::Properties] {
            if let Ok(raw) = opened(&bytes, kind, HERE) {
                prop_assert!(raw.len() <= 255 * bytes.len() + 64);
            }
        }
    }
}

#[test]
fn what_is_enclosed_is_what_is_sealed_without_compression() {
    let raw: Vec<u8> = (0..5_000_u32).flat_map(u32::to_le_bytes).collect();
    for length in [0, 1, 127, 128, raw.len()] {
        let (front, back) = raw[..length].split_at(length / 3);
        let Envelope { head, checksum } = enclose(FrameKind::Data, HERE, &[front, back]);
        let enclosed = [&head, front, back, &checksum].concat();
        assert!(enclosed == sealed(Compression::None, &raw[..length]), "{length} bytes");
    }
}
