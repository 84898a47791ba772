//! A public type of the library has a name of its own.

use crate::checkout::Checkout;
use crate::finding::Finding;
use crate::items::{closing, identifier, occurrences};
use std::collections::BTreeMap;

const KEYWORDS: [&str; 5] = ["struct", "enum", "trait", "union", "type"];

/// Appends a finding for each type, trait or alias that is `pub` or `pub(crate)` and shares its
/// name with one in another file. Two declarations in one file are the two sides of a `cfg`.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let mut first: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for source in checkout.rust().filter(|source| is_library(&source.path)) {
        for (start, name) in types(&source.production) {
            let (path, line) = *first.entry(name).or_insert((&source.path, source.line(start)));
            if path != source.path {
                let message = format!("`{name}` is also the name of a type at {path}:{line}");
                findings.push(source.finding(start, "types", message));
            }
        }
    }
}

fn is_library(path: &str) -> bool {
    let rest = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    rest.is_some_and(|(_, file)| file.starts_with("src/"))
}

/// Offsets and names of the types that are visible beyond a parent module.
fn types(code: &str) -> impl Iterator<Item = (usize, &str)> {
    occurrences(code, "pub").filter_map(|start| {
        let after = start + "pub".len();
        let rest = match code[after..].starts_with('(') {
            true => {
                let close = closing(code, after)?;
                (code[after + 1..close].trim() == "crate").then_some(&code[close + 1..])?
            }
            false => &code[after..],
        };
        let rest = rest.trim_start().strip_prefix("unsafe").unwrap_or(rest);
        let keyword = identifier(rest).filter(|word| KEYWORDS.contains(word))?;
        let name = identifier(&rest[rest.find(keyword)? + keyword.len()..])?;
        Some((start, name))
    })
}

#[cfg(test)]
mod tests;
