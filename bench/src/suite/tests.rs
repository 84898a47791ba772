//! Tests of suites: the files are valid, and the choice follows the request.

use super::{CLAIMS, LARGE_DATA, Overrides, SUSTAIN, Setting, Suite, demo, select, suites};
use crate::{
    job::{Op, State, Waits, Work},
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
    for suite in suites().into_iter().chain([demo()]) {
        let mut ids: Vec<&str> = suite.rows.iter().map(|row| row.id.as_str()).collect();
        assert!(!ids.is_empty() && !suite.about.is_empty());
        for row in &suite.rows {
            let name = format!("{} {}", suite.suite, row.id);
            let small = suite.choose(row, &Overrides { scale: 1e-6, ..Overrides::default() });
            prepare::draw(&small.work).unwrap_or_else(|failure| panic!("{name}: {failure}"));
            let full = suite.choose(row, &Overrides::default());
            prepare::check(&full.work).unwrap_or_else(|failure| panic!("{name}: {failure}"));
            let Work { run, seed, .. } = &full.work;
            // Rows that read, delete or compact need seeded data.
            let inserts =
                matches!(run.op, Op::Put | Op::Ingest | Op::TransactionPut | Op::InsertAbsent);
            assert!(inserts || !seed.is_empty(), "{name}");
            // Each opening copies it.
            assert!(full.work.state != State::Killed || run.ops <= 5, "{name}");
            // A batch over many families would have to be split.
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
    // Its name gives the size of a batch.
    assert_eq!((fill.work.run.batch, fill.config.cache_bytes), (32, 3 << 20));
    assert!(!fill.work.warm_up);
    assert_eq!(row(&suites, "tidesdb-v5", "mixed", &overrides).work.run.batch, 7);
    let seek = row(&suites, "core", "seek/random", &Overrides::default());
    assert_eq!(seek.compared, ["siltdb", "rocksdb", "lmdb", "bbolt"]);
    // Small rows do not change.
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
fn rows_that_run_for_a_time_run_as_long_as_asked_for() {
    let suites = suites();
    let seconds = |id, sustain| {
        row(&suites, CLAIMS, id, &Overrides { sustain, ..Overrides::default() }).seconds
    };
    assert_eq!(seconds("sustained", None), Some(600));
    assert_eq!(
        (seconds("sustained", Some(120)), seconds("sustained", Some(0))),
        (Some(120), Some(0))
    );
    assert_eq!(seconds("get", Some(120)), None);
    // All rows of a suite about time do, and those that are paced say at which share of what.
    let sustain = suites.iter().find(|suite| suite.suite == "sustain").unwrap();
    for each in &sustain.rows {
        let overrides = Overrides { sustain: Some(7), ..Overrides::default() };
        let chosen = row(&suites, "sustain", &each.id, &overrides);
        assert_eq!(chosen.seconds, Some(7));
        let percent = if each.id.starts_with("paced/") { 60 } else { 0 };
        assert_eq!(chosen.work.run.open_loop_percent, percent);
        let is_asleep = each.id == "paced/sleeping";
        assert_eq!(chosen.work.run.waits == Waits::Sleeping, is_asleep);
    }
    let all = select(&suites, &[], &[]).unwrap();
    assert!(all.iter().all(|suite| suite.suite != "sustain"), "it takes hours");
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
    let all = select(&suites, &[], &[]).unwrap();
    let is_asked_for =
        |suite: &Suite| [CLAIMS, LARGE_DATA, SUSTAIN].contains(&suite.suite.as_str());
    assert!(all.len() + 3 == suites.len() && !all.iter().any(is_asked_for));
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

/// The numbers of bytes that follow `start`, also in KB and MB.
fn bytes_after(about: &str, start: &str) -> Vec<u32> {
    let rest = about.split(start).skip(1);
    let bytes = rest.filter_map(|rest| {
        let mut words = rest.split(' ').map(|word| word.trim_end_matches([',', ';']));
        let number = words.next()?.replace(',', "").parse::<u32>().ok()?;
        Some(match words.next().unwrap_or("") {
            "KB" => number * 1_000,
            "MB" => number * 1_000_000,
            _ => number,
        })
    });
    bytes.collect()
}

/// The values of a setting that a text gives, as a reader would find them.
fn named(setting: Setting, id: &str, about: &str) -> Vec<u32> {
    let number = |text: &str| text.replace(',', "").parse::<u32>().ok();
    let words: Vec<&str> = about.split([' ', ';', ':']).collect();
    let before = |units: &[&str]| {
        let pairs = words.windows(2).filter(|pair| {
            units
                .iter()
                .any(|unit| pair[1].trim_end_matches([',', '.']).trim_end_matches('s') == *unit)
        });
        let count = |pair: &[&str]| match pair[0].to_lowercase().as_str() {
            "one" => Some(1),
            digits => number(digits),
        };
        pairs.filter_map(count).collect::<Vec<_>>()
    };
    let after = |start: &str| {
        let rest = about.split(start).skip(1);
        rest.filter_map(|rest| number(rest.split([' ', ';']).next()?.trim_end_matches(',')))
            .collect::<Vec<_>>()
    };
    let last = || number(id.rsplit(['/', '-']).next().unwrap_or(""));
    let id_begins = |starts: &[&str]| starts.iter().any(|start| id.starts_with(start));
    let mut found = Vec::new();
    match setting {
        Setting::Threads => {
            found.extend(before(&["thread", "writer"]));
            found.extend(id.ends_with("one-thread").then_some(1));
            found.extend(last().filter(|_| id_begins(&["writers-", "durable/", "scaling/"])));
        }
        Setting::Batch => {
            found.extend(after("atches of "));
            found.extend(
                about
                    .find(" in a batch")
                    .and_then(|at| number(about[..at].rsplit(' ').next().unwrap_or(""))),
            );
            let one =
                ["Single ", "one commit each", "commit for each", "synced", "a sync for each"];
            let is_many = !found.is_empty() || about.contains("synced batches");
            let says_one = !is_many && one.iter().any(|words| about.contains(words));
            found.extend(says_one.then_some(1));
            let in_id =
                ["put/sequential/", "put/random/", "put/zipfian/", "delete/", "batch-sweep/"];
            found.extend(last().filter(|_| id_begins(&in_id) || id.contains("batch-")));
        }
        Setting::ValueBytes => {
            found.extend(
                about
                    .split("-byte values")
                    .next()
                    .filter(|one| *one != about)
                    .and_then(|before| number(before.rsplit(' ').next().unwrap_or(""))),
            );
            found.extend(bytes_after(about, "values of "));
            found.extend(about.contains("4 KB values").then_some(4096));
            found.extend(id.contains("small-values").then_some(64));
            found.extend(id.contains("large-values").then_some(4096));
        }
        Setting::Cache => {
            found.extend(before(&["MiB"]));
            found.extend(id.contains("small-cache").then_some(64));
        }
    }
    found
}

#[test]
fn a_name_and_its_setting_never_differ() {
    let odd = Overrides {
        threads: Some(3),
        batch: Some(7),
        value_bytes: Some(999),
        cache_mib: Some(5),
        ..Overrides::default()
    };
    let mut named_rows = 0;
    for suite in suites().into_iter().chain([demo()]) {
        for row in &suite.rows {
            for overrides in [Overrides::default(), odd] {
                let chosen = suite.choose(row, &overrides);
                for setting in Setting::ALL {
                    let runs_with = match setting {
                        Setting::Threads => chosen.work.threads,
                        Setting::Batch => chosen.work.run.batch,
                        Setting::ValueBytes => chosen.work.value_bytes,
                        Setting::Cache => (chosen.config.cache_bytes >> 20) as u32,
                    };
                    if setting == Setting::Batch && !chosen.work.run.op.writes() {
                        continue;
                    }
                    for says in named(setting, &row.id, &row.about) {
                        let name = format!("{} {}: {setting:?}", suite.suite, row.id);
                        assert_eq!(says, runs_with, "{name}");
                        named_rows += 1;
                    }
                }
            }
        }
    }
    assert!(named_rows > 200, "{named_rows}");
}

#[test]
fn an_override_stands_in_the_words_about_a_suite() {
    let suites = suites();
    let ycsb = suites.iter().find(|suite| suite.suite == "ycsb").unwrap();
    let plain = ycsb.definition(&Overrides::default());
    assert_eq!(plain.about, ycsb.about);
    let (threads, value_bytes) = (Some(1), Some(64));
    let changed = ycsb.definition(&Overrides { threads, value_bytes, ..Overrides::default() });
    assert_eq!(changed.about, format!("{}; here with one thread, 64-byte values", ycsb.about));
}

#[test]
fn published_figures_carry_the_size_that_they_were_measured_at() {
    let suites = suites();
    let suite = suites.iter().find(|suite| suite.suite == "tidesdb-v7").unwrap();
    let small = Overrides { scale: 0.001, threads: Some(2), ..Overrides::default() };
    let definition = suite.definition(&small);
    let published = &definition.rows[0].published[0];
    assert_eq!((published.threads, published.keys), (Some(8), Some(10_000_000)));
}

#[test]
fn figures_that_rows_are_held_to_are_measured_in_their_suite() {
    let mut judged = 0;
    for suite in suites() {
        for row in &suite.rows {
            let Some(beside) = &row.bars.beside else { continue };
            let other = suite.rows.iter().find(|other| other.id == beside.row);
            let other = other.unwrap_or_else(|| panic!("{}: no row {}", row.id, beside.row));
            let compared = suite.choose(other, &Overrides::default()).compared;
            assert!(compared.contains(&beside.engine), "{}", row.id);
            judged += 1;
        }
    }
    assert!(judged >= 10, "{judged}");
}

#[test]
fn the_demo_has_five_rows_and_is_in_no_run_of_all() {
    let demo = demo();
    assert_eq!(demo.rows.len(), 5);
    assert!(suites().iter().all(|suite| suite.suite != demo.suite));
    // Its description gives its size.
    assert!(demo.about.contains("100,000 keys of 16 bytes, values of 100, one thread"));
    for row in &demo.rows {
        let work = demo.choose(row, &Overrides::default()).work;
        assert_eq!((work.keys, work.key_bytes, work.value_bytes), (100_000, 16, 100));
        assert_eq!(work.threads, 1);
    }
}
