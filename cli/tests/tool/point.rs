//! The verbs put, get, delete and batch, and what all verbs share: forms, JSON, exit codes.

use crate::place::Place;
use serde_json::json;

#[test]
fn a_value_is_found_by_another_process() {
    let place = Place::new();
    assert_eq!(place.ok(&["put", "db", "user:1", "Ada"]), "");
    assert_eq!(place.ok(&["get", "db", "user:1"]), "Ada\n");
    assert_eq!(place.ok(&["get", "db", "user:1", "--raw"]), "Ada");
    place.ok(&["put", "db", "user:1", "Grace", "--durability", "buffered"]);
    assert_eq!(place.ok(&["get", "db", "user:1"]), "Grace\n");
    place.ok(&["delete", "db", "user:1"]);
    place.run(&["get", "db", "user:1"], 1).says(&["error: not found: no key `user:1`"]);
    let long = "k".repeat(60_000);
    let run = place.run(&["get", "db", &long], 1);
    assert!(run.stderr.len() < 1000, "{} bytes of a key that is not there", run.stderr.len());
    place.ok(&["delete", "db", "user:1"]);
}

#[test]
fn empty_keys_and_values_are_legal() {
    let place = Place::new();
    place.ok(&["put", "db", "", ""]);
    assert_eq!(place.ok(&["get", "db", ""]), "\n");
    assert_eq!(place.ok(&["scan", "db"]), "\t\n");
}

#[test]
fn numbers_below_zero_are_keys_and_values_and_typos_are_not() {
    let place = Place::new();
    place.ok(&["put", "db", "-1", "-2.5"]);
    assert_eq!(place.ok(&["get", "db", "-1"]), "-2.5\n");
    place.ok(&["delete", "db", "-1"]);
    place.run(&["put", "db", "k", "--durabilty"], 2).says(&["--durability"]);
    place.ok(&["put", "db", "--", "--key", "--value"]);
    assert_eq!(place.ok(&["scan", "db"]), "--key\t--value\n");
}

#[test]
fn a_word_with_a_dash_is_answered_with_what_works() {
    let place = Place::new();
    let run = place.run(&["put", "db", "-key", "v"], 2);
    run.says(&["unexpected argument '-key' found", "after '--': '-- -key'"]);
    place.ok(&["put", "db", "--", "-key", "v"]);
    let run = place.run(&["scan", "db", "--prefix", "-k"], 2);
    run.says(&["unexpected argument '-k' found", "use '--prefix=-k'"]);
    assert_eq!(place.ok(&["scan", "db", "--prefix=-k"]), "-key\tv\n");
    let run = place.run_with(&["shell", "db"], b"get -key\n", 2);
    run.says(&["'-- -key'"]);
    assert_eq!(place.run_with(&["shell", "db"], b"get -- -key\n", 0).stdout, "v\n");
}

#[test]
fn volatile_and_interval_writes_are_there_after_the_verb() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "1", "--durability", "volatile"]);
    place.ok(&["put", "db", "b", "2", "--durability", "interval:10"]);
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\nb\t2\n");
    place.run(&["put", "db", "c", "3", "--durability", "never"], 2).says(&["interval:MS"]);
}

#[test]
fn bytes_print_as_they_are_or_as_escapes() {
    let place = Place::new();
    place.ok(&["put", "db", "--escape", r"k\n", r"C:\\data\xff"]);
    assert_eq!(place.ok(&["scan", "db"]), "k\\x0a\tC:\\data\\xff\n");
    assert_eq!(place.ok(&["scan", "db", "--escape"]), "k\\x0a\tC:\\\\data\\xff\n");
    assert_eq!(place.ok(&["scan", "db", "--hex"]), "6b0a\t433a5c64617461ff\n");
    assert_eq!(place.ok(&["get", "db", "--hex", "6B0a"]), "433a5c64617461ff\n");
    assert_eq!(place.ok(&["get", "db", "--escape", r"\x6b\x0a"]), "C:\\\\data\\xff\n");
    assert_eq!(place.ok(&["get", "db", "k\n"]), "C:\\data\\xff\n");
    place.ok(&["put", "db", r"\x41", "as it is"]);
    assert_eq!(place.ok(&["get", "db", r"\x41"]), "as it is\n");
}

