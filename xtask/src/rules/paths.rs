//! No file contains a path of one particular machine.

use crate::checkout::Checkout;
use crate::finding::Finding;

/// Concatenated here so that this file obeys its own rule.
const FOLDERS: [&str; 4] =
    [concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Appends a finding for each line with an absolute path of a machine.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in &checkout.sources {
        for folder in FOLDERS {
            for (at, _) in source.text.match_indices(folder) {
                // `docs/x/`, `./x/` and `https://example.org/x/` are not paths of a machine.
                let before = source.text[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || "._-~}])>*".contains(c)) {
                    continue;
                }
                let message = format!("absolute path `{folder}…` of one machine");
                findings.push(source.finding(at, "paths", message));
            }
        }
    }
}

#[cfg(test)]
mod tests;
