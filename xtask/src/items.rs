//! Finds functions, modules, imports and implementations in the code view of a source file.
//! Does not resolve names and does not expand macros.

use crate::lexer::is_word;
use std::ops::Range;

/// A function with or without a body.
pub struct Function {
    /// Offset of the word `fn`.
    pub start: usize,
    /// The function's name.
    pub name: String,
    /// From the opening to the closing parenthesis, both excluded.
    pub parameters: Range<usize>,
    /// Offset one past the closing brace or the semicolon.
    pub end: usize,
}

/// A `mod` line or an inline module.
pub struct Module {
    /// Offset of the word `mod`.
    pub start: usize,
    /// The module's name.
    pub name: String,
    /// Inside of the braces, for an inline module.
    pub body: Option<Range<usize>>,
}

/// One imported path; a `use` with braces holds several.
pub struct Import {
    /// Offset of the word `use`.
    pub start: usize,
    /// Offset one past the semicolon.
    pub end: usize,
    /// The path's segments; a glob ends with `*`, a renamed import keeps its old name.
    pub path: Vec<String>,
    /// The name by which the import is visible outside its module.
    pub reexport: Option<String>,
}

/// An `impl` or `trait` block.
pub struct Block {
    /// Inside of the braces.
    pub body: Range<usize>,
    /// The type that is implemented, or the trait, without path and generics.
    pub name: String,
    /// The words before `impl` or `trait` on the same line.
    pub prefix: String,
}

/// Offsets at which `needle` stands in `code` without word characters beside it.
pub fn occurrences<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    let edge = |byte: Option<u8>| byte.is_some_and(is_word);
    let open = edge(needle.bytes().next());
    let close = edge(needle.bytes().last());
    code.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let after = bytes.get(at + needle.len()).copied();
        !(open && edge(before) || close && edge(after))
    })
}

/// The identifier at the start of `code`, after white space.
pub fn identifier(code: &str) -> Option<&str> {
    let code = code.trim_start();
    let length = code.bytes().take_while(|&b| is_word(b)).count();
    (length > 0).then(|| &code[..length])
}

/// Offset of the bracket that closes the one at `open`.
pub fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// From `start` on, the offset of the first `{` or `;` outside parentheses and brackets.
fn body_or_end(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.checked_sub(1)?,
            b'{' | b';' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

/// Offset one past the item whose body or semicolon follows `start`.
fn item_end(code: &str, start: usize) -> Option<usize> {
    let at = body_or_end(code, start)?;
    if code.as_bytes()[at] == b';' { Some(at + 1) } else { closing(code, at).map(|end| end + 1) }
}

/// All functions, nested ones included.
pub fn functions(code: &str) -> Vec<Function> {
    let function = |start: usize| {
        let name = identifier(&code[start + 2..])?;
        let name_end = start + 2 + code[start + 2..].find(name)? + name.len();
        let generics = after_generics(&code[name_end..]);
        let open = name_end + generics + code[name_end + generics..].find('(')?;
        let parameters = open + 1..closing(code, open)?;
        let end = item_end(code, parameters.end + 1)?;
        Some(Function { start, name: name.to_owned(), parameters, end })
    };
    occurrences(code, "fn").filter_map(function).collect()
}

/// The modules declared in `code` and not inside another inline module of it.
pub fn modules(code: &str) -> Vec<Module> {
    let mut found: Vec<Module> = Vec::new();
    for start in occurrences(code, "mod") {
        let Some(name) = identifier(&code[start + 3..]) else { continue };
        let name_end = start + 3 + code[start + 3..].find(name).unwrap_or(0) + name.len();
        let inside = found.iter().any(|m| m.body.as_ref().is_some_and(|b| b.contains(&start)));
        let next = code[name_end..].trim_start().bytes().next();
        let body = match next {
            Some(b';') => None,
            Some(b'{') => body_or_end(code, name_end)
                .and_then(|open| closing(code, open).map(|close| open + 1..close)),
            _ => continue,
        };
        if !inside {
            found.push(Module { start, name: name.to_owned(), body });
        }
    }
    found
}

/// All imported paths.
pub fn imports(code: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for start in occurrences(code, "use") {
        let after = &code[start + 3..];
        // `use<'a>` in a return type captures lifetimes; it imports nothing.
        if !after.starts_with(char::is_whitespace) || after.trim_start().starts_with('<') {
            continue;
        }
        let Some(length) = after.find(';') else { continue };
        let line = code[..start].rfind(['\n', ';', '}']).map_or(0, |at| at + 1);
        let exported = code[line..start].trim().starts_with("pub");
        let mut paths = Vec::new();
        expand(&after[..length], &[], &mut paths);
        found.extend(paths.into_iter().map(|(path, name)| Import {
            start,
            end: start + 3 + length + 1,
            path,
            reexport: exported.then_some(name),
        }));
    }
    found
}

/// Flattens one `use` tree into pairs of path and visible name.
fn expand(tree: &str, prefix: &[String], paths: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim().trim_start_matches("::");
    if tree.is_empty() {
        return;
    }
    let segments = |text: &str| -> Vec<String> {
        text.split("::").map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned).collect()
    };
    let mut path = prefix.to_vec();
    if let Some(open) = tree.find('{') {
        path.extend(segments(&tree[..open]));
        let close = closing(tree, open).unwrap_or(tree.len());
        split_commas(&tree[open + 1..close])
            .into_iter()
            .for_each(|part| expand(part, &path, paths));
        return;
    }
    let (original, alias) = match tree.split_once(" as ") {
        Some((original, alias)) => (original, Some(alias.trim())),
        None => (tree, None),
    };
    path.extend(segments(original));
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = alias.map(str::to_owned).or_else(|| path.last().cloned()).unwrap_or_default();
    paths.push((path, name));
}

