//! A session: an open database, the family in use, and the output.
//!
//! It parses no command line.

use crate::failure::{Failure, Result};
use crate::hint::told;
use crate::output::{Output, Settings, message};
use crate::scope::{FamilyName, ReadScope, Scope};
use crate::text::counted;
use crate::transactions::Transactions;
use siltdb::{
    Checkpoint, CheckpointOptions, CopyProgress, Create, Db, Durability, Error, ErrorKind, Family,
    Follower, KeptFiles, Options, Read as _, RecoveryMode, SubscribeOptions, Subscription,
    WriteBatch, WriteOptions,
    backup::{Backup, CopyOptions},
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A file that exists in every database.
const CURRENT: &str = "CURRENT";

/// A family that exists in every database.
pub const DEFAULT_FAMILY: &str = "default";

/// The branch that every database has: the database itself.
pub const MAIN: &str = "main";

/// The purpose of an opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Writing; a missing database is created.
    Create,
    /// Writing.
    Write,
    /// Writing, or reading if the database may not be written, or another process has it open.
    WriteIfAllowed,
    /// Copying. It is opened for writing; if it may not be written, or another process has it open,
    /// what is there is copied without writing to it.
    Copy,
    /// Reading only: nothing is written, and other processes may read it, too. Beside a writer, the
    /// session has what the writer has committed so far.
    Read,
}

/// What is told of the progress of a copy, and may cancel it.
pub type OnCopied<'a> = &'a mut dyn FnMut(CopyProgress) -> ControlFlow<()>;

/// The output and the options with which a session starts.
pub struct Start {
    /// Where results go.
    pub output: Output,
    /// The options given on the command line.
    pub options: Options,
}

/// An open database, the family in use, and the output.
pub struct Session {
    db: Db,
    /// What reads beside the writer that has the database open, if there is one.
    follower: Option<Follower>,
    path: PathBuf,
    /// The branch in use.
    branch: String,
    family: String,
    /// The options, if this session has made the database and its directory.
    made: Option<Options>,
    entries_shown: Option<u64>,
    /// The open transactions.
    pub transactions: Transactions,
    /// Where results go.
    pub output: Output,
}

/// Returns the family `name` of a branch.
///
/// # Errors
/// [`Failure::Missing`] if there is no such branch or family.
pub fn family_on(db: &Db, branch: &str, name: &str) -> Result<Family> {
    let found = db.branch(branch).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::Missing(format!("no branch `{branch}`; `silt branch list` lists them"))
        }
        _ => error.into(),
    })?;
    found.family(name).map_err(|error| match error.kind() {
        ErrorKind::NotFound if branch == MAIN => {
            let hint = "`silt families` lists them and `silt families create` creates one";
            Failure::Missing(format!("no family `{name}`; {hint}"))
        }
        ErrorKind::NotFound => {
            let hint = "it has the families that `silt branch list` shows";
            Failure::Missing(format!("no family `{name}` on branch `{branch}`; {hint}"))
        }
        _ => error.into(),
    })
}

