//! The repository holds small text files: no dumps, and no databases but those that tests open.
//! Merges are finished.

use crate::checkout::Checkout;
use crate::finding::Finding;

const FILE_BYTES_MAX: usize = 1 << 20;

/// The place and extension of measured results, which need not be text.
const RESULTS: (&str, &str) = ("docs/results/", ".json.gz");

/// The folder of databases written by released versions, which need not be text.
const GOLDEN: &str = "testing/golden/";

/// Appends a finding for each file that is too large, or is neither text, a result, nor a part of a
/// stored database.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for (path, &bytes) in &checkout.files {
        let mut broken = |message| {
            findings.push(Finding { path: path.clone(), line: 1, rule: "files", message });
        };
        if bytes > FILE_BYTES_MAX {
            broken(format!("file has {bytes} bytes, at most {FILE_BYTES_MAX}"));
        }
        let is_result = path.starts_with(RESULTS.0) && path.ends_with(RESULTS.1);
        let may_be_binary = is_result || path.starts_with(GOLDEN);
        let source = checkout.source(path);
        if source.is_some_and(|source| source.text.lines().any(is_conflict_marker)) {
            broken("a conflict of a merge is not resolved".to_owned());
        }
        if source.is_none() && !may_be_binary {
            broken("neither text, nor a result of the benchmark, nor in testing/golden".to_owned());
        }
    }
}

/// Whether a line begins or ends the two sides of a conflict, as git writes it.
fn is_conflict_marker(line: &str) -> bool {
    ["<", ">"].iter().any(|sign| line.starts_with(&format!("{} ", sign.repeat(7))))
}

#[cfg(test)]
mod tests;
