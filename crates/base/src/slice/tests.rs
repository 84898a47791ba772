//! Whether turning a slice into a vector copies.

use super::{Copies, Slice};

#[test]
fn a_slice_that_owns_its_memory_alone_becomes_a_vector_without_a_copy() {
    let bytes = vec![7_u8; 1000];
    let place = bytes.as_ptr();
    let slice = Slice::from(bytes);
    let vector = Vec::from(slice);
    assert_eq!((vector.as_ptr(), vector.len()), (place, 1000));
}

#[test]
fn a_shared_slice_is_copied_and_leaves_the_other_whole() {
    let slice = Slice::from(vec![7_u8; 1000]);
    let part = slice.slice(10..20);
    assert_eq!(Vec::from(part), [7; 10]);
    assert_eq!(slice, [7; 1000][..]);
}

#[test]
fn short_copies_share_memory_and_stay_whole_without_each_other() {
    let mut copies = Copies::default();
    let numbers = || (0..2_000_u32).map(|number| number.to_be_bytes());
    let mut kept: Vec<Slice> = numbers().map(|bytes| copies.copy(&bytes)).collect();
    let touching = kept.windows(2).filter(|pair| pair[0].as_ptr_range().end == pair[1].as_ptr());
    // Chunks of 256 bytes to 4 KiB.
    assert!(touching.count() >= 2_000 - 7);
    drop(copies);
    for (slice, bytes) in kept.iter().zip(numbers()) {
        assert_eq!(*slice, bytes[..]);
    }
    let last = kept.pop();
    drop(kept);
    assert_eq!(last.as_deref(), Some(&1_999_u32.to_be_bytes()[..]));
}

#[test]
fn a_copy_of_any_length_is_what_was_copied() {
    let mut copies = Copies::default();
    let bytes: Vec<u8> = (0..6_000_u32).map(|number| number as u8).collect();
    let lengths = [0, 1, 255, 256, 257, 1_023, 1_024, 1_025, 4_096, 6_000, 3, 1_024, 1_024, 1_024];
    let kept: Vec<Slice> = lengths.iter().map(|&length| copies.copy(&bytes[..length])).collect();
    for (slice, length) in kept.iter().zip(lengths) {
        assert_eq!(*slice, bytes[..length], "{length} bytes");
    }
}
