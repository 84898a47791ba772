//! Tests of suites: the files make sense, and what is chosen is what was asked for.

use super::{Overrides, Suite, select, suites};
use crate::{
    job::{Op, State, Work},
    keys::KeyStyle,
    order::Order,
    pass::prepare,
    values::ValueStyle,
};

fn names(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn row(suites: &[Suite], suite: &str, row: &str, overrides: &Overrides) -> super::Chosen {
    let suite = suites.iter().find(|one| one.suite == suite).unwrap();
    suite.choose(suite.rows.iter().find(|one| one.id == row).unwrap(), overrides)
}

#[test]
fn every_row_of_every_file_can_be_drawn() {
    for suite in suites() {
        let mut ids: Vec<&str> = suite.rows.iter().map(|row| row.id.as_str()).collect();
        assert!(!ids.is_empty() && !suite.about.is_empty());
        for row in &suite.rows {
            let name = format!("{} {}", suite.suite, row.id);
            let small = suite.choose(row, &Overrides { scale: 1e-6, ..Overrides::default() });
            prepare::draw(&small.work).unwrap_or_else(|failure| panic!("{name}: {failure}"));
            let full = suite.choose(row, &Overrides::default());
            prepare::check(&full.work).unwrap_or_else(|failure| panic!("{name}: {failure}"));
            let Work { run, seed, .. } = &full.work;
            // Whatever is read, deleted or compacted has to be there.
            assert!(run.op == Op::Put || !seed.is_empty(), "{name}");
            // Each opening copies it.
            assert!(full.work.state != State::Killed || run.ops <= 5, "{name}");
            // A batch over many families would have to be several.
            let batches = seed.iter().map(|seed| seed.batch).chain([run.batch]);
            assert!(full.config.families == 1 || batches.max() == Some(1), "{name}");
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "{}: an id stands twice", suite.suite);
    }
}

#[test]
fn rows_whose_openings_count_say_so() {
    let suites = suites();
    let is_opened_often = |suite, id| {
        let row = row(&suites, suite, id, &Overrides::default());
        row.config.is_opened_often
    };
    assert!(is_opened_often("open-time", "1gb") && is_opened_often("open-time", "1gb/killed"));
    assert!(is_opened_often("cold", "get"));
    assert!(!is_opened_often("layerdb", "fill/500k") && !is_opened_often("tail", "get"));
}

#[test]
fn a_row_is_its_suite_and_its_own_and_the_command_line() {
    let suites = suites();
    let fill = row(&suites, "layerdb", "fill-batch32/500k", &Overrides::default());
    assert_eq!((fill.work.threads, fill.work.value_bytes, fill.work.keys), (1, 128, 500_000));
    assert_eq!((fill.work.run.batch, fill.config.codec), (32, crate::engine::Codec::None));
    assert_eq!(fill.config.cache_bytes, 64 << 20);
    let (threads, batch, cache_mib) = (Some(2), Some(7), Some(3));
    let overrides = Overrides { scale: 0.05, threads, batch, cache_mib, ..Overrides::default() };
    let fill = row(&suites, "layerdb", "fill-batch32/500k", &overrides);
    assert_eq!((fill.work.threads, fill.work.keys, fill.work.run.ops), (2, 25_000, 25_000));
    assert_eq!((fill.work.run.batch, fill.config.cache_bytes), (7, 3 << 20));
    assert!(!fill.work.warm_up);
    let seek = row(&suites, "core", "seek/random", &Overrides::default());
    assert_eq!(seek.compared, ["siltdb", "rocksdb", "lmdb", "bbolt"]);
    // Small rows stay what they are.
    let small =
        row(&suites, "layerdb", "fill/5k", &Overrides { scale: 0.01, ..Overrides::default() });
    assert_eq!(small.work.keys, 5000);
    let large = row(&suites, "thunder", "large-value-durable/1m", &overrides);
    assert_eq!((large.work.keys, large.work.run.ops), (100, 100));
}

#[test]
fn rows_that_write_open_or_are_cold_do_not_warm_up() {
    let suites = suites();
    let warms_up = |suite, id, warm| {
        row(&suites, suite, id, &Overrides { warm, ..Overrides::default() }).work.warm_up
    };
    assert!(warms_up("layerdb", "readrandom/5k", true) && warms_up("memory", "scan", true));
    assert!(!warms_up("layerdb", "readrandom/5k", false));
    assert!(!warms_up("layerdb", "fill/5k", true) && !warms_up("tidesdb-v5", "mixed", true));
    assert!(!warms_up("cold", "get", true) && !warms_up("open-time", "1gb", true));
    assert!(warms_up("core", "get/random", false) && !warms_up("core", "open/closed", false));
}

#[test]
fn published_rows_have_the_keys_and_shapes_of_their_benchmarks() {
    let published: Vec<Suite> = suites().into_iter().filter_map(Suite::as_published).collect();
    let ids: Vec<&str> = published.iter().map(|suite| suite.suite.as_str()).collect();
    assert_eq!(ids, ["layerdb", "tidesdb-v5", "tidesdb-v7"]);
    assert!(published.iter().flat_map(|suite| &suite.rows).all(|row| !row.published.is_empty()));
    let read = row(&published, "layerdb", "readrandom/5k", &Overrides::default()).work;
    assert_eq!((read.key_style, read.key_bytes), (KeyStyle::Counter, 17));
    assert_eq!(read.run.order, Order::Random);
    let write = row(&published, "tidesdb-v5", "random-write", &Overrides::default()).work;
    assert_eq!((write.key_style, write.run.order), (KeyStyle::ReversedCounter, Order::Sequential));
    assert_eq!(write.value_style, ValueStyle::Ramp);
    let zipfian = row(&published, "tidesdb-v5", "zipfian-write", &Overrides::default()).work;
    assert_eq!((zipfian.key_style, zipfian.run.order), (KeyStyle::Counter, Order::ZipfianFirst));
    let puts = row(&published, "tidesdb-v5", "mixed/puts", &Overrides::default()).work;
    assert_eq!((puts.run.op, puts.run.ops, puts.seed.len()), (Op::Put, 2_500_000, 0));
    let gets = row(&published, "tidesdb-v5", "mixed/gets", &Overrides::default()).work;
    assert_eq!((gets.run.op, gets.seed[0].order), (Op::Get, Order::Sequential));
    for suite in &published {
        for row in &suite.rows {
            let small = suite.choose(row, &Overrides { scale: 1e-6, ..Overrides::default() });
            prepare::draw(&small.work).unwrap_or_else(|failure| panic!("{}: {failure}", row.id));
        }
    }
}

#[test]
fn rows_are_chosen_by_id_or_by_what_stands_before_a_slash() {
    let suites = suites();
    let chosen = select(&suites, &names(&["layerdb"]), &names(&["fill", "readseq/5k"])).unwrap();
    let ids: Vec<&str> = chosen[0].rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!((chosen.len(), ids), (1, vec!["fill/5k", "readseq/5k", "fill/500k"]));
    assert_eq!(select(&suites, &[], &[]).unwrap().len(), suites.len());
}

#[test]
fn what_is_unknown_is_answered_with_the_nearest_and_all() {
    let suites = suites();
    let message = select(&suites, &names(&["layerbd"]), &[]).unwrap_err();
    assert!(message.starts_with("unknown suite `layerbd`; did you mean `layerdb`?"), "{message}");
    assert!(message.contains("thunder, tidesdb-v5"), "{message}");
    let message = select(&suites, &names(&["thunder"]), &names(&["full-scam"])).unwrap_err();
    assert!(message.contains("unknown row `full-scam`; did you mean `full-scan`?"), "{message}");
}
