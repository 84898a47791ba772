//! How lists of operands are cut and handed to an operator.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An operator that appends. It counts the calls and the bytes that it is handed, and declines what
/// the function says.
struct Counting<F> {
    declines: F,
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

impl<F: Fn(&[u8], &[u8]) -> bool> Counting<F> {
    fn new(declines: F) -> Self {
        Self { declines, calls: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// The calls and the bytes so far.
    fn counts(&self) -> (usize, usize) {
        (self.calls.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl<F> fmt::Debug for Counting<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

impl<F: Fn(&[u8], &[u8]) -> bool + Send + Sync> MergeOperator for Counting<F> {
    fn name(&self) -> &str {
        "counting"
    }

    fn full(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }

    fn partial(&self, _: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(older.len() + newer.len(), Ordering::Relaxed);
        (!(self.declines)(older, newer)).then(|| [older, newer].concat())
    }
}

fn operands(count: usize) -> Vec<[u8; 4]> {
    (0..count as u32).map(u32::to_be_bytes).collect()
}

fn slices(operands: &[[u8; 4]]) -> Vec<&[u8]> {
    operands.iter().map(<[u8; 4]>::as_slice).collect()
}

#[test]
fn pairs_are_combined_as_a_balanced_tree() {
    let operands = operands(20_000);
    let operator = Counting::new(|_, _| false);
    let combined = combine(&operator, b"k", &slices(&operands));
    let expected = Combined::Joined { count: 20_000, operand: operands.concat() };
    assert!(combined == [expected]);
    let (calls, bytes) = operator.counts();
    assert_eq!(calls, 20_000 - 1);
    assert!(bytes <= 20_000 * 4 * 15, "one after the other it would be 800 MB: {bytes}");
}

#[test]
fn operator_that_declines_always_is_asked_a_few_times_for_each_operand() {
    let operands = operands(20_000);
    let operator = Counting::new(|_, _| true);
    let combined = combine(&operator, b"k", &slices(&operands));
    assert!(combined.len() == 20_000 && combined.iter().all(|it| *it == Combined::Kept));
    let (calls, bytes) = operator.counts();
    assert!(calls <= 2 * 20_000 && bytes <= calls * 8, "{calls} calls, {bytes} bytes");
}

#[test]
fn operand_that_cannot_be_combined_leaves_the_others_combined() {
    let operands = operands(1_000);
    let bad = 617_u32.to_be_bytes();
    let operator = Counting::new(|older, newer| older == bad || newer == bad);
    let combined = combine(&operator, b"k", &slices(&operands));
    assert!(combined.len() <= 2 * 10 + 1, "{} operands left", combined.len());
    let mut rest = &operands[..];
    for next in combined {
        let taken = match next {
            Combined::Kept => 1,
            Combined::Joined { count, operand } => {
                assert_eq!(operand, rest[..count].concat());
                assert!(!rest[..count].contains(&bad));
                count
            }
        };
        rest = &rest[taken..];
    }
    assert!(rest.is_empty());
}

#[test]
fn after_a_panic_the_operands_are_kept_and_the_operator_is_left_alone() {
    let operands = operands(1_000);
    let bad = 999_u32.to_be_bytes();
    let operator = Counting::new(|_, newer| {
        assert!(newer != bad, "a panic on purpose");
        false
    });
    let combined = combine(&operator, b"k", &slices(&operands));
    assert!(combined.len() == 1_000 && combined.iter().all(|it| *it == Combined::Kept));
    assert!(operator.counts().0 < 1_000);
}

#[test]
fn lists_without_a_pair_are_not_handed_over() {
    let operator = Counting::new(|_, _| false);
    assert!(combine(&operator, b"k", &[]).is_empty());
    assert_eq!(combine(&operator, b"k", &[b"one"]), [Combined::Kept]);
    assert_eq!(operator.counts(), (0, 0));
}
