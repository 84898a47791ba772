//! What is left, from the beginning to the end and beyond.

use super::*;

#[test]
fn what_is_left_falls_with_what_was_read_and_verified() {
    let progress = Progress::default();
    assert_eq!(progress.rest_of(300), 300, "nothing has begun");
    progress.begin(50);
    assert_eq!(progress.rest_of(300), 300);
    progress.read(10);
    assert_eq!(progress.rest_of(300), 260);
    progress.read(40);
    assert_eq!(progress.rest_of(300), 100, "it is to be verified");
    progress.verified(25);
    assert!((progress.done_part() - 5.0 / 6.0).abs() < 1e-9);
    assert_eq!(progress.rest_of(300), 50);
    progress.verified(25);
    assert_eq!(progress.rest_of(300), 0);
    progress.read(1);
    assert_eq!(progress.rest_of(300), 0, "more than was announced");
    progress.begin(4);
    assert_eq!(progress.rest_of(u64::MAX), u64::MAX, "it began again");
}

#[test]
fn an_entry_that_is_written_stands_for_all_that_were_read_for_it() {
    let whole = Progress::default();
    whole.begin(120);
    let part = PartProgress::new(&whole);
    part.read(100);
    assert_eq!(whole.rest_of(360), 160);
    let mut verification = part.verification_of(10);
    verification.advance(5);
    assert_eq!(whole.rest_of(360), 110);
    verification.advance(4);
    assert_eq!(whole.rest_of(360), 70);
    drop(verification);
    assert_eq!(whole.rest_of(360), 60, "it is over");
    // Of these nothing is written.
    part.read(20);
    assert_eq!(whole.rest_of(360), 20);
    part.finish();
    part.finish();
    assert_eq!(whole.rest_of(360), 0);
}
