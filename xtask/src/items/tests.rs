//! Tests of finding items in code.

use super::{blanked, blocks, functions, imports, modules, split_commas, test_regions};
use crate::lexer::split;

#[test]
fn functions_end_at_their_own_brace() {
    let text =
        "fn a() { if x { \"}\" } }\nfn b<T: Fn(u8) -> u8>(x: [u8; 2]) -> u8;\nlet f: fn(u8);";
    let code = split(text).code;
    let found = functions(&code);
    let names: Vec<_> = found.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(found[0].end, text.find('\n').unwrap());
}

#[test]
fn nested_functions_are_found() {
    assert_eq!(functions("fn a() { fn b() {} }").len(), 2);
}

#[test]
fn modules_of_this_level_only() {
    let found = modules("mod a; pub mod b { mod c; } pub(crate) mod d; let mod_x = 1;");
    let names: Vec<_> = found.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "d"]);
}

#[test]
fn import_trees_are_flattened() {
    let found = imports("pub use crate::{a::{self, B as C}, d::*};\nfn f() -> impl X + use<'a> {}");
    let paths: Vec<_> = found.iter().map(|i| i.path.join("::")).collect();
    assert_eq!(paths, ["crate::a", "crate::a::B", "crate::d::*"]);
    assert_eq!(found[1].reexport.as_deref(), Some("C"));
    assert!(imports("use a::b;")[0].reexport.is_none());
}

#[test]
fn commas_in_brackets_do_not_split() {
    assert_eq!(split_commas("a: A<B, C>, f: fn(u8, u8) -> u8, b").len(), 3);
}

#[test]
fn blocks_know_their_type() {
    let code = "impl<'a, T: Fn() -> A> fmt::Debug for a::Name<T> where T: B {}\nimpl Options {}";
    let names: Vec<_> = blocks(code, "impl").into_iter().map(|b| b.name).collect();
    assert_eq!(names, ["Name", "Options"]);
    assert_eq!(blocks("pub trait Fs: Send {}", "trait")[0].name, "Fs");
    assert!(blocks("fn f(x: impl Fn()) { g() }", "impl").is_empty());
}

#[test]
fn a_fixture_is_cut_out_and_other_features_are_not() {
    let of = |feature: &str| {
        let text = format!("#[cfg(any(test, feature = \"{feature}\"))]\nmod a;\n");
        let code = crate::lexer::split(&text).code;
        blanked(&code, &test_regions(&code, &text)).contains("mod a;")
    };
    assert!(!of("fixture"));
    assert!(of("zstd"));
}

#[test]
fn test_items_are_cut_out() {
    let code =
        "a\n#[cfg(test)]\nmod tests { b }\n#[cfg(all(test, loom))]\nmod l;\n#[cfg(not(test))]\nc";
    let code = &format!("#[test]\nfn t(a: [u8; 2]) {{ d }}\n{code}");
    let rest = blanked(code, &test_regions(code, code));
    assert_eq!(rest.split_whitespace().collect::<Vec<_>>(), ["a", "#[cfg(not(test))]", "c"]);
}
