//! `cargo xtask lines`: lines of code and assertions of the library, by crate, and the rooms of the
//! engine.
//!
//! A line counts if it holds released code: no tests, no comments, no blank lines. Inner lines of a
//! string over several lines do not count either.

use crate::checkout::Checkout;
use crate::rules::assertions::assertions;
use crate::rules::rooms::{self, Rooms};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// Prints the counts, and beside them those of `commit`. Exit code 2 if git does not know the
/// commit.
pub fn run(root: &Path, commit: Option<&str>) -> ExitCode {
    match print(root, commit) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lines: {error}");
            ExitCode::from(2)
        }
    }
}

fn print(root: &Path, commit: Option<&str>) -> Result<(), String> {
    let checkout = Checkout::read(root)?;
    let now = count(&checkout);
    let Some(commit) = commit else {
        println!("{:<10} {:>6} {:>10} {:>10}", "crate", "lines", "assertions", "per 1,000");
        now.iter().for_each(|(name, counted)| print_row(name, *counted));
        print_row("all", Counted::sum(&now));
        print_rooms(&rooms::count(&checkout));
        return Ok(());
    };
    let then = count(&Checkout::at(root, commit)?);
    println!("{:<10} {commit:>8}    now  change", "crate");
    let names: BTreeMap<_, _> = then.iter().chain(&now).collect();
    for name in names.into_keys() {
        let of = |counts: &Counts| counts.get(name).copied().unwrap_or_default();
        print_change(name, of(&then), of(&now));
    }
    print_change("all", Counted::sum(&then), Counted::sum(&now));
    Ok(())
}

fn print_rooms(rooms: &Rooms) {
    let Rooms { modules, imports, takes, passes_on } = rooms;
    println!("engine: {modules} top modules, {imports} imports between them");
    println!("`&Database`: {takes} functions take it, {passes_on} of them pass it on");
}

fn print_row(name: &str, counted: Counted) {
    let Counted { lines, assertions } = counted;
    let density = assertions as f64 * 1000.0 / lines.max(1) as f64;
    println!("{name:<10} {lines:>6} {assertions:>10} {density:>10.1}");
}

fn print_change(name: &str, then: Counted, now: Counted) {
    let (then, now) = (then.lines, now.lines);
    let change = (now as f64 / then.max(1) as f64 - 1.0) * 100.0;
    println!("{name:<10} {then:>8} {now:>6} {change:>+6.1}%");
}

type Counts = BTreeMap<String, Counted>;

/// What a crate has of released code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Lines of code.
    lines: usize,
    /// Assertions that are checked while it runs.
    assertions: usize,
}

impl Counted {
    fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.assertions += other.assertions;
    }

    fn sum(counts: &Counts) -> Self {
        counts.values().fold(Self::default(), |mut sum, counted| {
            sum.add(*counted);
            sum
        })
    }
}

/// Lines of code and assertions for each crate of the library.
fn count(checkout: &Checkout) -> Counts {
    let mut counts = Counts::new();
    for source in checkout.rust() {
        let Some(rest) = source.path.strip_prefix("crates/") else { continue };
        let Some((name, file)) = rest.split_once('/') else { continue };
        if file.starts_with("src/") {
            let lines = source.production.lines().filter(|line| !line.trim().is_empty()).count();
            let assertions = assertions(&source.production);
            counts.entry(name.to_owned()).or_default().add(Counted { lines, assertions });
        }
    }
    counts
}

#[cfg(test)]
mod tests;
