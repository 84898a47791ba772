//! Fills reach the file in both ways, whatever the windows, and outlive the process.

use super::*;
use crate::fs::{Fs, os::OsFs};
use std::{env, fs, process::Command};
use tempfile::TempDir;

const WAYS: [LogIo; 3] = [LogIo::Auto, LogIo::Map, LogIo::Write];
const CAPACITY: u64 = 10 << 20;

fn open(path: &Path, io: LogIo) -> std::sync::Arc<dyn LogFile> {
    OsFs.open_log(path, LogFileOptions { capacity: CAPACITY, io }).unwrap()
}

fn temporary() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    (dir, path)
}

/// Checks that the file holds `expected` and only zeros behind it.
fn assert_holds(path: &Path, expected: &[u8]) {
    let found = fs::read(path).unwrap();
    assert!(found[..expected.len()] == *expected, "the bytes differ");
    assert!(found[expected.len()..].iter().all(|&byte| byte == 0), "stray bytes");
}

/// Bytes of the file that are in the page tables of this process.
fn populated(path: &Path) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let line = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[test]
fn only_short_fills_are_copied() {
    let (_dir, path) = temporary();
    let log = open(&path, LogIo::Map);
    let long = vec![b'x'; MAPPED_FILL_BYTES_MAX + 1];
    let twice = 2 * long.len();
    log.fill(0, &[&long, &long]).unwrap();
    assert_eq!(populated(&path), 0, "it is written");
    log.fill(twice as u64, &[&long[1..]]).unwrap();
    assert!(populated(&path) > 0, "it is copied");
    let held = fs::read(&path).unwrap();
    assert!(held[..twice + MAPPED_FILL_BYTES_MAX].iter().all(|&byte| byte == b'x'));
    assert_eq!(held[twice + MAPPED_FILL_BYTES_MAX], 0);
}

/// System calls of this thread that wrote.
fn writes() -> u64 {
    let counts = fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("syscw: ")).unwrap();
    line.parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn long_fills_leave_small_pages() {
    let (_dir, path) = temporary();
    let log = open(&path, LogIo::Map);
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|at| (at >> 8) as u8 | 1).collect();
    let (head, tail) = bytes.split_at(5_000);
    let fill = |offset: u64| {
        let before = writes();
        log.fill(offset, &[head, &[], tail]).unwrap();
        assert!(fs::read(&path).unwrap()[offset as usize..].starts_with(&bytes), "at {offset}");
        writes() - before
    };
    assert_eq!(fill(0), 256, "pages at the beginning");
    assert_eq!(fill(1), 257, "within their borders");
    assert_eq!(fill(POPULATED_FROM), 64);
    assert_eq!(fill(POPULATED_FROM - 100), 65);
    // Less than two pieces are written at once, wherever they begin.
    let before = writes();
    log.fill(1, &[&bytes[..2 * EARLY_WRITE_BYTES_MAX - 1]]).unwrap();
    assert_eq!(writes() - before, 1);
    assert_eq!(fs::read(&path).unwrap()[1..][..5_000], bytes[..5_000]);
}

#[cfg(target_os = "linux")]
#[test]
fn only_windows_that_are_copied_into_are_populated() {
    const K: u64 = 1 << 10;
    let (_dir, path) = temporary();
    let log = open(&path, LogIo::Map);
    let probe = memmap2::MmapOptions::new().len(4096).map_anon().unwrap();
    if probe.advise(memmap2::Advice::PopulateWrite).is_err() {
        return; // A kernel that cannot.
    }
    // In windows, as what is longer would be written.
    (1..=POPULATED_FROM >> 20).for_each(|mib| log.prepare(mib << 20).unwrap());
    assert_eq!(populated(&path), 0, "a small database does without");
    let prepare = |ahead: u64| log.prepare(POPULATED_FROM + ahead).unwrap();
    prepare(256 * K);
    assert_eq!(populated(&path), 256 * K);
    let mut offset = POPULATED_FROM;
    let mut fill = |bytes: u64, count: u64| {
        for _ in 0..count {
            log.fill(offset, &[&vec![b'x'; bytes as usize]]).unwrap();
            offset += bytes;
        }
    };
    fill(K, 200);
    prepare(257 * K);
    assert_eq!(populated(&path), 320 * K);
    prepare(512 * K);
    assert_eq!(populated(&path), 512 * K);
    // More than half of a window, so the next has blocks only.
    fill(64 * K, 3);
    prepare(768 * K);
    assert_eq!(populated(&path), 512 * K);
    assert_eq!(fs::metadata(&path).unwrap().len(), POPULATED_FROM + 768 * K);
    // Bytes can be copied there; a kernel may bring more than the page that is touched.
    fill(K, 300);
    let touched = populated(&path);
    assert!((512 + 180..=768).contains(&(touched / K)), "{touched}");
    // And the next window is one for copies again.
    prepare(832 * K);
    assert_eq!(populated(&path), touched + 64 * K);
    // Where syncs follow each other closely, to populate would save nothing.
    (0..SYNCS_MIN).for_each(|_| log.sync(offset).unwrap());
    let kept = populated(&path);
    prepare(896 * K);
    assert_eq!(populated(&path), kept);
    // One fill is longer than a window.
    prepare(896 * K + LOG_WINDOW_BYTES_MAX as u64 + 1);
    assert_eq!(populated(&path), kept);
    let held = fs::read(&path).unwrap();
    assert!(held[POPULATED_FROM as usize..offset as usize].iter().all(|&byte| byte == b'x'));
}

