//! The marks that a manifest keeps, up to their bounds.

use super::*;

fn mark(directory: u64, mark: u64) -> BackupMark {
    BackupMark { directory, mark, after: mark.wrapping_sub(1) }
}

#[test]
fn a_directory_keeps_its_newest_marks_whatever_goes_to_others() {
    let mut marks = BackupMarks::default();
    marks.add(mark(1, 0));
    for number in 0..100 {
        marks.add(mark(2, number));
    }
    let of = |directory| marks.iter().filter(move |mark| mark.directory == directory);
    assert_eq!(of(1).count(), 1);
    let kept: Vec<u64> = of(2).map(|mark| mark.mark).collect();
    let first = 100 - MARKS_OF_A_DIRECTORY_MAX as u64;
    assert_eq!(kept, (first..100).collect::<Vec<_>>());
}

#[test]
fn backups_that_fail_push_no_mark_out() {
    let mut marks = BackupMarks::default();
    marks.add(mark(1, 1));
    for number in 2..100 {
        marks.add(BackupMark { after: 1, ..mark(1, number) });
        marks.add(mark(2, number));
    }
    let of_first = marks.iter().filter(|mark| mark.directory == 1).map(|mark| mark.mark);
    assert_eq!(of_first.collect::<Vec<_>>(), [1, 99]);
}

#[test]
fn all_marks_together_have_a_bound() {
    let mut marks = BackupMarks::default();
    for number in 0..=MARKS_MAX as u64 {
        assert_eq!(marks.iter().count() as u64, number);
        marks.add(mark(number, 0));
    }
    assert_eq!(marks.iter().count(), MARKS_MAX);
    assert_eq!(marks.iter().next(), Some(&mark(1, 0)));
}
