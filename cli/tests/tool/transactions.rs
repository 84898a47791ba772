//! Transactions of the shell with commands from a pipe, and the verb txn.

use crate::place::{Place, Run};
use serde_json::json;

fn shell(place: &Place, script: &str, exit_code: i32) -> Run {
    place.run_with(&["shell", "db", "--create"], script.as_bytes(), exit_code)
}

#[test]
fn data_verbs_run_in_the_current_transaction() {
    let place = Place::new();
    place.write("more", "put d 4\ndelete a\n");
    let script = "\
put a 1
put b 2
begin
put c 3
delete b
batch more
get c
get a --next
count
scan --reverse
export - --format lines
switch
scan
switch t1
commit
scan
";
    let run = shell(&place, script, 0);
    let inside = "applied 2 operations\n3\nc\t3\n2\nd\t4\nc\t3\nc\t3\nd\t4\n";
    let expected = format!(
        "began t1, serializable\n{inside}a\t1\nb\t2\ncommitted t1, 4 operations\nc\t3\nd\t4\n"
    );
    assert_eq!(run.stdout, expected);
    assert_eq!(place.ok(&["scan", "db"]), "c\t3\nd\t4\n");
}

#[test]
fn write_skew_passes_at_snapshot_and_is_refused_at_serializable() {
    let script = |level: &str| {
        format!(
            "put x 1\nput y 1\nbegin a {level}\nbegin b {level}\n\
             a: get x\na: get y\nget x\nget y\na: put x 0\nput y 0\na: commit\ncommit\n"
        )
    };
    let place = Place::new();
    let run = shell(&place, &script("snapshot"), 0);
    assert!(run.stdout.ends_with("committed a, 1 operation\ncommitted b, 1 operation\n"));
    assert_eq!(place.ok(&["scan", "db"]), "x\t0\ny\t0\n");
    let place = Place::new();
    let run = shell(&place, &script("SERIALIZABLE"), 5);
    assert!(run.stdout.ends_with("committed a, 1 operation\n"), "{}", run.stdout);
    run.says(&[
        "conflict: the key \"x\" of family \"default\"",
        "was changed by another commit; run the transaction again",
        "the transaction `b` was rolled back",
    ]);
    assert_eq!(place.ok(&["scan", "db"]), "x\t0\ny\t1\n");
}

#[test]
fn a_phantom_is_refused_with_the_range_that_was_read() {
    let place = Place::new();
    let script = "families create f\nuse f\nbegin\ncount --prefix k\nput other 1\nswitch\n\
                  put k7 1\nswitch t1\ncommit\n";
    shell(&place, script, 5).says(&["conflict: a key from \"k\" to \"l\" of family \"f\""]);
    assert_eq!(place.ok(&["scan", "db", "--family", "f"]), "k7\t1\n");
}

#[test]
fn savepoints_nest_and_are_gone_back_to() {
    let place = Place::new();
    let script = "\
begin
put a 1
savepoint s
put b 2
savepoint inner
put c 3
rollback to inner
scan --keys-only
ROLLBACK TO s
put d 4
release s
commit
";
    let run = shell(&place, script, 0);
    assert_eq!(run.stdout, "began t1, serializable\na\nb\ncommitted t1, 2 operations\n");
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "a\nd\n");
    let run = shell(&place, "begin\nsavepoint s\nrelease s\nrollback to s\n", 1);
    run.says(&["not found: no savepoint is called \"s\""]);
    shell(&place, "savepoint s\n", 1).says(&["no transaction is open; `begin` begins one"]);
}

#[test]
fn what_is_open_at_the_end_is_rolled_back_and_said_to_be() {
    let place = Place::new();
    for (end, exit_code) in [("", 0), ("quit\n", 0), ("get absent\n", 1)] {
        let script = format!("begin a\nput k 1\nbegin b snapshot\nput k 2\nput l 2\n{end}");
        let run = shell(&place, &script, exit_code);
        run.says(&["rolled back what was not committed: a, 1 operation; b, 2 operations"]);
        assert_eq!(place.ok(&["count", "db"]), "0\n");
    }
    assert_eq!(shell(&place, "begin a\nput k 1\nrollback\n", 0).stderr, "");
    assert_eq!(place.ok(&["count", "db"]), "0\n");
}