impl Session {
    /// Opens the database at `path`.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is no database and none is created; [`Failure::MergeOperator`]
    /// if a family needs an operator; errors of the database.
    pub fn open(path: &Path, opening: Opening, start: Start) -> Result<Self> {
        let Start { output, options } = start;
        if opening != Opening::Create && !exists(path)? {
            return Err(Failure::no_database(path));
        }
        let create = match opening {
            Opening::Create => Create::IfMissing,
            Opening::Write | Opening::WriteIfAllowed | Opening::Copy | Opening::Read => {
                Create::Never
            }
        };
        let is_new =
            opening == Opening::Create && matches!(path.join(CURRENT).try_exists(), Ok(false));
        let options = options_for(options, &output).create(create);
        let made = (is_new && !exists(path)?).then(|| options.clone());
        let open = |is_read_only| match is_read_only {
            true => options.clone().read_only(true).open(path),
            false => options.clone().open(path),
        };
        let mut opened = open(opening == Opening::Read);
        if let (Err(error), Opening::WriteIfAllowed) = (&opened, opening)
            && error.kind() == ErrorKind::ReadOnly
        {
            let why = format!("opened to be read only: {}", told(error));
            opened = open(true);
            if opened.is_ok() {
                message(output.settings().style, &why);
            }
        }
        let mut follower = None;
        let follows = match (&opened, opening) {
            (Err(error), Opening::Copy) if error.kind() == ErrorKind::ReadOnly => true,
            (Err(error), Opening::Read | Opening::WriteIfAllowed | Opening::Copy) => {
                error.kind() == ErrorKind::Locked
            }
            _ => false,
        };
        if let (Err(error), true) = (&opened, follows) {
            let followed = follow(options.clone(), path, error, output.settings())?;
            opened = Ok(followed.db());
            follower = Some(followed);
        }
        let db = opened.map_err(|error| {
            // The command line is correct then, unlike with other invalid arguments.
            if is_about_operator(&error) { Failure::MergeOperator(error) } else { error.into() }
        })?;
        if let Some(kept) = kept_text(db.kept_files(), path) {
            message(output.settings().style, &kept);
        }
        if is_new {
            message(output.settings().style, &format!("created the database {}", path.display()));
        }
        let family = DEFAULT_FAMILY.to_owned();
        let transactions = Transactions::default();
        let (path, branch, entries_shown) = (path.to_owned(), db.checked_out(), None);
        Ok(Self { db, follower, path, branch, family, made, entries_shown, transactions, output })
    }

    /// Lets a database that this session has made stay, whatever happens.
    pub fn keep(&mut self) {
        self.made = None;
    }

    /// The options for removing the database, if this session has made it and it holds nothing.
    pub fn made_nothing(&self) -> Option<&Options> {
        let has_families = self.db.families() != [DEFAULT_FAMILY];
        let has_entries = || self.db.iter().map_or(true, |mut entries| entries.next().is_some());
        self.made.as_ref().filter(|_| !has_families && !has_entries())
    }

