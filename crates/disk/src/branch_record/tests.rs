//! Records of branches there and back, cut off, and out of range.

use super::*;
use siltdb_base::error::ErrorKind;

fn branch() -> BranchRecord {
    let family = |number: u32, next_base| BranchFamily {
        head: FamilyId(number),
        base: FamilyId(number + 1),
        next_base,
    };
    BranchRecord {
        id: BranchId(7),
        name: "ünïcode".to_owned(),
        parent: BranchId(6),
        begun: SequenceNumber::MAX,
        begun_ms: u64::MAX,
        families: vec![family(8, None), family(10, Some(FamilyId(0)))],
    }
}

fn recorded(record: BranchRecord) -> BranchChange {
    BranchChange::Recorded(Arc::new(record))
}

fn encoded(change: &BranchChange) -> Vec<u8> {
    let mut bytes = Vec::new();
    change.encode(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Result<BranchChange> {
    BranchChange::decode(&mut ByteReader::new(bytes))
}

#[test]
fn every_change_of_branches_round_trips_and_its_truncations_are_refused() {
    let changes = [
        recorded(branch()),
        BranchChange::Dropped(BranchId(u32::MAX)),
        BranchChange::CheckedOut(BranchId(u32::MAX)),
        BranchChange::CheckedOut(BranchId::MAIN),
    ];
    for change in changes {
        let bytes = encoded(&change);
        assert_eq!(decode(&bytes).unwrap(), change);
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]).unwrap_err().kind(), ErrorKind::Corruption);
        }
    }
}

#[test]
fn records_out_of_range_are_refused() {
    let refused = |change: &dyn Fn(&mut BranchRecord), why: &str| {
        let mut record = branch();
        change(&mut record);
        let error = decode(&encoded(&recorded(record))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{why}");
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(&|record| record.id = BranchId::MAIN, "main");
    refused(&|record| record.id = BranchId(FAMILY_IDS_MAX), "no branch has got this id");
    refused(&|record| record.parent = record.id, "younger");
    refused(&|record| record.name = String::new(), "length");
    refused(&|record| record.name = "n".repeat(FAMILY_NAME_BYTES_MAX + 1), "length");
    refused(&|record| record.begun = SequenceNumber(SequenceNumber::MAX.0 + 1), "sequence");
    refused(&|record| record.families.clear(), "number of families");
    let mut record = branch();
    record.name = "n".repeat(FAMILY_NAME_BYTES_MAX);
    assert!(decode(&encoded(&recorded(record))).is_ok());
    assert!(decode(&[2, 0]).unwrap_err().to_string().contains("main"));
    for kind in [0, 4, 255] {
        assert!(decode(&[kind, 1]).unwrap_err().to_string().contains("unknown kind"));
    }
    // A count of families that the bytes do not have allocates nothing.
    let mut bytes = encoded(&recorded(BranchRecord { families: Vec::new(), ..branch() }));
    bytes.pop();
    put_varint(&mut bytes, FAMILIES_MAX as u64);
    assert_eq!(decode(&bytes).unwrap_err().kind(), ErrorKind::Corruption);
}
