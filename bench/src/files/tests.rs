//! Tests of files of results: reading, replacing, and refusals before a run.

use super::{Output, packed, read};
use std::{fs, path::Path};

const RUN: &str = include_str!("../../tests/data/run.json");

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn compressed_results_are_read_whatever_they_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("run.json");
    fs::write(&plain, RUN).unwrap();
    for name in ["run.json.gz", "renamed.json"] {
        let path = dir.path().join(name);
        fs::write(&path, packed(RUN).unwrap()).unwrap();
        assert_eq!(read(&path).unwrap(), read(&plain).unwrap(), "{name}");
    }
}

#[test]
fn results_that_are_kept_with_the_documents_are_read() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results");
    let names: Vec<String> = names(&kept).into_iter().filter(|n| n.ends_with(".gz")).collect();
    for name in names.iter().take(3).chain(names.last()) {
        assert!(!read(&kept.join(name)).unwrap().rows.is_empty(), "{name}");
    }
}

#[test]
fn damaged_compressed_results_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json.gz");
    let whole = packed(RUN).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let message = read(&path).unwrap_err();
    assert!(message.contains("run.json.gz"), "{message}");
    let mut flipped = whole;
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0xff;
    fs::write(&path, &flipped).unwrap();
    assert!(read(&path).unwrap_err().contains("run.json.gz"));
    fs::write(&path, packed("no results").unwrap()).unwrap();
    assert!(read(&path).unwrap_err().contains("not a results file"));
}

#[test]
fn an_output_is_compressed_if_its_name_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json.gz");
    Output::open(&path).unwrap().write(RUN).unwrap();
    assert!(fs::metadata(&path).unwrap().len() < RUN.len() as u64 / 2);
    assert_eq!(read(&path).unwrap().to_json(), {
        crate::result::Results::from_json(RUN).unwrap().to_json()
    });
}

#[test]
fn what_cannot_be_written_is_refused_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no-such-dir/run.json");
    let message = Output::open(&missing).unwrap_err();
    assert!(message.contains("cannot write") && message.contains("no-such-dir"), "{message}");
    assert!(Output::open(dir.path()).unwrap_err().contains("cannot write"));
    assert_eq!(names(dir.path()), [""; 0], "nothing is left of the attempt");
}

#[test]
fn an_output_that_is_not_written_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.json");
    drop(Output::open(&path).unwrap());
    assert_eq!(names(dir.path()), [""; 0]);
    fs::write(&path, "earlier").unwrap();
    let output = Output::open(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
    output.write("first").unwrap();
    output.write("second").unwrap();
    drop(output);
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(names(dir.path()), ["run.json"]);
}

#[test]
fn an_output_behind_a_link_leaves_the_link() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("run.json"), dir.path().join("newest.json"));
    fs::write(&path, "earlier").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    Output::open(&link).unwrap().write("later").unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "later");
}
