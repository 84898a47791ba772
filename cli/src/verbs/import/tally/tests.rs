//! The messages of an import.

use super::*;

fn tally(new: u64, overwritten: u64, kept: u64) -> Tally {
    Tally { new, overwritten, kept, ..Tally::default() }
}

#[test]
fn counts_are_told_where_there_are_any() {
    assert_eq!(
        tally(1, 336_775, 0).to_string(),
        "imported 336,776 records: 1 key new, 336,775 overwritten"
    );
    assert_eq!(tally(0, 0, 0).to_string(), "imported 0 records: 0 keys new");
    assert_eq!(
        tally(2, 0, 1).to_string(),
        "imported 2 records: 2 keys new, 1 there already and kept"
    );
    let mut bad = tally(1, 0, 0);
    for line in 1..=25 {
        let fault = BadRecord { line, column: 1, reason: "x".to_owned() };
        bad.leave_out(&BadPlaced { number: 1233 + line, bad: fault });
    }
    assert_eq!(bad.to_string(), "imported 1 record: 1 key new, 25 bad and left out");
    assert_eq!(bad.told.len(), BAD_TOLD_MAX);
    assert_eq!(bad.told[0], "record 1,234, line 1, column 1: x");
}
