//! Pages of the documents and their lines have bounded lengths.

use crate::checkout::{Checkout, Source};
use crate::finding::Finding;
use crate::markdown::{Kind, lines};

/// Lines of a page in `docs/`, and of the format page, which lists every byte.
const PAGE_LINES_MAX: usize = 300;
const FORMAT: (&str, usize) = ("docs/format.md", 600);
/// Characters of a line of prose.
const PROSE_CHARACTERS_MAX: usize = 160;

/// Appends a finding for each page of `docs/` that is too long, and for each line of prose that is
/// too long, in any Markdown file. Tables, code, headings and links have lines of any length.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.sources.iter().filter(|source| source.path.ends_with(".md")) {
        check_page(source, findings);
        check_lines(source, findings);
    }
}

fn check_page(source: &Source, findings: &mut Vec<Finding>) {
    let most = if source.path == FORMAT.0 { FORMAT.1 } else { PAGE_LINES_MAX };
    let count = source.text.lines().count();
    if source.path.starts_with("docs/") && count > most {
        let message = format!("page has {count} lines, at most {most}: say less, or split it");
        findings.push(source.finding_at_line(count, "pages", message));
    }
}

fn check_lines(source: &Source, findings: &mut Vec<Finding>) {
    for (number, kind, line) in lines(&source.text) {
        let characters = line.chars().count();
        if matches!(kind, Kind::Prose | Kind::Item) && characters > PROSE_CHARACTERS_MAX {
            let message =
                format!("line has {characters} characters, at most {PROSE_CHARACTERS_MAX}");
            findings.push(source.finding_at_line(number, "pages", message));
        }
    }
}

#[cfg(test)]
mod tests;
