//! The counts, omissions and messages of an import, and how it continues after it stopped.

use crate::place::Place;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use std::process::{Command, Stdio};

fn import(place: &Place, more: &[&str], input: &str, exit_code: i32) -> crate::place::Run {
    let arguments = [&["import", "db", "-", "--format", "csv"], more].concat();
    place.run_with(&arguments, input.as_bytes(), exit_code)
}

/// If the first column of a table is the same everywhere, one row remains. The import must warn.
#[test]
fn an_import_that_overwrites_says_so() {
    let place = Place::new();
    let rows: String = (0..5000).fold("year,n\n".to_owned(), |mut text, n| {
        writeln!(text, "2013,{n}").unwrap();
        text
    });
    let run = import(&place, &[], &rows, 0);
    assert_eq!(run.stdout, "imported 5,000 records: 1 key new, 4,999 overwritten\n");
    run.says(&[
        "warning: 4,999 of 5,000 records replaced the value of an earlier one",
        "--key A,B",
    ]);
    assert_eq!(place.ok(&["count", "db"]), "1\n");
    let run = import(&place, &["--json", "--key", "n", "--family", "f"], &rows, 0);
    assert_eq!(run.json()[0]["new"], 5000);
    assert!(!run.stderr.contains("warning"), "{}", run.stderr);
    // A second import finds every key, also those in other chunks and in tables.
    place.ok(&["flush", "db"]);
    let run = import(&place, &["--json", "--key", "n", "--family", "f", "--chunk", "7"], &rows, 0);
    let counts = json!({
        "imported": 5000, "new": 0, "overwritten": 5000, "kept": 0, "bad": 0, "multiline": 0,
        "done": 5000
    });
    assert_eq!(run.json(), [counts]);
    run.says(&["{\"warning\":\"5,000 of 5,000 records replaced a value that was there already"]);
}

#[test]
fn the_warning_comes_above_one_percent() {
    for (repeated, is_warned) in [(10, false), (11, true)] {
        let place = Place::new();
        let mut rows = "id\n".to_owned();
        (0..1000 - repeated).for_each(|n| writeln!(rows, "{n}").unwrap());
        (0..repeated).for_each(|n| writeln!(rows, "{n}").unwrap());
        let run = import(&place, &[], &rows, 0);
        assert_eq!(run.stderr.contains("warning: "), is_warned, "{}", run.stderr);
    }
}

#[test]
fn a_duplicate_replaces_is_kept_out_or_ends_the_import() {
    let rows = "id,n\na,1\nb,2\na,3\n";
    let place = Place::new();
    import(&place, &["--on-duplicate", "keep"], rows, 0);
    assert!(place.ok(&["get", "db", "a"]).contains("\"n\":\"1\""));
    let run = import(&place, &["--on-duplicate", "keep"], "id,n\na,9\nc,4\n", 0);
    assert_eq!(run.stdout, "imported 1 record: 1 key new, 1 there already and kept\n");
    assert!(place.ok(&["get", "db", "a"]).contains("\"n\":\"1\""));
    let run = import(&place, &["--on-duplicate", "replace"], "id,n\na,9\n", 0);
    assert_eq!(run.stdout, "imported 1 record: 0 keys new, 1 overwritten\n");
    // A chunk with a duplicate is not written.
    let run = import(
        &place,
        &["--on-duplicate", "fail", "--chunk", "2"],
        "id,n\nx,1\ny,2\nz,3\na,4\n",
        2,
    );
    run.says(&["record 4, line 5: the key `a` is there already; 2 records were imported before"]);
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "a\nb\nc\nx\ny\n");
    let run = import(&place, &["--on-duplicate", "fail"], "id,n\np,1\nq,2\np,3\n", 2);
    run.says(&["record 3, line 4: the key `p` is there already; 0 records"]);
}

