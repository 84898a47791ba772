//! Messages of the tool: numbers, counts, tips and bars.
//!
//! What the verbs do is tested elsewhere.

use crate::place::Place;
use std::{
    fs,
    path::{Path, PathBuf},
};

#[test]
fn a_number_that_is_none_is_answered_with_the_range() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let all = "expected a whole number from 0 to 18446744073709551615";
    let positive = "expected a whole number from 1 to 18446744073709551615";
    let signed = "expected a whole number from -9223372036854775808 to 9223372036854775807";
    for (arguments, option, expected) in [
        (&["get", "db", "k", "--at", "x"][..], "--at <SEQ>", all),
        (&["import", "db", "-", "--format", "csv", "--skip", "1.5"], "--skip <N>", all),
        (&["scan", "db", "--limit", "many"], "--limit <N>", all),
        (&["scan", "db", "--limit", "many"], "or `all`", all),
        (&["retain", "db", "--from", "-"], "--from <SEQ>", "from 0 to 18446744073709551615"),
        (&["backup", "prune", "b", "--keep", "0"], "--keep <N>", positive),
        (&["put", "db", "k", "v", "--durability", "interval:x"], "interval:MS", "from 1 to"),
        (&["incr", "db", "n", "9223372036854775808"], "[BY]", signed),
    ] {
        let run = place.run(arguments, 2);
        run.says(&[option, expected]);
        let value = arguments.last().expect("there are some");
        run.says(&[&format!("'{value}'")]);
    }
}

#[test]
fn the_dash_tip_stands_only_where_the_verb_takes_a_key_by_its_place() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let tip = "keys and values that begin with a dash come last";
    for arguments in [&["get", "db", "-x"][..], &["put", "db", "-key", "v"]] {
        place.run(arguments, 2).says(&[tip]);
    }
    for arguments in
        [&["stats", "db", "-x"][..], &["scan", "db", "--all"], &["families", "list", "db", "-key"]]
    {
        let run = place.run(arguments, 2);
        assert!(!run.stderr.contains("dash"), "{}", run.stderr);
        assert!(!run.stderr.contains("as a value"), "{}", run.stderr);
        run.says(&[&format!("unexpected argument '{}' found", arguments.last().expect("some"))]);
    }
    // An option that takes no value is followed by none.
    let run = place.run(&["scan", "db", "--reverse", "-key"], 2);
    assert!(!run.stderr.contains("--reverse="), "{}", run.stderr);
    place.run(&["scan", "db", "--prefix", "-key"], 2).says(&["use '--prefix=-key'"]);
}

#[test]
fn things_are_counted_in_their_number() {
    let place = Place::new();
    place.run_with(&["table", "-", "t.sst", "--format", "lines"], b"k\tv\n", 0);
    place.ok(&["ingest", "db", "t.sst"]);
    let text = place.ok(&["clone", "db", "default", "copy"]);
    assert!(text.contains("1 table shared (") && text.contains(" bytes)"), "{text}");
    place.ok(&["put", "a.db", "k", ""]);
    place.ok(&["archive", "create", "a.db", "a.siltar"]);
    let text = place.ok(&["archive", "show", "a.siltar"]);
    assert!(text.contains("default\t1 entry\t1 byte of keys and values"), "{text}");
}

#[test]
fn an_import_that_skips_all_records_says_so() {
    let place = Place::new();
    let arguments = ["import", "db", "-", "--format", "csv", "--skip", "5"];
    let run = place.run_with(&arguments, b"id\na\nb\n", 0);
    run.says(&["the input has 2 records; --skip 5 leaves all of them out"]);
}

#[test]
fn a_long_value_is_printed_as_a_short_one() {
    let place = Place::new();
    // Longer than what is printed at once, with characters across the bounds.
    let value = format!("a{}\"\\", "ä€\t".repeat(30_000));
    place.write("value", &value);
    place.ok(&["put", "db", "k", "--file", "value"]);
    let shown = value.replace('\t', "\\x09");
    assert_eq!(place.ok(&["get", "db", "k"]), format!("{shown}\n"));
    assert_eq!(place.ok(&["scan", "db"]), format!("k\t{shown}\n"));
    let found = place.run(&["scan", "db", "--json"], 0).json();
    assert_eq!(found, [serde_json::json!({ "key": "k", "value": value })]);
    let bytes = vec![0xff; 100_000];
    place.write("value", &bytes);
    place.ok(&["put", "db", "k", "--file", "value", "--ttl", "7d"]);
    let found = place.run(&["get", "db", "k", "--json"], 0).json();
    assert_eq!(found[0]["value"]["hex"], "ff".repeat(100_000));
    assert!(found[0]["expires_at"].is_u64(), "{}", found[0]["expires_at"]);
}

