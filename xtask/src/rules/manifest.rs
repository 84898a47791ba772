//! Reads the name, the keys of the package and the dependencies from a `Cargo.toml`. It knows
//! tables, keys and inline tables on one line, not all of TOML.

use std::collections::{BTreeMap, BTreeSet};

/// A `Cargo.toml`, as far as the rules need it.
#[derive(Default)]
pub struct Manifest {
    /// The package's name; empty for a workspace alone.
    pub name: String,
    /// The keys of `[package]`.
    pub keys: BTreeSet<String>,
    /// All dependencies: normal, for tests, for build scripts, for one platform.
    pub dependencies: Vec<Dependency>,
    /// `[workspace.dependencies]`: key to package.
    pub workspace: BTreeMap<String, String>,
}

/// One dependency.
pub struct Dependency {
    /// Line, counted from 1.
    pub line: usize,
    /// The key it is listed by.
    pub key: String,
    /// The name of the package, if it differs from the key.
    pub package: Option<String>,
    /// Whether tests alone have it.
    pub is_for_tests: bool,
}

/// Reads a manifest, and skips unknown syntax, because cargo has checked the file.
pub fn parse(text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    let mut section = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = split_key(header.split(']').next().unwrap_or(""));
            // `[dependencies.name]` lists a dependency in a table of its own.
            if let [.., kind, key] = section.as_slice()
                && is_dependencies(kind)
            {
                let is_for_tests = kind == "dev-dependencies";
                let (key, package) = (key.clone(), None);
                let dependency = Dependency { line: index + 1, key, package, is_for_tests };
                manifest.dependencies.push(dependency);
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let key = split_key(key.trim()).into_iter().next().unwrap_or_default();
        let package = package_of(value);
        match section.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["package"] => {
                if key == "name" {
                    manifest.name = unquoted(value);
                }
                manifest.keys.insert(key);
            }
            ["workspace", "dependencies"] => {
                manifest.workspace.insert(key.clone(), package.unwrap_or(key));
            }
            [.., kind] if is_dependencies(kind) => {
                let is_for_tests = *kind == "dev-dependencies";
                let dependency = Dependency { line: index + 1, key, package, is_for_tests };
                manifest.dependencies.push(dependency);
            }
            [.., kind, _] if is_dependencies(kind) && key == "package" => {
                let last = manifest.dependencies.last_mut();
                last.expect("its header was pushed").package = Some(unquoted(value));
            }
            _ => {}
        }
    }
    manifest
}

fn is_dependencies(section: &str) -> bool {
    matches!(section, "dependencies" | "dev-dependencies" | "build-dependencies")
}

fn unquoted(value: &str) -> String {
    value.split('#').next().unwrap_or("").trim().trim_matches(['"', '\'']).to_owned()
}

/// Splits a dotted key at the dots outside quotes.
fn split_key(key: &str) -> Vec<String> {
    let mut quote = None;
    let mut parts = vec![String::new()];
    for character in key.chars() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '.') => parts.push(String::new()),
            _ => parts.last_mut().expect("never empty").push(character),
        }
    }
    parts.into_iter().map(|part| part.trim().to_owned()).collect()
}

/// The package named in an inline table.
fn package_of(value: &str) -> Option<String> {
    let fields = value.trim().strip_prefix('{')?.split(',');
    let mut pairs = fields.filter_map(|field| field.split_once('='));
    let (_, package) = pairs.find(|(key, _)| key.trim() == "package")?;
    Some(package.trim().trim_end_matches('}').trim().trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests;