#[test]
fn bad_records_are_left_out_and_told_if_asked_for() {
    let place = Place::new();
    let rows = "id,n\na,1\nb\nc,\"x\"y\nd,\u{fffd}\ne,5\nf,\"6\n";
    let run = import(&place, &["--skip-bad", "--chunk", "1"], rows, 0);
    assert_eq!(run.stdout, "imported 3 records: 3 keys new, 3 bad and left out\n");
    run.says(&[
        "left out: record 2, line 3, column 2: expected 2 fields, found 1; --allow-short takes it",
        "left out: record 3, line 4, column 2: text after the closing quotation mark",
        "left out: record 6, line 7, column 2: the input ends inside quotes; --quote none",
    ]);
    assert_eq!(place.ok(&["scan", "db", "--keys-only"]), "a\nd\ne\n");
    let key = "k".repeat((64 << 10) + 1);
    let run = import(&place, &["--skip-bad"], &format!("id\n{key}\nz\n"), 0);
    run.says(&["left out: record 1, line 2, column 1: invalid argument: key is too long"]);
    // A header is not a record.
    import(&place, &["--skip-bad", "--key", "x"], "id\n1\n", 2).says(&["no column `x`"]);
    let lines = "a\t1\nb\nc\t3\n";
    let arguments = ["import", "db", "-", "--format", "lines", "--skip-bad", "--json"];
    let run = place.run_with(&arguments, lines.as_bytes(), 0);
    assert_eq!(run.json()[0]["bad"], 1);
    run.says(&["{\"message\":\"left out: record 2, line 2, column 2: no tab"]);
}

#[test]
fn an_import_that_stopped_goes_on_where_it_was() {
    let place = Place::new();
    let mut rows: Vec<String> = (0..10).map(|n| format!("k{n},{n}")).collect();
    rows.insert(0, "id,n".to_owned());
    rows[5] = "k4".to_owned();
    let more = ["--chunk", "3", "--on-duplicate", "fail", "--ack", "acks"];
    let run = import(&place, &more, &rows.join("\n"), 2);
    run.says(&[
        "record 5, line 6",
        "3 records were imported before, `--skip 3` goes on after them",
    ]);
    rows[5] = "k4,4".to_owned();
    let run = import(&place, &[&more[..], &["--skip", "3"]].concat(), &rows.join("\n"), 0);
    assert_eq!(run.stdout, "imported 7 records: 7 keys new\n");
    assert_eq!(place.read("acks"), "3\n6\n9\n10\n");
    // A bad record counts, so that `--skip` neither repeats nor omits later ones.
    let run = import(
        &place,
        &["--skip-bad", "--chunk", "2", "--family", "f"],
        "id,n\n1,1\n2\n3,3\n4,\"",
        0,
    );
    run.says(&["left out: record 2, line 3", "left out: record 4, line 5"]);
    let run = import(&place, &["--skip", "3", "--family", "f"], "id,n\n1,1\n2\n3,3\n4,4\n", 0);
    assert_eq!(run.stdout, "imported 1 record: 1 key new\n");
    let run = import(&place, &["--skip", "100", "--family", "f"], "id,n\n1,1\n", 0);
    assert_eq!(run.stdout, "imported 0 records: 0 keys new\n");
}

#[test]
fn keys_are_made_of_several_fields_or_of_the_line() {
    let place = Place::new();
    let rows = "year,month,dest\n2013,1,SEA\n2013,11,LAX\n";
    import(&place, &["--key", "year,month"], rows, 0);
    import(&place, &["--key", "dest,year", "--key-separator", "\\x00"], rows, 0);
    import(&place, &["--key-line"], rows, 0);
    assert_eq!(
        place.ok(&["scan", "db", "--keys-only"]),
        "0000000002\n0000000003\n2013/1\n2013/11\nLAX\\x002013\nSEA\\x002013\n"
    );
    import(&place, &["--key", "year,absent"], rows, 2).says(&["no column `absent`"]);
    import(&place, &["--key", "year,month", "--key-separator", ""], rows, 2)
        .says(&["--key-separator"]);
    import(&place, &["--key", "year", "--key-line"], rows, 2).says(&["--key-line"]);
    let lines = ["import", "log", "-", "--format", "lines", "--key-line"];
    place.run_with(&lines, b"first line\nsecond\tline\n", 0);
    assert_eq!(place.ok(&["scan", "log"]), "0000000001\tfirst line\n0000000002\tsecond\\x09line\n");
}