#[test]
fn open_transactions_are_listed() {
    let place = Place::new();
    let script = "transactions\nbegin a snapshot\nbegin read-committed\na: put k 1\ntransactions\n\
                  transactions --json\nrollback a\nrollback\n";
    let run = shell(&place, script, 0);
    let list = "a\tsnapshot\t1 operation\nt1\tread-committed\t0 operations\tcurrent\n";
    assert!(
        run.stdout.starts_with("none is open\n") && run.stdout.contains(list),
        "{}",
        run.stdout
    );
    let objects: Vec<_> = run.stdout.lines().filter(|line| line.starts_with('{')).collect();
    let first: serde_json::Value = serde_json::from_str(objects[0]).unwrap();
    let expected =
        json!({ "transaction": "a", "isolation": "snapshot", "operations": 1, "current": false });
    assert_eq!((first, objects.len()), (expected, 2));
    assert!(run.stdout.ends_with("rolled back a, 1 operation\nrolled back t1, 0 operations\n"));
}

#[test]
fn a_command_that_would_go_elsewhere_is_refused() {
    let place = Place::new();
    place.write("in.lines", "a\t1\n");
    for (script, exit_code, reason) in [
        ("begin a\nbegin a\n", 2, "the transaction `a` is open already"),
        ("begin a snapshto\n", 2, "`snapshto`: expected an isolation level: read-uncommitted"),
        ("begin to\n", 2, "`to` names no transaction"),
        ("b: put a 1\n", 1, "no transaction `b`; open: none"),
        ("begin a\nswitch b\n", 1, "no transaction `b`; open: a"),
        ("begin a\nswitch\ncommit\n", 1, "no transaction is current; open: a"),
        ("commit\n", 1, "no transaction is open"),
        ("begin\nrollback to\n", 2, "takes the name of a savepoint"),
        ("begin\nrollback a b\n", 2, "expected `rollback NAME` or `rollback to SAVEPOINT`"),
        ("begin\nput a 1 --durability buffered\n", 2, "the durability is that of the transaction"),
        ("begin\ndelete a --durability buffered\n", 2, "the durability is that of the transaction"),
        ("begin\nimport in.lines\n", 2, "import and ingest are in no transaction"),
        ("begin\ningest in.table\n", 2, "import and ingest are in no transaction"),
    ] {
        shell(&place, script, exit_code).says(&[reason]);
        assert_eq!(place.ok(&["count", "db"]), "0\n", "{script}");
    }
}

#[test]
fn a_volatile_transaction_of_the_shell_is_there_afterwards() {
    let place = Place::new();
    shell(&place, "begin --durability volatile\nput a 1\ncommit\n", 0);
    assert_eq!(place.ok(&["get", "db", "a"]), "1\n");
}

#[test]
fn buckets_and_steps_on_one_key_run_in_the_current_transaction() {
    let place = Place::new();
    let script = "\
begin
bucket create a/b
bucket list
put k 1 --bucket a/b
scan --bucket a/b
incr n 5
cas n --expect 5 --new 6
switch
count
bucket list
get k --bucket a/b
";
    let run = shell(&place, script, 1);
    assert_eq!(run.stdout, "began t1, serializable\na\nk\t1\n5\n0\n");
    run.says(&["no bucket a"]);
    assert_eq!(place.ok(&["count", "db"]), "0\n");
    let script = "bucket create a\nput k 1 --bucket a\nbegin\nbucket move a b\n\
                  get k --bucket b\ndelete k --bucket b\ncount --bucket b\nincr n\ncommit\n";
    shell(&place, script, 0);
    assert_eq!(place.ok(&["bucket", "list", "db"]), "b\n");
    assert_eq!(place.ok(&["count", "db", "--bucket", "b"]), "0\n");
    assert_eq!(place.ok(&["get", "db", "n"]), "1\n");
    shell(&place, "begin\nincr n --durability synced\n", 2).says(&["that of the transaction"]);
    shell(&place, "begin\nput n 3\ncas n --expect 1 --new 2\n", 6)
        .says(&["condition failed: the key `n` has the value `3`"]);
}

/// Runs `script` by the verb txn.
fn txn(place: &Place, script: &str, exit_code: i32) -> Run {
    place.run_with(&["txn", "db", "-"], script.as_bytes(), exit_code)
}

