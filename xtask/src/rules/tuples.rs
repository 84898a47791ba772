//! A function of the library takes no tuple, because the two values side by side have no names
//! where it is called. Does not judge closures, results and fields.

use crate::checkout::{Checkout, Role};
use crate::finding::Finding;
use crate::items::{functions, split_commas};

/// A crate, and how many tuples the functions of its released code take.
struct Ceiling {
    folder: &'static str,
    tuples: usize,
}

/// The crates that are judged. A number only falls.
const CEILINGS: [Ceiling; 7] = [
    Ceiling { folder: "crates/base/src/", tuples: 0 },
    Ceiling { folder: "crates/memtable/src/", tuples: 0 },
    Ceiling { folder: "crates/disk/src/", tuples: 0 },
    Ceiling { folder: "crates/tree/src/", tuples: 0 },
    Ceiling { folder: "crates/engine/src/", tuples: 0 },
    Ceiling { folder: "crates/services/src/", tuples: 0 },
    Ceiling { folder: "crates/siltdb/src/", tuples: 0 },
];

/// Appends a finding for each crate that takes more tuples than its ceiling, or fewer: then the
/// ceiling must fall.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for Ceiling { folder, tuples } in &CEILINGS {
        judge(checkout, folder, *tuples, findings);
    }
}

fn judge(checkout: &Checkout, folder: &str, ceiling: usize, findings: &mut Vec<Finding>) {
    let (mut count, mut last) = (0, None);
    let released = checkout.rust().filter(|source| source.role == Role::Production);
    for source in released.filter(|source| source.path.starts_with(folder)) {
        for function in functions(&source.production) {
            let parameters = split_commas(&source.production[function.parameters.clone()]);
            let tuples = parameters.iter().filter(|parameter| is_tuple(parameter)).count();
            if tuples > 0 {
                (count, last) = (count + tuples, Some((source, function.start)));
            }
        }
    }
    if count == ceiling {
        return;
    }
    let remedy = match count > ceiling {
        true => "give them names, as arguments or in a struct",
        false => "lower the ceiling in xtask/src/rules/tuples.rs",
    };
    let message = format!("functions of {folder} take {count} tuples, not {ceiling}: {remedy}");
    let at = last.or_else(|| checkout.rust().next().map(|source| (source, 0)));
    findings.extend(at.map(|(source, start)| source.finding(start, "tuples", message)));
}

/// Whether a parameter is a pair or more, by its pattern or its type.
fn is_tuple(parameter: &str) -> bool {
    let (pattern, kind) = parameter.split_once(": ").unwrap_or((parameter, ""));
    let kind = kind.trim_start().trim_start_matches('&').trim_start_matches("mut ");
    let is_pair = |text: &str| text.starts_with('(') && text.contains(',');
    is_pair(pattern.trim_start()) || is_pair(kind)
}

#[cfg(test)]
mod tests;
