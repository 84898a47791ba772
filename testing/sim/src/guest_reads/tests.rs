//! What a guest may show, and what it may not.

use super::*;
use crate::guests::FIFO;
use std::time::Duration;

fn row(commit: u64, value: &str) -> (Shared, Shared) {
    let number = commit.to_be_bytes();
    ([&number[..], &[0]].concat().into(), [&number[..], value.as_bytes()].concat().into())
}

fn newest(commit: u64) -> (Shared, Shared) {
    (Shared::from(NEWEST), row(commit, "newest").1)
}

/// Settings of a run; with `Some`, the FIFO family loses values by their age too.
fn settings(age_max: Option<Duration>) -> GuestSettings {
    let mut settings = GuestSettings::new(&mut Draw::new(1, 1));
    settings.age_max = age_max;
    settings
}

fn differs(found: Pairs, written: Pairs) -> bool {
    compare_guest_pairs((FIFO, settings(Some(Duration::ZERO))), &found, &written).is_err()
}

#[test]
fn the_end_of_what_was_written_is_what_a_fifo_family_may_show() {
    let written = vec![row(1, "a"), row(2, "b"), row(4, "c"), newest(4)];
    for first in 0..=written.len() {
        assert!(!differs(written[first..].to_vec(), written.clone()), "from {first}");
    }
    assert!(!differs(vec![row(4, "c"), newest(2)], vec![row(4, "c"), newest(2)]));
    assert!(!differs(vec![row(4, "c")], vec![row(4, "c"), newest(2)]));
    let by_size = |found: &Pairs| compare_guest_pairs((FIFO, settings(None)), found, &written);
    assert!(by_size(&written[3..].to_vec()).is_ok());
    assert!(by_size(&Pairs::new()).is_err(), "the newest table never leaves by size");
}

#[test]
fn a_gap_an_old_version_and_what_was_never_written_are_noticed() {
    let written = vec![row(1, "a"), row(2, "b"), row(4, "c"), newest(4)];
    assert!(differs(vec![row(1, "a"), row(4, "c"), newest(4)], written.clone()), "a gap");
    assert!(differs(vec![row(2, "b"), newest(4)], written.clone()), "the last row is missing");
    assert!(differs(vec![row(4, "c"), newest(2)], written.clone()), "an old version");
    assert!(differs(vec![row(4, "other"), newest(4)], written.clone()), "another value");
    assert!(differs(vec![row(5, "d"), newest(4)], written.clone()), "never written");
    assert!(differs(vec![row(4, "c")], written), "the newest has left before an older row");
    assert!(differs(vec![newest(1)], vec![row(1, "a")]), "a newest that was deleted");
}

#[test]
fn a_ttl_family_shows_exactly_what_the_model_has() {
    let written = vec![row(1, "a"), row(2, "b")];
    assert!(compare_guest_pairs((TTL, settings(None)), &written, &written).is_ok());
    assert!(compare_guest_pairs((TTL, settings(None)), &written[1..].to_vec(), &written).is_err());
}
