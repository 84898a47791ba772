//! Checksums, the rate, and cancellation.

use super::*;
use siltdb_base::{
    checksum::crc32c,
    clock::ManualClock,
    fs::{Fs, mem::MemFs},
};
use std::{path::Path, time::Duration};

const SOURCE: &str = "source";

fn file(bytes: usize) -> (MemFs, Vec<u8>) {
    let fs = MemFs::new();
    let content: Vec<u8> = (0..bytes).map(|index| (index % 251) as u8).collect();
    fs.write_all(Path::new(SOURCE), &content).unwrap();
    (fs, content)
}

#[test]
fn a_copy_has_all_bytes_and_their_checksum() {
    for bytes in [0, 1, PIECE_BYTES_MAX as usize, 3 * PIECE_BYTES_MAX as usize + 7] {
        let (fs, content) = file(bytes);
        let clock = ManualClock::at(Duration::ZERO);
        let mut seen = Vec::new();
        let mut note = |progress: CopyProgress| {
            seen.push(progress.bytes_done);
            ControlFlow::Continue(())
        };
        let mut copying = FileCopy::new(&clock, None, &mut note).unwrap();
        copying.begin(bytes as u64).unwrap();
        let mut target = fs.create(Path::new("target")).unwrap();
        let source = fs.open(Path::new(SOURCE)).unwrap();
        assert_eq!(copying.copy(&*source, &mut *target).unwrap(), crc32c(&content));
        target.sync().unwrap();
        assert_eq!(fs.read_all(Path::new("target")).unwrap(), content);
        assert!(seen.is_sorted() && seen.last() == Some(&(bytes as u64)), "{seen:?}");
        assert_eq!(clock.monotonic_ns(), 0);
    }
}

#[test]
fn a_rate_is_kept_to() {
    let (fs, _) = file(100_000);
    let clock = ManualClock::at(Duration::ZERO);
    let mut go_on = |_| ControlFlow::Continue(());
    let mut copying = FileCopy::new(&clock, Some(20_000), &mut go_on).unwrap();
    let source = fs.open(Path::new(SOURCE)).unwrap();
    copying.checksum(&*source).unwrap();
    assert_eq!(clock.monotonic_ns(), 5_000_000_000);
    // A pause saves up nothing.
    clock.advance(Duration::from_secs(60));
    copying.checksum(&*source).unwrap();
    assert_eq!(clock.monotonic_ns(), 70_000_000_000);
    let mut go_on = |_| ControlFlow::Continue(());
    let error = FileCopy::new(&clock, Some(0), &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_copy_that_is_cancelled_ends_with_the_next_piece() {
    let (fs, _) = file(1 << 20);
    let clock = ManualClock::at(Duration::ZERO);
    let mut calls = 0;
    let mut stop = |_| {
        calls += 1;
        if calls < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let mut copying = FileCopy::new(&clock, None, &mut stop).unwrap();
    let error = copying.checksum(&*fs.open(Path::new(SOURCE)).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(calls, 3);
}

#[test]
fn a_part_of_a_file_is_a_file_of_its_own() {
    let (fs, content) = file(1000);
    let part = FilePart::new(fs.open(Path::new(SOURCE)).unwrap(), 100, 300);
    let clock = ManualClock::default();
    let mut go_on = |_| ControlFlow::Continue(());
    let mut copying = FileCopy::new(&clock, None, &mut go_on).unwrap();
    let mut target = fs.create(Path::new("part")).unwrap();
    copying.copy(&part, &mut *target).unwrap();
    target.sync().unwrap();
    assert_eq!(fs.read_all(Path::new("part")).unwrap(), content[100..400]);
    assert!(part.read_exact_at(&mut [0; 8], u64::MAX - 4).is_err());
}
