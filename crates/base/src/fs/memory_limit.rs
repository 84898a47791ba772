//! How much memory the control group of this process may use, as Linux tells it.
//!
//! It reads a few files of the system and changes nothing. It knows no budget.
//!
//! 1. `/proc/self/cgroup` names the group in each hierarchy: `0::/a/b` in version 2, and
//!    `5:memory:/a/b` in version 1. A system may have both.
//! 2. `/proc/self/mountinfo` says where the hierarchy is mounted, and from which of its groups on.
//! 3. A group is bound by its own limit and by those of the groups above it, as far as they can be
//!    seen: the smallest one counts.

use std::{fs, io::Read, path::Path, sync::OnceLock};

/// What is read of one file at most, in bytes: a line of `mountinfo` for each mount.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A number from which on a limit is none. Version 1 says about 2^63 for none.
const NO_LIMIT: u64 = 1 << 60;

/// The smallest memory limit of the control groups of this process, in bytes; `None` if there is
/// none, if it cannot be read, and on other systems than Linux. It is read once.
#[must_use]
pub fn memory_limit_bytes() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        find(&|path| {
            let mut text = String::new();
            let file = fs::File::open(Path::new(path)).ok()?;
            file.take(FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
            Some(text)
        })
    })
}

/// The limit that the files tell that `read` returns by their paths.
fn find(read: &dyn Fn(&str) -> Option<String>) -> Option<u64> {
    let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
    let hierarchies = groups.lines().filter_map(Hierarchy::of_group);
    let limits = hierarchies.flat_map(|hierarchy| {
        let mounts = mounts.lines().filter_map(Mount::of_line);
        let mounts = mounts.filter(move |mount| mount.version == hierarchy.version);
        mounts.filter_map(move |mount| smallest(read, &hierarchy, &mount))
    });
    limits.min()
}

/// The two versions of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupVersion {
    One,
    Two,
}

impl GroupVersion {
    /// The file of a group that has its limit.
    fn limit_file(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }
}

/// A hierarchy that bounds memory, and the group of the process in it.
struct Hierarchy<'t> {
    version: GroupVersion,
    group: &'t str,
}

impl<'t> Hierarchy<'t> {
    /// Reads a line `id:controllers:group`; `None` for one that does not bound memory.
    fn of_group(line: &'t str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let version = match (id, controllers) {
            ("0", "") => GroupVersion::Two,
            _ if controllers.split(',').any(|it| it == "memory") => GroupVersion::One,
            _ => return None,
        };
        Some(Self { version, group })
    }
}

/// Where a hierarchy that may bound memory is mounted.
struct Mount {
    version: GroupVersion,
    /// The group that lies at the mount point.
    root: String,
    point: String,
}

impl Mount {
    /// Reads a line of `mountinfo`: `id parent device root point options [fields] - type source
    /// super-options`. `None` for a mount of something else.
    fn of_line(line: &str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut back = back.split(' ');
        let (kind, _, options) = (back.next()?, back.next()?, back.next().unwrap_or_default());
        let version = match kind {
            "cgroup2" => GroupVersion::Two,
            "cgroup" if options.split(',').any(|it| it == "memory") => GroupVersion::One,
            _ => return None,
        };
        let mut front = front.split(' ').skip(3);
        let (root, point) = (unescaped(front.next()?), unescaped(front.next()?));
        Some(Self { version, root, point })
    }

    /// The path of `group` below the mount point. A group that lies outside of what is mounted is
    /// bound by the one at the mount point, if by any that can be seen.
    fn below<'g>(&self, group: &'g str) -> &'g str {
        let root = self.root.trim_end_matches('/');
        let below = group.strip_prefix(root).filter(|it| it.is_empty() || it.starts_with('/'));
        below.filter(|it| !it.split('/').any(|part| part == "..")).unwrap_or("")
    }
}

/// The smallest limit from a group up to the mount point.
fn smallest(
    read: &dyn Fn(&str) -> Option<String>,
    hierarchy: &Hierarchy<'_>,
    mount: &Mount,
) -> Option<u64> {
    let mut below = mount.below(hierarchy.group).trim_end_matches('/');
    let mut least: Option<u64> = None;
    loop {
        let point = mount.point.trim_end_matches('/');
        let text = read(&format!("{point}{below}/{}", mount.version.limit_file()));
        // Version 2 says `max` for none.
        let limit = text.and_then(|text| text.trim().parse::<u64>().ok());
        let limit = limit.filter(|&limit| limit < NO_LIMIT);
        least = least.into_iter().chain(limit).min();
        match below.rfind('/') {
            Some(end) => below = &below[..end],
            None => return least,
        }
    }
}

/// A path of `mountinfo`, where a space and three other bytes stand as three octal digits.
fn unescaped(path: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
}

#[cfg(test)]
mod tests;
