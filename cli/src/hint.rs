//! The errors of the database in the words of the tool: an error of the library names its methods
//! and types, where a user of the tool has verbs and options.
//!
//! It makes no errors.

use siltdb::Error;

#[cfg(test)]
mod tests;

/// What hints of the library say, and what the tool says in its place. A unit test finds hints that
/// name something else.
const WORDS: [(&str, &str); 17] = [
    ("`cold_directory`", "`--cold DIR`"),
    ("`retain_log_bytes`", "`--option retain_log_bytes=BYTES`"),
    ("`retain_log_for`", "`--option retain_log_for=TIME`"),
    ("`lock_timeout`", "`--option lock_timeout=TIME`"),
    ("`salvage::salvage`", "`silt recover OLD NEW`"),
    ("`RecoveryMode::PointInTime`", "`--recovery point-in-time`"),
    ("`Options::adopt`", "`silt adopt DB`"),
    ("`CopyOptions::adopt`", "`silt backup create --adopt`"),
    ("`Db::branches`", "`silt branch list DB`"),
    ("a `TableFileWriter`", "`silt table`"),
    ("and import the result", "and `silt import` the result"),
    ("reading, also with `read_only`, works", "verbs that only read work"),
    (", or give more `memory_bytes`", ""),
    ("; `Key::to_key` encodes keys of its buckets", ""),
    ("`reset` makes it a new one", "`begin` begins another"),
    (
        "a family stores the name alone: give the operator to `Options::merge_operator` at this \
         opening and each later one",
        "only a program that has the operator can do this",
    ),
    (
        "a family stores the name alone: give the filter to `Options::compaction_filter` at this \
         opening and each later one",
        "only a program that has the filter can do this",
    ),
];

/// Returns the text of `error` in the words of the tool.
pub fn told(error: &Error) -> String {
    let text = error.to_string();
    let Some(hint) = error.hint() else { return text };
    match text.strip_suffix(hint) {
        Some(before) => format!("{before}{}", in_words(hint)),
        None => text,
    }
}

/// Returns `hint` in the words of the tool.
fn in_words(hint: &str) -> String {
    WORDS.iter().fold(hint.to_owned(), |hint, (library, tool)| hint.replace(library, tool))
}