#[test]
fn a_script_is_one_transaction() {
    let place = Place::new();
    place.ok(&["put", "db", "alice", "15"]);
    place.run_with(&["shell", "db"], b"families create log\nput old:1 x\nput old:2 y\n", 0);
    let script = "\
# A transfer.
check alice present
incr alice -10
check alice >= 0
CHECK bob absent
incr bob 10
incr visits
check bob = 10
check bob != 11
delete-range --prefix old:
put 1 \"alice to bob\n10\" --family log
";
    assert_eq!(txn(&place, script, 0).stdout, "applied 5 operations, 5 conditions held\n");
    assert_eq!(place.ok(&["scan", "db"]), "alice\t5\nbob\t10\nvisits\t1\n");
    assert_eq!(place.ok(&["scan", "db", "--family", "log"]), "1\talice to bob\\x0a10\n");
    // The second time, the second condition does not hold.
    let run = txn(&place, script, 6);
    run.says(&["condition failed: stdin: line 4: `alice` is `-5`, expected >= `0`"]);
    assert_eq!(place.ok(&["scan", "db"]), "alice\t5\nbob\t10\nvisits\t1\n");
    let arguments = ["txn", "db", "-", "--json", "--hex", "--isolation", "snapshot"];
    let run = place.run_with(&arguments, b"put 00 01\n", 0);
    assert_eq!(run.json(), [json!({ "operations": 1, "conditions": 0 })]);
    assert_eq!(place.ok(&["get", "db", "--hex", "00"]), "01\n");
}

#[test]
fn each_condition_fails_where_it_should() {
    let place = Place::new();
    place.ok(&["put", "db", "n", "7"]);
    for (condition, holds) in [
        ("n = 7", true),
        ("n = 07", false),
        ("n != 7", false),
        ("absent != 7", true),
        ("n < 8", true),
        ("n < 7", false),
        ("n <= 7", true),
        ("n <= 6", false),
        ("n > 6", true),
        ("n > 7", false),
        ("n >= 7", true),
        ("n >= 8", false),
        ("absent < 1", false),
        ("n present", true),
        ("n absent", false),
        ("absent absent", true),
        ("absent present", false),
    ] {
        let run = txn(&place, &format!("put k 1\ncheck {condition}\n"), if holds { 0 } else { 6 });
        assert_eq!(run.stderr.contains("line 2: "), !holds, "{condition}: {}", run.stderr);
        assert_eq!(place.ok(&["count", "db", "--prefix", "k"]), format!("{}\n", i32::from(holds)));
        place.ok(&["delete", "db", "k"]);
    }
}

#[test]
fn a_bad_script_writes_nothing_and_names_its_line() {
    let place = Place::new();
    place.ok(&["put", "db", "word", "x"]);
    for (script, exit_code, reason) in [
        ("put a 1\nput b\n", 2, "stdin: line 2: "),
        ("put a 1\n\n# x\nfrobnicate\n", 2, "stdin: line 4: "),
        ("put a 1\nput b 'x\ny\n", 2, "stdin: line 2: a quote ' is not closed"),
        ("put a 1\nput b 'x\ny'\nput c\n", 2, "stdin: line 4: "),
        (
            "put a 1\ndelete-range\n",
            2,
            "line 2: delete-range takes --prefix, --from, --to or --all",
        ),
        ("put a 1\nincr word\n", 2, "line 2: `word`: `x` is no decimal number"),
        ("put a 9223372036854775807\nincr a\n", 2, "line 2: `a` is 9223372036854775807, and 1"),
        ("put a 1\nput b 1 --family absent\n", 1, "no family `absent`; `silt families` lists"),
        ("put a 1\nput b 1 --family absent\n", 1, "stdin: line 2; nothing was written"),
    ] {
        let run = txn(&place, script, exit_code);
        run.says(&[reason]);
        assert_eq!(place.ok(&["scan", "db"]), "word\tx\n", "{script}");
    }
    place.run_with(&["txn", "new", "-"], b"put a 1\n", 1).says(&["no database. path=new"]);
    place.run(&["txn", "db", "absent"], 1).says(&["cannot open absent"]);
    place.run(&["txn", "db", "-", "--isolation", "x"], 2).says(&["expected an isolation level"]);
}

