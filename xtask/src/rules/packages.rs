//! A published crate has a description, a README and licences. Their contents are not judged.

use crate::checkout::{Checkout, Source};
use crate::finding::Finding;
use crate::rules::manifest::parse;

/// The keys that the registry shows of a crate.
const KEYS: [&str; 5] = ["description", "license", "readme", "keywords", "categories"];

/// The licences, each a file of the same text in the root and in every crate. Cargo packs the
/// target of a symbolic link.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Appends a finding for each key or licence that a published crate lacks.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in &checkout.sources {
        let Some(folder) = source.path.strip_suffix("/Cargo.toml") else { continue };
        if folder != "cli" && !folder.starts_with("crates/") {
            continue;
        }
        let manifest = parse(&source.text);
        for key in KEYS.iter().filter(|key| !manifest.keys.contains(**key)) {
            findings.push(finding(source, format!("`[package]` has no `{key}`")));
        }
        for name in LICENCES {
            let text = |path: &str| checkout.source(path).map(|source| source.text.as_str());
            let copy = text(&format!("{folder}/{name}"));
            if copy.is_none() || copy != text(name) {
                let message = format!("link `{folder}/{name}` to the `{name}` of the root");
                findings.push(finding(source, message));
            }
        }
    }
}

fn finding(source: &Source, message: String) -> Finding {
    source.finding_at_line(1, "packages", message)
}

#[cfg(test)]
mod tests;
