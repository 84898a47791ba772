//! The text of a progress bar.

use super::*;

fn text(unit: Unit, total: Option<u64>, done: u64, seconds: u64) -> String {
    text_in(80, unit, (total, done), seconds)
}

fn text_in(columns: usize, unit: Unit, (total, done): (Option<u64>, u64), seconds: u64) -> String {
    let line = Line {
        verb: "importing",
        unit,
        total: Cell::new(total),
        started: Instant::now(),
        shown: Cell::new(None),
    };
    line.text(done, Duration::from_secs(seconds), columns)
}

#[test]
fn a_bar_shows_what_is_done_and_left() {
    let half = text(Unit::Bytes, Some(100 << 20), 50 << 20, 5);
    assert_eq!(half, "importing [==========          ] 50.0 MiB/100.0 MiB  10.0 MiB/s  0:05 left");
    assert_eq!(text(Unit::Bytes, None, 2048, 2), "importing  2.0 KiB  1.0 KiB/s  0:02");
    assert_eq!(
        text(Unit::Entries, None, 1_000_000, 4),
        "importing  1,000,000 entries  250,000/s  0:04"
    );
    assert_eq!(text(Unit::Nothing, None, 0, 3661), "importing  1:01:01");
}

#[test]
fn a_bar_fits_into_a_line_and_never_fails() {
    for (total, done, seconds) in
        [(u64::MAX, 1, 1), (1, u64::MAX, 0), (0, 0, 0), (u64::MAX, u64::MAX, 1 << 40)]
    {
        for columns in 0..200 {
            let line = text_in(columns, Unit::Bytes, (Some(total), done), seconds);
            assert!(line.len() < columns.max(1), "{columns}: {line}");
        }
    }
}

#[test]
fn a_bar_fits_the_width_of_its_terminal() {
    let half = (Some(100 << 20), 50 << 20);
    let texts = [
        (80, "importing [==========          ] 50.0 MiB/100.0 MiB  10.0 MiB/s  0:05 left"),
        (64, "importing [====     ] 50.0 MiB/100.0 MiB  10.0 MiB/s  0:05 left"),
        (60, "importing [==   ] 50.0 MiB/100.0 MiB  10.0 MiB/s  0:05 left"),
        (56, "importing  50.0 MiB/100.0 MiB  10.0 MiB/s  0:05 left"),
        (46, "importing  50.0 MiB/100.0 MiB  10.0 MiB/s"),
        (38, "importing  50.0 MiB/100.0 MiB"),
        (20, "importing"),
        (5, "impo"),
    ];
    for (columns, expected) in texts {
        assert_eq!(text_in(columns, Unit::Bytes, half, 5), expected, "{columns}");
    }
    assert_eq!(text(Unit::Entries, None, 1, 1), "importing  1 entry  1/s  0:01");
}

#[test]
fn a_dumb_terminal_has_no_bar() {
    assert!(moves_cursor(None) && moves_cursor(Some(OsStr::new("xterm"))));
    assert!(!moves_cursor(Some(OsStr::new("dumb"))));
}
