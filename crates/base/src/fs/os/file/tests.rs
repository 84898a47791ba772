//! Tests of files on disk that look inside; those of what is promised are in `fs::tests`.

use super::*;
use tempfile::tempdir;

#[test]
fn a_growing_file_goes_to_the_disk_in_pieces() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("file");
    let mut file = OsWriteFile::new(fs::File::create(&path).unwrap(), &path);
    let mut expected = Vec::new();
    // Held back, and straight through.
    for (index, bytes) in
        [100_000, WRITE_BUFFER_BYTES, 3 << 20].into_iter().cycle().take(60).enumerate()
    {
        let bytes = vec![index as u8; bytes];
        file.append(&bytes).unwrap();
        expected.extend_from_slice(&bytes);
        assert!(file.written - file.begun < WRITEBACK_BYTES);
    }
    assert!(file.begun > 60 << 20);
    file.append(&[7; 9]).unwrap();
    expected.extend_from_slice(&[7; 9]);
    file.flush().unwrap();
    assert_eq!((file.begun, file.written), (file.len(), file.len()));
    assert!(fs::read(&path).unwrap() == expected);
    begin_writeback(file.file.as_fd(), 0..file.written).unwrap();
    file.sync().unwrap();
    assert!(fs::read(&path).unwrap() == expected);
}

#[test]
fn what_cannot_be_written_back_is_left_alone() {
    let (reader, writer) = io::pipe().unwrap();
    let kind = |result: io::Result<()>| result.err().map(|error| error.kind());
    let refused = cfg!(target_os = "linux").then_some(io::ErrorKind::NotSeekable);
    assert_eq!(kind(begin_writeback(writer.as_fd(), 0..WRITEBACK_BYTES)), refused);
    let refused = cfg!(target_os = "linux").then_some(io::ErrorKind::InvalidInput);
    assert_eq!(kind(begin_writeback(reader.as_fd(), u64::MAX - 1..u64::MAX)), refused);
    // No bytes would be all bytes to the system.
    assert_eq!(kind(begin_writeback(reader.as_fd(), 9..9)), None);
}
