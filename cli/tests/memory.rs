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

/// Length from which on a value is streamed, in bytes.
const STREAMED_BYTES: usize = 32 << 20;

/// Bytes of such a value that are in memory at a time.
const PIECE_BYTES: usize = 1 << 20;

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

/// The text of the first of these bytes is four times as long.
#[test]
fn a_long_value_takes_no_memory_to_be_printed_by_get_and_scan() {
    let dir = tempfile::tempdir().unwrap();
    let mut value = vec![b'x'; STREAMED_BYTES];
    value[..PIECE_BYTES].fill(0);
    fs::write(dir.path().join("value"), value).unwrap();
    peak_bytes(&dir, &["put", "db", "key", "--file", "value"]);
    peak_bytes(&dir, &["put", "db", "last", "short"]);
    for arguments in [
        &["get", "db", "key"][..],
        &["get", "db", "key", "--raw"],
        &["get", "db", "key", "--json"],
        &["get", "db", "key", "last", "key"],
        &["get", "db", "last", "--prev"],
        &["scan", "db"],
        &["scan", "db", "--reverse"],
        &["scan", "db", "--json"],
        &["scan", "db", "--hex", "--json"],
    ] {
        let peak = peak_bytes(&dir, arguments);
        assert!(peak <= BASE_BYTES, "{arguments:?}: {} MiB", peak >> 20);
    }
}

#[test]
fn a_streamed_value_is_printed_as_one_in_memory_would_be() {
    let dir = tempfile::tempdir().unwrap();
    let silt = |arguments: &[&str]| {
        let output = Command::new(SILT).current_dir(dir.path()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        output.stdout
    };
    // 11 bytes, so that pieces end at each of them.
    let text = "a\u{e9}\u{20ac}\u{1f30d}z".repeat(STREAMED_BYTES / 11 + 1);
    let bytes = [text.as_bytes(), b"\xff"].concat();
    for (name, value) in [("bytes", &bytes[..]), ("text", text.as_bytes())] {
        fs::write(dir.path().join("value"), value).unwrap();
        silt(&["put", "db", name, "--file", "value"]);
    }
    assert!(silt(&["get", "db", "bytes", "--raw"]) == bytes);
    let scanned = silt(&["scan", "db"]);
    assert!(scanned == format!("bytes\t{text}\\xff\ntext\t{text}\n").into_bytes());
    assert!(silt(&["get", "db", "bytes", "text"]) == scanned);
    assert!(silt(&["get", "db", "text"]) == format!("{text}\n").into_bytes());
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let hex: String = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    let lines = [
        format!("{{\"key\":\"bytes\",\"value\":{{\"hex\":\"{hex}\"}}}}\n"),
        format!("{{\"key\":\"text\",\"value\":\"{text}\"}}\n"),
    ];
    assert!(silt(&["scan", "db", "--json"]) == lines.concat().into_bytes());
    assert!(silt(&["scan", "db", "--json", "--reverse", "--limit", "1"]) == lines[1].as_bytes());
    silt(&["ttl", "db", "text", "--set", "1h"]);
    let found: serde_json::Value =
        serde_json::from_slice(&silt(&["get", "db", "text", "--json"])).unwrap();
    assert!(found["value"] == text && found["expires_at"].is_u64());
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
