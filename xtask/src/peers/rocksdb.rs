//! The worker of RocksDB: fetches the prebuilt library and builds the worker with it. It does not
//! compile RocksDB; `peers/rocksdb/README.md` describes that.

use crate::peers::tools::{cargo_build, need, run_in};
use std::path::{Path, PathBuf};

/// Its folder below `peers`.
pub const NAME: &str = "rocksdb";

/// A Java library with the C API, of the release that the crate's headers belong to.
const ARTIFACT: &str = "org.rocksdb:rocksdbjni:10.4.2:jar:linux64";
/// The name of the native library inside it.
const PACKED: &str = "librocksdbjni-linux64.so";
/// The name that the linker searches.
const LIBRARY: &str = "librocksdb.so";

/// Folders in which systems keep libclang, some of them with a subfolder for each version.
const LIBRARY_FOLDERS: [&str; 6] =
    ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/lib64", "/opt"];

/// Fetches the library and builds the worker.
///
/// # Errors
/// The missing tool or the failed step, in words.
pub fn prepare(folder: &Path) -> Result<PathBuf, String> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the prebuilt library is for Linux on x86-64; see its README.md".to_owned());
    }
    need("cc", "a C compiler")?;
    if !has_libclang() {
        return Err("libclang is not installed (libclang-dev)".to_owned());
    }
    fetch(folder)?;
    cargo_build(folder, "silt-bench-rocksdb")
}

/// Unpacks the prebuilt library, unless that is done.
fn fetch(folder: &Path) -> Result<(), String> {
    let prebuilt = folder.join("prebuilt");
    if prebuilt.join(LIBRARY).is_file() {
        return Ok(());
    }
    need("mvn", "Maven")?;
    std::fs::create_dir_all(&prebuilt).map_err(|error| format!("prebuilt: {error}"))?;
    let artifact = format!("-Dartifact={ARTIFACT}");
    let only = format!("-Dmdep.unpack.includes={PACKED}");
    let folder = format!("-DoutputDirectory={}", prebuilt.display());
    // Maven runs in this folder, because it leaves files where it runs.
    let arguments = ["--quiet", "--batch-mode", "dependency:unpack", &artifact, &only, &folder];
    run_in(&prebuilt, "mvn", &arguments)?;
    std::fs::rename(prebuilt.join(PACKED), prebuilt.join(LIBRARY))
        .map_err(|error| format!("{PACKED} is not in {ARTIFACT}: {error}"))
}

/// Whether libclang is in a place that the generator of bindings searches.
fn has_libclang() -> bool {
    let named = std::env::var_os("LIBCLANG_PATH").map(PathBuf::from);
    let folders = LIBRARY_FOLDERS.iter().map(PathBuf::from).chain(named);
    folders.into_iter().any(|folder| {
        let versions = entries(&folder).into_iter().map(|version| version.join("lib"));
        holds_libclang(&folder) || versions.into_iter().any(|folder| holds_libclang(&folder))
    })
}

fn holds_libclang(folder: &Path) -> bool {
    let is_library = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        (name.starts_with("libclang.so") || name.starts_with("libclang-"))
            && name.contains(".so")
            && !name.starts_with("libclang-cpp")
    };
    entries(folder).iter().any(is_library)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| entry.path()).collect()
}
