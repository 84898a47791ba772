//! The limits equal those of the library.

use super::*;
use siltdb::{Db, WriteBatch};
use tempfile::TempDir;

#[test]
fn the_library_says_the_same_of_a_key() {
    let directory = TempDir::new().unwrap();
    let family = Db::open(directory.path()).unwrap().default_family();
    let mut batch = WriteBatch::new();
    for (key_bytes, fits) in [(KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)] {
        let key = vec![b'k'; key_bytes];
        let (found, expected) = (check_entry(&key, b""), batch.put(&family, &key, b""));
        assert_eq!(found.is_ok(), fits);
        let text = |result: Result<()>| result.map_err(|error| error.to_string());
        assert_eq!(text(found), text(expected));
    }
}
