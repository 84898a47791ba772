//! What was added comes back, in the order asked for.

use super::*;

#[test]
fn operands_come_back_in_both_orders() {
    let mut operands = Operands::default();
    assert_eq!(operands.newest(Added::NewestFirst), None);
    for (sequence, operand) in [(9, &b"new"[..]), (5, b""), (3, b"oldest")] {
        operands.push(SequenceNumber(sequence), operand);
    }
    assert_eq!(operands.oldest_first(Added::NewestFirst), [&b"oldest"[..], b"", b"new"]);
    assert_eq!(operands.oldest_first(Added::OldestFirst), [&b"new"[..], b"", b"oldest"]);
    assert_eq!(operands.newest(Added::NewestFirst), Some(SequenceNumber(9)));
    assert_eq!(operands.newest(Added::OldestFirst), Some(SequenceNumber(3)));
    assert_eq!(operands.memory_bytes(), 9 + 3 * MARK_BYTES);
    operands.clear();
    assert!(operands.is_empty() && operands.memory_bytes() == 0);
}

#[test]
fn much_memory_is_not_kept_for_the_next_key() {
    let mut operands = Operands::default();
    operands.push(SequenceNumber(1), &vec![0; KEPT_BYTES_MAX + 1]);
    operands.clear();
    assert_eq!(operands.bytes.capacity(), 0);
    operands.push(SequenceNumber(1), &[0; 100]);
    operands.clear();
    assert!(operands.bytes.capacity() >= 100);
}