#[test]
fn text_that_is_not_in_its_form_is_refused_before_anything_is_made() {
    let place = Place::new();
    place.run(&["put", "db", "--hex", "0g", "00"], 2).says(&["`0g`", "byte 2: "]);
    place.run(&["put", "db", "--escape", "k", r"\q"], 2).says(&["unknown escape"]);
    place.run(&["put", "db", "--escape", "--hex", "k", "v"], 2);
    assert!(!place.path("db").exists());
}

#[test]
fn a_value_can_come_from_a_file_or_stdin() {
    let place = Place::new();
    place.write("value", b"\x00\xff\n");
    place.ok(&["put", "db", "a", "--file", "value"]);
    assert_eq!(place.ok(&["get", "db", "a", "--escape"]), "\\x00\\xff\\x0a\n");
    place.run_with(&["put", "db", "b", "--file", "-"], b"from stdin", 0);
    assert_eq!(place.ok(&["get", "db", "b"]), "from stdin\n");
    place.run(&["put", "new", "b", "--file", "absent"], 1).says(&["cannot open absent"]);
    place.run(&["put", "new", "b"], 2);
    assert!(!place.path("new").exists());
}

/// `put` and `get` run with less memory than the value has.
#[test]
fn a_long_value_goes_from_file_to_file_piece_by_piece() {
    let place = Place::new();
    let value: Vec<u8> = (0..64 << 20).map(|at: u32| (at ^ (at >> 8)) as u8).collect();
    place.write("film", &value);
    let options = "--option memtable_bytes=1048576 --option memory_budget=8388608";
    let small = |verb: &str| {
        let silt = env!("CARGO_BIN_EXE_silt");
        let script = format!("ulimit -d 60000; exec '{silt}' {verb} {options}");
        let mut command = assert_cmd::Command::new("sh");
        command.current_dir(place.path("")).args(["-c", &script]);
        command.output().expect("sh runs")
    };
    let put = small("put db film --file film");
    assert!(put.status.success(), "{}", String::from_utf8_lossy(&put.stderr));
    let got = small("get db film --raw > copy");
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    assert!(std::fs::read(place.path("copy")).expect("it was written") == value);
    // A damaged one ends with the exit code of damage.
    let files = std::fs::read_dir(place.path("db")).expect("a database");
    for file in files.map(|file| file.expect("its files").path()) {
        if file.extension().is_some_and(|extension| extension == "blob") {
            let mut bytes = std::fs::read(&file).expect("it can be read");
            let middle = bytes.len() / 4;
            bytes[middle] ^= 1;
            std::fs::write(&file, bytes).expect("it can be written");
        }
    }
    let got = small("get db film --raw > copy");
    assert_eq!(got.status.code(), Some(3), "{}", String::from_utf8_lossy(&got.stderr));
    assert!(String::from_utf8_lossy(&got.stderr).contains(".blob"));
}

#[test]
fn json_is_lossless() {
    let place = Place::new();
    let put = place.run(&["put", "db", "--json", "--escape", r"\xff", r#"{"a":1}"#], 0).json();
    assert_eq!(put, [json!({ "operations": 1 })]);
    place.ok(&["put", "db", "tab\t", "ü"]);
    let scanned = place.run(&["scan", "db", "--json"], 0).json();
    let expected = [
        json!({ "key": "tab\t", "value": "ü" }),
        json!({ "key": { "hex": "ff" }, "value": r#"{"a":1}"# }),
    ];
    assert_eq!(scanned, expected);
    let got = place.run(&["get", "db", "--json", "--hex", "ff"], 0).json();
    assert_eq!(got, [json!({ "key": "ff", "value": "7b2261223a317d" })]);
    let deleted = place.run(&["delete", "db", "--json", "tab\t"], 0).json();
    assert_eq!(deleted, [json!({ "operations": 1 })]);
}

#[test]
fn a_failure_is_json_too() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "1"]);
    let run = place.run(&["get", "db", "b", "--json"], 1);
    let error: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "not found");
    assert_eq!(error["error"]["exit_code"], 1);
    assert_eq!(run.stdout, "");
}