    /// Returns the directory of the database, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The commits in the log: of the writer, if the database is read beside one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn subscribe(&self, options: &SubscribeOptions) -> Result<Subscription> {
        Ok(match &self.follower {
            Some(follower) => follower.subscribe(options)?,
            None => self.db.subscribe(options)?,
        })
    }

    /// Adds a backup of the database, which may be read beside its writer.
    ///
    /// # Errors
    /// Those of the database.
    pub fn backup(
        &self,
        dir: &Path,
        options: &CopyOptions,
        on_progress: OnCopied<'_>,
    ) -> siltdb::Result<Backup> {
        match &self.follower {
            Some(follower) => follower.backup_with(dir, options, on_progress),
            None => self.db.backup_with(dir, options, on_progress),
        }
    }

    /// Makes a checkpoint of the database, which may be read beside its writer.
    ///
    /// # Errors
    /// Those of the database.
    pub fn checkpoint(
        &self,
        dir: &Path,
        options: &CheckpointOptions,
        on_progress: OnCopied<'_>,
    ) -> siltdb::Result<Checkpoint> {
        match &self.follower {
            Some(follower) => follower.checkpoint_with(dir, options, on_progress),
            None => self.db.checkpoint_with(dir, options, on_progress),
        }
    }

    /// Shows from now on what the writer has committed, if the database is read beside one.
    ///
    /// # Errors
    /// Those of the database.
    pub fn catch_up(&mut self) -> Result<()> {
        let Some(follower) = &self.follower else { return Ok(()) };
        follower.catch_up()?;
        self.db = follower.db();
        Ok(())
    }

    /// Says of the failure of a write why the database is not written to, if another process has
    /// it.
    pub fn explain(&self, failure: Failure) -> Failure {
        if self.follower.is_none() {
            return failure;
        }
        match failure {
            Failure::Stopped { reason, note } => {
                Failure::Stopped { reason: Box::new(self.explain(*reason)), note }
            }
            Failure::Database(error) if error.kind() == ErrorKind::ReadOnly => {
                let message = "another process writes to the database: it is read beside that one";
                let hint = "end that process, or write in it; then open the database again";
                Failure::Database(Error::new(ErrorKind::Locked, message).with_hint(hint))
            }
            failure => failure,
        }
    }

    /// Returns the default limit of a scan; `None` for no limit.
    pub fn entries_shown(&self) -> Option<u64> {
        self.entries_shown
    }

    /// Sets the default limit of scans.
    pub fn show_at_most(&mut self, entries: u64) {
        self.entries_shown = Some(entries);
    }

    /// Returns the name of the family in use, the default of verbs.
    pub fn family_in_use(&self) -> &str {
        &self.family
    }

    /// Makes `name` the family in use.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is none.
    pub fn use_family(&mut self, name: &str) -> Result<()> {
        self.family(Some(name))?;
        self.family = name.to_owned();
        Ok(())
    }

    /// Returns the name of the branch in use, the default of verbs: the one that is checked out.
    pub fn branch_in_use(&self) -> &str {
        &self.branch
    }

    /// Checks out a branch, and uses it.
    ///
    /// # Errors
    /// Errors of the database: there is no such branch.
    pub fn check_out(&mut self, name: &str) -> Result<()> {
        self.db.checkout(name)?;
        name.clone_into(&mut self.branch);
        Ok(())
    }

    /// Renames a branch, which may be the one in use.
    ///
    /// # Errors
    /// Errors of the database: there is no such branch, or the new name is taken or not permitted.
    pub fn rename_branch(&mut self, from: &str, to: &str) -> Result<()> {
        self.db.rename_branch(from, to)?;
        if self.branch == from {
            to.clone_into(&mut self.branch);
        }
        Ok(())
    }

    /// Returns the names of the families of the branch in use.
    pub fn family_names(&self) -> Vec<String> {
        let branch = self.db.branch(&self.branch);
        // Without families there is none to name.
        branch.and_then(|branch| branch.families()).unwrap_or_default()
    }

    /// Refuses to create, drop or rename families while another branch than `main` is in use, which
    /// has the families that it began with.
    ///
    /// # Errors
    /// [`Failure::Usage`].
    pub fn check_on_main(&self) -> Result<()> {
        if self.branch == MAIN {
            return Ok(());
        }
        Err(Failure::Usage(format!(
            "branch `{}` is checked out, which has the families that it began with; \
             `silt branch checkout DB {MAIN}` first",
            self.branch
        )))
    }

    /// Returns the family `name` of the branch in use, or the family in use.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is none.
    pub fn family(&self, family: Option<&str>) -> Result<Family> {
        self.family_of(FamilyName { branch: None, family })
    }

    /// Returns a family of a branch.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is no such branch or family.
    pub fn family_of(&self, name: FamilyName<'_>) -> Result<Family> {
        let branch = name.branch.unwrap_or(&self.branch);
        family_on(&self.db, branch, name.family.unwrap_or(&self.family))
    }

    /// Returns a family of a branch, in the current transaction if there is one.
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is no such branch or family.
    pub fn scope(&self, name: FamilyName<'_>) -> Result<Scope> {
        let family = self.family_of(name)?;
        match self.transactions.current() {
            None => Ok(Scope::Committed(family)),
            Some(current) => {
                let open = self.transactions.find(Some(current))?;
                Ok(Scope::Transaction(open.transaction.family(&family)?))
            }
        }
    }

    /// Returns what a verb reads of a family: its state after the operation with the sequence
    /// number `at`, if that is given; else as [`Session::scope`].
    ///
    /// # Errors
    /// [`Failure::Missing`] if there is no such branch or family; [`Failure::Usage`] for a number
    /// in a transaction; errors of the database: the state is not kept.
    pub fn read_scope(&self, name: FamilyName<'_>, at: Option<u64>) -> Result<ReadScope> {
        let Some(at) = at else { return Ok(self.scope(name)?.into()) };
        if self.transactions.current().is_some() {
            let reason = "`--at` reads what was committed; `switch` leaves the transaction first";
            return Err(Failure::Usage(reason.to_owned()));
        }
        let family = self.family_of(name)?;
        Ok(ReadScope::Snapshot(self.db.snapshot_at(at)?.family(&family)?))
    }

    /// Writes `batch` atomically with `durability`.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn write(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        Ok(self.db.write_with(&batch, &WriteOptions::new().durability(durability))?)
    }

    /// Writes `batch` as the only write of a verb. A volatile batch is not in the log, so this also
    /// flushes it to a table.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn write_once(&self, batch: WriteBatch, durability: Durability) -> Result<()> {
        self.write(batch, durability)?;
        self.finish_once(durability)
    }

    /// Ends the only write of a verb, as [`Session::write_once`] does.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn finish_once(&self, durability: Durability) -> Result<()> {
        if durability == Durability::Volatile {
            self.db.flush()?;
        }
        Ok(())
    }

    /// Closes the database.
    ///
    /// # Errors
    /// [`Failure::Stdout`], and errors of the database.
    pub fn close(mut self) -> Result<()> {
        let flushed = self.output.flush();
        self.db.close()?;
        flushed
    }
}

