//! A term of the glossary has one meaning. It occurs in the code, or is marked † because its
//! feature does not exist yet.

use crate::checkout::Checkout;
use crate::finding::Finding;
use crate::markdown::{Kind, lines};
use std::collections::BTreeMap;

const GLOSSARY: &str = "docs/glossary.md";
/// Marks a term of a feature that does not exist yet.
const PLANNED: char = '†';

/// Appends a finding for each term that is defined twice, and for each that no Rust file of the
/// library, the tool, the benchmark or the simulator contains. It may occur as words in a comment
/// or a text, or as a name (`RangeTombstone`, `range_tombstone`), also with an ending such as a
/// plural.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let Some(glossary) = checkout.source(GLOSSARY) else { return };
    let sources = checkout.rust().filter(|source| !source.path.starts_with("xtask/"));
    let all: String = sources.map(|source| spoken(&source.text)).collect();
    let mut defined = BTreeMap::new();
    for (number, kind, line) in lines(&glossary.text) {
        let cell = line.split('|').nth(1).unwrap_or("").trim();
        let is_term = kind == Kind::Table && cell != "term" && cell.contains(char::is_alphanumeric);
        if !is_term {
            continue;
        }
        for term in cell.split(", ") {
            let term = term.trim_matches(['*', '`', ' ', PLANNED]);
            if let Some(before) = defined.insert(term.to_owned(), number) {
                let message = format!(
                    "`{term}` has a meaning in line {before} already: give one of them another name"
                );
                findings.push(glossary.finding_at_line(number, "glossary", message));
            }
            if cell.contains(PLANNED) {
                continue;
            }
            if !all.contains(spoken(term).trim_end()) {
                let message =
                    format!("no code has the term `{term}`: rename, delete or mark it {PLANNED}");
                findings.push(glossary.finding_at_line(number, "glossary", message));
            }
        }
    }
}

/// Lower-case letters and digits, with one space before each word, also within a name.
fn spoken(text: &str) -> String {
    let mut spoken = String::from(" ");
    let mut before = ' ';
    for letter in text.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if (begins || !letter.is_alphanumeric()) && !spoken.ends_with(' ') {
            spoken.push(' ');
        }
        if letter.is_alphanumeric() {
            spoken.extend(letter.to_lowercase());
        }
        before = letter;
    }
    spoken
}

#[cfg(test)]
mod tests;
