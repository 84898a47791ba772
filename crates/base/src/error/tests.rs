//! The numbers of the kinds are what bindings compare with: they stay.

use super::ErrorKind;

#[test]
fn the_number_of_each_kind_is_pinned() {
    let pinned = [
        (ErrorKind::NotFound, 1, "not found"),
        (ErrorKind::AlreadyExists, 2, "already exists"),
        (ErrorKind::InvalidArgument, 3, "invalid argument"),
        (ErrorKind::Corruption, 4, "corruption"),
        (ErrorKind::Unsupported, 5, "unsupported"),
        (ErrorKind::Locked, 6, "locked"),
        (ErrorKind::NoSpace, 7, "no space"),
        (ErrorKind::Io, 8, "io"),
        (ErrorKind::Poisoned, 9, "poisoned"),
        (ErrorKind::ReadOnly, 10, "read-only"),
        (ErrorKind::Closed, 11, "closed"),
        (ErrorKind::Busy, 12, "busy"),
        (ErrorKind::Forked, 13, "forked"),
        (ErrorKind::Conflict, 14, "conflict"),
        (ErrorKind::Cancelled, 15, "cancelled"),
    ];
    // The names in messages are pinned with them; the list holds every kind.
    assert_eq!(ErrorKind::ALL, pinned.map(|(kind, ..)| kind).as_slice());
    for (kind, number, name) in pinned {
        assert_eq!((kind.as_u8(), kind.as_str()), (number, name));
        assert_eq!(ErrorKind::from_u8(number), Some(kind));
    }
}

#[test]
fn a_number_of_no_kind_is_none() {
    assert_eq!(ErrorKind::from_u8(0), None);
    assert!((ErrorKind::ALL.len() as u8 + 1..=u8::MAX).all(|n| ErrorKind::from_u8(n).is_none()));
}
