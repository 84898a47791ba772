//! `cargo xtask lines`: lines of code of the library, by crate, and the rooms of the engine.
//!
//! A line counts if it holds released code: no tests, no comments, no blank lines. Inner lines of a
//! string over several lines do not count either.

use crate::checkout::Checkout;
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
        for (name, lines) in &now {
            println!("{name:<10} {lines:>6}");
        }
        println!("{:<10} {:>6}", "all", now.values().sum::<usize>());
        print_rooms(&rooms::count(&checkout));
        return Ok(());
    };
    let then = count(&Checkout::at(root, commit)?);
    println!("{:<10} {commit:>8}    now  change", "crate");
    let names: BTreeMap<_, _> = then.iter().chain(&now).collect();
    for name in names.into_keys() {
        let lines = |of: &BTreeMap<String, usize>| of.get(name).copied().unwrap_or(0);
        print_row(name, lines(&then), lines(&now));
    }
    print_row("all", then.values().sum(), now.values().sum());
    Ok(())
}

fn print_rooms(rooms: &Rooms) {
    let Rooms { modules, imports, takes, passes_on } = rooms;
    println!("engine: {modules} top modules, {imports} imports between them");
    println!("`&Database`: {takes} functions take it, {passes_on} of them pass it on");
}

fn print_row(name: &str, then: usize, now: usize) {
    let change = (now as f64 / then.max(1) as f64 - 1.0) * 100.0;
    println!("{name:<10} {then:>8} {now:>6} {change:>+6.1}%");
}

/// Lines of code for each crate of the library.
fn count(checkout: &Checkout) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for source in checkout.rust() {
        let Some(rest) = source.path.strip_prefix("crates/") else { continue };
        let Some((name, file)) = rest.split_once('/') else { continue };
        if file.starts_with("src/") {
            let lines = source.production.lines().filter(|line| !line.trim().is_empty()).count();
            *counts.entry(name.to_owned()).or_insert(0) += lines;
        }
    }
    counts
}

#[cfg(test)]
mod tests;
