//! Buffers do not overlap, come back, and outlive the handle of their region.

use super::*;
use crate::checksum::xxh3;
use std::{collections::VecDeque, thread};

const ROUNDS: usize = if cfg!(miri) { 40 } else { 20_000 };
/// What a thread holds at a time, in bytes.
const HELD_BYTES: usize = if cfg!(miri) { 40_000 } else { 3 << 20 };

/// What only `number` writes to all of a buffer.
fn pattern(number: u64, bytes: usize) -> Vec<u8> {
    // By copies: an interpreter needs a while for each byte by itself.
    let period: Vec<u8> = (0..=u8::MAX).map(|index| index.wrapping_add(number as u8)).collect();
    let mut pattern = period.repeat(bytes.div_ceil(period.len()));
    pattern.truncate(bytes);
    pattern
}

fn fill(buffer: &mut Buffer, number: u64) {
    let pattern = pattern(number, buffer.len());
    buffer.copy_from_slice(&pattern);
}

fn holds(bytes: &[u8], number: u64) -> bool {
    bytes == pattern(number, bytes.len())
}

/// A length from a few bytes to more than a piece may have, most of them around 4 KiB.
fn length(random: u64) -> usize {
    match random % 16 {
        0 => 1 + (random >> 8) as usize % 64,
        1 if !cfg!(miri) => (random >> 8) as usize % (2 * PIECE_BYTES_MAX),
        _ => 3_500 + (random >> 8) as usize % 1_500,
    }
}

/// A buffer of `bytes`, in whatever memory it gets.
fn take(region: &Arc<Region>, bytes: usize) -> Buffer {
    region.copy(&[], Margins { front: bytes, back: 0 })
}

/// Takes and drops buffers in random order. Each must keep what was written to it.
fn churn(region: &Arc<Region>, thread: u64) {
    let mut held: VecDeque<(Bytes, u64)> = VecDeque::new();
    let mut bytes = 0;
    for round in 0..ROUNDS as u64 {
        let number = thread << 32 | round;
        let random = xxh3(&number.to_le_bytes());
        let mut buffer = take(region, length(random));
        bytes += buffer.len();
        fill(&mut buffer, number);
        held.push_back((buffer.freeze(), number));
        while bytes > HELD_BYTES {
            // Now the oldest, now one from the middle, so that gaps arise.
            let index = if random & 1 << 40 == 0 { 0 } else { held.len() / 2 };
            let (buffer, number) = held.remove(index).unwrap();
            assert!(holds(&buffer, number), "buffer {number} was overwritten");
            bytes -= buffer.len();
        }
    }
    assert!(held.iter().all(|(buffer, number)| holds(buffer, *number)));
}

fn region_of(bytes_max: usize) -> Arc<Region> {
    Region::new(&Arc::new(Budget::new(usize::MAX)), bytes_max)
}

fn chunks(region: &Region) -> usize {
    lock(&region.state).chunks.iter().flatten().count()
}

fn is_in_region(buffer: &Buffer) -> bool {
    matches!(buffer.0, Memory::Piece(_))
}

#[test]
fn buffers_keep_what_was_written_to_them() {
    let region = region_of(12 << 20);
    thread::scope(|scope| {
        for thread in 0..3 {
            let region = &region;
            scope.spawn(move || churn(region, thread));
        }
    });
    assert!((1..=3).contains(&chunks(&region)), "{} chunks", chunks(&region));
}

#[test]
fn memory_that_came_back_is_used_again() {
    let region = region_of(64 << 20);
    churn(&region, 1);
    let before = chunks(&region);
    assert!(before <= 2, "{before} chunks for 3 MiB");
    churn(&region, 2);
    assert_eq!(chunks(&region), before);
    // Neighbours were joined: the largest piece still fits what is there.
    let all: Vec<_> = (0..before * 12).map(|_| take(&region, PIECE_BYTES_MAX)).collect();
    assert!(all.iter().all(is_in_region));
    assert_eq!(chunks(&region), before);
}

#[test]
fn a_region_has_no_more_chunks_than_its_units_have_numbers() {
    for bytes in [1 << 40, (1 << 40) + CHUNK_BYTES, usize::MAX] {
        let chunks_max = region_of(bytes).chunks_max.load(Ordering::Relaxed);
        assert!(u32::try_from(chunks_max * CHUNK_UNITS).is_ok(), "{chunks_max} of {bytes} bytes");
        assert!(u32::try_from((chunks_max + 1) * CHUNK_UNITS).is_err());
    }
    let region = region_of(CHUNKS_MAX * CHUNK_BYTES - 1);
    assert_eq!(region.chunks_max.load(Ordering::Relaxed), CHUNKS_MAX - 1);
}

