//! Reports of `silt` about a bad database, which it leaves unchanged.
//!
//! Missing databases and bad command lines are in `tool`.

#[path = "tool/place.rs"]
mod place;

use place::{AIRPORTS, Place, Run};
use siltdb::{FamilyOptions, MergeOperator};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

const SILT: &str = env!("CARGO_BIN_EXE_silt");

/// Verbs that open a database.
const VERBS: [&[&str]; 5] = [
    &["get", "db", "SFO"],
    &["scan", "db"],
    &["count", "db"],
    &["put", "db", "new", "value"],
    &["flush", "db"],
];

/// A closed database with a table, and with two records in the log that are not flushed.
fn filled() -> Place {
    let place = Place::new();
    place.ok(&["import", "db", AIRPORTS]);
    place.ok(&["flush", "db"]);
    place.ok(&["batch", "db", &operations(&place)]);
    place
}

fn operations(place: &Place) -> String {
    place.write("operations", "put x 1\nput y 2\n");
    "operations".to_owned()
}

/// Every file of the database except the lock, with its bytes.
fn files(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(place.path("db")).expect("the database is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    paths
        .filter(|path| path.is_file() && !path.ends_with("LOCK"))
        .map(|path| (path.clone(), fs::read(path).expect("it can be read")))
        .collect()
}

/// The only file with this extension that is not empty.
fn file(place: &Place, extension: &str) -> PathBuf {
    let mut found: Vec<_> = files(place)
        .into_iter()
        .filter(|(path, bytes)| {
            path.extension().is_some_and(|found| found == extension)
                && bytes.iter().any(|byte| *byte != 0)
        })
        .collect();
    assert_eq!(found.len(), 1, "{extension}");
    found.remove(0).0
}

/// Changes the bytes of a file.
fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("it can be read");
    change(&mut bytes);
    fs::write(path, bytes).expect("it can be written");
}

/// The name of a file in error messages.
fn name(path: &Path) -> String {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    format!("file=db/{name}")
}

/// Asserts that every verb refuses the database with this exit code and these words. `check` must
/// report the same, and no file may change.
fn assert_refused(place: &Place, exit_code: i32, parts: &[&str]) {
    let before = files(place);
    for verb in VERBS {
        let run = place.run(verb, exit_code);
        run.says(parts);
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    let Run { stdout, stderr } = place.run(&["check", "db"], exit_code);
    for part in parts {
        assert!(stdout.contains(part) || stderr.contains(part), "{stdout}{stderr}");
    }
    assert!(files(place) == before, "the files of a refused database were changed");
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let byte = |crc: u32, byte: u8| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc));
    !bytes.into_iter().fold(!0, byte)
}

fn put_u32(bytes: &mut [u8], offset: usize, number: u32) {
    bytes[offset..offset + 4].copy_from_slice(&number.to_le_bytes());
}

/// A process that keeps the database open until it is dropped.
struct Holder(Child);

