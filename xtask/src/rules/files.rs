//! What is kept in the repository is text and small: dumps and databases have no place in it.

use crate::checkout::Checkout;
use crate::finding::Finding;

const FILE_BYTES_MAX: usize = 1 << 20;

/// The files that need not be text: measured results.
const RESULTS: (&str, &str) = ("docs/results/", ".json.gz");

/// Appends a finding for each file that is too large, or is neither text nor a result.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for (path, &bytes) in &checkout.files {
        let mut broken = |message| {
            findings.push(Finding { path: path.clone(), line: 1, rule: "files", message });
        };
        if bytes > FILE_BYTES_MAX {
            broken(format!("file has {bytes} bytes, at most {FILE_BYTES_MAX}"));
        }
        let is_result = path.starts_with(RESULTS.0) && path.ends_with(RESULTS.1);
        if checkout.source(path).is_none() && !is_result {
            broken("neither text nor a result of the benchmark".to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
