//! Tests of the Markdown's leaders, losses and missing figures.

use super::*;

const RUN: &str = include_str!("../../../tests/data/run.json");

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}"))
}

#[test]
fn lost_rows_are_marked_and_leaders_named() {
    let text = render(&Results::from_json(RUN).unwrap());
    let lost = line(&text, "| `random-write/batch-1000` (500,000 keys, 58 MB) | process |");
    assert!(lost.contains("| 0.89×, **loses** | tidesdb (1.13×) | tidesdb 1.15M ("), "{lost}");
    let won = line(&text, "| `random-get` (500,000 keys, 58 MB) | reads |");
    assert!(won.contains("| **1.51×** | siltdb (1.51×) |"), "{won}");
    assert!(
        line(&text, "| `delete/batch-1000` (250,000 keys, 29 MB) | memory |")
            .contains("| – | lmdb")
    );
}

#[test]
fn engines_without_a_figure_say_why_and_show_none() {
    let text = render(&Results::from_json(RUN).unwrap());
    let failed = line(&text, "- `mixed/batch-1` tidesdb: failed: ");
    assert!(failed.contains("verification: 3,122 of 250,000 reads"), "{failed}");
    assert!(!text.contains("| `mixed/batch-1` | tidesdb |"));
    assert!(text.contains("siltdb: unsupported: not supported by siltdb yet: range deletes"));
}

#[test]
fn a_reason_with_bars_and_lines_stays_in_its_cell() {
    assert_eq!(cell("a | b\nc"), "a \\| b c");
}
