//! The tool on databases that released versions wrote, from `testing/golden`.

use crate::place::Place;
use std::{fs, path::Path};

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testing/golden");

/// The expected lines of a family in the text beside a database, without the family's name.
fn expected(text: &str, family: &str) -> Vec<String> {
    let of_family = |line: &str| {
        let (name, entry) = line.split_once('\t')?;
        (name == family).then(|| entry.to_owned())
    };
    text.lines().filter_map(of_family).collect()
}

/// Logs are stored without the zeros behind their end. A log that is shorter than when it was
/// synced was cut, so they get a length again.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a new directory");
    for entry in fs::read_dir(from).expect("a stored database") {
        let entry = entry.expect("its files");
        let path = to.join(entry.file_name());
        fs::copy(entry.path(), &path).expect("there is space");
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = fs::OpenOptions::new().write(true).open(&path).expect("a copy");
            log.set_len(1 << 20).expect("there is space");
        }
    }
}

#[test]
fn stored_databases_are_read_checked_and_looked_into() {
    let mut databases = 0;
    for entry in fs::read_dir(STORED).expect("stored databases") {
        let path = entry.expect("their names").path();
        // Directories of backups have a test of their own, and cold ones belong to databases.
        let extension = path.extension().and_then(|extension| extension.to_str());
        let others = ["backups", "cold", "unwritable"];
        if !path.is_dir() || extension.is_some_and(|other| others.contains(&other)) {
            continue;
        }
        databases += 1;
        let text = fs::read_to_string(format!("{}.txt", path.display())).expect("its contents");
        let place = Place::new();
        copy(&path, &place.path("db"));
        let cold = format!("{}.cold", path.display());
        if Path::new(&cold).is_dir() {
            copy(Path::new(&cold), &place.path("cold"));
        }
        assert!(place.ok(&["check", "db"]).starts_with("ok: "));
        place.ok(&["upgrade", "db"]);
        let families = place.ok(&["families", "db"]);
        // The families without a merge operator, since the tool has none.
        let readable = [
            "(i64,string)",
            "at",
            "changed",
            "default",
            "expiring",
            "fifo",
            "ingested",
            "now",
            "packed",
            "plain",
            "plain: ünïcode",
            "raw",
            "tiered",
            "u64",
        ];
        let mut compared = 0;
        for family in readable.iter().filter(|name| families.lines().any(|line| line == **name)) {
            let mut entries = expected(&text, family);
            let scan = ["scan", "db", "--hex", "--branch", "main", "--family", family];
            assert!(place.ok(&scan).lines().eq(&entries), "{family} of {}", path.display());
            entries.reverse();
            let backwards = place.ok(&[&scan[..], &["--reverse"]].concat());
            assert!(backwards.lines().eq(&entries), "{family}, backwards");
            compared += entries.len();
        }
        assert!(compared > 100, "{compared} entries of {}", path.display());
        for part in ["wal", "manifest"] {
            place.ok(&["inspect", part, "db", "--operations"]);
        }
        for file in fs::read_dir(&path).expect("its files") {
            let name = file.expect("their names").file_name().into_string().expect("our names");
            if name.ends_with(".table") {
                let report = place.ok(&["inspect", "table", &format!("db/{name}"), "--operations"]);
                let has_index = ["index=blocks", "index=tree"].iter().any(|it| report.contains(it));
                assert!(has_index && report.contains("created_ms="));
            }
        }
    }
    assert!(databases > 0);
}
