//! What is found where a cold directory should be.

use super::*;
use crate::engine::Engine;
use crate::fixture::{DIR, options};
use siltdb_base::fs::mem::{Crash, MemFs};

/// What a manifest names.
fn stored() -> ColdPlace {
    ColdPlace { id: 7, path: "../cold".to_owned(), owner: 3 }
}

/// A file system with these files in the cold directory, which is missing without a list.
fn with_files(files: Option<&[(&str, &[u8])]>) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    for (name, bytes) in files.into_iter().flatten() {
        fs.create_dir_all(Path::new("cold")).unwrap();
        fs.write_all(&Path::new("cold").join(name), bytes).unwrap();
    }
    if files.is_some() {
        fs.create_dir_all(Path::new("cold")).unwrap();
    }
    fs
}

/// Openings: with the option or without, to write or to read.
const OPENINGS: [(Option<&str>, Access); 4] = [
    (None, Access::ReadWrite),
    (Some("../cold"), Access::ReadWrite),
    (None, Access::ReadOnly),
    (Some("../cold"), Access::ReadOnly),
];

/// What each of these openings finds.
fn found(
    files: Option<&[(&str, &[u8])]>,
    known: (Option<ColdPlace>, ColdContents),
) -> [std::result::Result<Option<ColdState>, ErrorKind>; 4] {
    OPENINGS.map(|(path, access)| {
        let fs = with_files(files);
        let cold_directory = path.map(PathBuf::from);
        let options = EngineOptions { cold_directory, access, ..options(&fs) };
        let found =
            find_cold(Path::new(DIR), &options, known.0.as_ref(), known.1, ColdLocking::Locks);
        found.map(|found| found.map(|found| found.state)).map_err(|error| error.kind())
    })
}

#[test]
fn a_directory_is_known_new_foreign_or_missing() {
    let (nothing, tables) = (ColdContents::Nothing, ColdContents::Tables);
    let (known, new) = (Ok(Some(ColdState::Known)), Ok(Some(ColdState::New)));
    let (none, missing) = (Ok(None), Err(ErrorKind::NotFound));
    let (invalid, corrupt) = (Err(ErrorKind::InvalidArgument), Err(ErrorKind::Corruption));
    let own = ColdFile { id: 7, owner: None }.encode();
    let own: &[(&str, &[u8])] = &[("COLD", own.as_bytes()), ("000001.table", b"")];
    let other = ColdFile { id: 8, owner: None }.encode();
    let other: &[(&str, &[u8])] = &[("COLD", other.as_bytes())];
    let torn: &[(&str, &[u8])] = &[("COLD", b"siltdb co"), ("LOCK", b"")];
    let unfinished: &[(&str, &[u8])] = &[("000000.tmp", b"siltdb co"), ("LOCK", b"")];
    let damaged: &[(&str, &[u8])] = &[("COLD", b"siltdb co"), ("000001.table", b"")];
    let empty: &[(&str, &[u8])] = &[("LOCK", b"")];
    let foreign: &[(&str, &[u8])] = &[("photo.jpg", b"")];

    let stores = || Some(stored());
    assert_eq!(found(None, (None, nothing)), [none, new, none, none]);
    assert_eq!(found(None, (stores(), nothing)), [none, new, none, none]);
    assert_eq!(found(None, (stores(), tables)), [missing; 4]);
    assert_eq!(found(Some(own), (stores(), nothing)), [known; 4]);
    assert_eq!(found(Some(own), (stores(), tables)), [known; 4]);
    assert_eq!(found(Some(own), (None, nothing)), [none, invalid, none, none]);
    assert_eq!(found(Some(other), (stores(), nothing)), [none, invalid, none, none]);
    assert_eq!(found(Some(other), (stores(), tables)), [invalid; 4]);
    assert_eq!(found(Some(empty), (stores(), nothing)), [none, new, none, none]);
    assert_eq!(found(Some(empty), (stores(), tables)), [missing; 4]);
    assert_eq!(found(Some(foreign), (stores(), nothing)), [none, invalid, none, none]);
    // An opening was killed before the file had its name; nothing was put there yet.
    assert_eq!(found(Some(unfinished), (stores(), nothing)), [none, new, none, none]);
    assert_eq!(found(Some(torn), (stores(), nothing)), [none, corrupt, none, none]);
    assert_eq!(found(Some(torn), (stores(), tables)), [corrupt; 4]);
    assert_eq!(found(Some(damaged), (stores(), nothing)), [none, corrupt, none, none]);
    // A manifest that was damaged or invented.
    assert_eq!(found(None, (None, tables))[0], corrupt);
}

#[test]
fn nothing_is_written_to_a_directory_that_is_refused() {
    let files: &[(&str, &[u8])] = &[("photo.jpg", b"")];
    let fs = with_files(Some(files));
    let cold_directory = Some(PathBuf::from("../cold"));
    let options = EngineOptions { cold_directory, ..options(&fs) };
    Engine::open(Path::new(DIR), options).unwrap_err();
    let names: Vec<_> = fs.list(Path::new("cold")).unwrap().into_iter().map(|e| e.name).collect();
    assert_eq!(names, ["photo.jpg"]);
}

/// The file `COLD` is durable before a table is put beside it, whichever opening wrote it.
#[test]
fn a_killed_opening_leaves_a_directory_that_survives_a_loss_of_power() {
    let open = |fs: &MemFs| {
        let cold_directory = Some(PathBuf::from("../cold"));
        Engine::open(Path::new(DIR), EngineOptions { cold_directory, ..options(fs) })
    };
    let fs = MemFs::new();
    Engine::open(Path::new(DIR), options(&fs)).unwrap().close().unwrap();
    let (states, disk) = (Arc::new(std::sync::Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |_| lock(&seen).push(disk.crash_clone(Crash::Kill)))));
    open(&fs).unwrap();
    fs.on_call(None);
    let killed = std::mem::take(&mut *lock(&states));
    assert!(killed.len() > 15, "{}", killed.len());
    for (call, state) in killed.iter().enumerate() {
        let _engine = open(state).unwrap();
        // What a move leaves that is not installed yet.
        state.write_all(Path::new("cold/000099.table"), b"a table").unwrap();
        for seed in 0..10 {
            let lost = state.crash_clone(Crash::PowerLoss { seed });
            open(&lost).unwrap_or_else(|error| panic!("call {call}, seed {seed}: {error}"));
        }
    }
}
