//! Tests of running, reading and ending parts.

use super::{Heard, Request, run};
use crate::upkeep::bar::Outcome;
use std::{path::PathBuf, sync::atomic::AtomicBool};

fn request(rows: &[&str]) -> Result<Request, String> {
    Request::new(PathBuf::from("."), rows.iter().map(|row| (*row).to_owned()).collect())
}

#[test]
fn rows_are_chosen_by_id_or_by_what_stands_before_a_slash() {
    let seconds = |rows: &[&str]| request(rows).unwrap().seconds();
    assert_eq!(seconds(&["flushes/time"]), seconds(&["flushes/tables"]), "the same part");
    let waiting = seconds(&["space/expiry", "space/snapshot", "space/range-delete"]);
    assert_eq!(waiting, seconds(&["space/expiry"]), "what waits does so together");
    assert_eq!(seconds(&["space"]), waiting + seconds(&["space/gigabyte"]));
    assert!(seconds(&[]) <= 2900, "{}", seconds(&[]));
    let message = request(&["flushs"]).unwrap_err();
    assert!(message.contains("unknown row `flushs`; did you mean `flushes"), "{message}");
}

#[test]
fn a_program_that_is_no_part_fails_its_bars() {
    let dir = tempfile::tempdir().unwrap();
    for program in ["/bin/false", "/bin/echo", "/no/such/program"] {
        let (program, dir) = (PathBuf::from(program), dir.path().to_owned());
        let request = Request { program, dir, rows: vec!["reads/deleted".to_owned()] };
        let judged = run(&request, &AtomicBool::new(false), &|_| ());
        assert_eq!(judged.len(), 1);
        assert!(matches!(judged[0].outcome, Outcome::Failed { .. }), "{judged:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "directories are removed");
}

#[test]
fn a_killed_part_keeps_what_it_told_and_says_where_it_was() {
    let figure = ("a/b".to_owned(), Outcome::NotMeasured { note: String::new() });
    let doing = "opening 2000 of 10000".to_owned();
    let heard = Heard { figures: vec![figure], doing, failure: None, is_cut_off: true };
    assert!(matches!(heard.outcome("a/b"), Outcome::NotMeasured { .. }));
    let note = "opening 2000 of 10000".to_owned();
    assert_eq!(heard.outcome("a/c"), Outcome::CutOff { value: None, note });
}
