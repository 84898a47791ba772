//! Tables written outside of any database, and their copies inside one.

use super::*;

fn external(entries: &[Owned], compression: Compression) -> Bytes {
    let mut file = Bytes::default();
    let mut writer = TableWriter::new(&mut file, &options(compression), TableUid(5))
        .with_external(ExternalTable::current("u64"));
    for owned in entries {
        writer.add(entry(owned)).unwrap();
    }
    writer.finish().unwrap();
    file
}

fn entries() -> Vec<Owned> {
    let entry = |number: u32| match number % 7 {
        0 => (format!("{number:05}").into_bytes(), 0, EntryKind::Delete, Vec::new()),
        _ => put(format!("{number:05}"), 0, format!("value {number}").repeat(5)),
    };
    (0..2000).map(entry).collect()
}

fn scan_of(file: &Bytes) -> Arc<TableScan> {
    TableScan::open_file(Arc::new(file.clone()), Path::new("outside.table")).unwrap()
}

fn as_sixth(origin: TableOrigin) -> AdoptedTable {
    AdoptedTable { uid: TableUid(6), origin, usual: Compression::Lz4, created_ms: 77 }
}

fn adopted(file: &Bytes) -> Result<(Bytes, TableMeta)> {
    let mut copy = Bytes::default();
    let origin = TableOrigin { name: "users".to_owned(), ..TableOrigin::default() };
    let meta = adopt(&scan_of(file), &mut copy, as_sixth(origin), &mut || Ok(()))?;
    Ok((copy, meta))
}

#[test]
pub(super) fn a_copy_has_the_entries_under_its_own_uid_and_names_its_family() {
    for compression in [Compression::Lz4, Compression::None, Compression::Snappy] {
        let file = external(&entries(), compression);
        let source = scan_of(&file);
        assert_eq!(source.external(), Some(&ExternalTable::current("u64")));
        ExternalTable::current("u64").check().unwrap();
        let (copy, meta) = adopted(&file).unwrap();
        assert_eq!((meta.uid, meta.file_bytes), (TableUid(6), copy.0.len() as u64));
        assert_eq!(meta.created_ms, 77);
        let table = open(&copy.0, Some(&meta), &new_cache(1 << 20)).unwrap();
        verify(&table).unwrap();
        assert_eq!(scan(&table).unwrap(), entries());
        let scan = scan_of(&copy);
        assert_eq!(scan.origin().map(|origin| &origin.name[..]), Some("users"));
        assert!(scan.external().is_none());
        // Of none and LZ4 it says nothing, as before there were others.
        let stated = (compression == Compression::Snappy).then_some(compression);
        assert_eq!(scan.stated_compression(), stated);
        // The bytes of one are not taken for those of the other.
        let mut mixed = copy.0.clone();
        mixed[..1500].copy_from_slice(&file.0[..1500]);
        let mixed = open(&mixed, Some(&meta), &new_cache(1 << 20)).unwrap();
        assert!(verify(&mixed).is_err());
    }
}

#[test]
pub(super) fn a_damaged_table_has_no_copy_that_verifies() {
    let file = external(&entries()[..200], Compression::None);
    let mut seen = 0;
    for at in 0..file.0.len() {
        let mut damaged = file.clone();
        damaged.0[at] ^= 4;
        let path = Path::new("outside.table");
        let Ok(table) = TableScan::open_file(Arc::new(damaged), path) else { continue };
        seen += 1;
        let mut copy = Bytes::default();
        let named = as_sixth(TableOrigin::default());
        let Ok(meta) = adopt(&table, &mut copy, named, &mut || Ok(())) else { continue };
        let copied = open(&copy.0, Some(&meta), &new_cache(0));
        assert!(copied.and_then(|table| verify(&table)).is_err(), "byte {at}");
    }
    assert!(seen > 1000, "{seen}");
}

#[test]
pub(super) fn a_copy_that_is_cancelled_ends() {
    let mut left = 3;
    let mut go_on = || {
        left -= 1;
        if left == 0 { Err(Error::invalid("cancelled")) } else { Ok(()) }
    };
    let file = external(&entries(), Compression::Lz4);
    let named = as_sixth(TableOrigin::default());
    let error = adopt(&scan_of(&file), &mut Bytes::default(), named, &mut go_on).unwrap_err();
    assert_eq!(error.message(), "cancelled");
}