#[test]
fn errors_name_the_options_and_verbs_of_the_tool() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    place
        .run(&["freeze", "db", "default"], 2)
        .says(&["no cold directory; open it with `--cold DIR`"]);
    for _ in 0..2 {
        place.ok(&["put", "db", "k", "v"]);
        place.ok(&["flush", "db"]);
    }
    let run = place.run(&["watch", "db", "--from", "1"], 1);
    run.says(&["`--option retain_log_bytes=BYTES` and `--option retain_log_for=TIME` keep more"]);
    place.write("t.sst", "no table");
    place.run(&["branch", "drop", "db", "x"], 1).says(&["no branch"]);
}

#[test]
fn a_database_within_a_database_is_refused_by_each_verb_that_makes_one() {
    let place = Place::new();
    place.ok(&["put", "a.db", "k", "v"]);
    place.ok(&["backup", "create", "a.db", "backups"]);
    place.ok(&["archive", "create", "a.db", "a.siltar"]);
    place.write("lines", "k\tv\n");
    place.ok(&["table", "lines", "t.sst", "--format", "lines"]);
    let before = std::fs::read_dir(place.path("a.db")).expect("it is there").count();
    for arguments in [
        &["put", "a.db/sub", "k", "v"][..],
        &["incr", "a.db/sub", "n"],
        &["cas", "a.db/sub", "k", "--absent", "--new", "v"],
        &["next-id", "a.db/sub", "n"],
        &["batch", "a.db/sub", "/dev/null"],
        &["import", "a.db/sub", "lines", "--format", "lines"],
        &["ingest", "a.db/sub", "t.sst"],
        &["archive", "import", "a.db/sub", "a.siltar"],
        &["shell", "a.db/sub", "--create", "-c", "stats"],
        &["checkpoint", "a.db", "a.db/sub"],
        &["restore", "backups", "a.db/sub"],
        &["recover", "a.db", "a.db/sub"],
    ] {
        let run = place.run(arguments, 2);
        let says = match arguments[0] {
            "recover" => "the new database would lie in the old one",
            _ => "belongs to a database. file=a.db; give a directory outside of it",
        };
        run.says(&[says]);
    }
    let after = std::fs::read_dir(place.path("a.db")).expect("it is there").count();
    assert_eq!(before, after);
}

/// The names after `silt` and the options in backticks, in all texts for people.
fn named(text: &str, before: &str) -> Vec<String> {
    let word = |rest: &str| {
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(rest.len());
        rest[..end].to_owned()
    };
    text.match_indices(before).map(|(at, _)| word(&text[at + before.len()..])).collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the files of a test are there") {
        let path = entry.expect("the files of a test are there").path();
        let name = path
            .file_name()
            .expect("the files of a test are there")
            .to_str()
            .expect("the files of a test are there")
            .to_owned();
        if path.is_dir() && !["target", "results", "tests"].contains(&&*name) {
            sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" || name.ends_with(".md") {
            found.push(path);
        }
    }
}

#[test]
fn every_command_that_a_message_names_exists() {
    let place = Place::new();
    let help = place.ok(&["--help"]) + &place.ok(&["export", "--help"]);
    let verbs: Vec<_> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    let mut found = Vec::new();
    for dir in ["cli/src", "crates", "docs"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(dir), &mut found);
    }
    let mut checked = 0;
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for verb in named(&text, "`silt ").into_iter().filter(|verb| !verb.is_empty()) {
            let is_option = verb.starts_with('-');
            assert!(is_option || verbs.contains(&verb), "`silt {verb}` in {}", path.display());
            checked += 1;
        }
        if path.starts_with(Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates")) {
            for option in named(&text, "`--") {
                let option = format!("--{option}");
                assert!(help.contains(&option), "`{option}` in {}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}