#[test]
fn a_bad_command_line_is_json_too() {
    let place = Place::new();
    for (arguments, part) in [
        (&["frobnicate", "db", "--json"][..], "unrecognized subcommand 'frobnicate'"),
        (&["--json", "put", "db", "k", "--durabilty"], "unexpected argument '--durabilty'"),
        (&["get", "--json"], "<DB>"),
    ] {
        let run = place.run(arguments, 2);
        assert_eq!(run.stdout, "");
        let error: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
        assert_eq!(error["error"]["kind"], "usage");
        assert_eq!(error["error"]["exit_code"], 2);
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(part) && !message.starts_with("error: "), "{message}");
    }
    place.run(&["put", "db", "k", "--durabilty", "--", "--json"], 2).says(&["error: unexpected"]);
    assert!(place.ok(&["--json", "--version"]).starts_with("silt "));
}

#[test]
fn a_missing_database_is_named_and_not_made() {
    let place = Place::new();
    for arguments in [
        &["get", "db", "k"][..],
        &["delete", "db", "k"],
        &["scan", "db"],
        &["count", "db"],
        &["export", "db", "--format", "jsonl"],
        &["families", "db"],
        &["families", "create", "db", "users"],
        &["stats", "db"],
        &["check", "db"],
        &["compact", "db"],
        &["flush", "db"],
        &["inspect", "wal", "db"],
        &["inspect", "manifest", "db"],
    ] {
        place.run(arguments, 1).says(&["not found: no database. path=db", "`silt import`"]);
        assert!(!place.path("db").exists(), "{arguments:?}");
    }
}

#[test]
fn a_directory_that_is_no_database_stays_as_it_is() {
    let place = Place::new();
    std::fs::create_dir(place.path("photos")).unwrap();
    place.write("photos/1.jpg", "x");
    place.run(&["scan", "photos"], 1).says(&["not found"]);
    let names: Vec<_> = std::fs::read_dir(place.path("photos")).unwrap().collect();
    assert_eq!(names.len(), 1);
}

#[test]
fn a_key_that_is_too_long_is_a_usage_error() {
    let place = Place::new();
    let longest = "k".repeat(64 << 10);
    place.ok(&["put", "db", &longest, "v"]);
    assert_eq!(place.ok(&["get", "db", &longest]), "v\n");
    place.run(&["put", "db", &format!("{longest}k"), "v"], 2).says(&["invalid argument"]);
}

#[test]
fn a_batch_is_applied_whole() {
    let place = Place::new();
    place.ok(&["put", "db", "old", "x"]);
    place.write("changes", "# remarks\n\nput a 1 2\nput\tb c\t\ndelete old\nput \\xff \\\\\r\n");
    assert_eq!(place.ok(&["batch", "db", "changes"]), "applied 4 operations\n");
    assert_eq!(place.ok(&["scan", "db", "--escape"]), "a\t1 2\nb c\t\n\\xff\t\\\\\n");
    let run = place.run_with(&["batch", "db", "-", "--hex", "--json"], b"put 00 01\n", 0);
    assert_eq!(run.json(), [json!({ "operations": 1 })]);
    assert_eq!(place.ok(&["get", "db", "--hex", "00"]), "01\n");
    assert_eq!(place.run_with(&["batch", "db", "-"], b"", 0).stdout, "applied 0 operations\n");
}

#[test]
fn a_bad_batch_writes_nothing() {
    let place = Place::new();
    place.ok(&["put", "db", "old", "x"]);
    for (text, place_in_text) in [
        ("put a 1\nput b\n", "line 2, column 6"),
        ("put a 1\nset b 2\n", "line 2, column 1"),
        ("put a 1\nput b \\q\n", "line 2, column 7"),
        ("put a 1\ndelete b c\n", "line 2, column 9"),
    ] {
        let run = place.run_with(&["batch", "db", "-"], text.as_bytes(), 2);
        run.says(&["stdin: ", place_in_text, "nothing was written"]);
    }
    assert_eq!(place.ok(&["scan", "db"]), "old\tx\n");
    place.run(&["batch", "db", "absent"], 1).says(&["cannot open absent"]);
}

