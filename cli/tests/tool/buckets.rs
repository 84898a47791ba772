//! The keys in which buckets are stored: no verb shows or changes them without `--raw-keys`.

#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use crate::place::Place;
use serde_json::json;
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

/// Beginning of these keys, as `--hex` prints it.
const STORED: &str = "00ff62";

/// What a verb does with keys. `KEY` stands for a key that stores a bucket.
#[derive(Clone, Copy)]
enum Use {
    /// It prints keys or their number.
    Lists(&'static [&'static str]),
    /// It deletes keys of a range.
    Deletes(&'static [&'static str]),
    /// It writes a key that is named.
    Writes(&'static [&'static str]),
    /// It shows or changes keys, and has a test of its own below.
    Apart,
    /// It names no keys of a family, or works on everything in it.
    Nothing,
}

use Use::{Apart, Deletes, Lists, Nothing, Writes};

/// Every verb of the command line and of the shell.
const VERBS: &[(&str, &[Use])] = &[
    ("adopt", &[Nothing]),
    ("archive", &[Lists(&["archive", "scan", "a.siltar"])]),
    ("backup", &[Nothing]),
    ("batch", &[Apart]),
    ("begin", &[Nothing]),
    ("branch", &[Apart]),
    ("bucket", &[Nothing]),
    ("cas", &[Writes(&["cas", "db", "KEY", "--absent", "--new", "76"])]),
    ("check", &[Nothing]),
    ("checkpoint", &[Nothing]),
    ("clone", &[Nothing]),
    ("commit", &[Nothing]),
    ("compact", &[Nothing]),
    ("completions", &[Nothing]),
    ("count", &[Lists(&["count", "db"]), Lists(&["count", "db", "--estimate"])]),
    (
        "delete",
        &[
            Deletes(&["delete", "db", "--all"]),
            Deletes(&["delete", "db", "--from", "00"]),
            Deletes(&["delete", "db", "--prefix", "00"]),
            Writes(&["delete", "db", "KEY"]),
        ],
    ),
    ("destroy", &[Nothing]),
    (
        "export",
        &[
            Lists(&["export", "db", "--format", "lines"]),
            Lists(&["export", "db", "--format", "lines", "--skip-damaged"]),
        ],
    ),
    ("families", &[Nothing]),
    ("flush", &[Nothing]),
    ("follow", &[Apart]),
    ("freeze", &[Nothing]),
    ("get", &[Lists(&["get", "db", "00", "--next"]), Lists(&["get", "db", "00ff63", "--prev"])]),
    ("help", &[Nothing]),
    ("import", &[Apart]),
    ("incr", &[Writes(&["incr", "db", "KEY"])]),
    ("ingest", &[Nothing]),
    ("inspect", &[Nothing]),
    ("lock", &[Nothing]),
    ("man", &[Nothing]),
    ("next-id", &[Writes(&["next-id", "db", "KEY"])]),
    ("pop", &[Apart]),
    ("prepare", &[Nothing]),
    ("prepared", &[Nothing]),
    ("put", &[Writes(&["put", "db", "KEY", "76"])]),
    ("quit", &[Nothing]),
    ("recover", &[Nothing]),
    ("release", &[Nothing]),
    ("restore", &[Nothing]),
    ("retain", &[Nothing]),
    ("rollback", &[Nothing]),
    ("savepoint", &[Nothing]),
    ("scan", &[Lists(&["scan", "db"]), Lists(&["scan", "db", "--reverse", "--keys-only"])]),
    ("scrub", &[Nothing]),
    ("shell", &[Nothing]),
    ("single-delete", &[Writes(&["single-delete", "db", "KEY"])]),
    ("stats", &[Nothing]),
    ("switch", &[Nothing]),
    ("table", &[Nothing]),
    ("take", &[Writes(&["take", "db", "KEY"])]),
    ("thaw", &[Nothing]),
    ("transactions", &[Nothing]),
    ("ttl", &[Writes(&["ttl", "db", "KEY", "--set", "1h"])]),
    ("txn", &[Apart]),
    ("upgrade", &[Nothing]),
    ("use", &[Nothing]),
    ("watch", &[Lists(&["watch", "db"]), Lists(&["watch", "db", "--prefix", "00"])]),
];

