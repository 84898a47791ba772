//! What a missing table file means.

use super::*;

fn kind_of(missing: &MissingFile) -> ErrorKind {
    let not_found = Error::new(ErrorKind::NotFound, "no such file");
    let error = missing.explain(not_found, Path::new("000001.table"));
    assert_eq!(error.file(), Some("000001.table"));
    error.kind()
}

#[test]
fn a_missing_file_is_damage_until_the_database_is_closed() {
    let missing = MissingFile::new(Remover::Ours);
    assert_eq!(kind_of(&missing), ErrorKind::Corruption);
    missing.close();
    assert_eq!(kind_of(&missing), ErrorKind::Closed);
}

#[test]
fn a_file_that_another_process_removes_is_no_damage() {
    let missing = MissingFile::new(Remover::Writer);
    assert_eq!(kind_of(&missing), ErrorKind::Busy);
    missing.close();
    assert_eq!(kind_of(&missing), ErrorKind::Busy);
    let other = missing.explain(Error::corruption("file ends early"), Path::new("000001.table"));
    assert_eq!(other.kind(), ErrorKind::Corruption);
}
