//! The age of figures: how many commits of the library are newer than their run.
//!
//! Pages say it of figures that are more than [`AGE_MAX`] commits old. Figures of a release are of
//! its own library. This file neither asks git nor reads pages.

/// Figures of at most this many commits ago have no mark. A wave of changes to the hot paths is
/// about as long.
pub const AGE_MAX: u64 = 100;

const BEGIN: &str = ", measured ";
const END: &str = " commits ago";

/// What the pages are part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// A version that is released.
    Release,
    /// Any other commit.
    Between,
}

/// The mark of figures behind their commit; empty if they are young or their age is not known.
pub fn mark(commits_since: Option<u64>) -> String {
    let old = commits_since.filter(|&age| age > AGE_MAX);
    old.map_or_else(String::new, |age| format!("{BEGIN}{age}{END}"))
}

/// The age in the mark of `commit`'s figures in a page, whose lines may be wrapped.
pub fn marked(page: &str, commit: &str) -> Option<u64> {
    let words = page.replace('\n', " ");
    let (_, after) = words.split_once(&format!("Commit {commit}{BEGIN}"))?;
    after.split_once(END)?.0.parse().ok()
}

/// Judges the mark of figures that are `age` commits old. A mark may itself be [`AGE_MAX`] commits
/// old, so that a page changes once in so many.
///
/// # Errors
/// A message that says what is wrong.
pub fn check(marked: Option<u64>, age: u64, commit: Commit) -> Result<(), String> {
    let unmarked = age.saturating_sub(marked.unwrap_or(0));
    match (commit, age) {
        (Commit::Release, 1..) => Err(format!("a release has figures of {age} commits ago")),
        _ if unmarked > AGE_MAX => Err(format!("figures of {age} commits ago do not say so")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
