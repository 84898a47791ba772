//! A crate of the library uses lower floors only. A crate above the library uses `siltdb` only.
//! Tests of any crate may use what only tests need, which uses none of our crates.

use crate::checkout::Checkout;
use crate::finding::Finding;
use crate::rules::manifest::{Manifest, parse};
use std::collections::BTreeMap;

/// The crates of the library and their floors.
pub const FLOORS: [(&str, u8); 7] = [
    ("siltdb-base", 0),
    ("siltdb-memtable", 1),
    ("siltdb-disk", 1),
    ("siltdb-tree", 2),
    ("siltdb-engine", 3),
    ("siltdb-services", 4),
    ("siltdb", 5),
];

/// What the tests of any crate may use.
const OF_TESTS: &str = "siltdb-sweep";

/// The floor of a crate of the library.
fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

/// Appends a finding for each dependency that points up, sideways, or past `siltdb`.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let manifests: Vec<_> = checkout
        .sources
        .iter()
        .filter(|source| source.path.rsplit('/').next() == Some("Cargo.toml"))
        .map(|source| (source, parse(&source.text)))
        .collect();
    let root = manifests.iter().find(|(source, _)| source.path == "Cargo.toml");
    let renames = root.map(|(_, manifest)| manifest.workspace.clone()).unwrap_or_default();
    let folders: BTreeMap<_, _> =
        manifests.iter().map(|(source, manifest)| (&manifest.name, top(&source.path))).collect();
    for (source, manifest) in &manifests {
        if source.path.starts_with("crates/") && floor(&manifest.name).is_none() {
            let message = format!("`{}` has no floor: give it one in xtask", manifest.name);
            findings.push(source.finding_at_line(1, "floors", message));
        }
        for dependency in &manifest.dependencies {
            let package = dependency.package.as_ref().or_else(|| renames.get(&dependency.key));
            let package = package.unwrap_or(&dependency.key);
            let Some(folder) = folders.get(package) else { continue };
            if package == OF_TESTS && dependency.is_for_tests {
                continue;
            }
            if let Some(why) = refusal(manifest, top(&source.path), package, folder) {
                let message = format!("`{}` may not use `{package}`: {why}", manifest.name);
                findings.push(source.finding_at_line(dependency.line, "floors", message));
            }
        }
    }
}

fn top(path: &str) -> &str {
    path.split('/').next().unwrap_or("")
}

/// The reason why the crate in folder `from` may not use our crate `package` in folder `to`.
fn refusal(manifest: &Manifest, from: &str, package: &str, to: &str) -> Option<&'static str> {
    match (floor(&manifest.name), floor(package)) {
        _ if manifest.name == OF_TESTS => Some("what tests use uses none of our crates"),
        (Some(own), Some(other)) if other < own => None,
        (Some(_), _) => Some("a floor uses lower floors only"),
        (None, _) if from == "xtask" => Some("xtask uses no crate of the library"),
        (None, Some(_)) if package == "siltdb" => None,
        (None, Some(0)) if from == "testing" => None,
        (None, Some(_)) => Some("a crate above the library uses `siltdb` only"),
        (None, None) if from == to || (from, to) == ("peers", "bench") => None,
        (None, None) => Some("crates above the library do not use each other"),
    }
}

#[cfg(test)]
mod tests;
