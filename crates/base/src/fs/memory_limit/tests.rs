//! What the files of real systems tell.

use super::*;
use std::collections::HashMap;

const V2: &str = "\
22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
29 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
";

const V1: &str = "\
29 24 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
34 25 0:30 / /sys/fs/cgroup/memory rw,nosuid shared:15 - cgroup cgroup rw,memory
";

/// What is found where these files are, and no others.
fn found(group: &str, mounts: &str, limits: &[(&str, &str)]) -> Option<u64> {
    let mut files: HashMap<&str, &str> = limits.iter().copied().collect();
    files.insert("/proc/self/cgroup", group);
    files.insert("/proc/self/mountinfo", mounts);
    find(&|path| files.get(path).map(|text| (*text).to_owned()))
}

#[test]
fn the_nested_limit_that_binds_counts() {
    let group = "0::/user.slice/app.scope\n";
    let own = "/sys/fs/cgroup/user.slice/app.scope/memory.max";
    let above = "/sys/fs/cgroup/user.slice/memory.max";
    assert_eq!(found(group, V2, &[(own, "max\n"), (above, "300000000\n")]), Some(300_000_000));
    assert_eq!(found(group, V2, &[(own, "100\n"), (above, "300\n")]), Some(100));
    assert_eq!(found(group, V2, &[(own, "500\n"), (above, "300\n")]), Some(300));
    assert_eq!(found(group, V2, &[(own, "max\n"), (above, "max\n")]), None);
    assert_eq!(found(group, V2, &[]), None);
}

#[test]
fn version_1_names_the_group_by_its_controller_and_says_a_large_number_for_none() {
    let group = "12:cpu,cpuacct:/a\n5:memory:/docker/abc\n0::/init.scope\n";
    let own = "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes";
    let none = "9223372036854771712\n";
    assert_eq!(found(group, V1, &[(own, "314572800\n")]), Some(314_572_800));
    assert_eq!(found(group, V1, &[(own, none)]), None);
    let root = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
    assert_eq!(found(group, V1, &[(own, none), (root, "77\n")]), Some(77));
    // The other hierarchy has no controller of memory, and where it has one, both count.
    let unified = "/sys/fs/cgroup/unified/init.scope/memory.max";
    assert_eq!(found(group, V1, &[(own, "88\n"), (unified, "66\n")]), Some(66));
}

#[test]
fn a_container_sees_its_group_at_the_mount_point() {
    let own = "/sys/fs/cgroup/memory.max";
    assert_eq!(found("0::/\n", V2, &[(own, "300\n")]), Some(300));
    // The group is named as the host sees it, and mounted from there on.
    let mounts = "9 8 0:3 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    assert_eq!(found("0::/docker/abc\n", mounts, &[(own, "300\n")]), Some(300));
    let inner = "/sys/fs/cgroup/inner/memory.max";
    let files = [(own, "300\n"), (inner, "200\n")];
    assert_eq!(found("0::/docker/abc/inner\n", mounts, &files), Some(200));
    // Neither a group of a similar name nor one above the name space is below it.
    assert_eq!(found("0::/docker/abcd\n", mounts, &files), Some(300));
    assert_eq!(found("0::/../other\n", V2, &[(own, "300\n")]), Some(300));
}

#[test]
fn a_mount_point_with_a_space_and_what_cannot_be_read_are_no_harm() {
    let mounts = "9 8 0:3 / /a\\040b rw - cgroup2 cgroup rw\n";
    assert_eq!(found("0::/\n", mounts, &[("/a b/memory.max", "5")]), Some(5));
    for (group, mounts) in [("", ""), ("0::", "x - y"), ("::\n:", " - cgroup2"), ("0::/", V2)] {
        assert_eq!(found(group, mounts, &[]), None);
    }
    assert_eq!(found("0::/\n", V2, &[("/sys/fs/cgroup/memory.max", "-3")]), None);
    assert_eq!(find(&|_| None), None);
}

#[test]
fn this_system_is_read_without_a_failure() {
    assert!(memory_limit_bytes().is_none_or(|bytes| bytes > 0));
}
