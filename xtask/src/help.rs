//! `cargo xtask help`: every job that can run on this checkout, and its purpose.
//!
//! It runs none of them.

/// The jobs outside this program: their commands and summaries.
pub const OTHER_JOBS: &[(&str, &str)] = &[
    (".ci/quick", "formatting, lints, rules and unit tests, in a few minutes"),
    (".ci/run", "everything that must hold before a merge, cheapest first"),
    (".ci/nightly", "that, and what takes long: documentation, Miri, more crashes, planted faults"),
    (".ci/steps", "the steps of these three, which source it"),
    (".ci/loom", "all interleavings of the concurrent parts, up to a bound"),
    (".ci/miri", "undefined behaviour in the crates with unsafe code"),
    (".ci/seeded-faults", "plants known faults and checks that the tests find them"),
    ("cargo fmt --all", "formats the code"),
    ("cargo clippy --workspace --all-targets -- -D warnings", "the lints"),
    ("cargo test -p siltdb-tree", "the tests of one crate"),
    ("cargo test --workspace --all-features --quiet", "all tests"),
    ("cargo sim --crashes 2000", "random operations, faults and crashes against a model"),
    (
        "cargo run --example sessions",
        "an example: also time_series, event_store, bank, buckets, change_feed",
    ),
    ("cargo run -p siltdb-cli -- --help", "the tool `silt`"),
    ("cargo silt-bench quick", "a few benchmark rows on SiltDB alone"),
    ("cargo bench-all", "as cargo xtask bench-all"),
];

/// The menu: `jobs` of this program by usage and summary, then the others.
pub fn menu(jobs: &[(String, &str)]) -> String {
    let others = OTHER_JOBS.iter().map(|(command, does)| ((*command).to_owned(), *does));
    let all: Vec<_> = jobs.iter().cloned().chain(others).collect();
    let width = all.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let line = |(command, does): (String, &str)| format!("{command:<width$}  {does}\n");
    all.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests;
