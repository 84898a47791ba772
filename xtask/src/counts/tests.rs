//! How counts are read and compared.

use super::*;

fn table(counts: &[(&str, u64)]) -> Table {
    let counts = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Table { with: "rustc 1.95.0".to_owned(), counts }
}

#[test]
fn a_table_is_read_as_it_was_written() {
    let table = table(&[("put", 2362), ("get_miss", 617)]);
    assert_eq!(table.text(), "rustc 1.95.0\nput 2362\nget_miss 617\n");
    assert_eq!(Table::parse(&table.text()), Some(table));
    assert_eq!(Table::parse("rustc\nput many\n"), None);
    assert_eq!(Table::parse(""), None);
}

#[test]
fn the_sum_of_callgrind_is_found_and_nothing_counted_is_no_sum() {
    let log = "==1== Events    : Ir\n==1== Collected : 23627779\n==1==\n";
    assert_eq!(collected(log), Some(23_627_779));
    assert_eq!(collected("==1== Collected : 0\n"), None);
    assert_eq!(collected("==1== nothing\n"), None);
}

#[test]
fn more_than_two_percent_above_the_table_fails_and_less_does_not() {
    let stored = table(&[("put", 1000), ("get", 1000), ("gone", 5)]);
    let (text, above) = compare(&stored, &table(&[("put", 1020), ("get", 1021), ("new", 1)]));
    // One too high, one that the table lacks, one that no case has.
    assert_eq!(above, 3);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "put                       1020  +2.0 %");
    assert_eq!(lines[1], "get                       1021  +2.1 %  above");
    assert_eq!(lines[2], "new                          1  not in the table  above");
    assert_eq!(lines[3], "gone                   in the table, and no case");
    let (_, above) = compare(&stored, &table(&[("put", 1), ("get", 1), ("gone", 5)]));
    assert_eq!(above, 0);
}

#[test]
fn a_new_table_names_each_change_for_the_commit() {
    let stored = table(&[("put", 1000), ("get", 1000)]);
    let text = changes(&stored, &table(&[("put", 900), ("get", 1000), ("seek", 7)]));
    assert_eq!(text, "counts: put 1000 -> 900 (-10.0 %)\ncounts: seek 7, new\n");
}
