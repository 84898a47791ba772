//! The paths in a module, in imports and in code, as absolute paths of its crate.

use crate::items::{blanked, identifier, imports};
use crate::lexer::is_word;
use crate::rules::modules::map::Module;

/// One path in the code of a module.
pub struct Reference {
    /// Offset in the file.
    pub start: usize,
    /// The segments as written.
    pub written: Vec<String>,
    /// The segments from the root of the crate; `None` if the path leads out of the crate.
    pub path: Option<Vec<String>>,
    /// The name it is re-exported by.
    pub reexport: Option<String>,
    /// Whether the path calls a macro.
    pub is_macro: bool,
}

/// All paths in `module`.
pub fn references(module: &Module<'_>) -> Vec<Reference> {
    let mut found = Vec::new();
    let mut spans = Vec::new();
    for import in imports(&module.code) {
        spans.push(import.start..import.end);
        let path = absolute(module, &import.path);
        found.push(Reference {
            start: import.start,
            written: import.path,
            path,
            reexport: import.reexport,
            is_macro: false,
        });
    }
    let code = blanked(&module.code, &spans);
    for (at, _) in code.match_indices("::") {
        let start = at - code[..at].bytes().rev().take_while(|&b| is_word(b)).count();
        // A path is read from its first segment.
        if start == at || code[..start].ends_with("::") {
            continue;
        }
        let (written, end) = chain(&code, start);
        let path = absolute(module, &written);
        let is_macro = code[end..].starts_with('!') && !code[end..].starts_with("!=");
        found.push(Reference { start, written, path, reexport: None, is_macro });
    }
    found
}

/// The segments from `start` on, and their end.
fn chain(code: &str, start: usize) -> (Vec<String>, usize) {
    let (mut segments, mut at) = (Vec::new(), start);
    while let Some(name) = identifier(&code[at..]).filter(|name| code[at..].starts_with(*name)) {
        segments.push(name.to_owned());
        at += name.len();
        match code[at..].strip_prefix("::") {
            Some(rest) if rest.bytes().next().is_some_and(is_word) => at += 2,
            _ => break,
        }
    }
    (segments, at)
}

/// The absolute form of `path` in `module`.
fn absolute(module: &Module<'_>, path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    let mut absolute = match first.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => module.path.clone(),
        child if module.position(child).is_some() => {
            let mut absolute = module.path.clone();
            absolute.push(child.to_owned());
            absolute
        }
        _ => return None,
    };
    if first == "super" {
        absolute.pop()?;
    }
    for segment in rest {
        if segment == "super" {
            absolute.pop()?;
        } else {
            absolute.push(segment.clone());
        }
    }
    Some(absolute)
}
