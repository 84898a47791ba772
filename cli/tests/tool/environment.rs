//! The database of `SILT_DB`, short and long help, and manual pages.

use crate::place::{Place, Run};

/// Runs `silt` with `SILT_DB=e.db` and asserts its exit code.
fn run(place: &Place, arguments: &[&str], exit_code: i32) -> Run {
    let output = place.command(arguments).env("SILT_DB", "e.db").output().expect("silt runs");
    let run = Run {
        stdout: String::from_utf8(output.stdout).expect("stdout is text"),
        stderr: String::from_utf8(output.stderr).expect("stderr is text"),
    };
    let found = output.status.code();
    assert_eq!(found, Some(exit_code), "{arguments:?}: {}{}", run.stdout, run.stderr);
    run
}

#[test]
fn silt_db_is_the_database_of_verbs_that_are_given_none() {
    let place = Place::new();
    run(&place, &["put", "k", "v"], 0).says(&["created the database e.db"]);
    assert_eq!(run(&place, &["get", "k"], 0).stdout, "v\n");
    assert_eq!(run(&place, &["incr", "n", "5"], 0).stdout, "5\n");
    assert_eq!(run(&place, &["get", "k", "n"], 0).stdout, "k\tv\nn\t5\n");
    assert_eq!(run(&place, &["scan", "--prefix", "k"], 0).stdout, "k\tv\n");
    assert_eq!(run(&place, &["--wait", "1s", "count"], 0).stdout, "2\n");
    assert_eq!(run(&place, &["families"], 0).stdout, "default\n");
    run(&place, &["families", "create", "users"], 0);
    assert_eq!(run(&place, &["shell", "-c", "get k"], 0).stdout, "v\n");
    // What is missing beside the database is named, and options that do not exist.
    run(&place, &["get"], 2).says(&["<KEY>"]);
    run(&place, &["scan", "--nonsense"], 2).says(&["--nonsense"]);
}

#[test]
fn a_database_on_the_command_line_comes_before_silt_db() {
    let place = Place::new();
    run(&place, &["put", "a.db", "k", "a"], 0).says(&["created the database a.db"]);
    run(&place, &["put", "k", "e"], 0).says(&["created the database e.db"]);
    assert_eq!(run(&place, &["get", "a.db", "k"], 0).stdout, "a\n");
    assert_eq!(run(&place, &["scan", "a.db"], 0).stdout, "k\ta\n");
    assert_eq!(run(&place, &["incr", "a.db", "n"], 0).stdout, "1\n");
}

#[test]
fn verbs_that_remove_or_replace_a_database_do_not_take_silt_db() {
    let place = Place::new();
    run(&place, &["put", "k", "v"], 0);
    run(&place, &["backup", "create", "backups"], 0);
    run(&place, &["destroy"], 2).says(&["<DB>"]);
    run(&place, &["destroy", "--yes"], 2).says(&["<DB>"]);
    run(&place, &["adopt"], 2).says(&["<DB>"]);
    run(&place, &["recover"], 2);
    run(&place, &["restore", "backups"], 2).says(&["<NEWDIR>"]);
    assert_eq!(run(&place, &["get", "k"], 0).stdout, "v\n");
}

#[test]
fn the_short_help_has_the_options_of_the_verb_and_names_the_long_one() {
    let place = Place::new();
    for arguments in [&["scan", "-h"][..], &["put", "-h"], &["backup", "create", "-h"]] {
        let help = place.ok(arguments);
        assert!(!help.contains("  --recovery") && !help.contains("      --json"), "{help}");
        assert!(help.contains("`--help` also shows the options that all verbs have"), "{help}");
        assert!(help.contains("Example:"), "{help}");
    }
    assert!(place.ok(&["scan", "-h"]).contains("--prefix <KEY>"));
    let help = place.ok(&["scan", "--help"]);
    assert!(help.contains("--json") && help.contains("--recovery <MODE>"), "{help}");
}

#[test]
fn a_manual_page_is_printed_and_one_for_each_verb_is_written() {
    let place = Place::new();
    let page = place.ok(&["man"]);
    assert!(page.contains(".TH silt 1") && page.contains("Fill, query, check"), "{page}");
    let written = place.ok(&["man", "--dir", "pages"]);
    assert!(written.starts_with("wrote ") && written.ends_with(" pages to pages\n"), "{written}");
    let page = place.read("pages/silt-get.1");
    assert!(page.contains(".TH silt-get 1") && page.contains("SFO"), "{page}");
    let page = place.read("pages/silt-backup-create.1");
    assert!(page.contains("adopt"), "{page}");
}
