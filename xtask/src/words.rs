//! `cargo xtask words`: the lengths of the pages and of their sentences.
//!
//! It counts prose: no headings, tables, code or targets of links. Decisions and the changelog grow
//! with time and are left out. It does not judge style.

use crate::checkout::{Checkout, Source};
use crate::markdown::{Sentence, sentences, table_words};
use std::path::Path;
use std::process::ExitCode;

/// Words of prose in all pages together: a little more than an hour of reading.
const WORDS_MAX: usize = 20_000;
/// Mean words of a sentence over all pages.
const MEAN_MAX: f64 = 18.0;
/// A longer sentence is listed, because it is hard to read once.
const SENTENCE_WORDS_MAX: usize = 25;
/// Number of listed sentences if no page is named.
const LONGEST_COUNT: usize = 20;
/// Characters of a listed sentence.
const EXCERPT_CHARACTERS: usize = 100;

/// The counts of one page, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    words: usize,
    sentences: usize,
    long: usize,
    longest: usize,
    table_words: usize,
}

impl Count {
    fn of(text: &str) -> (Self, Vec<Sentence>) {
        let all = sentences(text);
        let long: Vec<_> = all.iter().filter(|s| s.words > SENTENCE_WORDS_MAX).cloned().collect();
        let count = Self {
            words: all.iter().map(|sentence| sentence.words).sum(),
            sentences: all.len(),
            long: long.len(),
            longest: all.iter().map(|sentence| sentence.words).max().unwrap_or(0),
            table_words: table_words(text),
        };
        (count, long)
    }

    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.sentences += other.sentences;
        self.long += other.long;
        self.longest = self.longest.max(other.longest);
        self.table_words += other.table_words;
    }

    fn mean(&self) -> f64 {
        self.words as f64 / self.sentences.max(1) as f64
    }

    fn print(&self, name: &str) {
        println!(
            "{name:<34} {:>6} {:>9} {:>5.1} {:>5} {:>7} {:>6}",
            self.words,
            self.sentences,
            self.mean(),
            self.long,
            self.longest,
            self.table_words
        );
    }
}

/// Prints the counts of `pages`, or of all if none is named, and the longest sentences. Exit code 1
/// if all pages together miss a bar, 2 if a page does not exist.
pub fn run(root: &Path, pages: &[&str]) -> ExitCode {
    match print(root, pages) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("words: {error}");
            ExitCode::from(2)
        }
    }
}

fn print(root: &Path, pages: &[&str]) -> Result<ExitCode, String> {
    let checkout = Checkout::read(root)?;
    let chosen = choose(&checkout, pages)?;
    println!("{:<34}  words sentences  mean  > {SENTENCE_WORDS_MAX} longest tables", "page");
    let (mut sum, mut listed) = (Count::default(), Vec::new());
    for source in chosen {
        let (count, long) = Count::of(&source.text);
        count.print(&source.path);
        sum.add(count);
        listed.extend(long.into_iter().map(|sentence| (&source.path, sentence)));
    }
    sum.print("all");
    // Of equal ones the order stays that of the pages.
    listed.sort_by_key(|(_, sentence)| std::cmp::Reverse(sentence.words));
    let most = if pages.is_empty() { LONGEST_COUNT } else { usize::MAX };
    for (path, Sentence { line, words, text }) in listed.into_iter().take(most) {
        let excerpt: String = text.chars().take(EXCERPT_CHARACTERS).collect();
        println!("{path}:{line}: {words} words: {excerpt}");
    }
    if !pages.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let missed = missed(&sum);
    missed.iter().for_each(|bar| println!("missed: {bar}"));
    Ok(if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The named pages, or all.
fn choose<'a>(checkout: &'a Checkout, pages: &[&str]) -> Result<Vec<&'a Source>, String> {
    if pages.is_empty() {
        return Ok(checkout.sources.iter().filter(|source| is_page(&source.path)).collect());
    }
    let find = |page: &&str| checkout.source(page).ok_or_else(|| format!("there is no `{page}`"));
    pages.iter().map(find).collect()
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md") && path != "CHANGELOG.md" && !path.starts_with("docs/decisions/")
}

fn missed(sum: &Count) -> Vec<String> {
    let mut missed = Vec::new();
    if sum.words > WORDS_MAX {
        missed.push(format!("{} words, at most {WORDS_MAX}", sum.words));
    }
    if sum.mean() > MEAN_MAX {
        missed.push(format!("{:.1} words in a sentence, at most {MEAN_MAX}", sum.mean()));
    }
    missed
}

#[cfg(test)]
mod tests;
