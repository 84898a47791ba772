//! Files, functions and lines have bounded sizes.

use crate::checkout::{Checkout, Role, Source};
use crate::finding::Finding;
use crate::items::functions;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_CHARACTERS_MAX: usize = 100;

/// Appends a finding for each file, function or line of Rust that is too long. Tests may have long
/// files, but no long functions or lines.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.rust() {
        check_file(source, findings);
        check_functions(source, findings);
        check_lines(source, findings);
    }
}

fn check_file(source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.text.lines().count();
    if source.role == Role::Production && lines > FILE_LINES_MAX {
        let message = format!("file has {lines} lines, at most {FILE_LINES_MAX}: split it by idea");
        findings.push(source.finding_at_line(lines, "sizes", message));
    }
}

fn check_functions(source: &Source, findings: &mut Vec<Finding>) {
    for function in functions(&source.code) {
        let lines = 1 + source.code[function.start..function.end].matches('\n').count();
        if lines > FUNCTION_LINES_MAX {
            let name = function.name;
            let message = format!("`{name}` has {lines} lines, at most {FUNCTION_LINES_MAX}");
            findings.push(source.finding(function.start, "sizes", message));
        }
    }
}

fn check_lines(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.text.lines().enumerate() {
        let characters = line.chars().count();
        if characters > LINE_CHARACTERS_MAX {
            let message =
                format!("line has {characters} characters, at most {LINE_CHARACTERS_MAX}");
            findings.push(source.finding_at_line(index + 1, "sizes", message));
        }
    }
}

#[cfg(test)]
mod tests;
