//! The file of a cold directory, and its name in the manifest.

use super::*;

fn place() -> ColdPlace {
    ColdPlace { id: 0x0011_2233_aabb_ccdd, path: "../cold/dir".to_owned() }
}

#[test]
fn a_cold_file_has_its_id_and_any_change_of_it_is_refused() {
    let content = place().file_content().into_bytes();
    assert!(content.starts_with(b"siltdb cold 00112233aabbccdd crc32c "));
    assert!(content.len() <= COLD_FILE_BYTES_MAX);
    assert_eq!(id_of_cold_file(&content).unwrap(), place().id);
    for end in 0..content.len() {
        assert!(id_of_cold_file(&content[..end]).is_err(), "cut at {end}");
    }
    for bit in 0..content.len() * 8 {
        let mut flipped = content.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(id_of_cold_file(&flipped).is_err(), "bit {bit}");
    }
    let upper = String::from_utf8(content).unwrap().replace("aabb", "AABB");
    assert!(id_of_cold_file(upper.as_bytes()).is_err());
}

#[test]
fn a_path_has_a_length_at_the_bound_and_none_past_it() {
    let round = |path: String| {
        let mut bytes = Vec::new();
        ColdPlace { path, ..place() }.encode(&mut bytes);
        ColdPlace::decode(&mut ByteReader::new(&bytes))
    };
    assert_eq!(round(place().path).unwrap(), place());
    let longest = "p".repeat(COLD_PATH_BYTES_MAX);
    assert_eq!(round(longest.clone()).unwrap().path, longest);
    assert!(round(longest + "p").is_err() && round(String::new()).is_err());
    let mut bytes = 7_u64.to_le_bytes().to_vec();
    put_bytes(&mut bytes, &[0xff]);
    assert!(ColdPlace::decode(&mut ByteReader::new(&bytes)).is_err());
}
