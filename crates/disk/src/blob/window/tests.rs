//! Walks in both directions, with jumps, in files that grow and are damaged, read what single reads
//! do, and fewer times.

use super::{super::*, *};
use siltdb_base::fs::{Fs, LogFile, LogFileOptions, LogIo, mem::MemFs};
use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

const UID: BlobUid = BlobUid(7);

/// A file that counts its reads.
#[derive(Debug)]
struct Counted(Arc<dyn File>, AtomicUsize);

impl File for Counted {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.read_exact_at(buffer, offset)
    }
}

struct World {
    fs: MemFs,
    writer: Arc<dyn LogFile>,
    pointers: Vec<BlobPointer>,
    end: u64,
    window: BlobWindow,
}

impl World {
    fn new(budget: usize) -> Self {
        let fs = MemFs::new();
        let options = LogFileOptions { capacity: 1 << 30, io: LogIo::Write };
        let writer = fs.open_log(Path::new("b"), options).unwrap();
        writer.fill(0, &[&encode_file_header(UID)]).unwrap();
        let window = BlobWindow::new(&Arc::new(Budget::new(budget)));
        Self { fs, writer, pointers: Vec::new(), end: BLOB_FILE_HEADER_BYTES, window }
    }

    /// Gives the next value its place, and writes it unless it `waits`.
    fn add(&mut self, bytes: usize, waits: bool) {
        let value = value(self.pointers.len(), bytes);
        let offset = self.end;
        let checksum = crc32c_append(checksum_at(UID, offset + BLOB_HEADER_BYTES), &value);
        let length = value.len() as u32;
        let header = BlobHeader {
            checksum,
            key_hash: 0,
            family: FamilyId(0),
            length,
            stored_bytes: length,
            codec: Codec::Raw as u8,
        };
        self.pointers.push(header.pointer(FileNumber(9), offset, None));
        self.end += record_bytes(length);
        if !waits {
            self.write(self.pointers.len() - 1);
        }
    }

    fn write(&self, index: usize) {
        let pointer = &self.pointers[index];
        self.writer.fill(pointer.offset, &[&value(index, pointer.length as usize)]).unwrap();
    }

    /// Reads these values through the window. Returns how many reads that took.
    fn walk(&mut self, indexes: impl IntoIterator<Item = usize>) -> usize {
        let file = Counted(self.fs.open(Path::new("b")).unwrap(), AtomicUsize::new(0));
        let (number, end) = (FileNumber(9), self.end);
        for index in indexes {
            let pointer = &self.pointers[index];
            let place = WindowFile { file: &file, number, uid: UID, end };
            let found = self.window.read(&place, pointer).unwrap();
            assert!(*found == *value(index, pointer.length as usize), "value {index}");
        }
        file.1.into_inner()
    }
}

fn value(index: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|place| (index * 31 + place * 7 + place / 256) as u8).collect()
}

#[test]
fn a_walk_reads_pieces_in_either_direction() {
    let mut world = World::new(1 << 30);
    for index in 0..1000 {
        world.add(1000 + index % 50, false);
    }
    // A million bytes, by pieces of 16 KiB that double up to 256 KiB.
    // The padding behind the last value is not in the file, which is found out by halves.
    let forward = world.walk(0..1000);
    assert!((8..=24).contains(&forward), "{forward} reads");
    let backward = world.walk((0..1000).rev());
    assert!((8..=12).contains(&backward), "{backward} reads");
    assert!(world.window.budget.used(Part::Cursors) >= PIECE_BYTES_MAX as usize);
    let budget = Arc::clone(&world.window.budget);
    drop(world);
    assert_eq!(budget.used(Part::Cursors), 0);
}

#[test]
fn jumps_and_long_values_are_read_one_by_one() {
    let mut world = World::new(1 << 30);
    for _ in 0..200 {
        world.add(6000, false);
    }
    assert_eq!(world.walk((0..200).map(|index| index * 67 % 200)), 200);
    let mut long = World::new(1 << 30);
    for _ in 0..10 {
        long.add(100_000, false);
    }
    assert_eq!(long.walk(0..10), 10);
    assert_eq!(long.window.budget.used(Part::Cursors), 0);
}

#[test]
fn nothing_is_read_ahead_without_room_in_the_budget() {
    let mut world = World::new(1 << 20);
    for _ in 0..100 {
        world.add(1000, false);
    }
    let budget = Arc::clone(&world.window.budget);
    let others = Charge::new(&budget, Part::Cursors, budget.readahead_max() + 1);
    assert_eq!(world.walk(0..100), 100);
    drop(others);
    assert!(world.walk(0..100) < 20);
}

#[test]
fn what_was_written_after_its_piece_was_read_is_read_again() {
    let mut world = World::new(1 << 30);
    for index in 0..100 {
        world.add(1000, index % 10 == 9);
    }
    world.add(1000, false);
    let written = world.walk((0..100).filter(|index| index % 10 != 9));
    assert!(written < 20, "{written} reads");
    (0..100).filter(|index| index % 10 == 9).for_each(|index| world.write(index));
    world.walk((0..100).filter(|index| index % 10 == 9));
    world.walk(0..101);
}

#[test]
fn a_file_that_ends_before_its_last_place_is_read_up_to_there() {
    let mut world = World::new(1 << 30);
    for index in 0..100 {
        world.add(1000, index >= 40);
    }
    world.walk(0..40);
    let file = world.fs.open(Path::new("b")).unwrap();
    let place = WindowFile { file: &*file, number: FileNumber(9), uid: UID, end: world.end };
    let missing = world.window.read(&place, &world.pointers[50]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Corruption);
    world.walk(0..40);
}

#[test]
fn damage_is_an_error_of_its_value_alone() {
    let mut world = World::new(1 << 30);
    for _ in 0..50 {
        world.add(1000, false);
    }
    let place = world.pointers[20].offset + 500;
    world.writer.fill(place, &[&[0, 0, 0]]).unwrap();
    world.walk(0..20);
    let file = world.fs.open(Path::new("b")).unwrap();
    let place = WindowFile { file: &*file, number: FileNumber(9), uid: UID, end: world.end };
    let damaged = world.window.read(&place, &world.pointers[20]).unwrap_err();
    assert_eq!(damaged.kind(), ErrorKind::Corruption);
    world.walk(21..50);
}
