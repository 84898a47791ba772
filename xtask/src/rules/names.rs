//! A module has a name that says what it is, not one for a mixture.

use crate::checkout::Checkout;
use crate::finding::Finding;
use crate::items::modules;

const BANNED: [&str; 9] =
    ["util", "utils", "helper", "helpers", "manager", "common", "misc", "v2", "utilities"];

/// Appends a finding for each Rust file, folder of Rust files or inline module with a banned name.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.rust() {
        let path = source.path.trim_end_matches(".rs");
        for name in path.split('/').filter(|name| BANNED.contains(name)) {
            let message = format!("`{name}` is a banned name: name the module for what it is");
            findings.push(source.finding_at_line(1, "names", message));
        }
        let inline = modules(&source.code).into_iter().filter(|module| module.body.is_some());
        for module in inline.filter(|module| BANNED.contains(&module.name.as_str())) {
            let message = format!("`{}` is a banned name: name it for what it is", module.name);
            findings.push(source.finding(module.start, "names", message));
        }
    }
}

#[cfg(test)]
mod tests;