/// A database with buckets, and plain keys on both sides of their records.
fn filled() -> Place {
    let place = Place::new();
    for key in ["00", "00ff63", "61"] {
        place.ok(&["put", "db", "--hex", key, "76"]);
    }
    place.ok(&["bucket", "create", "db", "ada/inbox"]);
    place.ok(&["put", "db", "m", "1", "--bucket", "ada/inbox"]);
    place
}

/// The names of the verbs in a help.
fn verbs_in(help: &str) -> Vec<String> {
    let (_, list) = help.rsplit_once("\nVerbs:\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let verb = |line: &str| Some(line.strip_prefix("  ")?.split_whitespace().next()?.to_owned());
    lines.filter(|line| !line.starts_with("   ")).filter_map(verb).collect()
}

fn assert_message_is_there(place: &Place) {
    assert_eq!(place.ok(&["get", "db", "m", "--bucket", "ada/inbox"]), "1\n");
}

/// All fields of the lines that a verb prints: keys, values and numbers.
fn fields(text: &str) -> Vec<&str> {
    text.lines().flat_map(|line| line.split('\t')).collect()
}

fn lists(arguments: &[&str]) {
    let place = filled();
    if arguments[0] == "archive" {
        place.run(&["archive", "create", "db", "a.siltar"], 0);
    }
    let run = |more: &[&str]| place.run(&[arguments, &["--hex"], more].concat(), 0).stdout;
    let (plain, raw) = (run(&[]), run(&["--raw-keys"]));
    let (plain, raw) = (fields(&plain), fields(&raw));
    if arguments[0] == "count" {
        assert_eq!((plain, raw.len()), (vec!["3"], 1), "{arguments:?}");
        assert!(raw[0].parse::<u64>().unwrap() > 3, "{raw:?}");
        return;
    }
    assert!(!plain.is_empty() && plain.iter().all(|key| !key.starts_with(STORED)), "{plain:?}");
    assert!(raw.iter().any(|key| key.starts_with(STORED)), "{arguments:?}: {raw:?}");
}

fn deletes(arguments: &[&str]) {
    let place = filled();
    let (arguments, before) =
        ([arguments, &["--hex"]].concat(), place.ok(&["scan", "db", "--hex"]));
    let run = place.run(&arguments, 0);
    assert_message_is_there(&place);
    assert!(place.ok(&["scan", "db", "--hex"]).len() < before.len(), "{}", run.stdout);
    place.run(&[&arguments[..], &["--raw-keys"]].concat(), 0);
    assert_eq!(place.ok(&["bucket", "list", "db"]), "");
    let place = filled();
    place.run(&[&arguments[..], &["--raw-keys"]].concat(), 0);
    assert_eq!(place.ok(&["count", "db", "--raw-keys", "--hex", "--prefix", "00ff62"]), "0\n");
}

fn writes(arguments: &[&str]) {
    let place = filled();
    let keys = place.ok(&["scan", "db", "--raw-keys", "--hex", "--keys-only", "--prefix", STORED]);
    // A key of a bucket that is not there yet, so that every verb may write it.
    let key = format!("{}ff", keys.lines().last().unwrap());
    let word = |word: &&str| if *word == "KEY" { key.clone() } else { (*word).to_owned() };
    let words: Vec<String> = arguments.iter().map(word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).chain(["--hex"]).collect();
    place.run(&words, 2).says(&["this key stores buckets of the family", "--raw-keys"]);
    let run = place.command(&[&words[..], &["--raw-keys"]].concat()).output().unwrap();
    // The key of `take` and `ttl` is missing then.
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() || stderr.contains("not found"), "{words:?}: {stderr}");
    assert_message_is_there(&place);
}

/// A new verb is put into the table, after the decision what it does with such keys.
#[test]
fn no_verb_shows_or_changes_keys_that_store_buckets_without_raw_keys() {
    let place = filled();
    let mut verbs = verbs_in(&place.ok(&["--help"]));
    verbs.extend(verbs_in(&place.ok(&["shell", "db", "-c", "help"])));
    verbs.sort();
    verbs.dedup();
    let known: Vec<&str> = VERBS.iter().map(|(verb, _)| *verb).collect();
    assert_eq!(verbs, known);
    for kind in VERBS.iter().flat_map(|(_, uses)| *uses) {
        match kind {
            Lists(arguments) => lists(arguments),
            Deletes(arguments) => deletes(arguments),
            Writes(arguments) => writes(arguments),
            Apart | Nothing => {}
        }
    }
}

