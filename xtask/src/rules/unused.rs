//! A public item of the library is used by released code in another file.
//!
//! The rule compares names alone, so it misses an unused item that shares its name with another. It
//! does not judge items for programs outside the checkout: the crate `siltdb`, and the methods of
//! types that it exports.

use crate::checkout::Checkout;
use crate::finding::Finding;
use crate::items::{blocks, closing, identifier, imports, occurrences};
use crate::lexer::is_word;
use std::collections::{BTreeMap, BTreeSet};

/// A public item.
struct Item<'a> {
    start: usize,
    keyword: &'a str,
    name: &'a str,
}

const TYPES: [&str; 5] = ["struct", "enum", "trait", "union", "type"];
const OTHERS: [&str; 3] = ["fn", "const", "static"];
/// Words that may stand between `pub` and the keyword of an item.
const QUALIFIERS: [&str; 3] = ["unsafe", "async", "extern"];

/// Appends a finding for each public function, type, constant or static that no other file
/// mentions. A type in a visible signature, field or variant of its own file counts as used,
/// because callers need not name it. A constant that its own file mentions counts as used, because
/// documents link to it and tests use it as a bound.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let users = users(checkout);
    let exports = exports(checkout);
    for source in checkout.rust().filter(|source| is_judged(&source.path)) {
        let code = &source.production;
        let visible = visible_names(code);
        let exported: Vec<_> = blocks(code, "impl")
            .into_iter()
            .filter(|block| exports.contains(&block.name))
            .map(|block| block.body)
            .collect();
        for item in items(code) {
            let elsewhere = users.get(item.name).is_some_and(|user| match user {
                User::Only(path) => *path != source.path,
                User::Many => true,
            });
            let here = match item.keyword {
                "const" | "static" => occurrences(code, item.name).count() > 1,
                "fn" => exported.iter().any(|body| body.contains(&item.start)),
                _ => visible.contains(item.name),
            };
            if !elsewhere && !here && !exports.contains(item.name) {
                let what = format!("{} `{}`", item.keyword, item.name);
                let message =
                    format!("no other file uses the {what}, tests aside: delete or hide it");
                findings.push(source.finding(item.start, "unused", message));
            }
        }
    }
}

/// The names that `siltdb` exports from the other crates.
fn exports(checkout: &Checkout) -> BTreeSet<String> {
    let face = checkout.rust().filter(|source| source.path.starts_with("crates/siltdb/src/"));
    face.flat_map(|source| imports(&source.production))
        .filter(|import| import.reexport.is_some())
        .filter_map(|import| import.path.last().cloned())
        .collect()
}

fn is_judged(path: &str) -> bool {
    let folder = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    folder.is_some_and(|(name, file)| name != "siltdb" && file.starts_with("src/"))
}

/// The files that mention a name.
enum User<'a> {
    Only(&'a str),
    Many,
}

fn users(checkout: &Checkout) -> BTreeMap<&str, User<'_>> {
    let mut users = BTreeMap::new();
    for source in checkout.rust() {
        for name in words(&source.production).collect::<BTreeSet<_>>() {
            let first = User::Only(&source.path);
            users.entry(name).and_modify(|user| *user = User::Many).or_insert(first);
        }
    }
    users
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| c.is_ascii() && !is_word(c as u8)).filter(|word| !word.is_empty())
}

/// The items declared with `pub` alone; the users of `pub(…)` items are in the same crate.
fn items(code: &str) -> Vec<Item<'_>> {
    let item = |start: usize| {
        let mut rest = &code[start + "pub".len()..];
        loop {
            let word = identifier(rest)?;
            let after = &rest[rest.find(word)? + word.len()..];
            let next = identifier(after).unwrap_or("");
            // `const` begins a constant, or a function that is one.
            let qualifies = word == "const" && (next == "fn" || QUALIFIERS.contains(&next));
            if QUALIFIERS.contains(&word) || qualifies {
                // The name of an ABI stands between quotes.
                rest = after.trim_start().trim_start_matches(['"', ' ']);
                continue;
            }
            let keyword = TYPES.iter().chain(&OTHERS).find(|known| **known == word)?;
            // A macro declares an item whose name is not in the text.
            return Some(Item { start, keyword, name: next }).filter(|_| !next.is_empty());
        }
    };
    occurrences(code, "pub").filter_map(item).collect()
}

/// The code after `pub`, or after `pub(…)`.
fn after_visibility(code: &str, start: usize) -> &str {
    let open = start + "pub".len();
    match code[open..].starts_with('(').then(|| closing(code, open)) {
        Some(Some(close)) => &code[close + 1..],
        _ => &code[open..],
    }
}

/// The names in signatures and fields that begin with `pub`, in public enums and traits, and in the
/// heads and associated types of implementations. The names of the declared types are left out.
fn visible_names(code: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for start in occurrences(code, "pub") {
        let rest = after_visibility(code, start);
        let first = identifier(rest).unwrap_or("");
        let declares = TYPES.contains(&first);
        let is_item = declares || OTHERS.contains(&first) || QUALIFIERS.contains(&first);
        let ends = rest.find(['{', ';', '}']).unwrap_or(rest.len());
        let ends = if is_item { ends } else { rest.find(",\n").map_or(ends, |at| at.min(ends)) };
        names.extend(words(&rest[..ends]).skip(if declares { 2 } else { 0 }));
        if matches!(first, "enum" | "trait") {
            let open = code.len() - rest.len() + ends;
            names.extend(words(&code[open..closing(code, open).unwrap_or(code.len())]));
        }
    }
    for start in occurrences(code, "type") {
        let end = code[start..].find(';').map_or(code.len(), |length| start + length);
        names.extend(words(&code[start..end]).skip(2));
    }
    names
}

#[cfg(test)]
mod tests;
