//! The permissions of the files that a database and its copies create.

use super::Options;
use siltdb_base::fs::os::with_file_mode;

impl Options {
    /// The permissions with which files are created: those of the database and its cold directory,
    /// and of backups, checkpoints, archives and restored databases made with these options. The
    /// process takes away those of its umask. New directories can be searched by those that may
    /// read them: 0o600 makes files of 0o600 and directories of 0o700. Files and directories that
    /// exist keep theirs, also those that a checkpoint links.
    ///
    /// From 0o600 to 0o666; anything else fails with
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) at an opening. It replaces
    /// [`Options::fs`]. Default: 0o666, less what the umask takes.
    #[must_use]
    pub fn file_mode(mut self, mode: u32) -> Self {
        self.engine.fs = with_file_mode(mode);
        self
    }
}
