//! Tests of the parts of an estimate.

use super::seconds;
use crate::{
    runner::{Options, child::Limits},
    suite::{Chosen, Overrides, suites},
};
use std::{collections::HashMap, path::PathBuf, sync::atomic::AtomicBool};

static NEVER: AtomicBool = AtomicBool::new(false);

fn options(repeat: u32, cap_seconds: f64) -> Options<'static> {
    Options {
        absent: HashMap::from([("bbolt".to_owned(), "go is not installed".to_owned())]),
        machine: Vec::new(),
        classes: HashMap::new(),
        cores: 2,
        repeat,
        repeat_within: None,
        always: |_| true,
        dir: PathBuf::new(),
        cap_seconds,
        limits: Limits::default(),
        workers: Vec::new(),
        interrupted: &NEVER,
    }
}

fn rows(engines: &[&str], scale: f64) -> Vec<Chosen> {
    let suites = suites();
    let suite = suites.iter().find(|suite| suite.suite == "tidesdb-v7").unwrap();
    let overrides = Overrides { scale, ..Overrides::default() };
    let engines: Vec<String> = engines.iter().map(|engine| (*engine).to_owned()).collect();
    let chosen = suite.rows.iter().map(|row| suite.choose(row, &overrides));
    chosen.map(|row| Chosen { engines: engines.clone(), ..row }).collect()
}

#[test]
fn an_estimate_grows_with_rounds_engines_and_scale_and_is_bounded_by_the_cap() {
    let of = |engines: &[&str], scale, repeat, cap| {
        seconds(&rows(engines, scale), &options(repeat, cap))
    };
    let base = of(&["siltdb"], 0.1, 1, 600.0);
    assert!(base > 10.0 && base < 3600.0, "{base}");
    assert!(of(&["siltdb"], 0.1, 3, 600.0) > 1.5 * base);
    assert!(of(&["siltdb", "lmdb"], 0.1, 1, 600.0) > 2.0 * base);
    assert!(of(&["siltdb"], 1.0, 1, 600.0) > 5.0 * base);
    assert_eq!(of(&["siltdb", "bbolt"], 0.1, 1, 600.0), base, "who is absent takes no time");
    let capped = of(&["siltdb"], 1.0, 1, 2.0);
    assert!(capped < of(&["siltdb"], 1.0, 1, 600.0) / 1.5, "{capped}");
}

#[test]
fn rows_that_share_a_database_seed_it_once() {
    let all = rows(&["siltdb"], 0.1);
    let get: Vec<Chosen> = all.into_iter().filter(|row| row.row == "random-get").collect();
    let (once, options) = (seconds(&get, &options(1, 600.0)), options(1, 600.0));
    let twice = seconds(&[get.clone(), get].concat(), &options);
    assert!(twice < 2.0 * once && twice > once, "{once}, {twice}");
}
