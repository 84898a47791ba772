//! A module uses only modules declared above it, and imports items from their defining modules.
//!
//! The rule walks the tree of modules from each `src/lib.rs` and `src/main.rs`. A reference from
//! one module to another is judged at their common ancestor: there, the user must be declared below
//! the used. The own items of a module file with submodules count too. If the file uses one
//! submodule and serves another, the served one must be declared below the used one.

pub mod map;
pub mod references;

use crate::checkout::Checkout;
use crate::finding::Finding;
use crate::rules::floors::FLOORS;
use map::{Map, Module};
use references::{Reference, references};
use std::collections::BTreeMap;

const RULE: &str = "modules";

/// Appends a finding for each reference to a module declared below and each shortcut through a
/// root.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let roots = checkout.rust().filter(|source| {
        source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs")
    });
    let maps: Vec<Map<'_>> = roots.map(|root| Map::read(checkout, root, findings)).collect();
    let houses = houses(&maps);
    for map in &maps {
        check_crate(map, &houses, findings);
    }
}

/// For each crate of the library, by its name in code: the modules that its root declares.
fn houses(maps: &[Map<'_>]) -> BTreeMap<String, Vec<String>> {
    let mut houses = BTreeMap::new();
    // All crates may import from the root of `siltdb`, because that is its public API.
    for (name, _) in FLOORS.iter().filter(|(name, _)| *name != "siltdb") {
        let folder = name.trim_start_matches("siltdb-");
        let path = format!("crates/{folder}/src/lib.rs");
        if let Some(map) = maps.iter().find(|map| map.root().source.path == path) {
            houses.insert(name.replace('-', "_"), map.root().children.clone());
        }
    }
    houses
}

/// The relations of a parent's own lines to its submodules.
#[derive(Default)]
struct Knot<'a> {
    /// The submodules that it uses, by position.
    uses: Vec<usize>,
    /// The submodules that use it, by position, with the place.
    serves: Vec<(usize, &'a Module<'a>, usize)>,
}

fn check_crate(map: &Map<'_>, houses: &BTreeMap<String, Vec<String>>, findings: &mut Vec<Finding>) {
    let mut knots: BTreeMap<&[String], Knot<'_>> = BTreeMap::new();
    for module in &map.modules {
        for reference in references(module) {
            check_house(module, &reference, houses, findings);
            let Some(path) = &reference.path else { continue };
            judge(map, module, path, &reference, &mut knots, findings);
        }
    }
    for (path, knot) in knots {
        let Some(lowest) = knot.uses.iter().max() else { continue };
        for (child, module, offset) in knot.serves.iter().filter(|(child, ..)| child <= lowest) {
            let parent = map.module(path).expect("a knot belongs to a module");
            let (child, lowest) = (&parent.children[*child], &parent.children[*lowest]);
            let message = format!(
                "`{child}` uses its parent, and the parent uses `{lowest}`, which is not above it"
            );
            findings.push(module.source.finding(*offset, RULE, message));
        }
    }
}

/// `siltdb_base::Name` is a shortcut for `siltdb_base::module::Name`.
fn check_house(
    module: &Module<'_>,
    reference: &Reference,
    houses: &BTreeMap<String, Vec<String>>,
    findings: &mut Vec<Finding>,
) {
    let [house, item, ..] = reference.written.as_slice() else { return };
    let Some(modules) = houses.get(house) else { return };
    // An exported macro lives at the root and nowhere else.
    if !modules.contains(item) && !reference.is_macro {
        let message = format!("`{house}::{item}`: import from the defining module");
        findings.push(module.source.finding(reference.start, RULE, message));
    }
}

/// Judges a reference from `module` to the absolute `path` of the same crate.
fn judge<'a>(
    map: &'a Map<'a>,
    module: &'a Module<'a>,
    path: &[String],
    reference: &Reference,
    knots: &mut BTreeMap<&'a [String], Knot<'a>>,
    findings: &mut Vec<Finding>,
) {
    let target = map.nearest(path);
    let item = path.get(target.path.len());
    let common = common_length(&module.path, &target.path);
    let mut report = |message| {
        findings.push(module.source.finding(reference.start, RULE, message));
    };
    match (module.path.get(common), target.path.get(common)) {
        (None, None) => {}
        // A reference down to an own submodule; a re-export names it without using it.
        (None, Some(child)) if reference.reexport.is_none() => {
            knots.entry(&module.path).or_default().uses.extend(module.position(child));
        }
        (None, Some(_)) => {}
        // A reference up to an ancestor's own item.
        (Some(branch), None) => {
            let Some(item) = item.filter(|_| !reference.is_macro) else { return };
            if target.path.is_empty() {
                report(format!("`crate::{item}`: import from the defining module"));
            } else if target.reexports.contains(item) {
                report(format!("`{item}` is re-exported: import from the defining module"));
            } else if let Some(position) = target.position(branch) {
                let knot = knots.entry(&target.path).or_default();
                knot.serves.push((position, module, reference.start));
            }
        }
        (Some(branch), Some(used)) => {
            let parent = map.nearest(&module.path[..common]);
            if parent.position(branch) <= parent.position(used) {
                report(format!("`{branch}` uses `{used}`, which is declared below it"));
            }
        }
    }
}

fn common_length(a: &[String], b: &[String]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests;
