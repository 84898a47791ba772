//! Tests of the lexer: which literals and comments hide a brace.

use super::split;

fn code(text: &str) -> String {
    let views = split(text);
    assert_eq!(views.code.len(), text.len());
    assert_eq!(views.comments.len(), text.len());
    views.code.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn strings_lose_their_insides() {
    assert_eq!(code(r#"a("{ \" }") b"#), "a(\" \") b");
    assert_eq!(code(r#"a(b"{", c"}")"#), "a(b \", c \")");
}

#[test]
fn raw_strings_end_at_their_own_hashes() {
    assert_eq!(code("a(r#\"{ \" }\"#) b"), "a(r #) b");
    assert_eq!(code("a(br##\"{ \"# }\"##) b"), "a(b #) b");
    assert_eq!(code("let r#type = 1;"), "let r#type = 1;");
}

#[test]
fn characters_are_told_from_lifetimes() {
    assert_eq!(code("f('{', '\\'', '\\u{7b}', b'}')"), "f(' ', ' ', ' ', b ')");
    assert_eq!(code("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    assert_eq!(code("'ä' {"), "' ' {");
}

#[test]
fn comments_nest_and_are_kept_apart() {
    assert_eq!(code("a /* { /* } */ { */ b // {\nc"), "a b c");
    let views = split("a // why\nb /* how */");
    assert_eq!(views.comments, "  // why\n  /* how */");
}

#[test]
fn an_unfinished_literal_ends_with_the_file() {
    assert!(!code("a \"{ }").contains('{'));
    assert_eq!(code("a /* {"), "a");
    assert!(!code("a r#\"{ }\"").contains('{'));
}

#[test]
fn a_name_that_ends_in_a_prefix_letter_is_no_prefix() {
    assert_eq!(code("for\"{\" sub'{' x"), "for\" \" sub' ' x");
}