/// Says what an opening has kept in the directory `lost`, if anything.
fn kept_text(kept: KeptFiles, path: &Path) -> Option<String> {
    let mut parts = Vec::new();
    if kept.log_files > 0 {
        let records = counted(kept.log_records, "record");
        parts.push(format!(
            "the log was cut: {records} behind, of {}",
            counted(kept.log_bytes, "byte")
        ));
    }
    if kept.tables > 0 {
        let tables = counted(kept.tables, "table");
        parts.push(format!("{tables} that neither manifest nor log knows"));
    }
    let lost = path.join("lost");
    (!kept.is_empty()).then(|| format!("{}; kept in {}", parts.join("; "), lost.display()))
}

/// Opens a follower of the database at `path`, which could not be opened because of `locked`, and
/// tells so.
///
/// # Errors
/// Those of the database.
pub fn follow(
    options: Options,
    path: &Path,
    locked: &Error,
    settings: Settings,
) -> Result<Follower> {
    let follower = options.open_follower(path)?;
    let sequence = follower.sequence();
    let text = match locked.kind() {
        ErrorKind::ReadOnly => {
            format!("read without writing, as of sequence number {sequence}: {}", told(locked))
        }
        _ => {
            let hint = locked.hint().unwrap_or("another process has it open");
            // Without the advice to close it there.
            let holder = hint.split_once(": ").map_or(hint, |(holder, _)| holder);
            format!("read beside a writer, as of sequence number {sequence}: {holder}")
        }
    };
    message(settings.style, &text);
    Ok(follower)
}

/// Returns the options of a verb: those given by name, and the settings of its output.
fn options_for(mut options: Options, output: &Output) -> Options {
    let Settings { recovery, wait, .. } = output.settings();
    if recovery != RecoveryMode::Strict {
        options = options.recovery(recovery);
    }
    if !wait.is_zero() {
        options = options.lock_wait(wait);
    }
    options
}

/// Returns whether `path` exists.
///
/// # Errors
/// [`Failure::File`] if that is unknown: a path that cannot be examined is not a missing one.
pub fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| Failure::file("open", path.display().to_string(), error))
}

/// Returns whether an opening failed for lack of a merge operator; the error has no kind of its own
/// for that.
fn is_about_operator(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidArgument
        && ["the family needs the merge operator", "the family needs the compaction filter"]
            .iter()
            .any(|message| error.message().starts_with(message))
}
