//! The order in which many keys are read.

use super::*;
use siltdb_base::id::FileNumber;

#[test]
fn keys_are_read_in_their_order_whatever_they_have_in_common() {
    let mut state = 11_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (state >> 33) % bound
    };
    for round in 0..300 {
        let start = vec![b'k'; below(20) as usize];
        let keys: Vec<Vec<u8>> = (0..below(40))
            .map(|_| {
                let rest = (0..below(14)).map(|_| [0, 1, 0xff][below(3) as usize]);
                start.iter().copied().chain(rest).collect()
            })
            .collect();
        let mut expected = keys.clone();
        expected.sort();
        let order = sorted(&keys);
        let read: Vec<_> = order.iter().map(|placed| keys[placed.index].clone()).collect();
        assert_eq!(read, expected, "round {round}");
    }
}

/// Notes the offsets that are read, and those that are announced.
#[derive(Default)]
struct NotedBlobs {
    read: Mutex<Vec<u64>>,
    announced: Mutex<Vec<u64>>,
}

impl BlobSource for NotedBlobs {
    fn read(&self, pointer: &BlobPointer) -> Result<Slice> {
        let (mut read, announced) = (lock(&self.read), lock(&self.announced));
        assert!(read.is_empty() || announced.contains(&pointer.offset), "{}", pointer.offset);
        read.push(pointer.offset);
        Ok(Slice::copy_from(&pointer.offset.to_be_bytes()))
    }

    fn will_read(&self, pointer: &BlobPointer) {
        assert!(!lock(&self.read).contains(&pointer.offset), "it was read already");
        lock(&self.announced).push(pointer.offset);
    }
}

#[test]
fn separated_values_are_read_by_their_place_and_announced_before() {
    let at = |offset: u64| BlobPointer {
        file: FileNumber(1),
        offset,
        length: 8,
        stored_bytes: 8,
        codec: 0,
        checksum: 0,
        expiry_ms: None,
    };
    let offsets = [700, 100, 900, 300, 500];
    let mut deferred: Vec<_> = offsets
        .iter()
        .enumerate()
        .map(|(index, offset)| Deferred { pointer: at(*offset), index })
        .collect();
    let (blobs, mut values) = (NotedBlobs::default(), vec![None; offsets.len()]);
    read_deferred(&blobs, &mut deferred, &mut values).unwrap();
    assert_eq!(*lock(&blobs.read), [100, 300, 500, 700, 900]);
    assert_eq!(*lock(&blobs.announced), [300, 500, 700, 900]);
    for (offset, value) in offsets.iter().zip(values) {
        assert_eq!(value.unwrap().as_bytes(), offset.to_be_bytes());
    }
}
