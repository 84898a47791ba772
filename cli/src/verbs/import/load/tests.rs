//! Records reach the loader in order, and its failure ends the reading.

use super::*;
use siltdb::{Error, ErrorKind};

fn chunk(lines: std::ops::Range<u64>) -> Chunk {
    let mut chunk = Chunk::default();
    for line in lines {
        let slot = chunk.next_slot();
        slot.line = line;
        slot.record.key = line.to_string().into_bytes();
        chunk.accept();
    }
    chunk
}

#[test]
fn all_records_are_loaded_in_order_before_the_end() {
    let mut keys = Vec::new();
    let mut put = |record: &Record| {
        keys.push(String::from_utf8_lossy(&record.key).into_owned());
        Ok(())
    };
    let (chunks, loaded) = while_reading(&mut put, |loader| {
        (0..100).filter(|n| loader.exchange(chunk(n * 3..n * 3 + 3)).is_some()).count()
    })
    .unwrap();
    loaded.unwrap();
    assert_eq!(chunks, 100);
    assert_eq!(keys, (0..300).map(|line| line.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_refused_record_ends_the_reading_with_its_line() {
    let mut put = |record: &Record| match &record.key[..] {
        b"7" => Err(Error::new(ErrorKind::InvalidArgument, "refused")),
        _ => Ok(()),
    };
    let (chunks, loaded) = while_reading(&mut put, |loader| {
        // Without an end, were it not for the failure.
        (0..).take_while(|n| loader.exchange(chunk(n * 3..n * 3 + 3)).is_some()).count()
    })
    .unwrap();
    assert_eq!(loaded.unwrap_err().line, 7);
    assert!(chunks >= 3);
}
