//! The file of a cold directory, and its name in the manifest.

use super::*;

fn place() -> ColdPlace {
    ColdPlace { id: 0x0011_2233_aabb_ccdd, path: "../cold/dir".to_owned(), owner: 3 }
}

#[test]
fn a_cold_file_has_its_id_and_owner_and_any_change_of_it_is_refused() {
    let owner = Some(ColdOwner { number: 0x0123_4567_89ab_cdef, inode: 200 });
    for owner in [None, owner] {
        let file = ColdFile { id: place().id, owner };
        let content = file.encode().into_bytes();
        assert!(content.starts_with(b"siltdb cold 00112233aabbccdd "));
        assert!(content.len() <= COLD_FILE_BYTES_MAX);
        assert_eq!(ColdFile::decode(&content).unwrap(), file);
        for end in 0..content.len() {
            assert!(ColdFile::decode(&content[..end]).is_err(), "cut at {end}");
        }
        for bit in 0..content.len() * 8 {
            let mut flipped = content.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(ColdFile::decode(&flipped).is_err(), "bit {bit}");
        }
        let upper = String::from_utf8(content).unwrap().replace("aabb", "AABB");
        assert!(ColdFile::decode(upper.as_bytes()).is_err());
    }
}

#[test]
fn a_path_has_a_length_at_the_bound_and_none_past_it() {
    let round = |path: String| {
        let mut bytes = Vec::new();
        ColdPlace { path, ..place() }.encode(&mut bytes);
        ColdPlace::decode(&mut ByteReader::new(&bytes))
    };
    assert_eq!(round(place().path).unwrap(), place());
    let mut bytes = Vec::new();
    ColdPlace { owner: 0, ..place() }.encode(&mut bytes);
    assert_eq!(bytes.len(), 8 + 1 + place().path.len(), "as an earlier version");
    assert_eq!(ColdPlace::decode(&mut ByteReader::new(&bytes)).unwrap().owner, 0);
    let longest = "p".repeat(COLD_PATH_BYTES_MAX);
    assert_eq!(round(longest.clone()).unwrap().path, longest);
    assert!(round(longest + "p").is_err() && round(String::new()).is_err());
    let mut bytes = 7_u64.to_le_bytes().to_vec();
    put_bytes(&mut bytes, &[0xff]);
    assert!(ColdPlace::decode(&mut ByteReader::new(&bytes)).is_err());
}
