//! Fields there and back; those that are not known, critical and optional; and any bytes.

use super::*;
use proptest::prelude::*;

const LIST: FieldList = FieldList { of: "a test", reserved: &[(9, "colour")] };

/// The numbers of the fields `known`, and what is not known.
fn read(known: &[u64], bytes: &[u8]) -> Result<(Vec<(u64, u64)>, UnknownFields)> {
    let mut numbers = Vec::new();
    let unknown = read_fields(&LIST, bytes, |tag, value| {
        if !known.contains(&tag) {
            return Ok(StoredField::Unknown);
        }
        numbers.push((tag, value.varint()?));
        Ok(StoredField::Known)
    })?;
    Ok((numbers, unknown))
}

fn write(numbers: &[(u64, u64)], kept: &UnknownFields) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut fields = FieldsWriter::new(&mut bytes, kept);
    numbers.iter().for_each(|&(tag, number)| fields.put_number(tag, number));
    fields.finish();
    bytes
}

#[test]
fn an_unknown_critical_field_is_refused_by_name_or_number() {
    for (tag, named) in [(9, "a test: colour is not supported"), (63, "found=63"), (128, "=128")] {
        let error = read(&[1], &write(&[(1, 5), (tag, 6)], &UnknownFields::default()));
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn unknown_optional_fields_are_kept_between_those_that_are_known() {
    let all = [(1, 5), (64, 6), (65, 1 << 40), (70, 7), (127, 8), (192, 9)];
    let bytes = write(&all, &UnknownFields::default());
    let (known, unknown) = read(&[1, 65, 70], &bytes).unwrap();
    assert_eq!(known, [all[0], all[2], all[3]]);
    assert_eq!(unknown.tags().collect::<Vec<_>>(), [64, 127, 192]);
    assert_eq!(write(&known, &unknown), bytes);
    assert_eq!(read(&[1, 65, 70], &write(&known, &unknown)).unwrap(), (known, unknown));
}

#[test]
fn fields_out_of_order_twice_or_of_a_wrong_length_are_corrupt() {
    for bytes in [
        &[2, 1, 0, 1, 1, 0][..],
        &[1, 1, 0, 1, 1, 0],
        &[0, 1, 0],
        &[1, 2, 0, 0],
        &[1, 0],
        &[1, 2, 0],
        &[1],
        // Optional and not known, but out of order all the same.
        &[65, 0, 64, 0],
    ] {
        assert_eq!(read(&[1, 2], bytes).unwrap_err().kind(), ErrorKind::Corruption, "{bytes:?}");
    }
}

#[test]
#[should_panic(expected = "tag 2 after tag 2")]
fn a_tag_is_not_written_twice() {
    write(&[(2, 0), (2, 0)], &UnknownFields::default());
}

proptest! {
    #[test]
    fn what_is_read_of_any_bytes_is_written_again(
        bytes in prop::collection::vec(prop_oneof![0..4_u8, 63..67_u8, any::<u8>()], 0..24),
    ) {
        if let Ok((known, unknown)) = read(&[1, 2, 64], &bytes) {
            let again = read(&[1, 2, 64], &write(&known, &unknown)).unwrap();
            prop_assert_eq!(again, (known, unknown));
        }
    }
}