#[test]
fn a_range_of_such_keys_alone_is_refused_without_raw_keys() {
    let place = filled();
    for verb in ["scan", "count", "delete"] {
        let range = [verb, "db", "--hex", "--prefix", STORED];
        place.run(&range, 2).says(&["all keys of this range store buckets", "--raw-keys"]);
        place.run(&[&range[..], &["--raw-keys"]].concat(), 0);
    }
    assert_eq!(place.ok(&["bucket", "list", "db"]), "");
    let bucket = ["scan", "db", "--bucket", "ada", "--raw-keys"];
    place.run(&bucket, 2).says(&["--raw-keys"]);
}

/// Keys may be any bytes. Those of a family without buckets are all its own.
#[test]
fn keys_that_only_look_like_those_of_buckets_are_plain_ones() {
    let place = Place::new();
    place.ok(&["put", "db", "--hex", "00ff62", "76"]);
    place.ok(&["put", "db", "--hex", "00ff620000000000000000010261", "76"]);
    assert_eq!(place.ok(&["count", "db"]), "2\n");
    let exported = place.run(&["export", "db", "--format", "lines", "--hex"], 0).stdout;
    assert_eq!(exported.lines().count(), 2);
    place
        .run(&["bucket", "create", "db", "a"], 2)
        .says(&["keys where buckets are stored", "another family"]);
    let watched = place.run(&["watch", "db", "--hex"], 0).stdout;
    assert!(watched.starts_with("1\tput\tdefault\t00ff62\t76\n"), "{watched}");
    assert_eq!(place.ok(&["pop", "db", "--hex"]), "00ff62\t76\n");
    assert_eq!(place.ok(&["delete", "db", "--all"]), "1 key deleted\n");
    // A family with a key order has no buckets, even if a key is that of their ids.
    place.ok(&["families", "create", "db", "pairs", "key_order=(u64,u32)"]);
    let pair = ["--family", "pairs", "--hex", "00ff62000000000000000001", "76"];
    place.ok(&[&["put", "db"][..], &pair].concat());
    assert_eq!(place.ok(&["count", "db", "--family", "pairs"]), "1\n");
}

#[test]
fn delete_all_leaves_buckets_and_says_so() {
    let place = filled();
    place.ok(&["bucket", "create", "db", "bob"]);
    let run = place.run(&["delete", "db", "--all"], 0);
    assert_eq!(run.stdout, "3 keys deleted\n");
    run.says(&["2 buckets stay", "--raw-keys"]);
    assert_message_is_there(&place);
    // Its counter of ids stays, which is nothing to tell of.
    place.ok(&["bucket", "delete", "db", "ada"]);
    place.ok(&["bucket", "delete", "db", "bob"]);
    assert_eq!(place.ok(&["delete", "db", "--all"]), "0 keys deleted\n");
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    place.ok(&["bucket", "create", "db", "ada"]);
    place.ok(&["delete", "db", "--all", "--raw-keys"]);
    assert_eq!(place.ok(&["count", "db", "--raw-keys"]), "0\n");
}

#[test]
fn a_range_around_buckets_is_deleted_by_one_commit() {
    let place = filled();
    let before = place.run(&["watch", "db", "--json"], 0).json().len();
    place.ok(&["delete", "db", "--hex", "--from", "00", "--to", "62"]);
    let commits = place.run(&["watch", "db", "--json"], 0).json();
    let last = commits.last().unwrap()["operations"].as_array().unwrap();
    assert_eq!((commits.len(), last.len()), (before + 1, 2));
}

#[test]
fn transactions_hide_the_buckets_that_they_make() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    let script = b"begin\nbucket create a\ncount\nscan --keys-only\ndelete --all\nbucket list\n\
        count --raw-keys\nrollback\ncount\n";
    let run = place.run_with(&["shell", "db"], script, 0);
    let counts: Vec<&str> = run.stdout.lines().skip(1).collect();
    assert_eq!(counts[..5], ["1", "k", "1 key deleted", "a", "2"], "{}", run.stdout);
    assert_eq!(counts[6], "1");
}