#[test]
fn what_does_not_fit_comes_from_the_allocator() {
    let none = region_of(CHUNK_BYTES - 1);
    assert!(!is_in_region(&take(&none, 100)));
    let region = &region_of(CHUNK_BYTES);
    assert!(!is_in_region(&take(region, 0)));
    assert!(!is_in_region(&take(region, PIECE_BYTES_MAX + 1)));
    let mut held = Vec::new();
    loop {
        let buffer = take(region, PIECE_BYTES_MAX);
        assert_eq!(buffer.len(), PIECE_BYTES_MAX);
        let is_last = !is_in_region(&buffer);
        held.push(buffer);
        if is_last {
            break;
        }
    }
    assert!((12..=17).contains(&held.len()), "{} pieces of a chunk", held.len());
    held.remove(3);
    assert!(is_in_region(&take(region, PIECE_BYTES_MAX)));
}

#[test]
fn a_buffer_outlives_the_handle_of_its_region() {
    let region = region_of(CHUNK_BYTES);
    let mut buffer = take(&region, 1000);
    assert!(is_in_region(&buffer));
    drop(region);
    fill(&mut buffer, 7);
    let bytes = buffer.freeze();
    let part = bytes.slice(10..20);
    drop(bytes);
    assert!(holds(&part, 17));
}

#[test]
fn a_copy_has_its_margins() {
    let region = region_of(CHUNK_BYTES);
    // Twice, so that the second lies where the first one was.
    for _ in 0..2 {
        let mut buffer = region.copy(b"body", Margins { front: 3, back: 5 });
        assert!(is_in_region(&buffer));
        buffer[..3].copy_from_slice(b"abc");
        assert_eq!(*buffer, *b"abcbody\0\0\0\0\0");
        buffer.fill(0xff);
    }
    let buffer = Buffer::copy_on_heap(b"body", Margins { front: 2, back: 1 });
    assert_eq!(*buffer, *b"\0\0body\0");
}

#[test]
fn chunks_beyond_a_lower_limit_go_back_with_their_last_piece() {
    let region = region_of(4 * CHUNK_BYTES);
    let charged = || region.budget.used(Part::BlockMemory);
    let mut held: Vec<_> = (0..60).map(|_| take(&region, PIECE_BYTES_MAX)).collect();
    assert_eq!((chunks(&region), charged()), (4, 4 * CHUNK_BYTES));
    assert_eq!(region.held_bytes(), 60 * PIECE_BYTES_MAX);
    assert!(!region.set_limit(4 * CHUNK_BYTES) && region.set_limit(CHUNK_BYTES));
    let closed = region.close_surplus();
    assert_eq!(closed.len(), 3);
    assert!(region.close_surplus().is_empty());
    // Nothing is taken from them any more.
    let is_closed =
        |buffer: &Buffer| closed.iter().any(|chunk| chunk.contains(&buffer.as_ptr().addr()));
    held.pop();
    assert!(!is_closed(&take(&region, PIECE_BYTES_MAX)));
    held.retain(|buffer| !is_closed(buffer));
    assert_eq!((chunks(&region), charged()), (1, CHUNK_BYTES));
    // What was never used goes back at once, and the region grows again when it may.
    held.clear();
    assert!(region.set_limit(0) && region.close_surplus().is_empty());
    assert_eq!((chunks(&region), charged(), region.held_bytes()), (0, 0, 0));
    assert!(!is_in_region(&take(&region, 100)));
    region.set_limit(2 * CHUNK_BYTES);
    churn(&region, 3);
    assert!(chunks(&region) <= 2, "{}", chunks(&region));
}

#[test]
fn what_lies_beside_a_region_is_charged_until_it_is_dropped() {
    let region = region_of(CHUNK_BYTES);
    let charged = |region: &Region| region.budget.used(Part::BlockMemory);
    let mut beside = region.copy_beside(b"body", Margins { front: 1, back: 2 });
    beside[0] = b'a';
    let bytes = beside.freeze();
    assert_eq!((&bytes[..], charged(&region), region.held_bytes()), (&b"abody\0\0"[..], 7, 7));
    let part = bytes.slice(1..3);
    drop(bytes);
    assert_eq!(charged(&region), 7);
    drop(part);
    assert_eq!((charged(&region), region.held_bytes()), (0, 0));
    let budget = Arc::clone(&region.budget);
    let piece = take(&region, 10);
    drop(region);
    assert_eq!(budget.used(Part::BlockMemory), CHUNK_BYTES);
    drop(piece);
    assert_eq!(budget.used(Part::BlockMemory), 0);
}
