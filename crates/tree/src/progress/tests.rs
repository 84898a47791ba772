//! What is left, from the beginning to the end and beyond.

use super::*;

#[test]
fn what_is_left_falls_with_what_was_read() {
    let progress = Progress::default();
    assert_eq!(progress.rest_of(100), 100, "nothing has begun");
    progress.begin(50);
    assert_eq!(progress.rest_of(100), 100);
    progress.add(10);
    assert_eq!(progress.rest_of(100), 80);
    progress.add(40);
    assert_eq!(progress.rest_of(100), 0);
    progress.add(1);
    assert_eq!(progress.rest_of(100), 0, "more than was announced");
    progress.begin(4);
    assert_eq!(progress.rest_of(u64::MAX), u64::MAX, "it began again");
}