#[test]
fn a_mapping_is_used_where_it_is_safe_or_asked_for() {
    let (_dir, path) = temporary();
    assert_eq!(open(&path, LogIo::Write).way(), LogWay::Write);
    let safe = maps_safely(&File::open(&path).unwrap());
    let expected = if safe { LogWay::Map } else { LogWay::Write };
    assert_eq!(open(&path, LogIo::Auto).way(), expected);
    let empty = OsFs.open_log(&path, LogFileOptions { capacity: 0, io: LogIo::Map }).unwrap();
    assert_eq!(empty.fill(0, &[b"a"]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(empty.fill(0, &[]).is_ok());
}

#[test]
fn fills_of_all_sizes_cross_window_borders() {
    for io in WAYS {
        let (_dir, path) = temporary();
        let log = open(&path, io);
        let mut expected = Vec::new();
        let mut size = 1;
        while expected.len() + size < CAPACITY as usize {
            let bytes: Vec<u8> = (0..size).map(|at| (at * 31 + size) as u8 | 1).collect();
            let (head, tail) = bytes.split_at(size / 3);
            log.fill(expected.len() as u64, &[head, &[], tail]).unwrap();
            expected.extend_from_slice(&bytes);
            size = (size * 5 / 4 + 1) % 600_000;
        }
        assert!(expected.len() > 9 << 20);
        assert_holds(&path, &expected);
        log.sync(u64::MAX).unwrap();
        assert_holds(&path, &expected);
    }
}

#[test]
fn a_fill_of_more_parts_than_one_write_takes_is_whole() {
    for io in WAYS {
        let (_dir, path) = temporary();
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| at as u8 | 1).collect();
        let parts: Vec<&[u8]> = bytes.chunks(20).collect();
        assert!(parts.len() > PARTS_MAX);
        open(&path, io).fill(3, &parts).unwrap();
        assert_eq!(fs::read(&path).unwrap()[..3], [0; 3]);
        assert!(fs::read(&path).unwrap()[3..50_003] == bytes[..]);
    }
}

#[test]
fn opening_keeps_what_lies_there() {
    for io in WAYS {
        let (_dir, path) = temporary();
        let old = vec![7; 300_000];
        fs::write(&path, &old).unwrap();
        let log = open(&path, io);
        log.prepare(1 << 20).unwrap();
        log.fill(100_000, &[b"new"]).unwrap();
        let mut expected = old;
        expected[100_000..100_003].copy_from_slice(b"new");
        assert_holds(&path, &expected);
    }
}

#[test]
fn prepare_allocates_ahead_and_never_past_the_capacity() {
    for io in WAYS {
        let (_dir, path) = temporary();
        let log = open(&path, io);
        assert_eq!(fs::metadata(&path).unwrap().len(), 0, "opening takes no space");
        log.prepare(1).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), LOG_WINDOW_BYTES_LEAST);
        log.fill(LOG_WINDOW_BYTES_LEAST, &[b"x"]).unwrap();
        let len = fs::metadata(&path).unwrap().len();
        assert_eq!(len, 384 << 10, "a fill prepares more than it needs");
        log.prepare(u64::MAX).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), CAPACITY);
    }
}

#[test]
fn a_fill_past_the_capacity_is_refused() {
    for io in WAYS {
        let (_dir, path) = temporary();
        let log = open(&path, io);
        log.fill(CAPACITY - 5, &[b"12345"]).unwrap();
        for offset in [CAPACITY - 4, CAPACITY, u64::MAX - 4, u64::MAX] {
            let error = log.fill(offset, &[b"12345"]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), CAPACITY);
    }
}

#[test]
fn released_bytes_stay_in_the_file() {
    for io in WAYS {
        let (_dir, path) = temporary();
        let log = open(&path, io);
        let mut expected = Vec::new();
        for index in 0..1000_u64 {
            let bytes = [index as u8 | 1; 5000];
            log.fill(index * 5000, &[&bytes]).unwrap();
            expected.extend_from_slice(&bytes);
            log.release(index * 5000);
        }
        log.release(u64::MAX);
        assert_holds(&path, &expected);
        // The contract forbids it, but it must not cost the process.
        log.fill(10, &[b"late"]).unwrap();
        expected[10..14].copy_from_slice(b"late");
        assert_holds(&path, &expected);
    }
}

