//! The open transactions of a shell by name, one of which may be current.
//!
//! It runs no verb in them.

use crate::failure::{Failure, Result};
use crate::text::{counted, shortened};
use siltdb::{Durability, Isolation, Transaction};

#[cfg(test)]
mod tests;

/// Most open transactions. Each keeps old versions of everything that it may read.
pub const OPEN_MAX: usize = 100;

/// Longest name of a transaction, in bytes.
const NAME_BYTES_MAX: usize = 60;

/// The word after `rollback` that precedes a savepoint, and so no name of a transaction.
pub const TO: &str = "to";

/// The open transactions, in the order in which they began.
#[derive(Default)]
pub struct Transactions {
    open: Vec<Open>,
    current: Option<String>,
}

/// An open transaction.
pub struct Open {
    /// Its name.
    pub name: String,
    /// The transaction, on the family `default`.
    pub transaction: Transaction,
    /// Durability of its commit.
    pub durability: Durability,
}

impl Transactions {
    /// Returns all open transactions.
    pub fn open(&self) -> &[Open] {
        &self.open
    }

    /// Returns the name of the current transaction.
    pub fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// Returns the current transaction, or the one called `name`.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is none.
    pub fn find(&self, name: Option<&str>) -> Result<&Open> {
        let Some(name) = name.or(self.current()) else {
            return Err(Failure::Missing(match self.open.is_empty() {
                true => "no transaction is open; `begin` begins one".to_owned(),
                false => format!("no transaction is current; open: {}", self.names()),
            }));
        };
        self.open.iter().find(|open| open.name == name).ok_or_else(|| {
            let open = if self.open.is_empty() { "none".to_owned() } else { self.names() };
            Failure::Missing(format!("no transaction `{}`; open: {open}", shortened(name)))
        })
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.open.iter().map(|open| open.name.as_str()).collect();
        names.join(", ")
    }

    /// Returns the first free name of t1, t2, …
    pub fn free_name(&self) -> String {
        let is_free = |name: &String| self.open.iter().all(|open| open.name != *name);
        let mut names = (1..).map(|number: usize| format!("t{number}"));
        names.find(is_free).expect("fewer transactions are open than there are numbers")
    }

    /// Checks that a transaction called `name` may begin.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a name that is taken or not allowed, or for too many transactions.
    pub fn check_new(&self, name: &str) -> Result<()> {
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let is_allowed = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.bytes().all(is_plain)
            && !name.eq_ignore_ascii_case(TO);
        if !is_allowed {
            let rule =
                format!("at most {NAME_BYTES_MAX} of A-Z, a-z, 0-9, `-`, `_`, `.`, not `to`");
            let name = shortened(name);
            return Err(Failure::Usage(format!("`{name}` names no transaction: {rule}")));
        }
        if self.open.iter().any(|open| open.name == name) {
            return Err(Failure::Usage(format!("the transaction `{name}` is open already")));
        }
        if self.open.len() == OPEN_MAX {
            let hint = "commit one or roll it back";
            return Err(Failure::Usage(format!("{OPEN_MAX} transactions are open; {hint}")));
        }
        Ok(())
    }

    /// Adds a transaction, whose name was checked, and makes it the current one.
    pub fn add(&mut self, open: Open) {
        self.current = Some(open.name.clone());
        self.open.push(open);
    }

    /// Makes the transaction `name` current, or none.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is no such transaction.
    pub fn switch(&mut self, name: Option<&str>) -> Result<()> {
        if let Some(name) = name {
            self.find(Some(name))?;
        }
        self.current = name.map(str::to_owned);
        Ok(())
    }

    /// Removes the current transaction, or the one called `name`. None becomes current in its
    /// place, since later commands would then run in an unintended transaction.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is none.
    pub fn take(&mut self, name: Option<&str>) -> Result<Open> {
        let name = self.find(name)?.name.clone();
        let index = self.open.iter().position(|open| open.name == name);
        if self.current.as_ref() == Some(&name) {
            self.current = None;
        }
        Ok(self.open.remove(index.expect("it was found")))
    }

    /// Makes `before` current again after a command in the transaction `name`, unless the command
    /// made another one current.
    pub fn go_back(&mut self, name: &str, before: Option<String>) {
        if self.current.as_deref().is_none_or(|current| current == name) {
            let is_open = |before: &String| self.open.iter().any(|open| open.name == *before);
            self.current = before.filter(is_open);
        }
    }

    /// Rolls back all transactions; returns a message, if there were any.
    pub fn roll_back_all(&mut self) -> Option<String> {
        self.current = None;
        let mut parts = Vec::new();
        for Open { name, transaction, .. } in self.open.drain(..) {
            parts.push(format!("{name}, {}", counted(transaction.written() as u64, "operation")));
            // The drop rolls the transaction back even after an error.
            drop(transaction);
        }
        (!parts.is_empty())
            .then(|| format!("rolled back what was not committed: {}", parts.join("; ")))
    }
}

/// Parses an isolation level, in lower or upper case.
///
/// # Errors
/// A message that lists the levels.
pub fn parse_isolation(text: &str) -> std::result::Result<Isolation, String> {
    text.to_ascii_lowercase().parse().map_err(|_| {
        let names: Vec<_> = Isolation::ALL.iter().map(|level| level.as_str()).collect();
        format!("expected an isolation level: {}", names.join(", "))
    })
}
