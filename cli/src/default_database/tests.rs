//! Where the database of the environment goes, and which words win.

use super::*;
use crate::command_line::CommandLine;

fn completed(words: &str) -> Option<String> {
    let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
    let completed = with(CommandLine::full_command(), &words, OsStr::new("E"))?;
    let words: Vec<_> = completed.iter().map(|word| word.to_string_lossy()).collect();
    Some(words.join(" "))
}

#[test]
fn the_database_goes_behind_the_verb() {
    for (words, expected) in [
        ("silt get k", "silt get E k"),
        ("silt --json --wait 5s get k", "silt --json --wait 5s get E k"),
        ("silt --wait=5s scan --prefix get", "silt --wait=5s scan E --prefix get"),
        ("silt branch list", "silt branch list E"),
        ("silt branch --json list", "silt branch --json list E"),
        ("silt families", "silt families E"),
        ("silt families create f", "silt families create E f"),
        ("silt backup create b", "silt backup create E b"),
        ("silt archive import a.siltar", "silt archive import E a.siltar"),
    ] {
        assert_eq!(completed(words).as_deref(), Some(expected), "{words}");
    }
}

#[test]
fn what_removes_or_makes_a_database_takes_none() {
    for words in [
        "silt destroy",
        "silt adopt",
        "silt recover new",
        "silt restore new",
        "silt backup prune b --keep 1",
        "silt archive drop a.siltar",
        "silt inspect f",
        "silt table f t",
        "silt completions bash",
        "silt man",
        "silt",
        "silt --json",
        "silt nonsense",
    ] {
        assert_eq!(completed(words), None, "{words}");
    }
}