#[test]
fn a_script_inside_a_transaction_is_all_or_none_of_its_part() {
    let place = Place::new();
    place.write("good", "incr n\ncheck n = 1\n");
    place.write("bad", "put lost 1\nincr n\ncheck n = 1\n");
    let script = "begin\nput a 1\ntxn good\ntxn good --isolation snapshot\n";
    shell(&place, script, 2).says(&["the isolation level is that of the transaction"]);
    let run = shell(&place, "begin\nput a 1\ntxn good\ncommit\n", 0);
    assert!(run.stdout.ends_with("1 condition held\ncommitted t1, 2 operations\n"));
    shell(&place, "begin\nput b 1\ntxn bad\n", 6).says(&["bad: line 3: `n` is `2`"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nn\t1\n");
}

#[test]
fn a_script_can_be_prepared_and_decided_later() {
    let place = Place::new();
    place.ok(&["put", "db", "alice", "15"]);
    let prepare = |script: &str, id: &str, exit_code| {
        let arguments = ["txn", "db", "-", "--prepare", id];
        place.run_with(&arguments, script.as_bytes(), exit_code)
    };
    assert_eq!(place.ok(&["prepared", "db"]), "none waits for its decision\n");
    assert_eq!(place.ok(&["prepared", "list", "db", "--json"]), "");
    let run = prepare("incr alice -10\ncheck alice >= 0\n", "one", 0);
    assert_eq!(run.stdout, "prepared 1 operation, 1 condition held\n");
    assert_eq!(place.ok(&["get", "db", "alice"]), "15\n");
    let listed = place.ok(&["prepared", "db"]);
    assert!(listed.starts_with("one\tdefault\t1 operation\t"), "{listed}");
    let object = &place.run(&["prepared", "list", "db", "--json"], 0).json()[0];
    assert_eq!((&object["id"], &object["families"]), (&json!("one"), &json!(["default"])));
    assert!(object["operations"] == 1 && object["bytes"].is_u64() && object["since_ms"].is_u64());
    // What it depends on is locked, over processes.
    place.run(&["put", "db", "alice", "0"], 1).says(&["busy", "\"alice\""]);
    prepare("put x 1\n", "one", 1).says(&["already exists", "\"one\""]);
    prepare("put x 1\ncheck alice >= 100\n", "two", 6).says(&["nothing was written"]);
    prepare("put x 1\n", "", 2).says(&["1 to 255 bytes"]);
    assert!(place.ok(&["check", "db"]).contains("; 1 prepared transaction without a decision"));
    assert_eq!(place.ok(&["prepared", "commit", "db", "one"]), "committed one\n");
    assert_eq!(place.ok(&["get", "db", "alice"]), "5\n");
    for word in ["commit", "rollback"] {
        let run = place.run(&["prepared", word, "db", "one"], 1);
        run.says(&["not found", "\"one\"", "was decided"]);
    }
    prepare("put y 1\n", "6869", 0);
    let run = place.run(&["prepared", "rollback", "db", "--hex", "--json", "36383639"], 0);
    assert_eq!(run.json(), [json!({ "rolled_back": "36383639" })]);
    place.run(&["get", "db", "y"], 1);
    place.run(&["prepared", "commit", "absent", "one"], 1).says(&["no database"]);
    let both = ["txn", "db", "-", "--prepare", "x", "--durability", "buffered"];
    place.run_with(&both, b"", 2).says(&["cannot be used with"]);
    place
        .run(&["prepared", "commit", "db", "x", "--durability", "volatile"], 2)
        .says(&["cannot be Volatile"]);
}

#[test]
fn the_shell_prepares_the_current_transaction_and_decides() {
    let place = Place::new();
    let script = "\
begin
put a 1
prepare first
begin other snapshot
put b 2
PREPARE second
prepared commit first
prepared rollback second
prepared
scan
";
    let expected = "began t1, serializable\nprepared t1 as first, 1 operation\n\
                    began other, snapshot\nprepared other as second, 1 operation\n\
                    committed first\nrolled back second\nnone waits for its decision\na\t1\n";
    assert_eq!(shell(&place, script, 0).stdout, expected);
    shell(&place, "prepare x\n", 1).says(&["no transaction is open"]);
    let run = shell(&place, "begin\nput a 2\nprepare x\nbegin\nput c 1\nprepare x\n", 1);
    run.says(&["already exists", "the transaction `t1` was rolled back"]);
    assert_eq!(place.ok(&["prepared", "db"]).lines().count(), 1);
    let script = "begin\ntxn script --prepare y\n";
    place.write("script", "put d 1\n");
    shell(&place, script, 2).says(&["`prepare ID` prepares all of it"]);
}
