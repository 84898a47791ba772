//! All hints in the sources of the library, in the words of the tool.

use super::*;
use siltdb::ErrorKind;
use std::{fs, path::Path};

/// Names in marks that mean the same to users of the tool: a feature of the build, and methods that
/// the tool does not call.
const PLAIN: [&str; 7] = ["begin", "lost", "zstd", "attempts", "ttl", "expiry", "put_for"];

/// Calls `visit` with each text in the Rust files below `dir`, but for those of tests.
fn each_text(dir: &Path, visit: &mut dyn FnMut(&str)) {
    for entry in fs::read_dir(dir).expect("a directory of sources") {
        let path = entry.expect("a file").path();
        let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            each_text(&path, visit);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let source = fs::read_to_string(&path).expect("a source");
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let code: Vec<&str> = source.lines().filter(is_code).collect();
            texts(&code.join("\n")).iter().for_each(|text| visit(text));
        }
    }
}

/// Returns the literals of strings in `code`.
fn texts(code: &str) -> Vec<String> {
    let (mut texts, mut rest) = (Vec::new(), code.replace("'\"'", "' '"));
    while let Some(start) = rest.find('"') {
        let mut text = String::new();
        let mut characters = rest[start + 1..].char_indices();
        let end = loop {
            match characters.next() {
                None => return texts,
                Some((index, '"')) => break index,
                Some((_, '\\')) => match characters.next() {
                    Some((_, '\n')) => {
                        let line = characters.as_str();
                        let skipped = line.len() - line.trim_start().len();
                        characters.by_ref().take(skipped).for_each(drop);
                    }
                    Some((_, escaped)) => text.push(escaped),
                    None => return texts,
                },
                Some((_, character)) => text.push(character),
            }
        };
        texts.push(text);
        rest = rest[start + 1 + end + 1..].to_owned();
    }
    texts
}

/// Returns what stands in marks in `text`.
fn marked(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_hint_of_the_library_names_what_the_tool_has() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut unused: Vec<&str> = WORDS.iter().map(|(library, _)| *library).collect();
    let (mut hints, mut foreign) = (0, Vec::new());
    for entry in fs::read_dir(&crates).expect("the crates") {
        each_text(&entry.expect("a crate").path().join("src"), &mut |text| {
            assert!(!text.contains("`silt"), "the library names a verb of the tool: {text}");
            let is_used = |words: &&str| text.contains(*words);
            unused.retain(|words| !is_used(words));
            // What a caller did wrong in code has a message for programmers.
            if marked(text).is_empty() || text.contains('\n') {
                return;
            }
            hints += 1;
            let shown = in_words(text);
            for name in marked(&shown) {
                let is_of_tool = name.starts_with("silt ") || name.starts_with("--");
                if !is_of_tool && !PLAIN.contains(&name) {
                    foreign.push(format!("`{name}`: {text}"));
                }
            }
        });
    }
    assert!(foreign.is_empty(), "{foreign:#?}");
    assert!(unused.is_empty(), "no hint says {unused:?}");
    assert!(hints >= WORDS.len(), "{hints}");
}

#[test]
fn an_error_is_told_with_its_facts_in_the_words_of_the_tool() {
    let error = Error::new(ErrorKind::NotFound, "no cold directory")
        .with_file(Path::new("db/COLD"))
        .with_hint("name it by `cold_directory`");
    let told = told(&error);
    assert_eq!(told, "not found: no cold directory. file=db/COLD; name it by `--cold DIR`");
}
