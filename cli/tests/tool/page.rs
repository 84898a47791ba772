//! The sessions in the pages of the documentation, as commands with their output.
//!
//! A session is what the `console` blocks below one heading show. It runs nothing.

use std::path::{Path, PathBuf};

/// The repository.
pub const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The prompt of a command line of the system.
pub const SHELL: &str = "$ ";

/// In a page, any text of a line. A line of its own is any number of lines.
const OMITTED: char = '…';

/// A page of the documentation.
pub struct Page {
    pub path: PathBuf,
    pub text: String,
}

/// A command and what it prints.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line of the command in its page, from 0 on.
    pub line: usize,
    /// The prompt, with the blank at its end.
    pub prompt: String,
    pub command: String,
    pub printed: Vec<String>,
}

impl Page {
    pub fn read(name: &str) -> Self {
        let path = Path::new(ROOT).join(name);
        let text = std::fs::read_to_string(&path);
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    /// The sessions, each of at least one step.
    pub fn sessions(&self) -> Vec<Vec<Step>> {
        let mut sessions = vec![Vec::new()];
        let mut block = None;
        for (line, text) in self.text.lines().enumerate() {
            match (block, text.strip_prefix("```")) {
                (None, Some(kind)) => block = Some(kind),
                (Some(_), Some("")) => block = None,
                (Some("console"), _) => self.add(line, text, &mut sessions),
                (None, None) if text.starts_with('#') => sessions.push(Vec::new()),
                _ => {}
            }
        }
        sessions.retain(|steps| !steps.is_empty());
        sessions
    }

    fn add(&self, line: usize, text: &str, sessions: &mut [Vec<Step>]) {
        let session = sessions.last_mut().expect("there is one from the beginning on");
        match (split_prompt(text), session.last_mut()) {
            (Some((prompt, command)), _) => session.push(Step {
                line,
                prompt: prompt.to_owned(),
                command: command.to_owned(),
                printed: Vec::new(),
            }),
            (None, Some(step)) => step.printed.push(text.to_owned()),
            (None, None) => panic!("{}:{}: no command", self.path.display(), line + 1),
        }
    }
}

/// The prompt of the system or of `silt shell`, and the command behind it.
fn split_prompt(line: &str) -> Option<(&str, &str)> {
    if line.starts_with(SHELL) {
        return Some(line.split_at(SHELL.len()));
    }
    let end = line.starts_with("db:").then(|| line.find("> ")).flatten()?;
    Some(line.split_at(end + "> ".len()))
}

/// Every page of the documentation.
pub fn pages() -> Vec<Page> {
    let mut names = vec![String::new(), "bench".to_owned(), "docs".to_owned()];
    let mut pages = Vec::new();
    while let Some(name) = names.pop() {
        let directory = Path::new(ROOT).join(&name);
        for entry in std::fs::read_dir(directory).expect("the directory is there") {
            let entry = entry.expect("it can be listed");
            let file = entry.file_name().into_string().expect("names are text");
            let path = if name.is_empty() { file } else { format!("{name}/{file}") };
            if path.ends_with(".md") {
                pages.push(Page::read(&path));
            } else if path.starts_with("docs/") && entry.path().is_dir() {
                names.push(path);
            }
        }
    }
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    pages
}

/// Whether `found` is what the page says, apart from what differs with each run.
pub fn agrees(page: &[String], found: &[&str]) -> bool {
    match (page.split_first(), found.split_first()) {
        (None, first) => first.is_none(),
        (Some((line, rest)), _) if line.chars().eq([OMITTED]) => {
            (0..=found.len()).any(|count| agrees(rest, &found[count..]))
        }
        (Some(_), None) => false,
        (Some((line, rest)), Some((first, others))) => {
            line_agrees(line, first) && agrees(rest, others)
        }
    }
}

fn line_agrees(page: &str, found: &str) -> bool {
    let (page, found) = (masked(page), masked(found));
    let Some((first, rest)) = page.split_once(OMITTED) else { return page == found };
    let (parts, last) = rest.rsplit_once(OMITTED).unwrap_or(("", rest));
    let Some(mut left) = found.strip_prefix(first) else { return false };
    for part in parts.split(OMITTED) {
        let Some(index) = left.find(part) else { return false };
        left = &left[index + part.len()..];
    }
    left.ends_with(last)
}

/// The line with one word each for times, numbers of bytes and uids, which differ with each run.
fn masked(line: &str) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | ':' | ',');
    let mut text = String::new();
    let mut rest = line.trim_end();
    while !rest.is_empty() {
        let end = rest.find(|c| !is_of_word(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        text.push_str(mask(word, behind).unwrap_or(word));
        let mut others = behind.chars();
        text.extend(others.next());
        rest = others.as_str();
    }
    text
}

fn mask(word: &str, behind: &str) -> Option<&'static str> {
    let shape: String = word.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    if shape == "9999-99-99T99:99:99Z" {
        return Some("TIME");
    }
    let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == ',');
    if is_number && behind.starts_with(" bytes") {
        return Some("NUMBER");
    }
    let mut parts = word.split('-');
    let is_uid = parts.next().is_some_and(|first| first.len() == 16)
        && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    is_uid.then_some("UID")
}

#[test]
fn what_differs_with_each_run_is_passed_over_and_nothing_else() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let page = "1\t2026-11-27T15:14:12Z\t234,926 bytes\nrow … of …, end\n…\nlast";
    let found = "1\t2030-01-02T03:04:05Z\t7 bytes\nrow 1 of 2, end\na\nb\nlast";
    for (page, found, wanted) in [
        (page, found, true),
        (page, &*found.replace("1\t2030", "2\t2030"), false),
        (page, &*found.replace("T03", " 03"), false),
        (page, &*found.replace("7 bytes", "7 files"), false),
        (page, &*found.replace(", end", ""), false),
        (page, &*format!("{found}\nmore"), false),
        (page, found.trim_end_matches("last"), false),
        ("x 0123456789abcdef-89abcdef.table", "x fedcba9876543210-00000000.table", true),
        ("x 0123456789abcdef-89abcdef.table", "y fedcba9876543210-00000000.table", false),
        ("3,376 records", "3,377 records", false),
        ("", "error: it failed", false),
    ] {
        let found: Vec<&str> = found.lines().collect();
        assert_eq!(agrees(&lines(page), &found), wanted, "{page}\n{found:?}");
    }
}
