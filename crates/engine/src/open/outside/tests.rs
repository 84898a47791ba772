//! Paths in and out of databases.

use super::*;
use siltdb_base::{error::ErrorKind, fs::mem::MemFs};

#[test]
fn a_path_that_leaves_a_database_again_is_outside_of_it() {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new("db/inner")).unwrap();
    for name in [FileName::Current, FileName::Lock] {
        fs.write_all(&Path::new("db").join(name.to_path()), b"").unwrap();
    }
    let check = |dir: &str| check_outside_databases(&fs, Path::new(dir));
    let inside =
        ["db", "db/x", "./db/x", "/db/x", "db/inner", "db/inner/../x", "db/../db/x", "x/../db"];
    for dir in inside {
        assert_eq!(check(dir).unwrap_err().kind(), ErrorKind::InvalidArgument, "{dir}");
    }
    for dir in ["", "x", "x/y", "db/../x", "/db/../x", "./db/../x", "db/inner/../../x"] {
        check(dir).unwrap();
    }
    // From within the database.
    fs.set_working_directory(Path::new("/db/inner")).unwrap();
    check("x").unwrap();
    fs.set_working_directory(Path::new("/db")).unwrap();
    assert_eq!(check("x").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(check("").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let of = |dir: &str, missing: &'static str| {
        ancestors(Path::new(dir), &|path| Ok(path == Path::new(missing))).unwrap()
    };
    assert_eq!(of("../x/y", "none"), ["..", "../x", "../x/y"].map(PathBuf::from));
    assert_eq!(of("../../x", "none"), ["../..", "../../x"].map(PathBuf::from));
    assert_eq!(of("db/x/../y", "db/x"), ["", "db", "db/y"].map(PathBuf::from));
    assert_eq!(of("db/x/../../y", "db/x"), ["db/..", "db/../y"].map(PathBuf::from));
}