impl Holder {
    fn of(place: &Place) -> Self {
        let mut child = Command::new(SILT)
            .args(["shell", "db"])
            .current_dir(place.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("silt starts");
        let stdin = child.stdin.as_mut().expect("it is piped");
        stdin.write_all(b"count\n").expect("the shell reads");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("the shell answers");
        assert!(line.trim().parse::<u64>().is_ok(), "{line}");
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_second_writer_is_locked_out_by_whatever_name() {
    let place = filled();
    symlink(place.path("db"), place.path("link")).unwrap();
    let holder = Holder::of(&place);
    for db in ["db", "link", "./link/../db"] {
        for verb in [&["compact", db][..], &["put", db, "x", "3"]] {
            let run = place.run(verb, 4);
            run.says(&["error: locked: ", "file=", "LOCK", "close it there first"]);
        }
        for verb in ["count", "check", "scan"] {
            place.run(&[verb, db], 0).says(&["read beside a writer", "has it open"]);
        }
    }
    let run = place.run(&["count", "link", "--json"], 0);
    let told: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert!(told["message"].as_str().unwrap().starts_with("read beside a writer"), "{told}");
    let run = place.run(&["flush", "link", "--json"], 4);
    let error: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(error["error"]["exit_code"], 4);
    drop(holder);
    assert_eq!(place.ok(&["get", "link", "x"]), "1\n");
    assert_eq!(place.run(&["count", "db", "--json"], 0).json().len(), 1);
}

#[test]
fn a_file_where_a_directory_should_be_is_named() {
    let place = Place::new();
    place.write("db", "a file");
    for verb in &VERBS {
        place.run(verb, 2).says(&["is a file, not a directory", "file=db"]);
    }
    place.run(&["check", "db"], 2).says(&["is a file, not a directory", "file=db"]);
    place.run(&["put", "db/sub", "a", "b"], 1).says(&["file=db/sub"]);
    assert_eq!(place.read("db"), "a file");
}

#[test]
fn a_new_database_is_not_put_between_other_files() {
    let place = Place::new();
    fs::create_dir(place.path("db")).unwrap();
    place.write("db/photo.jpg", "x");
    let run = place.run(&["put", "db", "a", "b"], 2);
    run.says(&["other files and no database", "file=db/photo.jpg", "a directory of its own"]);
    place.run(&["check", "db"], 1).says(&["no database in the directory", "file=db"]);
    assert_eq!(files(&place).len(), 1);
}

#[test]
fn other_files_in_a_database_are_left_alone() {
    let place = filled();
    let foreign = ["notes.txt", "1.table", "000001.table.bak", "CURRENT~"];
    for name in foreign {
        place.write(&format!("db/{name}"), name);
    }
    fs::create_dir(place.path("db/000abc.log")).unwrap();
    place.ok(&["put", "db", "z", "3"]);
    place.ok(&["flush", "db"]);
    place.ok(&["compact", "db"]);
    assert!(place.ok(&["check", "db"]).starts_with("ok: "));
    assert_eq!(place.ok(&["get", "db", "z"]), "3\n");
    for name in foreign {
        assert_eq!(place.read(&format!("db/{name}")), name);
    }
    assert!(place.path("db/000abc.log").is_dir());
}

#[test]
fn a_directory_without_write_permission_is_named() {
    let place = filled();
    let before = files(&place);
    let mode = |name: &str, mode| {
        fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    for path in files(&place).keys() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
    }
    mode("db/LOCK", 0o444);
    mode("db", 0o555);
    // Permissions do not restrict root.
    let probe = place.path("db/probe");
    let is_root = fs::write(&probe, "").is_ok();
    let run = |arguments: &[&str]| {
        if !is_root {
            return place.command(arguments).output();
        }
        let user = ["--reuid=65534", "--regid=65534", "--clear-groups", SILT];
        let mut command = Command::new("setpriv");
        command.args(user).args(arguments).current_dir(place.path("")).output()
    };
    if is_root {
        fs::remove_file(&probe).unwrap();
    }
    let refused = run(VERBS[3]);
    let shell = run(&["shell", "db", "-c", "get SFO", "-c", "put a b"]);
    mode("db", 0o755);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (refused, shell) = match (refused, shell) {
        (Ok(refused), Ok(shell)) if !text(&refused.stderr).contains("setpriv:") => (refused, shell),
        outcome => {
            eprintln!("SKIPPED: this is root, and setpriv does not run: {outcome:?}");
            return;
        }
    };
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("error: read-only: ") && stderr.contains("file=db/"), "{stderr}");
    // The shell opens for reading if it may not write.
    let (stdout, stderr) = (text(&shell.stdout), text(&shell.stderr));
    assert!(stdout.contains("SFO"), "{stdout}{stderr}");
    assert!(stderr.starts_with("opened to be read only: "), "{stderr}");
    assert!(stderr.contains("error: read-only: "), "{stderr}");
    assert_eq!(shell.status.code(), Some(1), "{stderr}");
    assert!(files(&place) == before, "the files were changed");
}

#[test]
fn a_key_over_the_limit_ends_an_import_at_its_line() {
    let place = Place::new();
    let longest = "k".repeat(65_536);
    let text = format!("{longest}\t1\nb\t2\n{longest}k\t3\nc\t4\n");
    let arguments = ["import", "db", "-", "--format", "lines", "--chunk", "1"];
    let run = place.run_with(&arguments, text.as_bytes(), 2);
    run.says(&["line 3", "2 records were imported before", "65536", "65537"]);
    assert_eq!(place.ok(&["count", "db"]), "2\n");
    assert_eq!(place.ok(&["get", "db", &longest]), "1\n");
    let batch = format!("put a 1\nput {longest}k 2\n");
    place.run_with(&["batch", "db", "-"], batch.as_bytes(), 2).says(&["line 2"]);
    assert_eq!(place.ok(&["count", "db"]), "2\n");
}

#[test]
fn a_log_or_manifest_of_a_later_version_is_refused() {
    for extension in ["log", "manifest"] {
        let place = filled();
        let path = file(&place, extension);
        change(&path, |bytes| {
            put_u32(bytes, 8, 99);
            let checksum = crc32c(bytes[..12].iter().chain(&bytes[16..64]).copied());
            put_u32(bytes, 12, checksum);
        });
        let found = ["unsupported: ", &name(&path), "expected=2, found=99"];
        assert_refused_by_verbs(&place, 1, &found);
    }
}

#[test]
fn a_database_of_a_later_version_or_with_a_later_feature_is_refused() {
    for (offset, number) in [(2, 99), (3, 1)] {
        let place = filled();
        let path = file(&place, "manifest");
        change(&path, |bytes| {
            // The first change of the first edit is the format: its tag, the length of its value,
            // the version, the features.
            let segment_high = u32::from_le_bytes(bytes[20..24].try_into().unwrap());
            let record = &mut bytes[64..];
            let length = u32::from_le_bytes(record[8..12].try_into().unwrap()) as usize;
            assert_eq!(record[24..28], [1, 2, 2, 0]);
            record[24 + offset] = number;
            let body = crc32c(record[24..24 + length].iter().copied());
            put_u32(record, 16, body);
            put_u32(record, 20, 64 / 8);
            let header = crc32c(record[..24].iter().copied());
            put_u32(record, 20, header ^ segment_high);
        });
        let parts = ["unsupported: ", &name(&path), "a later version: open it with that"];
        assert_refused_by_verbs(&place, 1, &parts);
        place.run(&["upgrade", "db"], 1).says(&parts);
    }
}

#[test]
fn a_table_of_a_later_version_is_refused() {
    let place = filled();
    let path = file(&place, "table");
    change(&path, |bytes| {
        let start = bytes.len() - 40;
        let footer = &mut bytes[start..];
        put_u32(footer, 24, 99);
        let checksum = crc32c(footer[..28].iter().copied());
        put_u32(footer, 28, checksum);
    });
    let parts = ["unsupported: ", &name(&path)];
    place.run(&["scan", "db"], 1).says(&parts);
    place.run(&["get", "db", "SFO"], 1).says(&parts);
    let report = place.run(&["check", "db"], 3);
    assert!(report.stdout.contains(&name(&path)), "{}", report.stdout);
}

/// Asserts as `assert_refused`, except that `check` may use its own words.
fn assert_refused_by_verbs(place: &Place, exit_code: i32, parts: &[&str]) {
    let before = files(place);
    for verb in VERBS {
        place.run(verb, exit_code).says(parts);
    }
    place.run(&["check", "db"], exit_code);
    assert!(files(place) == before, "the files of a refused database were changed");
}

#[test]
fn a_flipped_byte_of_the_log_is_refused_where_it_lies() {
    for offset in [70, 84, 90] {
        let place = filled();
        let path = file(&place, "log");
        change(&path, |bytes| bytes[offset] ^= 0x10);
        let parts = ["corruption: log is damaged below its synced position", &name(&path)];
        assert_refused(&place, 3, &[parts[0], parts[1], "offset=64", "point-in-time"]);
    }
}

#[test]
fn a_flipped_byte_of_the_manifest_or_of_current_is_refused() {
    let place = filled();
    let manifest = file(&place, "manifest");
    change(&manifest, |bytes| bytes[100] ^= 0x10);
    assert_refused(&place, 3, &["corruption: ", &name(&manifest), "offset=64"]);
    let place = filled();
    change(&place.path("db/CURRENT"), |bytes| bytes[17] ^= 0x01);
    assert_refused(&place, 3, &["corruption: ", "file=db/CURRENT", "offset=0"]);
}

#[test]
fn a_flipped_byte_of_a_table_fails_the_reads_that_meet_it() {
    let place = filled();
    let path = file(&place, "table");
    let middle = fs::metadata(&path).unwrap().len() as usize / 2;
    change(&path, |bytes| bytes[middle] ^= 0x10);
    let damaged = fs::read(&path).unwrap();
    for verb in ["scan", "count"] {
        let run = place.run(&[verb, "db"], 3);
        run.says(&["corruption: bad checksum", &name(&path), "offset="]);
    }
    assert_eq!(place.ok(&["get", "db", "x"]), "1\n");
    assert!(place.ok(&["get", "db", "00M"]).contains("Thigpen"));
    let report = place.run(&["check", "db"], 3).stdout;
    assert!(report.starts_with("damaged: ") && report.contains(&name(&path)), "{report}");
    assert!(fs::read(&path).unwrap() == damaged, "the table was changed");
    // A merge of the tables, with a key between theirs, must fail, and must not drop what it cannot
    // read.
    place.ok(&["put", "db", "M", "1"]);
    place.run(&["compact", "db"], 3).says(&["corruption: bad checksum", &name(&path)]);
    assert!(fs::read(&path).unwrap() == damaged, "the table was changed");
    assert_eq!(place.ok(&["get", "db", "x"]), "1\n");
}

#[test]
fn a_check_verifies_the_tables_beside_a_damaged_log_and_says_what_it_left_out() {
    let place = filled();
    let sound = place.run(&["check", "db", "--json"], 0).json().remove(0);
    assert_eq!(sound["not_verified"], serde_json::json!([]));
    let log = file(&place, "log");
    change(&log, |bytes| bytes[70] ^= 0x10);
    let damaged = place.run(&["check", "db", "--json"], 3).json().remove(0);
    for count in ["tables", "blocks", "entries"] {
        assert!(damaged[count].as_u64() > Some(0));
        assert_eq!(damaged[count], sound[count]);
    }
    assert_eq!(damaged["not_verified"], serde_json::json!(["log"]));
    let table = file(&place, "table");
    change(&table, |bytes| bytes[10] ^= 0x10);
    let report = place.run(&["check", "db"], 3).stdout;
    assert!(report.contains("0 log records verified; not verified: log\n"), "{report}");
    assert!(report.contains(&name(&log)) && report.contains(&name(&table)), "{report}");
    change(&place.path("db/CURRENT"), |bytes| bytes[17] ^= 0x01);
    let report = place.run(&["check", "db"], 3).stdout;
    assert!(report.contains("; not verified: log, tables\n"), "{report}");
}

#[test]
fn damage_is_told_although_nobody_reads_the_report() {
    let place = filled();
    change(&file(&place, "table"), |bytes| bytes[10] ^= 0x10);
    for (arguments, exit_code) in [
        (&["check", "db"][..], 3),
        (&["inspect", "table", &file(&place, "table").display().to_string(), "--operations"], 3),
    ] {
        let mut child = Command::new(SILT)
            .args(arguments)
            .current_dir(place.path(""))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("silt starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("silt ends");
        assert_eq!(output.status.code(), Some(exit_code), "{output:?}");
        assert!(!output.stderr.is_empty());
    }
}

/// Keeps the last operand.
#[derive(Debug)]
struct Last;

impl MergeOperator for Last {
    fn name(&self) -> &str {
        "last"
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> siltdb::Result<Vec<u8>> {
        Ok(operands.last().map(|operand| operand.to_vec()).unwrap_or_default())
    }

    fn partial(&self, _: &[u8], _: &[u8], _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[test]
fn a_family_with_a_merge_operator_needs_its_program() {
    let place = Place::new();
    let options = siltdb::Options::new().merge_operator(Arc::new(Last));
    let db = options.open(place.path("db")).unwrap();
    db.create_family("merged", FamilyOptions::new().merge_operator(Arc::new(Last))).unwrap();
    db.close().unwrap();
    for verb in [&["put", "db", "k", "v"][..], &["delete", "db", "k"], &["compact", "db"]] {
        let run = place.run(verb, 1);
        run.says(&["needs the merge operator \"last\"", "`silt check`, `silt inspect`"]);
    }
    assert!(place.ok(&["check", "db"]).starts_with("ok: "));
    place.ok(&["inspect", "manifest", "db"]);
}

#[test]
fn what_cannot_be_looked_at_is_not_called_missing() {
    let place = Place::new();
    symlink("db", place.path("db")).unwrap();
    let inspections = [&["inspect", "wal", "db"], &["inspect", "table", "db"]];
    for verb in [VERBS[0], &["check", "db"], inspections[0], inspections[1]] {
        let run = place.run(verb, 1);
        run.says(&["cannot open db: "]);
        assert!(!run.stderr.contains("not found"), "{}", run.stderr);
    }
}

#[test]
fn a_missing_or_empty_current_is_refused() {
    let place = filled();
    fs::remove_file(place.path("db/CURRENT")).unwrap();
    let before = files(&place);
    for verb in VERBS {
        let run = place.run(verb, 3);
        run.says(&["corruption: CURRENT is missing", "file=db/", "silt recover OLD NEW"]);
    }
    let report = place.run(&["check", "db"], 3).stdout;
    assert!(report.contains("CURRENT is missing"), "{report}");
    assert!(files(&place) == before, "the files were changed");
    place.write("db/CURRENT", "");
    assert_refused(&place, 3, &["corruption: ", "file=db/CURRENT", "offset=0"]);
    fs::remove_file(place.path("db/CURRENT")).unwrap();
    fs::create_dir(place.path("db/CURRENT")).unwrap();
    place.run(&["get", "db", "SFO"], 1).says(&["file=db/CURRENT", "is a directory"]);
}

#[test]
fn a_missing_manifest_or_table_is_damage_and_not_a_missing_database() {
    let place = filled();
    let manifest = file(&place, "manifest");
    fs::remove_file(&manifest).unwrap();
    assert_refused(&place, 3, &["corruption: the manifest that CURRENT names", &name(&manifest)]);
    let place = filled();
    let table = file(&place, "table");
    fs::remove_file(&table).unwrap();
    for arguments in [&VERBS[0], &VERBS[1], &VERBS[2]] {
        let run = place.run(arguments, 3);
        run.says(&["corruption: a table that the manifest names is missing", &name(&table)]);
    }
    assert_eq!(place.ok(&["get", "db", "x"]), "1\n");
    let report = place.run(&["check", "db"], 3).stdout;
    assert!(report.starts_with("damaged: ") && report.contains(&name(&table)), "{report}");
}

#[test]
fn two_copies_of_a_segment_are_refused() {
    let place = filled();
    fs::copy(file(&place, "log"), place.path("db/000099.log")).unwrap();
    let parts = ["two files hold the same log segment", "file=db/000099.log", "offset=0"];
    assert_refused(&place, 3, &parts);
    fs::remove_file(place.path("db/000099.log")).unwrap();
    assert_eq!(place.ok(&["get", "db", "x"]), "1\n");
}
