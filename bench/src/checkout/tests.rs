//! Tests of checkouts: where they are found, and how old a commit of theirs is.

use super::*;
use std::fs;

/// A directory with the files of a checkout.
fn sources() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join(MARK);
    fs::create_dir_all(mark.parent().unwrap()).unwrap();
    fs::write(mark, "").unwrap();
    dir
}

/// Runs git there, as an author of its own.
fn git(root: &Path, arguments: &[&str]) {
    let author = ["-c", "user.name=test", "-c", "user.email=test@localhost"];
    let done = Command::new("git").current_dir(root).args(author).args(arguments).output();
    let done = done.expect("git is installed");
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_checkout_around_the_program_comes_before_the_one_it_was_compiled_in() {
    let (around, compiled) = (sources(), sources());
    let program = around.path().join("target/release/silt-bench");
    let compiled_in = compiled.path().join("bench");
    let found = Checkout::of(Some(&program), &compiled_in);
    assert_eq!(found, Some(Checkout::at(around.path())));
    let installed = Path::new("/nowhere/bin/silt-bench");
    assert_eq!(Checkout::of(Some(installed), &compiled_in), Some(Checkout::at(compiled.path())));
    assert_eq!(Checkout::of(Some(installed), Path::new("/nowhere/bench")), None);
}

#[test]
fn only_commits_of_the_library_make_a_commit_old() {
    let dir = sources();
    let checkout = Checkout::at(dir.path());
    assert_eq!((checkout.commit(), checkout.commits_since("HEAD")), (String::new(), None));
    git(dir.path(), &["init", "--quiet"]);
    let commit = |file: &str| {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
        git(dir.path(), &["add", "--all"]);
        git(dir.path(), &["commit", "--quiet", "--message", file]);
        checkout.commit()
    };
    let first = commit("crates/one");
    commit("docs/page");
    assert_eq!(checkout.commits_since(&first), Some(0));
    commit("crates/two");
    assert_eq!(checkout.commits_since(&first), Some(1));
    assert_eq!(checkout.commits_since(&format!("{first}-dirty")), Some(1));
    assert_eq!(checkout.commits_since("0000000"), None);
    assert!(!checkout.is_release());
    git(dir.path(), &["tag", "v1.0.0"]);
    assert!(checkout.is_release());
}
