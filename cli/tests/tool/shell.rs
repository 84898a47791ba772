//! The shell, fed from a pipe.

use crate::place::Place;

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
families drop people
count
flush
compact
delete a
quit
get absent
";
    let run = place.run_with(&["shell", "db"], script.as_bytes(), 2);
    run.says(&["`a`", "hexadecimal"]);
    assert_eq!(run.stdout, "a\t1\nb c\t2 3\n1\n");
    let script = script.replace("get a --hex --json", "get 61 --hex --json");
    let run = place.run_with(&["shell", "db"], script.as_bytes(), 0);
    let expected = "a\t1\nb c\t2 3\n1\n{\"key\":\"61\",\"value\":\"31\"}\ndefault\nusers\n\
                    in users\n1\nin users\n2\n";
    assert_eq!(run.stdout, expected);
    assert_eq!(run.stderr, "");
    assert_eq!(place.ok(&["scan", "db"]), "b c\t2 3\n");
}

#[test]
fn a_failure_ends_a_script_with_its_exit_code() {
    let place = Place::new();
    let run = place.run_with(&["shell", "db"], b"put a 1\nget b\nput c 3\n", 1);
    run.says(&["no key `b`"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\n");
    place.run_with(&["shell", "db"], b"frobnicate\n", 2).says(&["frobnicate"]);
    place.run_with(&["shell", "db"], b"get 'a\n", 2).says(&["a quote ' is not closed"]);
    place.run_with(&["shell", "db"], b"use absent\n", 1).says(&["no family `absent`"]);
}

#[test]
fn a_verb_can_read_the_rest_of_a_script() {
    let place = Place::new();
    let run = place.run_with(&["shell", "db"], b"put a 1\nbatch -\nput b 2\nput c 3\n", 0);
    assert_eq!(run.stdout, "applied 2 operations\n");
    assert_eq!(place.ok(&["count", "db"]), "3\n");
}

#[test]
fn help_is_a_result() {
    let place = Place::new();
    let run = place.run_with(&["shell", "db"], b"help\nhelp scan\nscan --help\n", 0);
    assert!(run.stdout.contains("Print the value of a key"), "{}", run.stdout);
    assert_eq!(run.stdout.matches("--keys-only").count(), 2, "{}", run.stdout);
}

#[test]
fn the_shell_imports_exports_and_checks() {
    let place = Place::new();
    place.write("in.lines", "a\t1\n");
    let script = "import in.lines\nexport out.jsonl\ncheck\nstats --json\n";
    let run = place.run_with(&["shell", "db", "--json"], script.as_bytes(), 0);
    let lines = run.json();
    assert_eq!(lines[0]["imported"], 1);
    assert_eq!(lines[1]["exported"], 1);
    assert_eq!(lines[2]["ok"], true);
    assert_eq!(place.read("out.jsonl"), "{\"key\":\"a\",\"value\":\"1\"}\n");
}
