//! The shell with commands from a pipe.

use crate::place::Place;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn lines_are_verbs_on_one_database() {
    let place = Place::new();
    let script = "\
put a 1
put 'b c' \"2 3\"
# a remark

scan
count --prefix b
get a --hex --json
families create users
families
use users
put a 'in users'
get a
get a --family default
families rename users people
get a
use default
families drop people
count
flush
compact
delete a
quit
get absent
";
    let run = place.run_with(&["shell", "db", "--create"], script.as_bytes(), 2);
    run.says(&["created the database db", "`a`, byte 2: ", "--hex takes two hexadecimal digits"]);
    assert_eq!(run.stdout, "a\t1\nb c\t2 3\n1\n");
    let script = script.replace("get a --hex --json", "get 61 --hex --json");
    let run = place.run_with(&["shell", "db", "--create"], script.as_bytes(), 0);
    let expected = "a\t1\nb c\t2 3\n1\n{\"key\":\"61\",\"value\":\"31\"}\ndefault\nusers\n\
                    in users\n1\nin users\n2\n";
    assert_eq!(run.stdout, expected);
    assert_eq!(run.stderr, "");
    assert_eq!(place.ok(&["scan", "db"]), "b c\t2 3\n");
}

#[test]
fn a_failure_ends_a_script_with_its_exit_code() {
    let place = Place::new();
    let run = place.run_with(&["shell", "db", "--create"], b"put a 1\nget b\nput c 3\n", 1);
    run.says(&["no key `b`"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\n");
    place.run_with(&["shell", "db", "--create"], b"frobnicate\n", 2).says(&["frobnicate"]);
    place.run_with(&["shell", "db", "--create"], b"get 'a\n", 2).says(&["a quote ' is not closed"]);
    place.run_with(&["shell", "db", "--create"], b"use absent\n", 1).says(&["no family `absent`"]);
}

#[test]
fn a_verb_can_read_the_rest_of_a_script() {
    let place = Place::new();
    let run =
        place.run_with(&["shell", "db", "--create"], b"put a 1\nbatch -\nput b 2\nput c 3\n", 0);
    assert_eq!(run.stdout, "applied 2 operations\n");
    assert_eq!(place.ok(&["count", "db"]), "3\n");
}

#[test]
fn help_is_a_result() {
    let place = Place::new();
    let run = place.run_with(&["shell", "db", "--create"], b"help\nhelp scan\nscan --help\n", 0);
    assert!(run.stdout.contains("Print the value of a key"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("--keys-only").count(), 2, "{}", run.stdout);
}

#[test]
fn the_shell_imports_exports_and_checks() {
    let place = Place::new();
    place.write("in.lines", "a\t1\n");
    let script = "import in.lines\nexport out.jsonl\ncheck\nstats --json\n";
    let run = place.run_with(&["shell", "db", "--create", "--json"], script.as_bytes(), 0);
    let lines = run.json();
    assert_eq!(lines[0]["imported"], 1);
    assert_eq!(lines[1]["exported"], 1);
    assert_eq!(lines[2]["ok"], true);
    assert_eq!(place.read("out.jsonl"), "{\"key\":\"a\",\"value\":\"1\"}\n");
}

#[test]
fn a_remark_may_hold_quotes() {
    let place = Place::new();
    let script = "# don't forget\n  #\"\nput a 1 # 'no' remark\n";
    place
        .run_with(&["shell", "db", "--create"], script.as_bytes(), 2)
        .says(&["unexpected argument '#'"]);
    let script = "# don't forget\n  #\"\nput a 1\n";
    place.run_with(&["shell", "db", "--create"], script.as_bytes(), 0);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\n");
}

#[test]
fn a_bad_line_of_a_script_is_bad_input() {
    let place = Place::new();
    let run = place.run_with(&["shell", "db", "--create"], b"put a 1\nput b \xff\nput c 3\n", 2);
    run.says(&["stdin: line 2, column 7: not valid UTF-8"]);
    let line = |length: usize| [&b"put b "[..], &vec![b'v'; length - 6]].concat();
    let longest = 16 << 20;
    let script = [&line(longest)[..], b"\n", &line(longest + 1), b"\nput c 3\n"].concat();
    let run = place.run_with(&["shell", "db", "--create"], &script, 2);
    run.says(&["stdin: line 2: ", "longer than 16777216 bytes"]);
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "a\nb\n");
}

/// Runs a script whose output is not read; returns the exit code and stderr.
fn run_unread(place: &Place, script: &str) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_silt"))
        .current_dir(place.path(""))
        .args(["shell", "db", "--create"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("silt starts");
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    stdin.write_all(script.as_bytes()).expect("the script is read");
    drop(stdin);
    let output = child.wait_with_output().expect("silt ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("what it says is text"))
}

#[test]
fn a_script_that_nobody_reads_fails_where_it_stops() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "1"]);
    let (code, stderr) = run_unread(&place, "put b 2\nscan\nput c 3\n");
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("stdout was closed while line 2 ran"), "{stderr}");
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "a\nb\n");
    let (code, stderr) = run_unread(&place, "put c 3\n");
    assert_eq!((code, &stderr[..]), (Some(0), ""));
}

