//! What an option gains for the work that it suits: the same work with the defaults and with the
//! option, in turn, three times. Run it with `cargo run --release --example tuning`, which takes
//! some minutes. An argument scales the data: `-- 0.1`. It prints a table of medians.
//!
//! Everything that is read is compared with what was written.

use siltdb::Result;
use std::path::Path;
use work::How;

#[path = "tuning/work.rs"]
mod work;

const ROUNDS: usize = 3;

/// Some work, done with the defaults or with an option.
struct Row {
    work: &'static str,
    option: &'static str,
    unit: &'static str,
    /// The figure of one run in an empty directory, with this many entries.
    run: fn(&Path, u64, How) -> Result<f64>,
}

const ROWS: [Row; 21] = [
    Row {
        work: "bulk load of sorted data",
        option: "`Family::ingest_sorted`, beside batches of 1,000",
        unit: "entries/s",
        run: work::sorted_load,
    },
    Row {
        work: "bulk load that can be repeated",
        option: "`Volatile`, `memtable_bytes` 128 MiB",
        unit: "entries/s",
        run: work::repeatable_load,
    },
    Row {
        work: "each commit survives a power cut",
        option: "8 writer threads, beside 1",
        unit: "commits/s",
        run: work::synced_commits,
    },
    Row {
        work: "the last second may be lost",
        option: "`Interval` of 1 s, beside `Synced`",
        unit: "commits/s",
        run: work::interval_commits,
    },
    Row {
        work: "random gets",
        option: "`memory_budget` 512 MiB, beside 32 MiB",
        unit: "gets/s",
        run: work::budget_of_gets,
    },
    Row {
        work: "long scans of a reopened database",
        option: "`block_bytes` 64 KiB",
        unit: "entries/s",
        run: work::long_scans,
    },
    Row {
        work: "overwrites of values of 4 KiB",
        option: "`value_threshold` 1 KiB",
        unit: "bytes written to a byte put",
        run: work::large_values,
    },
    Row {
        work: "random gets, data in the page cache, budget 32 MiB",
        option: "`ReadIo::Map`, `Compression::None`",
        unit: "gets/s",
        run: work::mapped_gets,
    },
    Row {
        work: "the same",
        option: "`TableKind::BTree` besides",
        unit: "gets/s",
        run: work::mapped_tree_gets,
    },
    Row {
        work: "memory of open tables",
        option: "`TableKind::BTree`",
        unit: "bytes an entry",
        run: work::tree_memory,
    },
    Row {
        work: "lookups of absent keys",
        option: "`filter_bits_per_key` 14",
        unit: "blocks read in 1,000",
        run: work::absent_gets,
    },
    Row {
        work: "memory of open tables",
        option: "`filter_bits_per_key` 0",
        unit: "bytes an entry",
        run: work::filter_memory,
    },
    Row {
        work: "walks over prefixes of one table in eight",
        option: "`prefix_extractor` `fixed:8`",
        unit: "walks/s",
        run: work::prefix_walks,
    },
    Row {
        work: "memory of open tables with an extractor",
        option: "`whole_key_filter` false",
        unit: "bytes an entry",
        run: work::prefix_memory,
    },
    Row {
        work: "every second group ends by a rule",
        option: "a compaction filter, beside a scan that deletes",
        unit: "s",
        run: work::filtered,
    },
    Row {
        work: "all data reaches its end of life",
        option: "`ttl`, beside deletes one by one",
        unit: "s",
        run: work::expired,
    },
    Row {
        work: "all data reaches its end of life",
        option: "`delete_range`, beside deletes one by one",
        unit: "s",
        run: work::range_deleted,
    },
    Row {
        work: "random overwrites",
        option: "`CompactionStrategy::tiered()`",
        unit: "bytes written to a byte put",
        run: work::tiered,
    },
    Row {
        work: "a cache on disk",
        option: "`CompactionStrategy::Fifo`",
        unit: "bytes written to a byte put",
        run: work::fifo,
    },
    Row {
        work: "gets beside a full compaction",
        option: "`background_rate` 8 MiB",
        unit: "µs, 99th percentile",
        run: work::disturbed_gets,
    },
    Row {
        work: "keys that are numbers",
        option: "`Family::typed`, beside bytes",
        unit: "gets/s",
        run: work::typed_gets,
    },
];

/// A figure in three digits.
fn said(figure: f64) -> String {
    match figure {
        1e6.. => format!("{:.2}M", figure / 1e6),
        1e4.. => format!("{:.0}K", figure / 1e3),
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    // Built for tests, it only shows that all rows run.
    let default = if cfg!(debug_assertions) { 0.002 } else { 1.0 };
    let scale = std::env::args().nth(1).and_then(|argument| argument.parse().ok());
    let count = ((f64::from(1 << 20) * scale.unwrap_or(default)) as u64).next_power_of_two();
    let rounds = if cfg!(debug_assertions) { 1 } else { ROUNDS };
    println!("{count} entries, medians of {rounds}\n");
    println!("| work | option | without | with | unit |\n|---|---|---|---|---|");
    for Row { work, option, unit, run } in &ROWS {
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (how, figures) in [How::Default, How::Option].into_iter().zip(&mut figures) {
                let dir = tempfile::tempdir()?;
                figures.push(run(dir.path(), count, how)?);
            }
        }
        let [without, with] = figures.map(median).map(said);
        println!("| {work} | {option} | {without} | **{with}** | {unit} |");
    }
    Ok(())
}