/// An export may be the only copy.
#[test]
fn an_export_says_that_it_leaves_buckets_out() {
    let place = filled();
    place.ok(&["bucket", "create", "db", "bob"]);
    let export = |more: &[&str]| {
        place.run(&[&["export", "db", "all.lines", "--hex"][..], more].concat(), 0).stderr
    };
    let arguments = ["--format", "lines"];
    let said = export(&arguments);
    assert!(said.contains("warning: 2 buckets are left out; --raw-keys"), "{said}");
    assert_eq!(export(&[&arguments[..], &["--raw-keys"]].concat()), "");
    assert_eq!(export(&[&arguments[..], &["--prefix", "61"]].concat()), "");
    let stdout = place.run(&["export", "db", "--format", "lines", "--json", "--hex"], 0);
    stdout.says(&["{\"warning\":\"2 buckets are left out"]);
    place.ok(&["bucket", "delete", "db", "bob"]);
    assert!(export(&arguments).contains("1 bucket is left out"));
    place.ok(&["bucket", "delete", "db", "ada"]);
    assert_eq!(export(&arguments), "");
}

#[test]
fn pop_takes_no_key_that_stores_a_bucket() {
    let place = filled();
    assert_eq!(place.ok(&["pop", "db", "--hex"]), "00\t76\n");
    assert_eq!(place.ok(&["pop", "db", "--hex"]), "00ff63\t76\n");
    assert_eq!(place.ok(&["pop", "db", "--last"]), "a\tv\n");
    place.run(&["pop", "db"], 1).says(&["no key: the family is empty"]);
    place.run(&["pop", "db", "--last"], 1);
    assert_message_is_there(&place);
    assert!(place.ok(&["pop", "db", "--raw-keys", "--hex"]).starts_with(STORED));
}

#[test]
fn a_batch_leaves_keys_that_store_buckets_alone() {
    let place = filled();
    let batch = |lines: &str, more: &[&str], code| {
        let arguments = [&["batch", "db", "-", "--hex"][..], more].concat();
        place.run_with(&arguments, lines.as_bytes(), code)
    };
    for line in ["put 00ff6200 76", "delete 00ff6200", "delete-range 00ff62 00ff63"] {
        let run = batch(&format!("put 62 76\n{line}\n"), &[], 2);
        run.says(&["line 2", "buckets of the family", "--raw-keys", "nothing was written"]);
    }
    assert_eq!(place.ok(&["count", "db"]), "3\n");
    let run = batch("put 62 76\ndelete-range 00 62\nput 61 78\n", &[], 0);
    assert_eq!(run.stdout, "applied 3 operations\n");
    assert_eq!(place.ok(&["scan", "db"]), "a\tx\nb\tv\n");
    assert_message_is_there(&place);
    place.write("range", "delete-range 00 62\n");
    place.run_with(&["shell", "db"], b"begin\nbatch range --hex\ncommit\n", 0);
    assert_message_is_there(&place);
    batch("delete-range 00 62\n", &["--raw-keys"], 0);
    assert_eq!(place.ok(&["count", "db", "--raw-keys"]), "1\n");
}

#[test]
fn a_script_leaves_keys_that_store_buckets_alone() {
    let place = filled();
    let txn = |line: &str, more: &[&str], code| {
        let arguments = [&["txn", "db", "-", "--hex"][..], more].concat();
        place.run_with(&arguments, format!("put 62 76\n{line}\n").as_bytes(), code)
    };
    let lines =
        ["put 00ff6200 76", "delete 00ff6200", "incr 00ff6200", "delete-range --prefix 00ff62"];
    for line in lines {
        let run = txn(line, &[], 2);
        run.says(&["line 2", "buckets of the family", "--raw-keys", "nothing was written"]);
    }
    txn("delete-range --from 00 --to 61", &[], 0);
    assert_eq!(place.ok(&["scan", "db"]), "a\tv\nb\tv\n");
    txn("delete-range --all", &[], 0);
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    assert_message_is_there(&place);
    txn("delete-range --all", &["--raw-keys"], 0);
    assert_eq!(place.ok(&["count", "db", "--raw-keys"]), "0\n");
}

