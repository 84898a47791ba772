//! A log on a file system: filled, synced, killed and cut off from power.

use crate::log::{
    fill::{fill_record, fill_segment_header},
    record::{LogPosition, RecordHeader, RecordKind, Synced, record_bytes},
    recover::{Recovered, RecoveryOptions, SegmentFile, recover},
    segment::SegmentHeader,
};
use siltdb_base::{
    fs::{
        Fs, LogFile, LogFileOptions, LogIo,
        mem::{CallKind, Crash, MemFs},
    },
    id::{SegmentId, SequenceNumber},
};
use std::{
    path::Path,
    sync::{Arc, Mutex},
};

const NAME: &str = "000001.manifest";
const SEGMENT: SegmentId = SegmentId(1 << 32);

struct Manifest {
    file: Arc<dyn LogFile>,
    position: LogPosition,
    synced: LogPosition,
    edits: u64,
}

impl Manifest {
    fn create(fs: &MemFs) -> Self {
        let options = LogFileOptions { capacity: 1 << 20, io: LogIo::Auto };
        let file = fs.open_log(Path::new(NAME), options).unwrap();
        let header = SegmentHeader {
            id: SEGMENT,
            first_sequence: SequenceNumber(1),
            previous: LogPosition::ZERO,
            synced: LogPosition::ZERO,
        };
        fill_segment_header(&*file, &header).unwrap();
        file.sync(u64::MAX).unwrap();
        fs.sync_dir(Path::new("")).unwrap();
        let position = header.first_record();
        Self { file, position, synced: position, edits: 0 }
    }

    fn append(&mut self) {
        self.edits += 1;
        let header = RecordHeader {
            first_sequence: SequenceNumber(self.edits),
            count: 1,
            kind: RecordKind::Edit,
            synced: Synced::new(self.synced, SEGMENT),
        };
        let payload = payload(self.edits);
        let (head, tail) = payload.split_at(8);
        fill_record(&*self.file, self.position, &header, &[head, tail]).unwrap();
        self.position.offset += record_bytes(RecordKind::Edit, 1, payload.len());
    }

    fn sync(&mut self) {
        self.file.sync(u64::MAX).unwrap();
        self.synced = self.position;
    }
}

fn payload(edit: u64) -> Vec<u8> {
    edit.to_le_bytes().repeat(1 + edit as usize * 7 % 90)
}

/// How many edits are found, each as it was written.
fn edits_in(fs: &MemFs) -> (u64, Recovered) {
    let path = Path::new(NAME);
    let files = [SegmentFile { path: path.to_path_buf(), file: fs.open(path).unwrap() }];
    let options = RecoveryOptions { first: SEGMENT, ..RecoveryOptions::default() };
    let mut edits = 0;
    let report = recover(&files, &options, &mut |record| {
        edits += 1;
        assert_eq!(record.payload, payload(edits));
        Ok(())
    })
    .unwrap();
    (edits, report)
}

#[test]
fn a_killed_process_keeps_every_edit_that_was_filled() {
    let fs = MemFs::new();
    let mut manifest = Manifest::create(&fs);
    for _ in 0..40 {
        manifest.append();
    }
    let (edits, report) = edits_in(&fs.crash_clone(Crash::Kill));
    assert_eq!((edits, report.end, report.cut), (40, manifest.position, None));
}

#[test]
fn a_power_loss_keeps_every_edit_that_was_synced() {
    let (mut lost, mut cut, mut kept) = (0, 0, 0);
    for seed in 0..200 {
        let fs = MemFs::new();
        let mut manifest = Manifest::create(&fs);
        for edit in 0..60 {
            manifest.append();
            if edit == seed % 50 {
                manifest.sync();
            }
        }
        let (edits, report) = edits_in(&fs.crash_clone(Crash::PowerLoss { seed }));
        assert!((seed % 50 < edits) && edits <= 60, "seed {seed}");
        lost += u64::from(edits < 60);
        cut += u64::from(report.cut.is_some());
        kept += u64::from(edits > seed % 50 + 1);
    }
    assert!(lost > 0 && cut > 0 && kept > 0, "{lost} lost, {cut} cut, {kept} kept more");
}

#[test]
fn a_fill_that_was_cut_off_is_no_edit() {
    let fs = MemFs::new();
    let mut manifest = Manifest::create(&fs);
    let clones = Arc::new(Mutex::new(Vec::new()));
    let (taken, source) = (Arc::clone(&clones), fs.clone());
    fs.on_call(Some(Arc::new(move |call| {
        if call.kind == CallKind::Fill {
            taken.lock().unwrap().push(source.crash_clone(Crash::Kill));
        }
    })));
    let mut places = Vec::new();
    for _ in 0..60 {
        places.push(manifest.position);
        manifest.append();
    }
    fs.on_call(None);
    let clones = std::mem::take(&mut *clones.lock().unwrap());
    assert_eq!(clones.len(), places.len());
    let mut begun = 0;
    for (index, (clone, at)) in clones.iter().zip(places).enumerate() {
        let (edits, report) = edits_in(clone);
        let bytes = clone.read_all(Path::new(NAME)).unwrap();
        let began = bytes.get(at.offset as usize..).is_some_and(|rest| !rest.is_empty());
        // A part may be the whole.
        assert!(edits == index as u64 || edits == index as u64 + 1 && began);
        if edits == index as u64 {
            assert_eq!(report.end, at);
            begun += u64::from(began);
        }
    }
    assert!(begun > 10, "only {begun} fills were cut off");
}
