//! The machine of a run, and whether it has room for the run.

use crate::{engine::Result, result::Machine};
use std::{fs, os::unix::fs::MetadataExt, path::Path, thread};

/// The description of this machine; `dir` is the directory of the databases.
#[must_use]
pub fn machine(dir: &Path) -> Machine {
    let (file_system, device) = mount(dir);
    let profile = if cfg!(debug_assertions) { "debug: figures mean nothing" } else { "release" };
    Machine {
        cpu: line("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
        cores: thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        memory_bytes: memory("MemTotal").unwrap_or(0),
        kernel: format!("Linux {}", word("/proc/sys/kernel/osrelease")),
        os: os_name(),
        file_system,
        device,
        page_cache: "as the seed left it, except in cold rows".to_owned(),
        build: format!("{profile}, {}", std::env::consts::ARCH),
    }
}

/// Free bytes below a directory.
///
/// # Errors
/// Errors of the system.
pub fn disk_free(dir: &Path) -> Result<u64> {
    let statistics = rustix::fs::statvfs(dir)?;
    Ok(statistics.f_bavail * statistics.f_frsize)
}

/// Available memory, if the kernel reports it.
#[must_use]
pub fn memory_free() -> Option<u64> {
    memory("MemAvailable")
}

fn word(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The text after `name :` in a file of such lines.
fn line(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory(name: &str) -> Option<u64> {
    let value = line("/proc/meminfo", name)?;
    Some(value.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn os_name() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("unknown").trim_matches('"').to_owned()
}

/// The file system of a directory with its mount options, and its device.
fn mount(dir: &Path) -> (String, String) {
    let unknown = || ("unknown".to_owned(), "unknown".to_owned());
    let Ok(metadata) = fs::metadata(dir) else { return unknown() };
    let number = metadata.dev();
    let wanted = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let front: Vec<&str> = front.split(' ').collect();
        let back: Vec<&str> = back.split(' ').collect();
        (front.get(2) == Some(&wanted.as_str()))
            .then(|| (format!("{} {}", back[0], front[5]), back[1].to_owned()))
    });
    found.unwrap_or_else(unknown)
}
