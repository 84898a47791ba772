//! Pieces that several threads hold at once, and rounds of all slots.

use super::{super::cached::Swept, *};
use std::sync::Mutex;

/// Slots that count how often they were passed.
struct Counted(Mutex<Vec<usize>>);

impl Counted {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![0; count])))
    }

    fn passed(&self) -> Vec<usize> {
        self.0.lock().unwrap().clone()
    }
}

impl Sweep for Counted {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Passes at most `wanted` slots.
    fn sweep(&self, slots: Range<usize>, wanted: usize, _patience: &mut usize) -> Swept {
        let end = slots.end.min(slots.start + wanted);
        self.0.lock().unwrap()[slots.start..end].iter_mut().for_each(|slot| *slot += 1);
        Swept { freed: wanted, evicted: 0, next: Some(end).filter(|&end| end < slots.end) }
    }

    fn sweep_out(&self, _places: &[Range<usize>]) -> Swept {
        Swept { freed: 0, evicted: 0, next: None }
    }
}

fn hand(arrays: &[Arc<Counted>]) -> Hand {
    let mut hand = Hand::default();
    for array in arrays {
        let array = Arc::clone(array) as Arc<dyn Sweep>;
        hand.add(Arc::downgrade(&array));
    }
    hand
}

/// Passes a piece as far as `wanted` slots, and leaves the rest.
fn pass(hand: &mut Hand, piece: Piece, wanted: usize) {
    if let Some(next) = piece.array.sweep(piece.slots.clone(), wanted, &mut 0).next {
        hand.leave(piece.from(next));
    }
}

#[test]
fn what_threads_leave_is_taken_first_and_each_round_passes_every_slot_once() {
    let arrays = [0, 1, 200, 64, 65].map(Counted::new);
    let mut hand = hand(&arrays);
    // Three threads hold a piece each, and return them in any order.
    for step in 0.. {
        let taken: Vec<Piece> = (0..3).map_while(|_| hand.advance(0)).collect();
        let held: Vec<_> = taken.iter().map(|piece| piece.slots.clone()).collect();
        let [first, rest @ ..] = &taken[..] else { break };
        assert!(
            rest.iter().all(|piece| !Arc::ptr_eq(&piece.array, &first.array)
                || piece.slots.end <= first.slots.start
                || piece.slots.start >= first.slots.end),
            "step {step}: {held:?}"
        );
        for (thread, piece) in taken.into_iter().enumerate() {
            pass(&mut hand, piece, 7 + 11 * ((step + thread) % 3));
        }
    }
    for array in &arrays {
        assert!(array.passed().iter().all(|&passed| passed == 1), "{:?}", array.passed());
    }
    assert_eq!(hand.round(), 1);
    assert!(hand.advance(0).is_none() && hand.advance(1).is_some());
}

#[test]
fn what_is_left_of_an_array_that_is_gone_is_not_taken() {
    let [gone, there] = [130, 3].map(Counted::new);
    let mut hand = hand(&[Arc::clone(&gone), Arc::clone(&there)]);
    let piece = hand.advance(0).unwrap();
    pass(&mut hand, piece, 5);
    assert_eq!(gone.passed()[..6], [1, 1, 1, 1, 1, 0]);
    drop(gone);
    let piece = hand.advance(0).unwrap();
    assert_eq!((piece.slots.clone(), piece.array.count()), (0..3, 3));
    pass(&mut hand, piece, 3);
    assert!(hand.advance(0).is_none());
    assert_eq!((there.passed(), hand.round()), (vec![1; 3], 1));
    drop(there);
    assert!(hand.advance(9).is_none(), "no slots are left");
}