#[test]
fn other_delimiters_are_found_or_given() {
    let place = Place::new();
    let run = import(&place, &[], "id;price\na;1,5\nb;2,5\n", 0);
    run.says(&["fields stand between `;`"]);
    assert_eq!(place.ok(&["get", "db", "a"]), "{\"id\":\"a\",\"price\":\"1,5\"}\n");
    let run = import(&place, &["--delimiter", "|"], "id|x;y\nc|1;2\n", 0);
    assert_eq!(run.stderr, "");
    assert_eq!(place.ok(&["get", "db", "c"]), "{\"id\":\"c\",\"x;y\":\"1;2\"}\n");
    import(&place, &["--delimiter", "||"], "", 2).says(&["one ASCII character, or `tab`"]);
    let short = "id;a;b\nd;1\n";
    import(&place, &[], short, 2).says(&["expected 3 fields, found 2; --allow-short takes it"]);
    import(&place, &["--allow-short"], short, 0);
    assert_eq!(place.ok(&["get", "db", "d"]), "{\"id\":\"d\",\"a\":\"1\"}\n");
}

#[test]
fn marks_of_other_programs_are_no_text() {
    let place = Place::new();
    import(&place, &[], "\u{feff}id;n\r\na;1\r\n", 0);
    assert_eq!(place.ok(&["scan", "db"]), "a\t{\"id\":\"a\",\"n\":\"1\"}\n");
    let arguments = ["import", "db", "-", "--format", "json"];
    place.run_with(&arguments, "\u{feff}[{\"id\":\"b\"}]".as_bytes(), 0);
    let arguments = ["import", "db", "-", "--format", "tsv"];
    let run = place.run_with(&arguments, b"\xff\xfei\0d\0\n\0", 2);
    run.says(&["stdin: the text is UTF-16; convert it to UTF-8"]);
    assert_eq!(place.ok(&["count", "db"]), "2\n");
}

#[test]
fn compressed_input_is_read_from_files_and_pipes() {
    let place = Place::new();
    place.ok(&["import", "db", crate::place::AIRPORTS]);
    place.ok(&["export", "db", "out.csv.gz"]);
    place.ok(&["export", "db", "out.csv"]);
    let compressed = std::fs::read(place.path("out.csv.gz")).unwrap();
    assert!(compressed.len() * 2 < place.read("out.csv").len());
    for arguments in [["import", "file", "out.csv.gz"], ["import", "file", "out.csv"]] {
        place.run(&arguments, 0);
    }
    // Two concatenated files are one input; the header of the second is bad, or a record.
    let run = place.run_with(&["import", "pipe", "-", "--format", "csv"], &compressed, 0);
    assert!(run.stdout.starts_with("imported 3,376 records"), "{}", run.stdout);
    assert_eq!(place.ok(&["scan", "pipe"]), place.ok(&["scan", "db"]));
    let cut = &compressed[..compressed.len() / 2];
    let run = place.run_with(&["import", "cut", "-", "--format", "csv"], cut, 1);
    run.says(&["cannot read stdin", "were imported before"]);
}

#[test]
fn json_arrays_are_read_and_written() {
    let place = Place::new();
    place.write("in.json", "[\n  { \"id\": 1, \"n\": [1, 2] },\n  { \"id\": \"b\" }\n]\n");
    place.ok(&["import", "db", "in.json"]);
    assert_eq!(place.ok(&["scan", "db"]), "1\t{\"id\":1,\"n\":[1,2]}\nb\t{\"id\":\"b\"}\n");
    place.ok(&["export", "db", "out.json"]);
    assert_eq!(place.read("out.json"), "[\n{\"id\":1,\"n\":[1,2]},\n{\"id\":\"b\"}\n]\n");
    place.ok(&["export", "db", "none.json", "--prefix", "x"]);
    assert_eq!(place.read("none.json"), "[\n]\n");
    place.write("in.ndjson", "{\"id\":\"c\"}\n");
    place.ok(&["import", "db", "in.ndjson"]);
    place.write("cut.json", "[{\"id\":\"d\"},");
    place.run(&["import", "db", "cut.json"], 2).says(&["line 1, column 13: the input ends inside"]);
    assert_eq!(place.ok(&["count", "db"]), "3\n");
}

