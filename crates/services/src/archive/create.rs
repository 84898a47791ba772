//! Exporting what a snapshot sees to an archive.
//!
//! 1. The directory is locked, and what a killed export of that name left is removed.
//! 2. Each family is read through a cursor at the snapshot and written to `NAME.siltar.partial`,
//!    entry by entry. Values with operands are folded; an expiry is kept.
//! 3. The file is synced, read back and verified.
//! 4. It is renamed, and its name synced.

use crate::{
    archive::{
        info::ArchiveInfo,
        place::{LockedArchives, archive_name, check_unfinished},
    },
    copy_files::{sync_new, write_whole},
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{Fs, WriteFile},
    limits::LEVELS,
    seeded_fault,
    sync::lock,
};
use siltdb_disk::archive::{
    name::{ArchiveFileName, unfinished},
    reader::ArchiveFile,
    writer::{ArchiveFacts, ArchiveSource, ArchiveWriter, ArchivedPut, FamilyFacts},
};
use siltdb_engine::{
    catalog::Catalog,
    catalog::family::FamilyData,
    copies::branch::chosen_heads,
    database::Database,
    database::read_rooms::ReadRooms,
    kit::copying::{FileCopy, OnProgress, until_closed},
    open::directory::sync_ancestors,
    read::{PinnedReader, ReadCursor, ReadRange, begin_snapshot},
    snapshots::LiveSnapshot,
};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// What an archive is to hold, and how fast it is written.
#[derive(Clone, Debug, Default)]
pub struct ArchiveRequest {
    /// The branch that it is made of; `None` for the database itself.
    pub branch: Option<String>,
    /// The names of its families; `None` for all.
    pub families: Option<Vec<String>>,
    /// Bytes written a second, at most.
    pub rate: Option<u64>,
}

/// Exports what `at` sees, or what there is now, to a new archive at `path`. On return it is
/// durable.
///
/// # Errors
/// `InvalidArgument`, if the path does not end in `.siltar` or lies in a database, or for a rate of
/// 0; `AlreadyExists`; `NotFound`, if there is no such family or directory; `Locked`, while another
/// process makes or removes archives there; `Unsupported`, for operands without an operator;
/// `Corruption`, if a table is damaged; `NoSpace`; `Cancelled`; `Closed`; the system's. There is no
/// archive then, unless the last step alone failed, the sync of its name.
pub fn create_archive(
    database: &Database,
    path: &Path,
    at: Option<&LiveSnapshot>,
    request: &ArchiveRequest,
    on_progress: OnProgress<'_>,
) -> Result<ArchiveInfo> {
    database.health.check_open()?;
    let in_flight = database.background.in_flight.begin();
    let _call = in_flight.ok_or_else(|| database.health.refusal())?;
    let _charge = database.memory.charge_copy();
    until_closed(&database.health, on_progress, |on_progress| {
        let mut copying = FileCopy::new(&*database.options.clock, request.rate, on_progress)?;
        let name = archive_name(path)?;
        let partial = unfinished(&name).to_path();
        let target = ArchiveFileName::Archive(name).to_path();
        let present;
        let (families, at) = {
            // A commit that creates families and writes to them is seen as a whole, or not at all.
            let _changing = lock(&database.catalog.changing_io);
            let families = chosen(&database.catalog, request)?;
            present = begin_snapshot(&database.read_rooms());
            (families, at.unwrap_or(&present))
        };
        let locked = LockedArchives::around(path, &database.options)?;
        let fs = locked.fs();
        if fs.metadata(&target)?.is_some() {
            return Err(Error::new(ErrorKind::AlreadyExists, "the path of the archive is in use")
                .with_file(path));
        }
        // The name of its directory may not be durable yet.
        sync_ancestors(&*database.options.fs, path.parent().unwrap_or(Path::new("")))?;
        if fs.metadata(&partial)?.is_some() {
            check_unfinished(fs, &partial)?;
            fs.remove(&partial)?;
        }
        let info = write_whole(fs, &partial, |file| {
            sync_new(write(
                &database.read_rooms(),
                &database.dir,
                file,
                at,
                &families,
                &mut copying,
            )?)?;
            Ok((target, read_back(fs, &partial, &mut copying)?))
        })?;
        fs.sync_dir(Path::new(""))?;
        Ok(ArchiveInfo { path: path.to_owned(), ..info })
    })
}