#[test]
fn a_write_that_fails_makes_no_database() {
    let place = Place::new();
    let key = "k".repeat((64 << 10) + 1);
    let huge = std::fs::File::create(place.path("huge")).unwrap();
    huge.set_len(5 << 30).unwrap();
    let long_line = format!("put a 1\nput {key} 2\n");
    let long_record = format!("a\t1\n{key}\t2\n");
    let import = |format: &'static str| ["import", "new", "-", "--format", format];
    for (arguments, input, exit_code, expected) in [
        (&["put", "new", "k", "v", "--family", "absent"][..], "", 1, "no database. path=new"),
        (&["put", "new", &key, "v"], "", 2, "invalid argument: key is too long"),
        (&["put", "new", "k", "--file", "huge"], "", 2, "invalid argument: value is too long"),
        (&["batch", "new", "-", "--family", "absent"], "put a 1\n", 1, "no database. path=new"),
        (&["batch", "new", "-"], "put a 1\nput b\n", 2, "line 2, column 6: no value"),
        (&["batch", "new", "-"], &long_line, 2, "line 2, column 1: invalid argument: key"),
        (&import("lines"), "a\t1\nb\n", 2, "line 2, column 2: no tab"),
        (&import("lines"), &long_record, 2, "line 2, column 1: invalid argument: key"),
        (&import("csv"), "", 2, "no header"),
    ] {
        let run = place.run_with(arguments, input.as_bytes(), exit_code);
        run.says(&[expected]);
        assert!(!place.path("new").exists(), "{expected}");
    }
    place.ok(&["put", "new", "k", "v", "--family", "default"]);
    assert_eq!(place.ok(&["get", "new", "k"]), "v\n");
}

#[test]
fn a_second_process_is_locked_out() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "1"]);
    let mut holder = std::process::Command::new(env!("CARGO_BIN_EXE_silt"))
        .current_dir(place.path(""))
        .args(["shell", "db"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    let mut stdout = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::Write::write_all(&mut stdin, b"count\n").unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "1\n");
    place.run(&["put", "db", "a", "2"], 4).says(&["locked"]);
    place.run(&["get", "db", "a"], 0).says(&["read beside a writer"]);
    drop(stdin);
    assert!(holder.wait().unwrap().success());
    assert_eq!(place.ok(&["get", "db", "a"]), "1\n");
}

#[test]
fn help_and_version_are_there_for_each_verb() {
    let place = Place::new();
    assert_eq!(place.ok(&["--version"]), format!("silt {}\n", env!("CARGO_PKG_VERSION")));
    let help = place.ok(&["--help"]);
    let codes = ["4  locked", "5  conflict", "6  a condition", "130  ended by Ctrl-C"];
    for text in codes.into_iter().chain(["Exit codes:", "--json"]) {
        assert!(help.contains(text), "{text}");
    }
    for verb in [
        "shell",
        "get",
        "put",
        "delete",
        "scan",
        "count",
        "batch",
        "txn",
        "prepared",
        "import",
        "export",
        "table",
        "ingest",
        "families",
        "clone",
        "retain",
        "branch",
        "freeze",
        "thaw",
        "stats",
        "check",
        "ttl",
        "scrub",
        "checkpoint",
        "backup",
        "restore",
        "archive",
        "watch",
        "follow",
        "recover",
        "compact",
        "flush",
        "destroy",
        "inspect",
        "completions",
        "man",
        "single-delete",
    ] {
        assert!(help.contains(&format!("  {verb} ")), "{verb}");
        let help = place.ok(&[verb, "--help"]);
        assert!(help.contains("Example:\n  silt ") || help.contains(&format!("silt {verb} ")));
        assert!(help.contains("--json") && help.contains("Exit codes: 0 done, 1 not"), "{verb}");
        assert!(!help.contains('\u{1b}'), "{verb}");
    }
    place.run(&["frobnicate"], 2);
    let run = place.run(&[], 2);
    assert!(run.stderr.starts_with("Fill, query"), "{}", run.stderr);
    for verb in ["list", "create", "drop", "rename"] {
        let help = place.ok(&["families", verb, "--help"]);
        assert!(help.contains("Exit codes: 0 done, 1 not"), "{verb}");
        assert!(help.contains("Example:\n  silt families"), "{verb}");
    }
    for verb in ["create", "list", "verify", "prune"] {
        let help = place.ok(&["backup", verb, "--help"]);
        assert!(help.contains("Exit codes: 0 done, 1 not"), "{verb}");
        assert!(help.contains("Example:\n  silt backup"), "{verb}");
    }
}

