//! Tests of the age of figures.

use super::*;

#[test]
fn only_old_figures_are_marked() {
    assert_eq!(mark(None), "");
    assert_eq!(mark(Some(AGE_MAX)), "");
    assert_eq!(mark(Some(AGE_MAX + 1)), ", measured 101 commits ago");
}

#[test]
fn a_mark_is_found_in_wrapped_lines_and_by_its_commit() {
    let page = format!("Commit aaa, x\nCommit bbb{}, y", mark(Some(250)).replace(' ', "\n"));
    assert_eq!(marked(&page, "bbb"), Some(250));
    assert_eq!(marked(&page, "aaa"), None);
    assert_eq!(marked(&page, "ccc"), None);
}

#[test]
fn a_mark_may_be_as_old_as_unmarked_figures_and_a_release_measures_itself() {
    assert_eq!(check(None, AGE_MAX, Commit::Between), Ok(()));
    assert!(check(None, AGE_MAX + 1, Commit::Between).unwrap_err().contains("101 commits ago"));
    assert_eq!(check(Some(101), 201, Commit::Between), Ok(()));
    assert!(check(Some(101), 202, Commit::Between).is_err());
    assert_eq!(check(None, 0, Commit::Release), Ok(()));
    assert!(check(Some(1), 1, Commit::Release).unwrap_err().contains("a release"));
}
