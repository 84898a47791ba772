//! Links in the documents have targets, and decisions are numbered without gaps. Each cited law
//! stands in `docs/laws.md`, once, and each test that a document names exists.

use crate::checkout::{Checkout, Source};
use crate::finding::Finding;
use crate::items::{identifier, occurrences};
use crate::markdown::outside_code;
use std::collections::BTreeMap;

const LAWS: &str = "docs/laws.md";
const DECISIONS: &str = "docs/decisions/";
const DECISIONS_INDEX: &str = "docs/decisions/README.md";

/// Appends a finding for each relative link without a target and each misnumbered decision.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.sources.iter().filter(|source| source.path.ends_with(".md")) {
        for (line, target) in links(&source.text) {
            if let Some(why) = dead(checkout, source, &target) {
                let message = format!("link to `{target}`: {why}");
                findings.push(source.finding_at_line(line, "documents", message));
            }
        }
        check_tests(checkout, source, findings);
    }
    check_decisions(checkout, findings);
    check_laws(checkout, findings);
}

/// Inline links `[text](target)` and definitions `[name]: target`.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in outside_code(text) {
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap_or("");
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
        }
        let definition = line.trim_start().strip_prefix('[').and_then(|l| l.split_once("]: "));
        if let Some((_, target)) = definition {
            found.push((number, target.split(' ').next().unwrap_or("").to_owned()));
        }
    }
    found
}

/// The reason why `target` does not exist.
fn dead(checkout: &Checkout, source: &Source, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let Some(path) = resolve(&source.path, file) else { return Some("it leaves the repository") };
    let folder = format!("{path}/");
    if !checkout.files.contains_key(&path) {
        let known = path.is_empty() || checkout.files.keys().any(|p| p.starts_with(&folder));
        return (!known).then_some("no such file");
    }
    let document = checkout.source(&path).filter(|document| document.path.ends_with(".md"))?;
    let missing = anchor.is_some_and(|anchor| headings(&document.text).all(|h| h != anchor));
    missing.then_some("no such heading")
}

/// The path that `target` means in the document at `from`; `None` above the root.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document's headings, spelled as code hosts spell them.
fn headings(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut fenced = false;
    text.lines().filter_map(move |line| {
        fenced ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title == line || !title.starts_with(' ') {
            return None;
        }
        let letters = title.trim().to_lowercase().replace(' ', "-");
        Some(letters.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect())
    })
}

/// A code span `path/of/file.rs::name` names a function of that file.
fn check_tests(checkout: &Checkout, document: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in document.text.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            let Some((path, name)) = span.split_once(".rs::") else { continue };
            let defined = format!("fn {name}(");
            let file = checkout.source(&format!("{path}.rs"));
            if file.is_none_or(|file| !file.code.contains(&defined)) {
                let message = format!("there is no `{span}`");
                findings.push(document.finding_at_line(index + 1, "documents", message));
            }
        }
    }
}

/// Decisions are `NNNN-title.md`, from 0001 on, each number once. The index may name a number
/// without a page, so that the number is not used again.
fn check_decisions(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let mut numbers: BTreeMap<usize, &str> = BTreeMap::new();
    let mut report = |path: &str, message: String| {
        findings.push(Finding { path: path.to_owned(), line: 1, rule: "documents", message });
    };
    for path in checkout.files.keys().filter(|path| path.starts_with(DECISIONS)) {
        let name = &path[DECISIONS.len()..];
        if name.contains('/') || path == DECISIONS_INDEX || !name.ends_with(".md") {
            continue;
        }
        match name.split_once('-').map(|(number, _)| (number.len(), number.parse())) {
            Some((4, Ok(number))) => {
                if let Some(other) = numbers.insert(number, path) {
                    report(path, format!("{number:04} is also the number of `{other}`"));
                }
            }
            _ => report(path, "a decision is named `NNNN-title.md`".to_owned()),
        }
    }
    for number in checkout.source(DECISIONS_INDEX).iter().flat_map(|index| indexed(&index.text)) {
        numbers.entry(number).or_insert(DECISIONS_INDEX);
    }
    for (index, (number, path)) in numbers.iter().enumerate() {
        if *number != index + 1 {
            report(path, format!("numbers have a gap: {:04} is missing", index + 1));
            break;
        }
    }
}

/// The numbers in the first column of the index of decisions.
fn indexed(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.lines().filter_map(|row| row.strip_prefix("| ")?.split(" |").next()?.parse().ok())
}

/// Laws are the rows of their document that begin with a capital letter and a number.
fn check_laws(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let Some(document) = checkout.source(LAWS) else { return };
    let mut laws = BTreeMap::new();
    for (index, line) in document.text.lines().enumerate() {
        let cell = line.strip_prefix("| ").and_then(|row| row.split(" |").next());
        let Some(law) = cell.filter(|cell| is_law(cell)) else { continue };
        if let Some(first) = laws.insert(law, index + 1) {
            let message = format!("law {law} is also the law of line {first}");
            findings.push(document.finding_at_line(index + 1, "documents", message));
        }
    }
    for source in &checkout.sources {
        let text = if source.is_rust() { &source.comments } else { &source.text };
        for at in occurrences(text, "law") {
            let cited = text[at + "law".len()..].strip_prefix(' ').and_then(identifier);
            if let Some(law) = cited.filter(|law| is_law(law) && !laws.contains_key(law)) {
                let message = format!("there is no law {law} in {LAWS}");
                findings.push(source.finding(at, "documents", message));
            }
        }
    }
}

/// A capital letter and a number.
fn is_law(word: &str) -> bool {
    let number = word.strip_prefix(|first: char| first.is_ascii_uppercase());
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|digit| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
