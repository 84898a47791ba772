//! What recovery does with each way in which a log can be wrong.

use super::model::{Writer, from_first, id, recovered, segment_files, small_log};
use crate::log::{
    read::Stop,
    record::{LogPosition, RECORD_HEADER_BYTES, RecordKind, SEGMENT_ID_MAX},
    recover::{CutKind, Ending, RecoveryMode, RecoveryOptions, recover, recover_whole},
    segment::segments_end,
};
use siltdb_base::{
    checksum::crc32c,
    error::{Error, ErrorKind},
    id::SegmentId,
};

pub(super) fn position(segment: u64, offset: u64) -> LogPosition {
    LogPosition { segment: id(segment), offset }
}

pub(super) fn point_in_time(first: u64) -> RecoveryOptions {
    RecoveryOptions { mode: RecoveryMode::PointInTime, ..from_first(first) }
}

#[test]
fn an_unharmed_log_is_delivered_whole() {
    let writer = small_log();
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert_eq!(payloads, writer.payloads);
    assert_eq!((report.end, report.cut), (writer.position, None));
    assert_eq!(report.ending, Ending::Open);
    assert_eq!(report.next_sequence.unwrap().0, writer.sequence);
    assert_eq!(report.highest_segment, id(3));
    assert_eq!(report.synced, writer.synced);
    let segments: Vec<_> = report.segments.iter().map(|segment| segment.header.id).collect();
    assert_eq!(segments, [1, 2, 3].map(id));
    // Slots have no order: the files may come in any.
    let shuffled = [2, 0, 1].map(|index| writer.files[index].clone());
    assert_eq!(recovered(&shuffled, &from_first(1)).unwrap().0, writer.payloads);
    // Retired segments are not looked at.
    let (payloads, _) = recovered(&writer.files, &from_first(2)).unwrap();
    assert_eq!(payloads, writer.payloads[3..]);
}

/// A record whose values in other files are lost: behind the synced position the log ends before
/// it; below it, that is the damage.
#[test]
fn a_record_that_is_not_whole_ends_the_log_or_is_damage_below_the_synced_position() {
    let writer = small_log();
    let (mut tails, mut damaged) = (0, 0);
    for (lost, (at, _)) in writer.places.iter().enumerate() {
        for mode in [RecoveryMode::Strict, RecoveryMode::PointInTime] {
            let mut payloads = Vec::new();
            let options = RecoveryOptions { mode, ..from_first(1) };
            let result = recover_whole(
                &segment_files(&writer.files),
                &options,
                &mut |record| {
                    let is_lost = record.at == *at;
                    Ok(is_lost.then(|| Error::corruption("a value is lost")))
                },
                &mut |record| {
                    payloads.push(record.payload.to_vec());
                    Ok(())
                },
            );
            assert_eq!(payloads, writer.payloads[..lost]);
            match result {
                Err(error) => {
                    assert!(*at < writer.synced && mode == RecoveryMode::Strict, "{error}");
                    assert!(error.to_string().contains("a value is lost"), "{error}");
                    damaged += 1;
                }
                Ok(report) => {
                    let cut = report.cut.unwrap();
                    assert_eq!((report.end, cut.at, cut.stop), (*at, *at, Stop::NotWhole));
                    let is_damage = cut.kind == CutKind::Damage;
                    assert_eq!(is_damage, *at < writer.synced);
                    assert!(!is_damage || mode == RecoveryMode::PointInTime);
                    assert!(cut.bytes > 0);
                    tails += u32::from(!is_damage);
                }
            }
        }
    }
    assert!(tails > 6 && damaged > 3, "{tails} and {damaged}");
}

#[test]
fn no_files_are_an_empty_log() {
    let (payloads, report) = recovered(&[], &from_first(5)).unwrap();
    assert!(payloads.is_empty());
    assert_eq!((report.end, report.cut, report.next_sequence), (position(5, 0), None, None));
}

#[test]
fn a_log_that_the_manifest_knows_to_be_durable_must_be_there() {
    let options = RecoveryOptions { synced: position(5, 64), ..from_first(5) };
    let error = recovered(&[], &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("the manifest"), "{error}");
}

