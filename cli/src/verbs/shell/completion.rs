//! Completion by the Tab key: verbs, options, names of families and transactions, and keys.
//!
//! It runs no verb, and reads a bounded number of keys.

use crate::bounds::key_range;
use crate::key_form::KeyForm;
use crate::raw_keys::RawKeysArguments;
use crate::text::Form;
use crate::words::{Script, quoted};
use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use siltdb::{Family, Iter, Read};

#[cfg(test)]
mod tests;

/// Most keys that are offered.
pub const KEYS_MAX: usize = 100;

/// Longest key that is offered, in bytes; longer ones fill the terminal.
const KEY_BYTES_MAX: usize = 256;

/// Completes the line that is being typed.
pub struct Completion {
    command: clap::Command,
    /// The names of the families.
    pub families: Vec<String>,
    /// The names of the branches.
    pub branches: Vec<String>,
    /// The names of the open transactions.
    pub transactions: Vec<String>,
    /// The family in use, whose committed keys are offered. A read through an open transaction
    /// would add to its footprint.
    pub family: Option<Family>,
}

impl Completion {
    /// Completes the verbs and options of `command`.
    pub fn new(mut command: clap::Command) -> Self {
        command.build();
        let (families, branches, transactions) = (Vec::new(), Vec::new(), Vec::new());
        Self { command, families, branches, transactions, family: None }
    }

    /// Returns the words that begin with `start` and may follow the words `before`.
    fn candidates(&self, before: &[&str], start: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        // `NAME:` runs the verb after it in a transaction.
        let before = match before {
            [first, rest @ ..] if first.ends_with(':') => rest,
            _ => before,
        };
        let verb_name = before.first().map(|verb| verb.to_ascii_lowercase());
        let verb = verb_name.as_ref().and_then(|verb| self.command.find_subcommand(verb));
        let positional = before.iter().skip(1).filter(|word| !word.starts_with('-')).count();
        match (verb_name.as_deref(), before) {
            (_, [.., "--branch" | "--into"])
            | (Some("branch"), [.., "--from"])
            | (Some("branch"), [_, "checkout" | "drop" | "rename" | "merge"])
            | (Some("branch"), [_, "diff"] | [_, "diff", _]) => {
                all.extend(self.branches.iter().cloned());
            }
            (_, [.., "--family"])
            | (Some("use" | "clone" | "freeze" | "thaw"), [_])
            | (Some("families"), [_, "drop" | "rename" | "options"]) => {
                all.extend(self.families.iter().cloned())
            }
            (Some("commit" | "rollback" | "switch"), [_]) => {
                all.extend(self.transactions.iter().cloned());
            }
            (_, [.., "--prefix" | "--from" | "--to"]) => return self.keys(start),
            (Some("get" | "put" | "delete"), _) if positional == 0 && !start.starts_with('-') => {
                return self.keys(start);
            }
            _ if start.starts_with('-') => {
                let options = verb.into_iter().flat_map(clap::Command::get_arguments);
                all.extend(options.filter_map(|o| o.get_long()).map(|long| format!("--{long}")));
            }
            _ => {
                let parent = match before {
                    [] => Some(&self.command),
                    [_] => verb,
                    _ => None,
                };
                let verbs = parent.into_iter().flat_map(clap::Command::get_subcommands);
                all.extend(verbs.map(|verb| verb.get_name().to_owned()));
            }
        }
        let wanted = start.to_lowercase();
        all.retain(|candidate| candidate.to_lowercase().starts_with(&wanted));
        all.sort();
        all.dedup();
        all
    }

    /// Returns keys that begin with `start`, as words: the first ones, and the last one. So their
    /// common prefix is that of all keys. Keys that cannot be typed are left out.
    fn keys(&self, start: &str) -> Vec<String> {
        let Some(family) = &self.family else { return Vec::new() };
        let form = KeyForm::new(Form::Plain, family.key_order());
        let range = key_range(Some(start.as_bytes().to_vec()), None, None);
        // A key that cannot be read is not offered; a verb will report the error.
        let parts = range.map(|range| {
            RawKeysArguments::default().parts_by(&form, range, |key| family.contains(key))
        });
        let parts = parts.and_then(Result::ok).unwrap_or_default();
        let parts = parts.into_iter().filter_map(|part| family.range(part).ok());
        let mut keys = parts.flat_map(Iter::keys);
        let last = keys.next_back().and_then(Result::ok);
        let first = keys.map_while(Result::ok).take(KEYS_MAX);
        let keys = first.chain(last).filter_map(|key| word_of(&key));
        keys.collect()
    }
}

/// Returns a word for a key, if there is one.
fn word_of(key: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(key).ok()?;
    let mut shown = String::new();
    Form::Plain.render(key, &mut shown);
    let is_typed = shown == text && !text.starts_with('-') && text.len() <= KEY_BYTES_MAX;
    is_typed.then(|| quoted(text))
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let last = Script::parse(typed).last;
        let before = Script::parse(&typed[..last.start]);
        // A line end before the word starts a new command.
        let is_new = typed[..last.start].trim_end_matches(' ').ends_with('\n');
        let words = before.commands.last().filter(|_| !is_new);
        let words: Vec<&str> =
            words.map_or(Vec::new(), |command| command.words.iter().map(String::as_str).collect());
        let mut candidates = self.candidates(&words, &last.text);
        if let [only] = candidates.as_mut_slice() {
            // The word is complete, so a space lets the next one follow.
            only.push(' ');
        }
        Ok((last.start, candidates))
    }
}

impl Validator for Completion {
    /// A line with an open quote continues on the next line.
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match Script::parse(context.input()).open {
            Some(_) => ValidationResult::Incomplete,
            None => ValidationResult::Valid(None),
        })
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Helper for Completion {}
