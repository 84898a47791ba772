//! How long a damage counts.

use super::*;

fn report(errors: usize, is_complete: bool) -> ScrubReport {
    let mut found = CheckReport::default();
    found.errors.extend((0..errors).map(|_| Error::corruption("bad checksum")));
    ScrubReport { found, is_complete, ..ScrubReport::default() }
}

#[test]
fn a_damage_counts_until_all_was_found_sound() {
    let scrubs = Scrubs::default();
    assert!(scrubs.check().is_ok() && scrubs.last().is_none());
    let _ = scrubs.note(ScrubPart::All, report(1, false));
    assert!(scrubs.check().is_err());
    assert!(!scrubs.last().unwrap().is_clean());
    // A part does not show that the damage is gone.
    let _ = scrubs.note(ScrubPart::Rest, report(0, true));
    assert!(scrubs.check().is_err() && scrubs.last().unwrap().is_clean());
    let _ = scrubs.note(ScrubPart::All, report(0, false));
    assert!(scrubs.check().is_err());
    assert_eq!(scrubs.complete(), 1);
    let _ = scrubs.note(ScrubPart::All, report(0, true));
    assert!(scrubs.check().is_ok());
    assert_eq!(scrubs.complete(), 2);
}
