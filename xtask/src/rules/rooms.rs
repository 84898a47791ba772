//! The crate `engine` has few rooms, and few functions take the whole database, because such a
//! function does not show what it uses. Counts functions of released code that name `Database` in
//! the type of a parameter, or the `Writable` that leads to it, also in an `Arc` or in a call;
//! neither the methods of `Database` itself, nor those that it is given to for good.

use crate::checkout::{Checkout, Role, Source};
use crate::finding::Finding;
use crate::items::{Function, functions, occurrences, split_commas};
use crate::rules::modules::map::Map;
use crate::rules::modules::references::references;
use std::collections::BTreeSet;

const RULE: &str = "rooms";

/// The root of the crate whose rooms are counted.
const ROOT: &str = "crates/engine/src/lib.rs";

/// Top modules of the crate, at most.
const MODULES_MAX: usize = 26;

/// Imports between these, at most.
const IMPORTS_MAX: usize = 111;

/// Functions that take the database, and functions that pass it on. A number only falls.
const CEILINGS: [usize; 2] = [62, 38];

/// The rooms of the engine, and the functions that take all of them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    /// Top modules of the engine.
    pub modules: usize,
    /// Pairs of them of which one uses the other.
    pub imports: usize,
    /// Functions that take the database.
    pub takes: usize,
    /// Functions of these that pass it on unchanged.
    pub passes_on: usize,
}

/// Counts the rooms of `checkout`.
pub fn count(checkout: &Checkout) -> Rooms {
    let mut rooms = Rooms::default();
    if let Some(root) = checkout.rust().find(|source| source.path == ROOT) {
        let map = Map::read(checkout, root, &mut Vec::new());
        let mut pairs = BTreeSet::new();
        for module in &map.modules {
            let Some(user) = module.path.first() else { continue };
            for reference in references(module) {
                let used = reference.path.and_then(|path| path.into_iter().next());
                let used = used.filter(|used| used != user);
                pairs.extend(
                    used.filter(|name| map.root().children.contains(name)).map(|used| (user, used)),
                );
            }
        }
        (rooms.modules, rooms.imports) = (map.root().children.len(), pairs.len());
    }
    for source in checkout.rust().filter(|source| is_counted(source)) {
        for function in functions(&source.production) {
            let Some(name) = database_of(&source.production, &function) else { continue };
            rooms.takes += 1;
            rooms.passes_on += usize::from(passes_on(&source.production, &function, name));
        }
    }
    rooms
}

/// Appends a finding for each number above its bound, and for each ceiling that may fall.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    let Some(root) = checkout.rust().find(|source| source.path == ROOT) else { return };
    let rooms = count(checkout);
    let mut report = |message| findings.push(root.finding(0, RULE, message));
    let bounds =
        [(rooms.modules, MODULES_MAX, "top modules"), (rooms.imports, IMPORTS_MAX, "imports")];
    for (count, most, what) in bounds.into_iter().filter(|(count, most, _)| count > most) {
        report(format!("the engine has {count} {what}, at most {most}"));
    }
    let counts = [(rooms.takes, "take the database"), (rooms.passes_on, "pass the database on")];
    for ((count, what), ceiling) in counts.into_iter().zip(CEILINGS) {
        let remedy = match count.cmp(&ceiling) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Greater => "take the rooms that are used",
            std::cmp::Ordering::Less => "lower the ceiling in xtask/src/rules/rooms.rs",
        };
        report(format!("{count} functions {what}, not {ceiling}: {remedy}"));
    }
}

fn is_counted(source: &Source) -> bool {
    source.role == Role::Production && source.path.starts_with("crates/")
}

/// The name of the parameter whose type names `Database`, or `Writable`, which leads to it.
fn database_of<'a>(code: &'a str, function: &Function) -> Option<&'a str> {
    split_commas(&code[function.parameters.clone()]).into_iter().find_map(|parameter| {
        let (name, kind) = parameter.split_once(": ")?;
        let mut named = ["Database", "Writable"].iter().flat_map(|word| occurrences(kind, word));
        named.next().filter(|_| kind != "Database")?;
        Some(name.trim().trim_start_matches("mut "))
    })
}

/// Whether the body uses the parameter, or the `database` that it led to, other than for one of its
/// fields or methods.
fn passes_on(code: &str, function: &Function, name: &str) -> bool {
    let body = &code[function.parameters.end..function.end];
    let is_whole = |name: &str| {
        let mut uses = occurrences(body, name).map(|at| body[at + name.len()..].trim_start());
        uses.any(|after| !after.starts_with(['.', '=', '(']) && !after.starts_with(": "))
    };
    is_whole(name) || is_whole("database")
}

#[cfg(test)]
mod tests;