#[test]
fn disjoint_fills_of_many_threads_all_arrive() {
    const THREADS: u64 = 4;
    for io in WAYS {
        let (_dir, path) = temporary();
        let log = open(&path, io);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let log = &log;
                scope.spawn(move || {
                    for index in 0..2000 {
                        let offset = (index * THREADS + thread) * 1000;
                        log.fill(offset, &[&[thread as u8 + 1; 400], &[9; 600]]).unwrap();
                    }
                });
            }
            scope.spawn(|| (0..8).for_each(|window| log.prepare(window << 20).unwrap()));
        });
        let found = fs::read(&path).unwrap();
        for (index, record) in found[..8_000_000].chunks(1000).enumerate() {
            let thread = (index as u64 % THREADS) as u8 + 1;
            assert!(record[..400] == [thread; 400] && record[400..] == [9; 600], "{index}");
        }
    }
}

/// Write system calls of this thread so far, where the kernel tells.
fn write_calls() -> Option<u64> {
    let text = fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscw: ")?.parse().ok())
}

#[test]
fn a_prepared_fill_writes_by_mapping_or_by_one_call() {
    for io in WAYS {
        let (_dir, path) = temporary();
        let log = open(&path, io);
        log.prepare(200_000).unwrap();
        let before = write_calls();
        for index in 0..1000 {
            log.fill(index * 130, &[&[1; 30], &[2; 100]]).unwrap();
        }
        let (Some(before), Some(after)) = (before, write_calls()) else { return };
        let expected = if log.way() == LogWay::Map { 0 } else { 1000 };
        assert_eq!(after - before, expected, "{io:?}");
    }
}

const CHILD: &str = "SILTDB_TEST_LOG_CHILD";

/// Runs in a child process of the next test; by itself it has nothing to do.
#[test]
fn child_that_fills_and_dies() {
    let Some(path) = env::var_os(CHILD) else { return };
    for (index, io) in WAYS.into_iter().enumerate() {
        let log = open(&Path::new(&path).join(index.to_string()), io);
        for offset in 0..10_000 {
            log.fill(offset * 100, &[&[index as u8 + 1; 100]]).unwrap();
        }
    }
    std::process::abort();
}

#[test]
fn filled_bytes_survive_the_death_of_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", "fs::os::log::tests::child_that_fills_and_dies"])
        .env(CHILD, dir.path())
        .output()
        .unwrap();
    assert!(!status.status.success(), "the child must have died");
    for index in 0..WAYS.len() {
        assert_holds(&dir.path().join(index.to_string()), &[index as u8 + 1; 1_000_000]);
    }
}

#[test]
fn where_syncs_follow_each_other_the_next_window_is_written_before() {
    const K: u64 = 1 << 10;
    for io in [LogIo::Map, LogIo::Write] {
        let (_dir, path) = temporary();
        let log = open(&path, io);
        let commit = |offset: u64, syncs: u64| {
            log.fill(offset, &[&[b'x'; 64 << 10]]).unwrap();
            (0..syncs).for_each(|_| log.sync(offset + 64 * K).unwrap());
        };
        let pages_written = |end: u64| {
            let before = write_calls();
            log.prepare(end).unwrap();
            write_calls().zip(before).map(|(after, before)| after - before)
        };
        log.prepare(256 * K).unwrap();
        commit(0, SYNCS_MIN - 1);
        assert!(pages_written(512 * K).is_none_or(|pages| pages == 0));
        commit(256 * K, SYNCS_MIN);
        let Some(pages) = pages_written(1024 * K) else { return };
        assert_eq!(pages, 512 / 4);
        // Too few syncs, and then not enough for so much.
        commit(512 * K, SYNCS_MIN - 1);
        assert_eq!(pages_written(5120 * K), Some(0));
        commit(4096 * K, SYNCS_MIN);
        assert_eq!(pages_written(5184 * K), Some(0), "512 KiB between syncs");
        let old = vec![b'x'; 64 << 10];
        let mut expected = vec![0; 4160 << 10];
        for offset in [0, 256, 512, 4096].map(|offset| offset << 10) {
            expected[offset..offset + old.len()].copy_from_slice(&old);
        }
        assert_holds(&path, &expected);
        drop(log);
        // What was written in an earlier life is not written again.
        let log = open(&path, io);
        log.prepare(1).unwrap();
        (0..SYNCS_MIN).for_each(|_| log.sync(1).unwrap());
        let before = write_calls();
        log.prepare(512 * K).unwrap();
        assert_eq!(write_calls(), before);
        assert_holds(&path, &expected);
    }
}
