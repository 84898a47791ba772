//! What lies behind the end of a log, or behind a cut that the manifest knows.

use super::damage::{point_in_time, position};
use super::model::{Writer, from_first, id, recovered};
use crate::log::{
    record::{RecordKind, record_bytes},
    recover::{Ending, KnownCut, RecoveryOptions},
    segment::{SEGMENT_HEADER_BYTES, segments_end},
};

#[test]
fn a_known_cut_ends_its_segment_and_hides_what_it_cut_off() {
    let mut writer = Writer::new(1, vec![0; 1024]);
    for _ in 0..4 {
        writer.append_numbered(100);
    }
    writer.begin(2, vec![0; 1024]);
    writer.append_numbered(100);
    writer.sync();
    writer.append_numbered(100);
    let (at, _) = writer.places[2];
    let whole = writer.files.clone();
    writer.files[0][at.offset as usize + 60] ^= 1;
    let cut = recovered(&writer.files, &point_in_time(1)).unwrap().1.cut.unwrap();
    assert_eq!(cut.at, at);

    let known_cuts = vec![KnownCut { at, next: segments_end(id(2)) }];
    let options = RecoveryOptions { known_cuts, ..from_first(1) };
    // The cut holds also when the damage was but a failed read, and before segment 3 exists.
    for files in [&writer.files, &whole] {
        let (payloads, report) = recovered(files, &options).unwrap();
        assert_eq!(payloads, writer.payloads[..2]);
        assert_eq!((report.end, report.cut), (at, None));
        assert_eq!(report.highest_segment, id(2));
    }
    let mut after = Writer::new(1, vec![0; 1024]);
    after.append_numbered(100);
    after.append_numbered(100);
    after.begin(3, vec![0; 1024]);
    after.append_numbered(100);
    after.sync();
    after.append_numbered(100);
    for mut files in [writer.files, whole] {
        files.push(after.files[1].clone());
        let (payloads, report) = recovered(&files, &options).unwrap();
        assert_eq!(payloads, after.payloads);
        assert_eq!((report.end, report.cut), (after.position, None));
    }
}

#[test]
fn nothing_follows_an_end_record() {
    let mut writer = Writer::new(1, vec![0; 1024]);
    writer.append_numbered(10);
    let end = writer.position;
    writer.close();
    let closed = writer.files.clone();
    writer.append_numbered(10);
    let (payloads, report) = recovered(&writer.files, &from_first(1)).unwrap();
    assert_eq!((payloads.len(), report.end), (1, end));
    assert_eq!((report.ending, report.cut.unwrap().bytes), (Ending::Open, 40));
    // A new segment does, after a reopening.
    let mut reopened = Writer { files: closed, position: end, ..writer };
    reopened.sequence =
        recovered(&reopened.files, &from_first(1)).unwrap().1.next_sequence.unwrap().0;
    reopened.begin(2, vec![0; 512]);
    reopened.append_numbered(20);
    let (payloads, report) = recovered(&reopened.files, &from_first(1)).unwrap();
    assert_eq!((payloads.len(), report.cut, report.ending), (2, None, Ending::Open));
}

#[test]
fn a_cut_behind_an_end_record_does_not_count_it() {
    let mut writer = Writer::new(1, vec![0; 1024]);
    writer.append_numbered(10);
    let end = writer.position;
    writer.close();
    // A process that came after the close began a segment, and a crash left only its tail.
    let closed = writer.files.clone();
    let sequence = recovered(&closed, &from_first(1)).unwrap().1.next_sequence.unwrap().0;
    let mut lost = Writer { files: closed.clone(), position: end, sequence, ..writer };
    lost.begin(2, vec![0; 512]);
    lost.append_numbered(20);
    lost.files[1][..SEGMENT_HEADER_BYTES].fill(0);
    let cut = recovered(&lost.files, &from_first(1)).unwrap().1.cut.unwrap();
    assert_eq!(cut.at, end);
    // The recovery after that finds the same end, and so do those after the next segment. It makes
    // no difference whether the manifest learned of the cut from this build or from one that
    // counted the mark.
    let mut next = Writer { files: closed.clone(), position: end, sequence, ..lost };
    next.payloads.truncate(1);
    next.begin(3, vec![0; 512]);
    next.append_numbered(20);
    next.sync();
    next.append_numbered(20);
    let counted = position(1, end.offset + record_bytes(RecordKind::End, 0, 0));
    for at in [cut.at, counted] {
        let known_cuts = vec![KnownCut { at, next: segments_end(id(2)) }];
        let options = RecoveryOptions { known_cuts, ..from_first(1) };
        assert_eq!(recovered(&closed, &options).unwrap().1.end, end);
        let (payloads, report) = recovered(&next.files, &options).unwrap();
        assert_eq!((payloads.len(), report.end, report.cut), (3, next.position, None));
    }
}
