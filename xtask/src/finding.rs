//! A broken rule at one place. It does not know how the rule was checked.

use std::fmt;

/// A broken rule, printed as `file:line: rule: message`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the repository.
    pub path: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Name of the rule family.
    pub rule: &'static str,
    /// The error and its remedy.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.rule, self.message)
    }
}
