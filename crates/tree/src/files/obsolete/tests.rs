//! What is taken out, and how often a file in use is looked at.

use super::*;
use std::cell::Cell;

fn numbers(numbers: &[u64]) -> Vec<FileNumber> {
    numbers.iter().map(|&number| FileNumber(number)).collect()
}

#[test]
fn a_file_in_use_is_taken_out_once_it_is_released() {
    let files = ObsoleteFiles::default();
    files.note(numbers(&[3, 1, 2]));
    let is_used = |file: FileNumber| file.0 == 2;
    assert_eq!(files.take_unused(is_used), numbers(&[1, 3]));
    assert!(files.take_unused(is_used).is_empty());
    files.note_released(FileNumber(2));
    // It was claimed again meanwhile.
    assert!(files.take_unused(is_used).is_empty());
    files.note_released(FileNumber(2));
    assert_eq!(files.take_unused(|_| false), numbers(&[2]));
    assert!(files.take_unused(|_| false).is_empty());
}

#[test]
fn what_was_never_noted_is_not_taken_out() {
    let files = ObsoleteFiles::default();
    files.note_released(FileNumber(7));
    assert!(files.take_unused(|_| false).is_empty());
}

#[test]
fn files_in_use_are_not_looked_at_again() {
    let files = ObsoleteFiles::default();
    let looks = Cell::new(0);
    let is_used = |_| {
        looks.set(looks.get() + 1);
        true
    };
    files.note((0..10_000).map(FileNumber));
    assert!(files.take_unused(is_used).is_empty());
    assert_eq!(looks.replace(0), 10_000);
    files.note_released(FileNumber(5));
    files.note([FileNumber(10_000)]);
    assert!(files.take_unused(is_used).is_empty());
    assert_eq!(looks.get(), 2);
}