/// Each truncation of one file gives a prefix of the records that ends at or behind the synced
/// position, or a corruption error. It is always the latter if synced records are gone.
#[test]
fn every_truncation_gives_an_error_or_a_prefix() {
    let writer = small_log();
    for slot in 0..writer.files.len() {
        for length in 0..writer.files[slot].len() {
            let mut files = writer.files.clone();
            files[slot].truncate(length);
            match recovered(&files, &from_first(1)) {
                Ok((payloads, report)) => {
                    assert!(payloads.len() >= writer.synced_payloads, "file {slot} at {length}");
                    assert_eq!(payloads, writer.payloads[..payloads.len()]);
                    let lost = payloads.len() < writer.payloads.len();
                    assert!(slot == 2 || !lost || report.cut.is_some());
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                    assert!(error.file().is_some() && error.offset().is_some());
                    let kept = writer.places.iter().take(writer.synced_payloads);
                    let gone = |&(at, end): &(LogPosition, u64)| {
                        at.segment == id(slot as u64 + 1) && end > length as u64
                    };
                    assert!(kept.into_iter().any(gone), "file {slot} at {length}: {error}");
                }
            }
        }
    }
}

/// Each flipped bit of an open log gives a prefix that holds everything synced, or an error.
#[test]
fn every_flipped_bit_of_an_open_log_gives_an_error_or_a_prefix() {
    let writer = small_log();
    let (mut errors, mut prefixes) = (0, 0);
    for slot in 0..writer.files.len() {
        for bit in 0..8 * writer.files[slot].len() {
            let mut files = writer.files.clone();
            files[slot][bit / 8] ^= 1 << (bit % 8);
            match recovered(&files, &from_first(1)) {
                Ok((payloads, _)) => {
                    assert!(payloads.len() >= writer.synced_payloads, "file {slot}, bit {bit}");
                    assert_eq!(payloads, writer.payloads[..payloads.len()]);
                    prefixes += usize::from(payloads.len() < writer.payloads.len());
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 0 && prefixes > 0, "both must happen: {errors} errors, {prefixes} prefixes");
}

/// Each flipped bit of a closed log is an error, except where it harms nothing. That is in what
/// fills up to 8, behind the end, and in the `End` record itself.
#[test]
fn every_flipped_bit_of_a_closed_log_is_an_error_or_harmless() {
    let mut writer = small_log();
    let end_record = writer.position;
    writer.close();
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert_eq!((payloads, report.ending), (writer.payloads.clone(), Ending::Closed));
    for slot in 0..writer.files.len() {
        for bit in 0..8 * writer.files[slot].len() {
            let mut files = writer.files.clone();
            let at = bit / 8;
            files[slot][at] ^= 1 << (bit % 8);
            let place = position(slot as u64 + 1, at as u64);
            let mut records = writer.places.iter().zip(&writer.body_ends);
            let covered = at < 64
                || records.any(|(&(begin, _), &end)| {
                    begin.segment == place.segment && (begin.offset..end).contains(&place.offset)
                });
            match recovered(&files, &from_first(1)) {
                Err(error) => {
                    assert!(covered, "file {slot}, bit {bit}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                }
                Ok((payloads, report)) => {
                    assert!(!covered, "file {slot}, bit {bit} went unnoticed");
                    assert_eq!(payloads, writer.payloads);
                    let in_end = place >= end_record && place < writer.position;
                    assert_eq!(report.ending == Ending::Open, in_end);
                }
            }
        }
    }
}

#[test]
fn damage_names_file_and_offset_and_is_passed_only_on_request() {
    let mut writer = small_log();
    writer.close();
    let (at, _) = writer.places[4];
    writer.files[1][at.offset as usize + 30] ^= 1;
    let error = recovered(&writer.files, &from_first(1)).unwrap_err();
    assert_eq!((error.file(), error.offset()), (Some("000001.log"), Some(at.offset)));
    assert!(error.hint().is_some());
    let (payloads, report) = recovered(&writer.files, &point_in_time(1)).unwrap();
    assert_eq!(payloads, writer.payloads[..4]);
    let cut = report.cut.unwrap();
    assert_eq!((cut.at, cut.kind, cut.stop), (at, CutKind::Damage, Stop::BadPayload));
    assert!(cut.bytes > 0);
    assert_eq!(report.highest_segment, id(3));
}

#[test]
fn a_tail_torn_at_any_sector_is_cut() {
    let mut writer = Writer::new(1, vec![0; 8192]);
    writer.append_numbered(700);
    writer.sync();
    for length in [100, 1500, 30, 900, 8, 8, 2000] {
        writer.append_numbered(length);
    }
    let zeros = vec![0; 512];
    let garbage = vec![0x5a; 512];
    for sector in 2..16 {
        for lost in [&zeros, &garbage] {
            let mut files = writer.files.clone();
            let torn = sector * 512;
            files[0][torn..torn + 512].copy_from_slice(lost);
            let (payloads, report) = recovered(&files, &from_first(1)).unwrap();
            let used = |end: u64| end as usize <= torn;
            let whole = writer.places.iter().filter(|&&(_, end)| used(end)).count();
            // A sector may hold nothing of a record but what fills it up to 8.
            assert!(payloads.len() >= whole && payloads == writer.payloads[..payloads.len()]);
            if torn < writer.position.offset as usize - 8 {
                assert_eq!(payloads.len(), whole);
                assert_eq!(report.end.offset, writer.places[whole].0.offset);
            }
        }
    }
}

#[test]
fn stale_records_of_a_recycled_segment_are_not_replayed() {
    // The same lengths and the same sequence numbers: only the segment's id tells them apart.
    let mut old = Writer::new(1, vec![0; 4096]);
    for _ in 0..10 {
        old.append_numbered(100);
    }
    let mut recycled = Writer::new(2, old.files[0].clone());
    for _ in 0..3 {
        recycled.append_numbered(100);
    }
    let (payloads, report) = recovered(&recycled.files, &from_first(2)).unwrap();
    assert_eq!(payloads, recycled.payloads);
    assert_eq!((report.end, report.cut), (recycled.position, None));
}

#[test]
fn stale_bytes_do_not_hide_what_was_synced_behind_them() {
    let mut old = Writer::new(1, vec![0; 4096]);
    old.append_numbered(3000);
    let stale = old.files[0].clone();
    let mut writer = Writer::new(2, stale.clone());
    for _ in 0..5 {
        writer.append_numbered(200);
    }
    writer.sync();
    writer.append_numbered(200);
    // The first sectors are those of the old segment again, its header included.
    writer.files[0][64..1024].copy_from_slice(&stale[64..1024]);
    let error = recovered(&writer.files, &from_first(2)).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(64)));
}

#[test]
fn a_lost_tail_takes_the_segments_behind_it() {
    let mut writer = Writer::new(1, vec![0; 1024]);
    for _ in 0..4 {
        writer.append_numbered(100);
    }
    writer.begin(2, vec![0; 1024]);
    writer.append_numbered(100);
    let (at, _) = writer.places[3];
    // Wholly gone, as if the segment had ended one record earlier.
    writer.files[0][at.offset as usize..].fill(0);
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert_eq!(payloads, writer.payloads[..3]);
    let cut = report.cut.unwrap();
    assert_eq!((cut.at, cut.kind, cut.stop), (at, CutKind::LostTail, Stop::NoHeader));
    assert_eq!(cut.bytes, 64 + 128);
    assert_eq!(report.segments.len(), 1);
}

#[test]
fn a_lost_middle_segment_is_a_cut_or_damage() {
    let mut writer = Writer::new(1, vec![0; 512]);
    for segment in 2..=4 {
        writer.append_numbered(100);
        writer.begin(segment, vec![0; 512]);
    }
    writer.append_numbered(100);
    let mut files = writer.files.clone();
    files.remove(1);
    let (payloads, report) = recovered(&files, &from_first(1)).unwrap();
    assert_eq!(payloads, writer.payloads[..1]);
    assert_eq!(report.cut.unwrap().at, position(1, 64 + 128));
    writer.sync();
    writer.append_numbered(100);
    for lost in 0..4 {
        let mut files = writer.files.clone();
        files.remove(lost);
        let result = recovered(&files, &from_first(1));
        // The last segment alone knows that it was synced: without it there is nothing to miss.
        assert_eq!(result.is_ok(), lost == 3, "segment {}", lost + 1);
        let (payloads, _) = recovered(&files, &point_in_time(1)).unwrap();
        assert_eq!(payloads, writer.payloads[..lost]);
    }
}

#[test]
fn a_synced_segment_without_its_header_is_damage() {
    let mut writer = small_log();
    writer.sync();
    writer.append_numbered(8);
    let mut files = writer.files.clone();
    files[2][..64].fill(0);
    let error = recovered(&files, &from_first(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("000002.log says"), "{error}");
}

/// A log of four segments of one record each. Once the last is begun, the segment `back` before it
/// is synced, which only the record in the last can say.
fn synced_late(back: usize) -> Writer {
    let mut writer = Writer::new(1, vec![0; 512]);
    for number in 2..=4 {
        writer.append_numbered(100);
        writer.begin(number, vec![0; 512]);
    }
    let (at, end) = writer.places[3 - back];
    writer.synced = LogPosition { offset: end, ..at };
    writer.append_numbered(100);
    writer
}

#[test]
fn a_record_knows_that_a_segment_before_it_was_synced() {
    for back in 1..=3 {
        let writer = synced_late(back);
        let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
        assert_eq!((payloads, report.cut), (writer.payloads.clone(), None));
        assert_eq!(report.synced, position(4 - back as u64, 64 + 128));
        let says = |files: &[Vec<u8>], offset| {
            let error = recovered(files, &from_first(1)).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Corruption, Some(offset)));
            assert!(error.to_string().contains("000003.log says"), "{error}");
        };
        // With the header of the record's segment, and without it.
        for keeps_header in [true, false] {
            let mut files = writer.files.clone();
            if !keeps_header {
                files[3][..64].fill(0);
                let (payloads, report) = recovered(&files, &from_first(1)).unwrap();
                assert_eq!(payloads, writer.payloads[..3]);
                assert_eq!(report.cut.unwrap().kind, CutKind::LostTail);
            }
            let mut damaged = files.clone();
            damaged[3 - back][64 + 30] ^= 1;
            says(&damaged, 64);
            // Without that of the synced segment, too, whose id is then not known. If it is the
            // first one needed it cannot be told from one that is retired.
            if back < 3 {
                files[3 - back][..64].fill(0);
                says(&files, 64 + 128);
            }
        }
    }
}

#[test]
fn a_header_that_is_lost_in_a_crash_is_no_damage() {
    // The segment before is retired, so what its successor says of it does not matter.
    let mut writer = synced_late(1);
    writer.files[3][..64].fill(0);
    let next = segments_end(id(3));
    for first in [id(4), next, id(5)] {
        let (payloads, report) = recovered(&writer.files, &from_first(first.0)).unwrap();
        assert!(payloads.is_empty());
        let is_found = first <= id(4);
        assert_eq!(report.cut.map(|cut| cut.kind), is_found.then_some(CutKind::LostTail));
    }
}

#[test]
fn two_files_of_one_segment_are_refused() {
    let writer = small_log();
    let mut files = writer.files.clone();
    files.push(files[1].clone());
    let error = recovered(&files, &from_first(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("000001.log"), "{error}");
    assert!(recovered(&files, &from_first(3)).is_ok(), "a retired one may be there twice");
}

#[test]
fn a_gap_in_the_sequence_numbers_ends_the_log() {
    let mut writer = Writer::new(1, vec![0; 1024]);
    writer.append_numbered(10);
    writer.sequence += 1;
    writer.append_numbered(10);
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert_eq!(payloads.len(), 1);
    assert_eq!(report.cut.unwrap().stop, Stop::SequenceGap);
    // A `Skip` record closes the gap.
    let mut writer = Writer::new(1, vec![0; 1024]);
    writer.append_numbered(10);
    writer.append_kind(RecordKind::Skip, 1, b"");
    writer.append_numbered(10);
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert_eq!((payloads.len(), report.cut), (3, None));
    // Nor does a segment follow that begins with another number.
    writer.sequence += 1;
    writer.begin(2, vec![0; 1024]);
    writer.append_numbered(10);
    assert_eq!(recovered(&writer.files, &from_first(1)).unwrap().0.len(), 3);
}

/// A header of form 9 with a right checksum, as a user may put it into a value.
fn forged(segment: u64, offset: u64) -> [u8; RECORD_HEADER_BYTES] {
    let segment = id(segment).0;
    let mut bytes = [0; RECORD_HEADER_BYTES];
    bytes[0] = 11;
    bytes[4..8].copy_from_slice(&(segment as u32).to_le_bytes());
    bytes[20..].copy_from_slice(&((offset / 8) as u32).to_le_bytes());
    let sum = crc32c(&bytes) ^ (segment >> 32) as u32;
    bytes[20..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn an_unknown_form_is_refused_only_in_its_own_segment() {
    let mut writer = Writer::new(5, vec![0; 1024]);
    writer.append_numbered(10);
    let open = (writer.files[0].clone(), writer.position.offset);
    writer.close();
    let closed = (writer.files[0].clone(), writer.position.offset);
    for (file, end) in [&open, &closed] {
        for gap in [0, 8, 104] {
            let with_header_of = |segment| {
                let (offset, mut file) = (*end + gap, file.clone());
                file[offset as usize..][..RECORD_HEADER_BYTES]
                    .copy_from_slice(&forged(segment, offset));
                file
            };
            for segment in [1, 4, 6, SEGMENT_ID_MAX.0, u64::MAX] {
                let expected = recovered(std::slice::from_ref(file), &from_first(5)).unwrap();
                let found = recovered(&[with_header_of(segment)], &from_first(5)).unwrap();
                assert_eq!(found, expected, "segment {segment}, {gap} behind the end");
            }
            let error = recovered(&[with_header_of(5)], &from_first(5)).unwrap_err();
            assert_eq!((error.kind(), error.offset()), (ErrorKind::Unsupported, Some(end + gap)));
        }
    }
    // A file without a header does not tell which segment it holds.
    let mut lost = vec![0; 1024];
    lost[64..88].copy_from_slice(&forged(6, 64));
    let expected = recovered(std::slice::from_ref(&open.0), &from_first(5)).unwrap();
    assert_eq!(recovered(&[open.0, lost], &from_first(5)).unwrap(), expected);
}

#[test]
fn a_file_without_a_header_claims_no_segment_that_cannot_be_there() {
    let first = SegmentId(5 << 32 | 77);
    let options = RecoveryOptions { first, ..RecoveryOptions::default() };
    let mut writer = Writer::new(first.0, vec![0; 512]);
    writer.append_numbered(10);
    let expected = recovered(&writer.files, &options).unwrap();
    for (count, is_possible) in [(6, true), (7, false), (u64::from(u32::MAX >> 1), false)] {
        let mut lost = Writer::new(count << 32 | 1, vec![0; 512]);
        lost.append_numbered(10);
        lost.sync();
        lost.append_numbered(10);
        lost.files[0][..64].fill(0);
        let files = [writer.files[0].clone(), lost.files[0].clone()];
        match recovered(&files, &options) {
            Ok(found) => assert!(!is_possible && found == expected, "count {count}"),
            Err(error) => {
                assert!(is_possible, "count {count}: {error}");
                assert_eq!(error.kind(), ErrorKind::Corruption);
            }
        }
    }
}

#[test]
fn what_the_receiver_refuses_is_reported_with_its_place() {
    let writer = small_log();
    let mut count = 0;
    let error = recover(&segment_files(&writer.files), &from_first(1), &mut |_| {
        count += 1;
        if count == 5 { Err(Error::corruption("bad batch")) } else { Ok(()) }
    })
    .unwrap_err();
    let (at, _) = writer.places[4];
    assert_eq!((error.file(), error.offset()), (Some("000001.log"), Some(at.offset)));
}
