//! When a finding becomes an error.

use super::*;

fn vanished(name: &str) -> Error {
    Error::new(ErrorKind::Busy, "the writer has removed a table").with_file(Path::new(name))
}

#[test]
fn the_same_finding_in_three_readings_is_damage() {
    let mut doubts = Doubts::default();
    doubts.note(vanished("1.table")).unwrap();
    doubts.note(vanished("1.table")).unwrap();
    let error = doubts.note(vanished("1.table")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.file(), Some("1.table"));
}

#[test]
fn findings_that_differ_or_pass_are_no_damage() {
    let mut doubts = Doubts::default();
    for number in 0..100 {
        doubts.note(vanished(&format!("{}.table", number / 2))).unwrap();
    }
    doubts.clear();
    let at = |offset| Error::corruption("log is damaged").with_offset(offset);
    for offset in [8, 16, 16, 8, 8] {
        doubts.note(at(offset)).unwrap();
    }
    doubts.clear();
    for _ in 0..2 {
        doubts.note(at(8)).unwrap();
    }
    assert_eq!(doubts.note(at(8)).unwrap_err().offset(), Some(8));
}