#[test]
fn a_typo_in_the_name_makes_no_database() {
    let place = Place::new();
    let run = place.run_with(&["shell", "demo.bd"], b"put a 1\n", 1);
    run.says(&["no database. path=demo.bd", "`shell --create`"]);
    assert!(!place.path("demo.bd").exists());
    place.run_with(&["shell", "demo.bd", "--create"], b"put a 1\n", 0);
    assert_eq!(place.run_with(&["shell", "demo.bd"], b"get a\n", 0).stdout, "1\n");
    // A verb that creates a database reports it.
    for (number, verb) in [
        &["put", "new", "a", "1"][..],
        &["batch", "new", "-"],
        &["import", "new", "-", "--format", "lines"],
        &["shell", "new", "--create"],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("new{number}");
        let arguments: Vec<&str> =
            verb.iter().map(|word| if *word == "new" { &name[..] } else { *word }).collect();
        assert_eq!(place.run(&arguments, 0).stderr, format!("created the database {name}\n"));
        assert_eq!(place.run(&arguments, 0).stderr, "");
    }
    let run = place.run(&["put", "json", "a", "1", "--json"], 0);
    assert_eq!(run.stderr, "{\"message\":\"created the database json\"}\n");
}

#[test]
fn commands_can_stand_on_the_command_line() {
    let place = Place::new();
    let shell = |more: &[&str], exit_code| {
        place.run(&[&["shell", "db", "--create"], more].concat(), exit_code)
    };
    let run = shell(
        &["-c", "put a 1\nPUT b {\"x\":1}", "--command", "SCAN", "-c", "quit", "-c", "get c"],
        0,
    );
    assert_eq!(run.stdout, "a\t1\nb\t{\"x\":1}\n");
    let run = shell(&["-c", "put c 1", "-c", "get absent", "-c", "put d 1"], 1);
    run.says(&["no key `absent`"]);
    shell(&["-c", "put d 'x"], 2).says(&["a quote ' is not closed"]);
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "a\nb\nc\n");
}

#[test]
fn what_is_put_is_what_is_written_or_it_is_refused() {
    let place = Place::new();
    let script =
        "put a \"{\\\"a\\\":1}\"\nput b {\"a\":1}\nput c 'two\nlines'\nput d \"x\"y\nput e 1\n";
    let run = place.run_with(&["shell", "db", "--create"], script.as_bytes(), 2);
    run.says(&["`y` stands right after a closing quote"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t{\"a\":1}\nb\t{\"a\":1}\nc\ttwo\\x0alines\n");
}

#[test]
fn the_family_in_use_is_not_dropped_and_nothing_goes_elsewhere() {
    let place = Place::new();
    let script = "families create f\nuse f\nput a 1\nfamilies drop f\nput b 2\n";
    let run = place.run_with(&["shell", "db", "--create"], script.as_bytes(), 2);
    run.says(&["the family `f` is in use; `use default` first"]);
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    assert_eq!(place.ok(&["scan", "db", "--family", "f"]), "a\t1\n");
    let script = "use f\nuse default\nfamilies drop f\nfamilies\n";
    assert_eq!(place.run_with(&["shell", "db"], script.as_bytes(), 0).stdout, "default\n");
}

/// Each line is read once, however long the quote is open.
#[test]
fn a_quote_that_is_never_closed_runs_nothing_and_ends_soon() {
    let place = Place::new();
    let script = "put a 1\nput b \"open\n".to_owned() + &"put c \\\"1\n".repeat(100_000);
    let run = place.run_with(&["shell", "db", "--create"], script.as_bytes(), 2);
    run.says(&["stdin: line 2: a quote \" is not closed"]);
    let script = "put b '".to_owned() + &"x\n".repeat((16 << 20) / 2);
    let run = place.run_with(&["shell", "db"], script.as_bytes(), 2);
    run.says(&["stdin: line 1: a command is longer than 16777216 bytes"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\n");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_script() {
    let place = Place::new();
    place.run_with(&["shell", "db", "--create"], "\u{feff}put a 1\n".as_bytes(), 0);
    place.run_with(&["batch", "db", "-"], "\u{feff}put b 2\n".as_bytes(), 0);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\n");
}

#[test]
fn an_unknown_verb_is_answered_with_those_there_are() {
    let place = Place::new();
    place
        .run(&["frobnicate", "db"], 2)
        .says(&["Verbs: shell, get, put", "inspect, upgrade, completions"]);
    let run = place.run_with(&["shell", "db", "--create"], b"frobnicate\n", 2);
    run.says(&["Verbs: get, put", "use, stats", "quit"]);
    let run = place.run_with(&["shell", "db"], b"FAMILIES frobnicate\n", 2);
    run.says(&["Verbs: list, create, drop, rename"]);
}
