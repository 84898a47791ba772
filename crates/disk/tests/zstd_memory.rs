//! What training and decoding with dictionaries take of the memory of the process, beside what the
//! budget is charged for them.
//!
//! Each is measured in a process of its own, because the system counts the memory of a process.

#![cfg(all(feature = "zstd", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "a test that fails names the line")]

use siltdb_disk::zstd::{Dictionary, Encoder, TRAINER_BYTES, decode, train};
use std::{env, fs, process::Command};

/// What tells a process of this test what to measure.
const CASE: &str = "SILT_ZSTD_MEMORY_CASE";
const DICTIONARY_BYTES: usize = 128 << 10;
/// Dictionaries that decode, so that what one takes is more than the noise.
const DICTIONARIES: usize = 40;
/// The longest frame after which a decoder with a dictionary is kept.
const FRAME_BYTES: usize = 12 << 10;

fn resident(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Rows that share much with each other, `bytes` of them.
fn rows(bytes: usize) -> Vec<u8> {
    let row = |n: u64| {
        let mark = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let town = ["Bern", "Lyon", "Turin", "Graz"][(mark >> 62) as usize];
        format!("{{\"id\":{n},\"town\":\"{town}\",\"mark\":{mark}}}").into_bytes()
    };
    (0..).flat_map(row).take(bytes).collect()
}

fn dictionary(samples: &[u8]) -> Vec<u8> {
    train(samples, &vec![4096; samples.len() / 4096], DICTIONARY_BYTES, || ()).unwrap()
}

/// The peak of training.
fn training() -> usize {
    let samples = rows(8 << 20);
    // Resets the peak.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = resident("VmRSS:");
    dictionary(&samples);
    resident("VmHWM:") - before
}

/// What each of the dictionaries takes with the one decoder that it keeps.
fn decoding() -> usize {
    let bytes = dictionary(&rows(4 << 20));
    let raw = rows(FRAME_BYTES);
    let mut frame = Vec::new();
    let length = Encoder::new(3, Some(&bytes)).encode(&raw, &mut frame).unwrap();
    let mut out = vec![0; raw.len()];
    let read = || {
        let dictionary = Dictionary::read(&bytes).unwrap();
        decode(&frame[..length], Some(&dictionary), &mut vec![0; FRAME_BYTES]).unwrap();
        dictionary
    };
    drop(read());
    let before = resident("VmRSS:");
    let kept: Vec<_> = (0..DICTIONARIES).map(|_| read()).collect();
    let taken = resident("VmRSS:") - before;
    decode(&frame[..length], kept.last(), &mut out).unwrap();
    assert!(out == raw);
    taken / DICTIONARIES
}

fn measured(name: &str) -> usize {
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "training_takes_what_is_charged", "--nocapture"])
        .env(CASE, name)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let taken = text.lines().find_map(|line| line.split_once("TAKEN ")).map(|(_, taken)| taken);
    taken.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn training_takes_what_is_charged() {
    match env::var(CASE).as_deref() {
        Ok("decoding") => return println!("\nTAKEN {}", decoding()),
        Ok(_) => return println!("\nTAKEN {}", training()),
        Err(_) => {}
    }
    let taken = measured("training");
    assert!(taken <= TRAINER_BYTES, "{taken} of {TRAINER_BYTES}");
    assert!(taken >= TRAINER_BYTES / 3, "{taken} of {TRAINER_BYTES}: too much is charged");
}

#[test]
fn a_dictionary_takes_what_is_charged() {
    // It may keep two decoders, and keeps one here.
    let said = Dictionary::memory_bytes(DICTIONARY_BYTES);
    let said = DICTIONARY_BYTES + (said - DICTIONARY_BYTES) / 2;
    let taken = measured("decoding");
    assert!(taken <= said, "{taken} of {said}");
    assert!(taken >= said / 3, "{taken} of {said}: too much is charged");
}