/// Splits at commas outside all brackets, angle brackets included.
pub fn split_commas(code: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0i32, 0, Vec::new());
    let bytes = code.as_bytes();
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if at > 0 && matches!(bytes[at - 1], b'-' | b'=') => {}
            b')' | b']' | b'}' | b'>' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&code[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&code[from..]);
    parts.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// All blocks that begin with `keyword` (`impl` or `trait`) at the start of an item.
pub fn blocks(code: &str, keyword: &str) -> Vec<Block> {
    let block = |start: usize| {
        let line = code[..start].rfind('\n').map_or(0, |at| at + 1);
        let prefix = code[line..start].trim();
        let starts_item = prefix.split_whitespace().all(|w| w.starts_with("pub") || w == "unsafe");
        let open = starts_item.then(|| body_or_end(code, start))??;
        let head = &code[start + keyword.len()..open];
        let head = &head[..occurrences(head, "where").next().unwrap_or(head.len())];
        let head = head.rsplit(" for ").next()?.trim();
        let body = open + 1..closing(code, open)?;
        Some(Block { body, name: type_name(head), prefix: prefix.to_owned() })
    };
    occurrences(code, keyword).filter_map(block).collect()
}

/// Length of the angle brackets that `code` starts with, zero without.
fn after_generics(code: &str) -> usize {
    if !code.starts_with('<') {
        return 0;
    }
    let bytes = code.as_bytes();
    let mut depth = 0i32;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if !matches!(bytes[at - 1], b'-' | b'=') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// `<T> crate::a::Name<T>: Bound` is `Name`.
fn type_name(head: &str) -> String {
    let rest = &head[after_generics(head)..];
    let path = rest.split(['<', '\n', '{']).next().unwrap_or("").trim();
    let path = path.split(": ").next().unwrap_or("");
    path.rsplit("::").next().unwrap_or("").trim_start_matches('&').trim().to_owned()
}

/// The condition of what the tests of several crates share. No other build has the feature.
const FIXTURE: &str = "#[cfg(any(test, feature = \"fixture\")";

/// Items that exist in tests only: from their attribute to their end. `text` is the file of which
/// `code` is the view.
pub fn test_regions(code: &str, text: &str) -> Vec<Range<usize>> {
    let whole = |start| start..item_end(code, start).unwrap_or(code.len());
    let mut regions: Vec<_> = code.match_indices("#[test]").map(|(at, _)| whole(at)).collect();
    for (start, _) in code.match_indices("#[cfg(") {
        let Some(end) = closing(code, start + 1) else { continue };
        let condition = &code[start..end];
        let certain = !condition.contains("not(") && !condition.contains("any(");
        let is_fixture = text[start..].starts_with(FIXTURE);
        if is_fixture || certain && occurrences(condition, "test").next().is_some() {
            regions.push(whole(start));
        }
    }
    regions
}

/// `code` with `regions` blanked, line breaks kept.
pub fn blanked(code: &str, regions: &[Range<usize>]) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for region in regions {
        for byte in &mut bytes[region.clone()] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(bytes).expect("regions begin and end at ASCII characters")
}

#[cfg(test)]
mod tests;
