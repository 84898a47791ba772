//! Tests of the rule on banned calls: each ban fails on a sample, and holds where it should.

use super::{CALLS, MARKS, Reach, check};
use crate::checkout::Checkout;

fn lines(path: &str, text: &str) -> Vec<usize> {
    let mut findings = Vec::new();
    check(&Checkout::of(&[(path, text)]), &mut findings);
    findings.into_iter().map(|finding| finding.line).collect()
}

#[test]
fn every_ban_holds_in_a_library() {
    for ban in &CALLS {
        let space = if ban.needle.starts_with('.') { "" } else { " " };
        let text = format!("//! A.\nfn a() {{ x{space}{} }}", ban.needle);
        assert_eq!(lines("crates/disk/src/a.rs", &text), [2], "{}", ban.needle);
        let quoted = format!("fn a() {{ \"{}\" }} // {}", ban.needle, ban.needle);
        assert!(lines("crates/disk/src/a.rs", &quoted).is_empty(), "{}", ban.needle);
    }
}

#[test]
fn tests_are_spared_from_most_bans() {
    for ban in &CALLS {
        let text = format!("fn a() {{ x {} }}", ban.needle);
        let found = lines("crates/disk/src/a/tests.rs", &text).len();
        let expected = usize::from(matches!(ban.reach, Reach::Everywhere));
        assert_eq!(found, expected, "{}", ban.needle);
    }
}

#[test]
fn each_place_of_its_own_is_the_only_one() {
    assert!(lines("crates/engine/src/jobs/workers.rs", "thread::Builder::new()").is_empty());
    assert_eq!(lines("crates/engine/src/jobs.rs", "thread::Builder::new()"), [1]);
    assert!(lines("crates/base/src/fs/os.rs", "use std::fs::File;").is_empty());
    assert_eq!(lines("crates/base/src/clock.rs", "use std::fs::File;"), [1]);
    assert!(lines("crates/base/src/clock.rs", "Instant::now()").is_empty());
    assert_eq!(lines("crates/base/src/key.rs", "Instant::now()"), [1]);
    assert!(lines("crates/engine/src/kit/random.rs", "RandomState::new()").is_empty());
    assert_eq!(lines("crates/engine/src/wal.rs", "use std::hash::RandomState;"), [1]);
    assert!(lines("cli/src/main.rs", "println!(); std::fs::read(); thread::spawn()").is_empty());
}

#[test]
fn imports_in_braces_are_seen_through() {
    assert_eq!(lines("crates/disk/src/a.rs", "use std::{fs::File, io};"), [1]);
    assert_eq!(lines("crates/disk/src/a.rs", "use std::{io, thread::{self, spawn}};"), [1]);
    assert!(lines("crates/disk/src/a.rs", "use std::{io, thread};").is_empty());
}

#[test]
fn marks_are_found_in_comments_and_scripts() {
    for mark in MARKS {
        assert_eq!(lines("cli/src/a.rs", &format!("a();\n// {mark}: b")), [2]);
        assert_eq!(lines("a.sh", &format!("# {mark}")), [1]);
        assert!(lines("cli/src/a.rs", &format!("a(\"{mark}\")")).is_empty());
    }
}
