//! Tests of the result of a figure against its bar, and of its display.

use super::{Bar, Judged, Outcome, Unit, are_met, are_right, json, table};
use crate::result::Machine;

fn judged(outcome: Outcome) -> Judged {
    let bar = Bar { id: "flushes/time", about: "a flush", unit: Unit::Ns, most: 1e6 };
    Judged { bar, outcome }
}

fn measured(value: f64) -> Judged {
    judged(Outcome::Measured { value, checked: 7, note: String::new() })
}

fn others() -> [Judged; 3] {
    let note = || "after 3 of 10".to_owned();
    [
        judged(Outcome::CutOff { value: Some(1.0), note: note() }),
        judged(Outcome::Failed { note: note() }),
        judged(Outcome::NotMeasured { note: note() }),
    ]
}

#[test]
fn a_bar_is_met_up_to_itself_and_only_by_what_was_measured() {
    assert_eq!(measured(1e6).is_met(), Some(true));
    assert_eq!(measured(1e6 + 1.0).is_met(), Some(false));
    let [cut_off, failed, not_measured] = others();
    assert_eq!(cut_off.is_met(), Some(false), "though the figure so far is low");
    assert_eq!(failed.is_met(), Some(false));
    assert_eq!(not_measured.is_met(), None);
    assert!(
        are_met(&[measured(1.0), not_measured.clone()]) && !are_met(std::slice::from_ref(&cut_off))
    );
    assert!(are_right(&[measured(1e9), cut_off, not_measured]) && !are_right(&[failed]));
}

#[test]
fn the_table_says_bar_figure_and_outcome() {
    let [cut_off, failed, not_measured] = others();
    let text = table(&[measured(2e6), cut_off, failed, not_measured], 160);
    let line = |at: usize| text.lines().nth(at).unwrap_or_default();
    assert!(line(1).contains("≤ 1 ms") && line(1).contains("2 ms") && line(1).contains("NO"));
    assert!(line(2).contains("1 ns (cut off)") && line(2).contains("after 3 of 10"), "{text}");
    assert!(line(3).contains("failed") && line(4).contains("not measured"), "{text}");
    assert!(text.ends_with("0 bars met, 3 missed, 1 not measured\n"), "{text}");
}

#[test]
fn programs_read_value_bar_and_whether_it_is_met() {
    let text = json(&[measured(2e6), others()[2].clone()], &Machine::default(), 5);
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (first, second) = (&file["upkeep"][0], &file["upkeep"][1]);
    assert_eq!((file["schema"].as_u64(), first["row"].as_str()), (Some(1), Some("flushes/time")));
    assert_eq!((first["value"].as_f64(), first["at_most"].as_f64()), (Some(2e6), Some(1e6)));
    assert_eq!((first["met"].as_bool(), first["checked"].as_u64()), (Some(false), Some(7)));
    assert_eq!(first["status"], "measured");
    assert!(second["met"].is_null() && second["value"].is_null());
    assert_eq!(second["status"], "not_measured");
}
