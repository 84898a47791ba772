//! Which retired segments are let go, and when.

use super::*;

fn segment(id: u64) -> SegmentSlot {
    SegmentSlot { id: SegmentId(id), slot: 100 + id }
}

#[test]
fn without_pins_every_retired_segment_is_let_go() {
    let pins = Arc::new(Pins::default());
    assert_eq!(pins.retire(&[segment(1), segment(2)]), [segment(1), segment(2)]);
    assert_eq!(pins.retire(&[]), []);
}

#[test]
fn a_pin_keeps_its_segment_and_all_later_ones_until_it_is_dropped() {
    let pins = Arc::new(Pins::default());
    let pin = pins.pin(SegmentId(2));
    assert_eq!(pins.retire(&[segment(1), segment(2)]), [segment(1)]);
    assert_eq!(pins.retire(&[segment(3)]), []);
    drop(pin);
    assert_eq!(pins.retire(&[segment(4)]), [segment(2), segment(3), segment(4)]);
}

#[test]
fn the_oldest_of_several_pins_counts() {
    let pins = Arc::new(Pins::default());
    let (late, early, again) =
        (pins.pin(SegmentId(3)), pins.pin(SegmentId(1)), pins.pin(SegmentId(1)));
    assert_eq!(pins.retire(&[segment(1), segment(2), segment(3)]), []);
    drop(early);
    assert_eq!(pins.retire(&[]), [], "another pin is at the same segment");
    drop(again);
    assert_eq!(pins.retire(&[]), [segment(1), segment(2)]);
    drop(late);
    assert_eq!(pins.retire(&[]), [segment(3)]);
}
