//! Unit tests stand in files of their own, apart from released code.

use crate::checkout::{Checkout, Role};
use crate::finding::Finding;

/// Appends a finding for each file of released code that holds a test.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.rust().filter(|source| source.role == Role::Production) {
        if let Some(at) = source.code.find("#[test]") {
            let message = format!("unit tests stand in `{}/tests.rs`", source.module_folder());
            findings.push(source.finding(at, "unit_tests", message));
        }
    }
}

#[cfg(test)]
mod tests;
