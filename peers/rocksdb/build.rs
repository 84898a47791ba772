//! Gives the directory of the prebuilt RocksDB to the linker and the program; builds nothing
//! itself.

use std::{env, path::Path};

const MISSING: &str = "prebuilt/librocksdb.so is missing: `cargo xtask peers` fetches it; \
    README.md says how by hand, and how to compile RocksDB instead";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_SOURCE").is_some() {
        assert!(
            env::var_os("ROCKSDB_COMPILE").is_some(),
            "the feature `source` needs ROCKSDB_COMPILE=1"
        );
        return;
    }
    let root = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let folder = Path::new(&root).join("prebuilt");
    let library = folder.join("librocksdb.so");
    println!("cargo:rerun-if-changed={}", library.display());
    assert!(library.is_file(), "{MISSING}");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.display());
}