/// Buckets of another family come back by both ends of the same option.
#[test]
fn an_import_refuses_keys_that_store_buckets_of_the_family() {
    let place = filled();
    let export = ["export", "db", "all.lines", "--hex", "--format", "lines", "--raw-keys"];
    place.run(&export, 0);
    let import = ["import", "db", "all.lines", "--hex", "--format", "lines"];
    for more in [&[][..], &["--sorted"]] {
        let run = place.run(&[&import[..], more].concat(), 2);
        run.says(&["line 2", "buckets of the family", "--raw-keys"]);
        let run = place.run(&[&import[..], more, &["--skip-bad"]].concat(), 0);
        run.says(&["left out: record 2, line 2,", "left out: record 5, line 5,"]);
        assert_message_is_there(&place);
    }
    place.run(&[&import[..], &["--raw-keys"]].concat(), 0);
    // A family without buckets takes any keys.
    place.run(&["import", "new", "all.lines", "--hex", "--format", "lines"], 0);
    assert_eq!(place.ok(&["get", "new", "m", "--bucket", "ada/inbox"]), "1\n");
    assert_eq!(place.ok(&["count", "new"]), "3\n");
}

#[test]
fn branches_are_compared_without_the_keys_that_store_buckets() {
    let place = filled();
    place.ok(&["branch", "create", "db", "fix"]);
    place.ok(&["put", "db", "a", "new", "--branch", "fix"]);
    assert_eq!(
        place.ok(&["branch", "diff", "db", "main", "fix"]),
        "-\tdefault\ta\tv\n+\tdefault\ta\tnew\n"
    );
    place.ok(&["put", "db", "m", "2", "--bucket", "ada/inbox"]);
    let diff = ["branch", "diff", "db", "main", "fix"];
    let run = place.run(&diff, 0);
    assert_eq!(run.stdout.lines().count(), 2);
    run.says(&["1 key that stores buckets differs, too", "--raw-keys"]);
    assert_eq!(place.ok(&[&diff[..], &["--raw-keys"]].concat()).lines().count(), 4);
}

#[test]
fn commits_of_buckets_alone_are_neither_watched_nor_followed() {
    let place = filled();
    let objects = place.run(&["watch", "db", "--json", "--hex"], 0).json();
    let keys: Vec<_> = objects.iter().map(|commit| &commit["operations"][0]["key"]).collect();
    assert_eq!(keys, [&json!("00"), &json!("00ff63"), &json!("61")]);
    let first = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silt"));
        command.current_dir(place.path("")).args(["follow", "db", "--hex", "--from", "4"]);
        let mut child = command.args(more).stdout(Stdio::piped()).spawn().unwrap();
        place.ok(&["put", "db", "last", "v"]);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        line
    };
    let plain = first(&[]);
    assert!(plain.contains("\tput\tdefault\t6c617374\t76"), "{plain}");
    let raw = first(&["--raw-keys"]);
    assert!(raw.contains(&format!("\t{STORED}")), "{raw}");
}

/// What a damaged table hides is whether there are buckets. A read shows rather too much then, and
/// a deletion deletes nothing.
#[test]
fn damage_to_the_counter_of_buckets_lets_reads_go_on_and_stops_deletions() {
    let place = filled();
    let lines: String = (0..500).map(|n| format!("key{n:03}\tvalue of {n} {}\n", n * n)).collect();
    place.run_with(&["import", "db", "-", "--format", "lines"], lines.as_bytes(), 0);
    place.ok(&["flush", "db"]);
    let files = std::fs::read_dir(place.path("db")).unwrap().map(|entry| entry.unwrap().path());
    let table = files.filter(|path| path.extension().is_some_and(|it| it == "table")).min();
    let table = table.unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[30] ^= 0x10;
    std::fs::write(&table, bytes).unwrap();
    place.run(&["get", "db", "--hex", "00ff62000000000000000001"], 3);
    let last = ["scan", "db", "--reverse", "--limit", "1", "--keys-only"];
    assert_eq!(place.ok(&last), "key499\n");
    assert!(place.ok(&["get", "db", "key499", "--prev"]).starts_with("key498\t"));
    let export = ["export", "db", "--format", "lines", "--skip-damaged"];
    assert!(place.run(&export, 3).stdout.contains("key499\tvalue"));
    let sequence = || place.ok(&["retain", "db"]);
    let before = sequence();
    for arguments in [&["--all"][..], &["--from", "00", "--hex"]] {
        place.run(&[&["delete", "db"][..], arguments].concat(), 3);
    }
    assert_eq!(sequence(), before);
}