#[test]
fn no_file_of_the_database_is_written_over() {
    let place = Place::new();
    place.ok(&["put", "db", "a", "1"]);
    for file in ["db/CURRENT", "db/new.lines", "./db/../db/000001.log"] {
        let run = place.run(&["export", "db", file, "--format", "lines"], 2);
        run.says(&["is in the directory of the database; give a file elsewhere"]);
        place.write("in.lines", "b\t2\n");
        let run = place.run(&["import", "db", "in.lines", "--ack", file], 2);
        run.says(&["is in the directory of the database"]);
    }
    assert_eq!(place.ok(&["scan", "db"]), "a\t1\n");
    assert!(place.ok(&["check", "db"]).starts_with("ok: "));
}

/// Waits up to 30 s until the file has a line.
fn wait_for(place: &Place, file: &str, line: &str) {
    for _ in 0..600 {
        let text = std::fs::read_to_string(place.path(file)).unwrap_or_default();
        if text.lines().any(|found| found == line) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{file} has no line {line}");
}

#[test]
fn an_interrupted_import_says_what_is_in_and_how_to_go_on() {
    for input_ends in [false, true] {
        let place = Place::new();
        let mut child = Command::new(env!("CARGO_BIN_EXE_silt"))
            .args(["import", "db", "-", "--format", "lines", "--chunk", "10", "--ack", "acks"])
            .current_dir(place.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("silt starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        let lines: String = (0..25).fold(String::new(), |mut text, n| {
            writeln!(text, "{n:02}\t{n}").unwrap();
            text
        });
        stdin.write_all(lines.as_bytes()).expect("silt reads");
        wait_for(&place, "acks", "20");
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status().expect("kill is there");
        assert!(sent.success());
        if input_ends {
            // The program at the other end of the pipe gets the signal, too.
            std::thread::sleep(std::time::Duration::from_millis(100));
            drop(stdin);
        }
        let output = child.wait_with_output().expect("silt ends");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{stderr}");
        let expected = "error: interrupted; 20 records were imported before, `--skip 20` goes on";
        assert!(stderr.contains(expected), "{stderr}");
        assert_eq!(place.ok(&["count", "db"]), "20\n");
        let arguments = ["import", "db", "-", "--format", "lines", "--skip", "20"];
        let run = place.run_with(&arguments, lines.as_bytes(), 0);
        assert_eq!(run.stdout, "imported 5 records: 5 keys new\n");
    }
}

/// A limit on the size of files simulates a full disk.
#[test]
fn an_import_that_meets_a_full_disk_says_what_is_in_and_how_to_go_on() {
    let place = Place::new();
    let mut lines = String::new();
    // Values that do not compress, and exceed what a log file has before it is written to.
    let mut state = 1_u64;
    for n in 0..200_000 {
        write!(lines, "{n:07}\t").unwrap();
        for _ in 0..25 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            write!(lines, "{state:016x}").unwrap();
        }
        lines.push('\n');
    }
    place.write("in.lines", &lines);
    let script = format!(
        "trap '' XFSZ; ulimit -f 4096; exec {} import db in.lines --ack acks",
        env!("CARGO_BIN_EXE_silt")
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path(""))
        .output()
        .expect("there is a shell");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_ne!(output.status.code(), Some(0), "the disk was not full: {stderr}");
    let acks = std::fs::read_to_string(place.path("acks")).unwrap_or_default();
    let done: u64 = acks.lines().last().map_or(0, |line| line.parse().unwrap());
    assert!(done > 0, "{stderr}");
    assert!(stderr.contains("records were imported before"), "{stderr}");
    assert!(stderr.contains(&format!("`--skip {done}` goes on after them")), "{stderr}");
    let run = place.run(&["import", "db", "in.lines", "--skip", &done.to_string()], 0);
    assert_eq!(place.ok(&["count", "db"]), "200000\n", "{}", run.stdout);
}
