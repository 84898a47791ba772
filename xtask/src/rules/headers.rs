//! Each file opens with its purpose.

use crate::checkout::Checkout;
use crate::finding::Finding;

/// Appends a finding for each Rust file whose first line is no `//!` sentence.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.rust() {
        let first = source.text.lines().next().unwrap_or("");
        let header = first.strip_prefix("//!").map(str::trim);
        if header.is_none_or(str::is_empty) {
            let message = "the first line is no `//!` sentence of purpose".to_owned();
            findings.push(source.finding_at_line(1, "headers", message));
        }
    }
}

#[cfg(test)]
mod tests;
