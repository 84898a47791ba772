//! Random logs, random power losses: what is recovered is a prefix that holds everything synced.

use super::model::{Writer, from_first, recovered};
use crate::log::{
    recover::{KnownCut, RecoveryOptions},
    segment::{SegmentHeader, next_segment},
};
use proptest::prelude::*;
use siltdb_base::id::SegmentId;

const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Sync,
    Rotate,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (8..300_usize).prop_map(Step::Append),
        1 => (8..3000_usize).prop_map(Step::Append),
        2 => Just(Step::Sync),
        1 => Just(Step::Rotate),
    ]
}

/// Files to recycle: full of records of a segment that is long retired.
fn stale_file() -> Vec<u8> {
    let mut old = Writer::new(1, vec![0; 4096]);
    while old.fits(120) {
        old.append_numbered(120);
    }
    old.files.remove(0)
}

fn run(writer: &mut Writer, steps: &[Step]) {
    for step in steps {
        match step {
            Step::Append(length) if writer.fits(*length) => writer.append_numbered(*length),
            Step::Sync => writer.sync(),
            Step::Append(_) | Step::Rotate => {
                let id = next_segment(writer.position.segment, writer.sequence as u32).unwrap();
                writer.begin(id.0, stale_file());
            }
        }
    }
}

/// Every sector that differs from what is durable is kept or lost, by the bits of `fate`.
fn crash(writer: &Writer, fate: &mut impl FnMut() -> bool) -> Vec<Vec<u8>> {
    let mut files = writer.files.clone();
    for (file, durable) in files.iter_mut().zip(&writer.durable) {
        for (new, old) in file.chunks_mut(SECTOR).zip(durable.chunks(SECTOR)) {
            if new != old && fate() {
                new.copy_from_slice(old);
            }
        }
    }
    files
}

/// A generator of bits from a seed: xorshift with a chance of one in `odds`.
fn fate_of(mut seed: u64, odds: u64) -> impl FnMut() -> bool {
    seed |= 1;
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20).is_multiple_of(odds)
    }
}

/// The same over fixed logs, to show that what the random test looks for does happen.
#[test]
fn power_losses_cut_in_every_segment_and_take_the_later_ones() {
    let first = next_segment(SegmentId(1), 77).unwrap();
    let steps: Vec<_> = (0..60).map(|step| Step::Append(40 + step * 37 % 400)).collect();
    let (mut whole, mut dropped, mut cut_in) = (0, 0, [0; 4]);
    for seed in 1..400_u64 {
        let mut writer = Writer::new(first.0, stale_file());
        run(&mut writer, &steps[..5]);
        writer.sync();
        run(&mut writer, &steps);
        assert!(writer.files.len() > 4, "the log must have segments to lose");
        let mut fate = fate_of(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1 + seed % 64);
        let files = crash(&writer, &mut fate);
        let (payloads, report) = recovered(&files, &from_first(first.0)).unwrap();
        assert!(payloads.len() >= 5 && payloads == writer.payloads[..payloads.len()]);
        whole += u64::from(payloads.len() == writer.payloads.len());
        if let Some(cut) = report.cut {
            let segment = report.segments.len() - 1;
            cut_in[segment.min(3)] += 1;
            let headers = files.iter().map(|file| file.first_chunk().expect("a whole header"));
            let mut ids = headers.filter_map(|header| SegmentHeader::decode(header).unwrap());
            dropped += u64::from(ids.any(|header| header.id > cut.at.segment));
        }
    }
    assert!(whole > 0 && dropped > 0, "{whole} whole, {dropped} with segments dropped");
    assert!(cut_in.iter().all(|&count| count > 0), "{cut_in:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_power_loss_leaves_a_prefix_that_holds_everything_synced(
        before in proptest::collection::vec(any_step(), 0..60),
        after in proptest::collection::vec(any_step(), 1..30),
        (seed, odds) in (any::<u64>(), 1..6_u64),
    ) {
        let first = next_segment(SegmentId(1), 77).unwrap();
        let mut writer = Writer::new(first.0, stale_file());
        run(&mut writer, &before);
        let mut fate = fate_of(seed, odds);
        let files = crash(&writer, &mut fate);
        let (payloads, report) = recovered(&files, &from_first(first.0)).unwrap();
        prop_assert!(payloads.len() >= writer.synced_payloads);
        prop_assert_eq!(&payloads, &writer.payloads[..payloads.len()]);
        prop_assert!(report.synced <= report.end);

        // Recovered, synced, written again, and lost once more: nothing that was seen is gone.
        let highest = report.highest_segment.max(writer.position.segment);
        let next = next_segment(highest, seed as u32).unwrap();
        let known_cuts: Vec<_> =
            report.cut.iter().map(|cut| KnownCut { at: cut.at, next }).collect();
        let mut again = Writer {
            durable: files.clone(),
            files,
            synced_payloads: payloads.len(),
            payloads,
            places: Vec::new(),
            body_ends: Vec::new(),
            position: report.end,
            synced: if report.end.offset == 0 { report.synced } else { report.end },
            sequence: report.next_sequence.map_or(writer.sequence, |sequence| sequence.0),
        };
        again.begin(next.0, stale_file());
        // A log that lost even its first header begins anew.
        let start = if report.end.offset == 0 { next } else { first };
        run(&mut again, &after);
        let files = crash(&again, &mut fate);
        let options = RecoveryOptions { known_cuts, ..from_first(start.0) };
        let (payloads, report) = recovered(&files, &options).unwrap();
        prop_assert!(payloads.len() >= again.synced_payloads);
        prop_assert_eq!(&payloads, &again.payloads[..payloads.len()]);
        prop_assert!(report.synced <= report.end);
    }

    #[test]
    fn damage_to_what_was_synced_is_never_passed_over(
        steps in proptest::collection::vec(any_step(), 5..60),
        which in any::<prop::sample::Index>(),
        byte in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let first = next_segment(SegmentId(1), 77).unwrap();
        let mut writer = Writer::new(first.0, stale_file());
        run(&mut writer, &steps);
        writer.append_numbered(8);
        writer.close();
        let record = which.index(writer.places.len());
        let (at, _) = writer.places[record];
        let length = (writer.body_ends[record] - at.offset) as usize;
        let slot = writer.files.iter().position(|file| file[16..24] == at.segment.0.to_le_bytes());
        writer.files[slot.unwrap()][at.offset as usize + byte.index(length)] ^= flip;
        let error = recovered(&writer.files, &from_first(first.0)).unwrap_err();
        prop_assert_eq!(error.offset(), Some(at.offset));
    }
}
