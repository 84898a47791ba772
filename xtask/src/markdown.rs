//! Separates the prose of a Markdown document from its code, tables, headings and HTML. It does not
//! render, and knows only the forms that this repository uses.

/// The kind of a line of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Part of a paragraph, or of an item of a list.
    Prose,
    /// The first line of an item of a list.
    Item,
    /// A row of a table.
    Table,
    /// A line of a fenced block, its fences included.
    Code,
    /// A line without sentences: blank, heading, HTML, or the definition of a link.
    Other,
}

/// One sentence of the prose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// The line of its first word, counted from 1.
    pub line: usize,
    /// Its words.
    pub words: usize,
    /// Its text on one line, with links without targets, and with code spans.
    pub text: String,
}

/// Each line with its number, counted from 1, and its kind.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, Kind, &str)> {
    let (mut fenced, mut in_comment) = (false, false);
    text.lines().enumerate().map(move |(index, line)| {
        let start = line.trim_start();
        let fence = start.starts_with("```");
        let opens = !fenced && !fence && start.starts_with("<!--");
        let kind = if fenced || fence {
            Kind::Code
        } else if in_comment || opens || is_markup(start) {
            Kind::Other
        } else if start.starts_with('|') {
            Kind::Table
        } else if item(start).is_some() {
            Kind::Item
        } else {
            Kind::Prose
        };
        fenced ^= fence;
        in_comment = (in_comment || opens) && !line.contains("-->");
        (index + 1, kind, line)
    })
}

/// The lines outside fenced blocks, with code spans emptied.
pub fn outside_code(text: &str) -> impl Iterator<Item = (usize, String)> {
    lines(text).filter(|(_, kind, _)| *kind != Kind::Code).map(|(number, _, line)| {
        (number, line.split('`').step_by(2).collect::<Vec<_>>().join("``"))
    })
}

/// The sentences of paragraphs and items, in their order. A code span is one word. The end of a
/// paragraph or of an item ends its last sentence.
pub fn sentences(text: &str) -> Vec<Sentence> {
    let (mut found, mut block) = (Vec::new(), Vec::new());
    for (number, kind, line) in lines(text) {
        if kind != Kind::Prose {
            split(&block, &mut found);
            block.clear();
        }
        match kind {
            Kind::Item => block.push((number, item(line.trim_start()).unwrap_or(line))),
            Kind::Prose => block.push((number, line.trim_start().trim_start_matches("> "))),
            Kind::Table | Kind::Code | Kind::Other => {}
        }
    }
    split(&block, &mut found);
    found
}

/// The words in the cells of tables.
pub fn table_words(text: &str) -> usize {
    let rows = lines(text).filter(|(_, kind, _)| *kind == Kind::Table);
    rows.map(|(_, _, line)| tokens(&[(0, line)]).iter().filter(|(_, t)| is_word(t)).count()).sum()
}

/// Whether a line is blank, a heading, HTML or the definition of a link.
fn is_markup(line: &str) -> bool {
    line.is_empty() || line.starts_with(['<', '#']) || line.starts_with('[') && line.contains("]: ")
}

/// The text of an item of a list, without its marker.
fn item(line: &str) -> Option<&str> {
    if let Some(text) = ["- ", "* ", "+ "].iter().find_map(|marker| line.strip_prefix(marker)) {
        return Some(text);
    }
    let text = line.trim_start_matches(|c: char| c.is_ascii_digit());
    (text.len() < line.len()).then(|| text.strip_prefix(". "))?
}

/// Appends the sentences of one paragraph.
fn split(block: &[(usize, &str)], found: &mut Vec<Sentence>) {
    let mut sentence: Option<Sentence> = None;
    for (line, token) in tokens(block) {
        let so_far = sentence.get_or_insert(Sentence { line, words: 0, text: String::new() });
        so_far.words += usize::from(is_word(&token));
        if !so_far.text.is_empty() {
            so_far.text.push(' ');
        }
        so_far.text.push_str(&token);
        if ends_sentence(&token) {
            found.extend(sentence.take());
        }
    }
    found.extend(sentence);
}

/// The parts between white space, each with its line: whole code spans, and links without their
/// targets.
fn tokens(block: &[(usize, &str)]) -> Vec<(usize, String)> {
    let (mut found, mut token, mut begun) = (Vec::new(), String::new(), 0);
    let mut in_span = false;
    for &(number, line) in block {
        let mut rest = line;
        while let Some(next) = rest.chars().next() {
            rest = &rest[next.len_utf8()..];
            in_span ^= next == '`';
            if next.is_whitespace() && !in_span {
                flush(&mut token, begun, &mut found);
                continue;
            }
            if token.is_empty() {
                begun = number;
            }
            token.push(next);
            if next == ']' && !in_span && rest.starts_with('(') {
                rest = rest.find(')').map_or("", |close| &rest[close + 1..]);
            }
        }
        if in_span {
            token.push(' ');
        } else {
            flush(&mut token, begun, &mut found);
        }
    }
    flush(&mut token, begun, &mut found);
    found
}

fn flush(token: &mut String, line: usize, found: &mut Vec<(usize, String)>) {
    if !token.is_empty() {
        found.push((line, std::mem::take(token)));
    }
}

fn is_word(token: &str) -> bool {
    token.chars().any(char::is_alphanumeric)
}

fn ends_sentence(token: &str) -> bool {
    let bare = token.trim_end_matches([')', ']', '"', '*', '_']);
    let abbreviated = ["e.g.", "i.e."].iter().any(|known| bare.ends_with(known));
    bare.ends_with(['.', '!', '?']) && !abbreviated
}

#[cfg(test)]
mod tests;