/// The families to export, by the names that they have at its beginning.
type Chosen = BTreeMap<String, Arc<FamilyData>>;

/// The families of the request: of its branch, and of these all or the named ones.
fn chosen(catalog: &Catalog, request: &ArchiveRequest) -> Result<Chosen> {
    let (branch, names) = (request.branch.as_deref(), request.families.as_deref());
    let heads = chosen_heads(catalog, branch, names)?.into_iter();
    Ok(heads.map(|family| (family.name().to_string(), family)).collect())
}

/// Writes the archive to an empty file.
fn write(
    reading: &ReadRooms<'_>,
    source: &Path,
    file: Box<dyn WriteFile>,
    at: &LiveSnapshot,
    families: &Chosen,
    copying: &mut FileCopy<'_>,
) -> Result<Box<dyn WriteFile>> {
    // All of it is written, and read twice.
    copying.begin(3 * families.values().map(|family| stored_bytes(family)).sum::<u64>())?;
    let facts = ArchiveFacts {
        id: u64::from(reading.catalog.ids.random()) << 32 | u64::from(reading.catalog.ids.random()),
        sequence: at.sequence(),
        created_ms: reading.options.clock.wall_ms(),
        source: source.to_string_lossy().into_owned(),
    };
    let mut writer = ArchiveWriter::new(file, facts)?;
    for (name, family) in families {
        let mut cursor =
            PinnedReader::new(reading, family, Some(&at.point()))?.cursor(ReadRange::default())?;
        cursor.seek_to_first()?;
        let mut source = FamilyPuts { cursor };
        let mut uids = || reading.catalog.ids.table_uid();
        let mut on_bytes = |bytes| copying.count(bytes);
        writer.add_family(family_facts(name, family), &mut source, &mut uids, &mut on_bytes)?;
    }
    writer.finish()
}

/// About the bytes that an archive of the family has: those of its tables and of its memory.
fn stored_bytes(family: &FamilyData) -> u64 {
    let view = family.tree.view();
    let memory: u64 =
        view.memory.tables().iter().map(|table| table.memtable.used_bytes() as u64).sum();
    view.version.bytes().iter().sum::<u64>() + memory
}

fn family_facts(name: &str, family: &FamilyData) -> FamilyFacts {
    let options = family.tree.options();
    let mut encoded = Vec::new();
    options.encode(&mut encoded);
    FamilyFacts {
        name: name.to_owned(),
        options: encoded,
        merge_operator: options.merge_operator.as_ref().map(|given| given.name().to_owned()),
        table: options.table_at(LEVELS - 1).or_writable(),
        table_bytes: options.table_bytes_target,
    }
}

/// Reads the whole archive, verifies it, and says what it holds.
fn read_back(fs: &dyn Fs, partial: &Path, copying: &mut FileCopy<'_>) -> Result<ArchiveInfo> {
    let archive = ArchiveFile::open(fs.open(partial)?, &fs.full_path(partial))?;
    // Now it is known how much there is.
    copying.begin(3 * archive.bytes())?;
    archive.verify(&mut |bytes| copying.pass(bytes))?;
    copying.end()?;
    Ok(ArchiveInfo::of(&archive))
}

/// What a reader sees of a family, as puts.
struct FamilyPuts {
    cursor: ReadCursor,
}

impl ArchiveSource for FamilyPuts {
    fn put(&self) -> Result<Option<ArchivedPut<'_>>> {
        let Some((key, value)) = self.cursor.entry() else { return Ok(None) };
        let expiry_ms = match seeded_fault!("archive_forgets_expiry") {
            true => None,
            false => self.cursor.expiry_ms()?,
        };
        Ok(Some(ArchivedPut { key, value, expiry_ms }))
    }

    fn advance(&mut self) -> Result<()> {
        self.cursor.next()
    }
}
