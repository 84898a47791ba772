//! Memory of `silt` for values that are a large part of it.
#![cfg(target_os = "linux")]

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

const SILT: &str = env!("CARGO_BIN_EXE_silt");

const VALUE_BYTES: usize = 64 << 20;

/// Bound of the process's memory without the value, in bytes.
const BASE_BYTES: usize = 24 << 20;

/// Runs `silt` and returns the peak of its memory, in bytes.
fn peak_bytes(dir: &tempfile::TempDir, arguments: &[&str]) -> usize {
    let mut command = Command::new(SILT);
    command.current_dir(dir.path()).args(arguments).stdout(Stdio::null());
    let mut child = command.spawn().expect("silt runs");
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    let end = loop {
        // The peak only rises, so the last look before the end is almost exact.
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let mark = mark.and_then(|mark| mark.split_whitespace().next()?.parse().ok());
        peak_kib = peak_kib.max(mark.unwrap_or(0));
        if let Some(end) = child.try_wait().expect("silt ends") {
            break end;
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert!(end.success());
    peak_kib << 10
}

/// The text of these bytes is four times as long. A scan has two copies of a value, and no more.
#[test]
fn the_text_of_a_large_value_is_printed_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("value"), vec![0; VALUE_BYTES / 2]).unwrap();
    peak_bytes(&dir, &["put", "db", "key", "--file", "value"]);
    for arguments in [
        &["get", "db", "key"][..],
        &["get", "db", "key", "--json"],
        &["scan", "db"],
        &["scan", "db", "--hex", "--json"],
    ] {
        let peak = peak_bytes(&dir, arguments);
        assert!(peak <= VALUE_BYTES + BASE_BYTES, "{arguments:?}: {} MiB", peak >> 20);
    }
}

#[test]
fn put_of_a_large_file_takes_no_memory_for_its_value() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    });
    let values = [noise.take(VALUE_BYTES).collect(), vec![b'x'; VALUE_BYTES]];
    for (index, value) in values.iter().enumerate() {
        fs::write(dir.path().join("value"), value).unwrap();
        let db = format!("db{index}");
        let put = peak_bytes(&dir, &["put", &db, "key", "--file", "value"]);
        assert!((1 << 20..=BASE_BYTES).contains(&put), "{put} bytes for value {index}");
        let mut get = Command::new(SILT);
        let get = get.current_dir(dir.path()).args(["get", &db, "key", "--raw"]).output().unwrap();
        assert!(get.stdout == *value, "another value was read");
    }
}
