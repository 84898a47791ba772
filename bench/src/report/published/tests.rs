//! Tests of the tables of published comparisons, on made-up results.

use super::*;
use crate::report::transactions::tests::measured;
use crate::result::{Definition, Published, Results, Suite};

/// A row of the suite `thunder` with siltdb and its author's engine, beside published figures.
pub(crate) fn repeated() -> Results {
    let mut results = measured();
    let template = results.rows[0].clone();
    let row = |engine: &str, factor: f64| {
        let mut row = template.clone();
        (row.suite, row.row, row.engine) = ("thunder".into(), "load".into(), engine.into());
        for spread in [&mut row.ops_per_s, &mut row.ops_per_s_settled].into_iter().flatten() {
            spread.median *= factor;
            (spread.min, spread.max) = (spread.median, spread.median);
        }
        row
    };
    results.rows = vec![row("siltdb", 2.0), row("thunder", 1.0), row("rocksdb", 0.5)];
    let figure = |engine: &str, part: &str, ops_per_s: f64| Published {
        engine: engine.into(),
        version: String::new(),
        ops_per_s,
        part: part.into(),
        threads: None,
        keys: None,
    };
    let published = vec![figure("sled", "", 1000.0), figure("thunder", "put", 5000.0)];
    let load =
        Definition { row: "load".into(), about: "Puts".into(), published, ..Definition::default() };
    let suite = Suite { suite: "thunder".into(), about: "Theirs".into(), rows: vec![load] };
    results.suites = vec![suite];
    results
}

#[test]
fn a_row_shows_its_rivals_and_the_figures_of_the_authors() {
    let results = repeated();
    let all = Comparison::all(&results);
    let [one] = &all[..] else { panic!("one suite is in the results") };
    let text = one.render();
    let line = text.lines().find(|line| line.starts_with("| `load`")).unwrap();
    assert_eq!(
        line,
        "| `load` | Puts | 600K | ThunderDB 300K | **2×** | 4× | \
         ThunderDB (put) 5K · sled 1K |"
    );
    assert!(text.contains("Theirs. Commit ") && text.contains("\n    silt-bench "), "{text}");
    assert_eq!(one.engines().last().unwrap(), "thunder");
}

#[test]
fn an_author_who_took_no_part_has_no_bar() {
    let mut results = repeated();
    results.rows.retain(|row| row.engine != "thunder");
    let all = Comparison::all(&results);
    assert_eq!(all[0].engines(), ENGINES);
    assert!(Comparison::all(&measured()).is_empty());
}
