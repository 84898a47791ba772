//! Whether turning a slice into a vector copies.

use super::Slice;

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
