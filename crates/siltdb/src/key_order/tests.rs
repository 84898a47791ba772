//! Names of orders, and the texts of keys.

use super::*;
use crate::key_types::{Caseless, LittleEndian};
use siltdb_base::error::ErrorKind;
use std::cmp::Reverse;

#[test]
fn names_of_types_are_names() {
    type Long = (u8, Option<i128>, [u8; 4], Reverse<(Caseless, bool)>, f32, LittleEndian<16>);
    let expected = "(u8,option(i128),bytes[4],reverse((caseless-ascii,bool)),f32,le[16])";
    for order in [
        KeyOrder::of::<Long>(),
        KeyOrder::of::<u64>(),
        KeyOrder::of::<f64>(),
        KeyOrder::of::<String>(),
        KeyOrder::of::<(Vec<u8>, String)>(),
    ] {
        assert_eq!(KeyOrder::named(order.name()).unwrap(), order);
        assert!(order.has_text());
    }
    assert_eq!(KeyOrder::of::<Long>().name(), expected);
    assert_eq!(KeyOrder::of::<Vec<u8>>(), KeyOrder::bytewise());
    assert_eq!(KeyOrder::of::<Vec<u8>>().into_stored(), None);
}

#[test]
fn names_that_are_none_are_refused() {
    for name in [
        "",
        "u7",
        "u",
        "usize",
        "u64 ",
        "U64",
        "()",
        "(u8)",
        "(u8,)",
        "(u8",
        "(u8,u8",
        "(u8,u8))",
        "u8,u8",
        "option",
        "option()",
        "option(u8",
        "reverse",
        "reverse(u8,u8)",
        "bytes",
        "bytes[]",
        "bytes[01]",
        "bytes[+1]",
        "bytes[65536]",
        "le[0]",
        "le[17]",
        "(u8,u8,u8,u8,u8,u8,u8)",
        "string(u8)",
        "caseless ",
        "point",
    ] {
        let error = KeyOrder::named(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
    }
    let deep = |depth: usize| format!("{}u8{}", "reverse(".repeat(depth), ")".repeat(depth));
    assert!(KeyOrder::named(&deep(28)).is_ok());
    assert!(KeyOrder::named(&deep(29)).is_err());
    assert!(KeyOrder::named(&"(".repeat(1 << 20)).is_err());
}

#[test]
fn names_of_programs_have_a_dot_and_no_text() {
    for name in ["geo.point", "(u64,geo.point)", "reverse(a.b)"] {
        let order = KeyOrder::named(name).unwrap();
        assert_eq!((order.name(), order.has_text()), (name, false));
        assert_eq!(order.text_of(b"a\xff").unwrap(), r#""a\xff""#);
        assert_eq!(order.key_of(r#""a\xff""#).unwrap(), b"a\xff");
    }
    assert!(!KeyOrder::bytewise().has_text());
    // What another version stored is no reason to refuse the family.
    let stored = KeyOrder::stored(Some("newer(u64)".into()));
    assert_eq!((stored.name(), stored.has_text()), ("newer(u64)", false));
}

#[test]
fn texts_are_as_documented() {
    let cases: &[(&str, &str)] = &[
        ("u64", "7"),
        ("u8", "255"),
        ("i8", "-128"),
        ("i128", "-170141183460469231731687303715884105728"),
        ("u128", "340282366920938463463374607431768211455"),
        ("f64", "-0.0"),
        ("f64", "NaN"),
        ("f64", "NaN:7ff8000000000001"),
        ("f32", "inf"),
        ("bool", "true"),
        ("string", "a, (b) \"c\""),
        ("caseless", "Readme"),
        ("reverse(string)", "a\0b"),
        ("bytes[2]", r#""a\x00""#),
        ("le[2]", "258"),
        ("option(u8)", "none"),
        ("option(string)", r#"some("a")"#),
        ("(u8,string)", r#"(7,"a\"\\\x00é")"#),
        ("(bytewise,(i8,bool),reverse(u16))", r#"("\xff",(-1,false),9)"#),
    ];
    for (name, text) in cases {
        let order = KeyOrder::named(name).unwrap();
        let key = order.key_of(text).unwrap();
        assert_eq!(order.text_of(&key).unwrap(), *text, "{name}");
    }
}

#[test]
fn texts_that_are_no_key_are_refused() {
    for (name, text) in [
        ("u8", "256"),
        ("u8", "-1"),
        ("u8", ""),
        ("u8", "7 "),
        ("u8", "7)"),
        ("i8", "128"),
        ("i8", "-129"),
        ("i128", "170141183460469231731687303715884105728"),
        ("bool", "yes"),
        ("f64", "one"),
        ("f64", "NaN:0"),
        ("f32", "NaN:ffffffffffffffff"),
        ("bytes[2]", r#""a""#),
        ("le[1]", "256"),
        ("option(u8)", "some(7"),
        ("option(u8)", "nothing"),
        ("(u8,string)", "7"),
        ("(u8,string)", r#"(7,"a"#),
        ("(u8,string)", r#"(7,"a")x"#),
        ("(u8,string)", r#"(7,"\x0")"#),
        ("(u8,string)", r#"(7,"\n")"#),
        ("(u8,string)", r#"(7,"\xff")"#),
        ("(u8,string)", r#"(7,"a","b")"#),
    ] {
        let error = KeyOrder::named(name).unwrap().key_of(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name} {text}");
    }
}

#[test]
fn numbers_that_do_not_fit_their_float_are_refused() {
    for (name, text) in [
        ("f32", "1e300"),
        ("f32", "-1e39"),
        ("f64", "1e400"),
        ("f32", "1e-60"),
        ("f64", "-0.5e-400"),
        ("f32", "16777217"),
        ("f64", "9007199254740993"),
        ("(f32,u8)", "(16777217,1)"),
    ] {
        let error = KeyOrder::named(name).unwrap().key_of(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name} {text}");
    }
    for (name, text, shown) in [
        ("f32", "16777216", "16777216.0"),
        ("f64", "-9007199254740992", "-9007199254740992.0"),
        ("f64", "+007", "7.0"),
        ("f32", "0.1", "0.1"),
        ("f64", "000", "0.0"),
        ("f64", "-0e9", "-0.0"),
        ("f64", "-inf", "-inf"),
        ("f32", "16777217.0", "16777216.0"),
    ] {
        let order = KeyOrder::named(name).unwrap();
        assert_eq!(order.text_of(&order.key_of(text).unwrap()).unwrap(), shown, "{name} {text}");
    }
}

#[test]
fn bytes_that_are_no_key_have_no_text() {
    for (name, key) in [
        ("u16", &b"a"[..]),
        ("u16", b"abc"),
        ("bool", b"\x02"),
        ("string", b"\xff"),
        ("(string,u8)", b"a\0\x01"),
        ("caseless", b"A\0\0\0"),
        ("option(u8)", b"\x01"),
    ] {
        let error = KeyOrder::named(name).unwrap().text_of(key).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{name} {key:?}");
    }
}

#[test]
fn the_old_name_of_an_order_means_the_present_one() {
    type Named = (u8, Reverse<Caseless>);
    let (old, present) = ("(u8,reverse(caseless))", "(u8,reverse(caseless-ascii))");
    let of = KeyOrder::of::<Named>();
    assert_eq!(of.name(), present);
    for order in [KeyOrder::named(old), KeyOrder::named(present)] {
        assert_eq!(order.unwrap(), of);
    }
    assert_eq!(KeyOrder::named("my.caseless").unwrap().name(), "my.caseless");
    assert!(KeyOrder::named("caseless-unicode").is_err());
}
