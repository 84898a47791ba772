//! Calls and marks that are banned everywhere, or outside of one place.

use crate::checkout::{Checkout, Source};
use crate::finding::Finding;
use crate::items::{imports, occurrences};

/// The files in which a ban holds.
enum Reach {
    /// In each Rust file, tests included.
    Everywhere,
    /// In released code.
    Production,
    /// In released library code, except files with these path prefixes.
    Libraries(&'static [&'static str]),
}

struct Ban {
    needle: &'static str,
    reach: Reach,
    instead: &'static str,
}

const fn ban(needle: &'static str, reach: Reach, instead: &'static str) -> Ban {
    Ban { needle, reach, instead }
}

/// The folders of code that is linked into other programs.
const LIBRARIES: [&str; 2] = ["crates/", "bindings/"];

const FILES: &[&str] = &["crates/base/src/fs/", "crates/base/src/fs.rs"];
const CLOCK: &[&str] = &["crates/base/src/clock.rs", "crates/base/src/clock/"];
const THREADS: &[&str] =
    &["crates/engine/src/jobs/workers.rs", "crates/engine/src/open/replay/inserts.rs"];
const CHANCE: &[&str] = &["crates/engine/src/kit/random.rs"];

const BY_RETURN: &str = "return a value or an error; a library does not print";
const BY_FS: &str = "go through `base::fs::Fs`";
const BY_CLOCK: &str = "go through `base::clock::Clock`";
const BY_SEED: &str = "go through `engine::kit::random::Random`, which takes a seed";
const BY_WORKERS: &str = "only `engine::jobs::workers` starts threads, and a replay";
const FINISHED: &str = "unfinished code is not committed";

/// Calls, searched in code only, because a literal or a comment may name them.
const CALLS: [Ban; 24] = [
    ban("todo!", Reach::Everywhere, FINISHED),
    ban("unimplemented!", Reach::Everywhere, FINISHED),
    ban("dbg!", Reach::Everywhere, "remove it"),
    ban("allow(dead_code)", Reach::Everywhere, "delete what is not used"),
    ban("expect(dead_code)", Reach::Everywhere, "delete what is not used"),
    ban("#[ignore", Reach::Everywhere, "a test that does not run is deleted"),
    ban("transmute", Reach::Everywhere, "convert through bytes or a safe function"),
    ban("transmute_copy", Reach::Everywhere, "convert through bytes or a safe function"),
    ban(".unwrap()", Reach::Production, "`expect` with the reason why it cannot fail"),
    ban("DefaultHasher", Reach::Production, "its result differs between releases: use xxh3"),
    ban("println!", Reach::Libraries(&[]), BY_RETURN),
    ban("eprintln!", Reach::Libraries(&[]), BY_RETURN),
    ban("print!", Reach::Libraries(&[]), BY_RETURN),
    ban("eprint!", Reach::Libraries(&[]), BY_RETURN),
    ban("thread::spawn", Reach::Libraries(THREADS), BY_WORKERS),
    ban("thread::Builder", Reach::Libraries(THREADS), BY_WORKERS),
    ban("thread::scope", Reach::Libraries(THREADS), BY_WORKERS),
    ban("std::fs", Reach::Libraries(FILES), BY_FS),
    ban("File::open", Reach::Libraries(FILES), BY_FS),
    ban("SystemTime::now", Reach::Libraries(CLOCK), BY_CLOCK),
    ban("Instant::now", Reach::Libraries(CLOCK), BY_CLOCK),
    ban("RandomState", Reach::Libraries(CHANCE), BY_SEED),
    ban("getrandom", Reach::Libraries(CHANCE), BY_SEED),
    ban("rand::", Reach::Libraries(CHANCE), BY_SEED),
];

/// Marks of unfinished work, searched in comments.
const MARKS: [&str; 4] = ["TODO", "FIXME", "XXX", "HACK"];

/// Appends a finding for each banned call or mark.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in &checkout.sources {
        check_marks(source, findings);
    }
    for source in checkout.rust() {
        for ban in CALLS.iter().filter(|ban| reaches(&ban.reach, source)) {
            let code = match ban.reach {
                Reach::Everywhere => &source.code,
                Reach::Production | Reach::Libraries(_) => &source.production,
            };
            for at in occurrences(code, ban.needle) {
                findings.push(finding(source, at, ban));
            }
        }
        check_imports(source, findings);
    }
}

fn finding(source: &Source, at: usize, ban: &Ban) -> Finding {
    source.finding(at, "calls", format!("`{}` is banned: {}", ban.needle, ban.instead))
}

fn reaches(reach: &Reach, source: &Source) -> bool {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|p| source.path.starts_with(p));
    match reach {
        Reach::Everywhere | Reach::Production => true,
        Reach::Libraries(places) => starts(&LIBRARIES) && !starts(places),
    }
}

/// `use std::{fs, thread::spawn}` imports names that its text does not contain as a whole.
fn check_imports(source: &Source, findings: &mut Vec<Finding>) {
    for import in imports(&source.production) {
        let path = import.path.join("::");
        let spelled = &source.production[import.start..import.end];
        for ban in CALLS.iter().filter(|ban| reaches(&ban.reach, source)) {
            let named =
                ban.needle.contains("::") && occurrences(&path, ban.needle).next().is_some();
            if named && !spelled.contains(ban.needle) {
                findings.push(finding(source, import.start, ban));
            }
        }
    }
}

fn check_marks(source: &Source, findings: &mut Vec<Finding>) {
    // Prose may mention marks; code, scripts and settings may not contain them.
    let text = if source.is_rust() { &source.comments } else { &source.text };
    if source.path.ends_with(".md") {
        return;
    }
    for mark in MARKS {
        for at in occurrences(text, mark) {
            let message = format!("`{mark}`: do it, or write down why not in docs/decisions");
            findings.push(source.finding(at, "calls", message));
        }
    }
}

#[cfg(test)]
mod tests;