#[test]
fn a_counter_and_a_lock_keep_their_expiry() {
    let place = Place::new();
    let expires_at = |key: &str| place.run(&["get", "db", key, "--json"], 0).json()[0].clone();
    place.ok(&["put", "db", "k", "5", "--ttl", "1h"]);
    let before = expires_at("k")["expires_at"].as_u64().unwrap();
    assert_eq!(place.ok(&["incr", "db", "k"]), "6\n");
    assert_eq!(expires_at("k")["expires_at"], before);
    place.ok(&["cas", "db", "k", "--expect", "6", "--new", "7"]);
    assert_eq!(expires_at("k")["expires_at"], before);
    place.ok(&["incr", "db", "k", "--ttl", "2h"]);
    assert!(expires_at("k")["expires_at"].as_u64().unwrap() > before + 1_800_000);
    place.run_with(&["shell", "db"], b"begin\nincr k\ncommit\n", 0);
    assert_eq!(expires_at("k")["value"], "9");
    assert!(expires_at("k")["expires_at"].as_u64().unwrap() > before + 1_800_000);
    place.ok(&["incr", "db", "lasting"]);
    place.ok(&["incr", "db", "lasting"]);
    assert_eq!(expires_at("lasting"), json!({ "key": "lasting", "value": "2" }));
    place.run_with(&["txn", "db", "-"], b"incr k\n", 0);
    assert_eq!(expires_at("k")["value"], "10");
    assert!(expires_at("k")["expires_at"].is_u64());
    // A lease that has run out frees the lock.
    place.ok(&["cas", "db", "lock", "--absent", "--new", "a", "--ttl", "100ms"]);
    std::thread::sleep(std::time::Duration::from_millis(150));
    place.ok(&["cas", "db", "lock", "--absent", "--new", "b", "--ttl", "1h"]);
    place.run(&["cas", "db", "lock", "--absent", "--new", "c"], 6);
    place.run(&["cas", "db", "lock", "--expect", "b", "--delete", "--ttl", "1h"], 2);
}

#[test]
fn an_expiry_is_shown_set_and_removed() {
    let place = Place::new();
    place.ok(&["put", "db", "k", "v"]);
    assert_eq!(place.ok(&["ttl", "db", "k"]), "does not expire\n");
    let run = place.run(&["ttl", "db", "k", "--json"], 0);
    assert_eq!(run.json()[0], json!({ "key": "k", "expires_at": null }));
    let set = place.ok(&["ttl", "db", "k", "--set", "30m"]);
    assert!(set.starts_with("29m 5") || set.starts_with("30m 0s left"), "{set}");
    assert!(set.contains(" left, expires at 20") && set.ends_with("Z\n"), "{set}");
    assert!(place.ok(&["ttl", "db", "k"]).contains("m 5"));
    let told = place.run(&["watch", "db"], 0).stdout;
    assert!(told.contains("put-until\tdefault\tk\tv\texpires at 20"), "{told}");
    let told = place.run(&["watch", "db", "--json"], 0);
    let commits = told.json();
    let operation = &commits.last().unwrap()["operations"][0];
    assert_eq!((&operation["value"], operation["expires_at"].is_u64()), (&json!("v"), true));
    let removed = place.run_with(&["shell", "db"], b"begin\nttl k --remove\ncommit\n", 0);
    assert!(removed.stdout.contains("does not expire"), "{}", removed.stdout);
    assert_eq!(place.ok(&["get", "db", "k"]), "v\n");
    place.run(&["ttl", "db", "none"], 1).says(&["no key `none`"]);
    place.run(&["ttl", "db", "none", "--set", "1h"], 1).says(&["no key `none`"]);
    place.run(&["ttl", "db", "k", "--set", "1h", "--remove"], 2);
    place.ok(&["ttl", "db", "k", "--set", "0s"]);
    place.run(&["get", "db", "k"], 1);
}
