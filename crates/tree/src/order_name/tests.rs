//! Old names alone, within tuples, and as a part of other names.

use super::*;

#[test]
fn old_names_become_the_present_ones_and_others_stay() {
    for (name, present) in [
        ("caseless", "caseless-ascii"),
        ("caseless-ascii", "caseless-ascii"),
        ("reverse(caseless)", "reverse(caseless-ascii)"),
        (
            "(u8,reverse((caseless,bool)),caseless)",
            "(u8,reverse((caseless-ascii,bool)),caseless-ascii)",
        ),
        ("my.caseless", "my.caseless"),
        ("caseless.mine", "caseless.mine"),
        ("caseless-unicode-17", "caseless-unicode-17"),
        ("", ""),
        ("é(caseless", "é(caseless-ascii"),
    ] {
        assert_eq!(present_name(name), present);
        assert_eq!(present_name(&present_name(name)), present);
    }
}

#[test]
fn a_name_that_would_be_too_long_stays() {
    let tuple = |fields: usize| format!("({})", vec!["caseless"; fields].join(","));
    assert!(present_name(&tuple(17)).len() <= KEY_ORDER_BYTES_MAX);
    assert_ne!(present_name(&tuple(16)), tuple(16));
    let long = tuple(28);
    assert!(long.len() <= KEY_ORDER_BYTES_MAX);
    assert_eq!(present_name(&long), long);
}
