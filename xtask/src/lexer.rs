//! Splits Rust source into a view of its code and a view of its comments. It does not parse: it
//! knows only the borders of strings, characters and comments.

/// Two texts of the same length as the source, with equal line breaks, so that an offset means the
/// same place in all three.
pub struct Views {
    /// The source with comments and the insides of strings and characters blanked.
    pub code: String,
    /// The source with everything but comments blanked.
    pub comments: String,
}

/// Splits `text` into its views.
pub fn split(text: &str) -> Views {
    let bytes = text.as_bytes();
    let blank = blank(text).into_bytes();
    let (mut code, mut comments) = (blank.clone(), blank);
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = if rest.starts_with(b"//") {
            let end = at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            comments[at..end].copy_from_slice(&bytes[at..end]);
            end
        } else if rest.starts_with(b"/*") {
            let end = at + block_comment_length(rest);
            comments[at..end].copy_from_slice(&bytes[at..end]);
            end
        } else if let Some(length) = literal_length(rest) {
            code[at] = bytes[at];
            code[at + length - 1] = bytes[at + length - 1];
            at + length
        } else {
            let length = rest.iter().take_while(|&&b| is_word(b)).count().max(1);
            code[at..at + length].copy_from_slice(&rest[..length]);
            at + length
        };
        at = end;
    }
    let text_of = |view| String::from_utf8(view).expect("whole characters are copied or blanked");
    Views { code: text_of(code), comments: text_of(comments) }
}

/// The line breaks of `text` in their places; all else is blank.
pub fn blank(text: &str) -> String {
    text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

/// Whether `byte` can be part of an identifier. Bytes of non-ASCII characters can.
pub fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of the string or character literal that `rest` starts with, quotes and prefix included.
fn literal_length(rest: &[u8]) -> Option<usize> {
    match rest[0] {
        b'"' => Some(string_length(rest)),
        b'\'' => character_length(rest),
        b'r' => raw_string_length(rest, 1),
        b'b' | b'c' => match rest.get(1)? {
            b'"' => Some(1 + string_length(&rest[1..])),
            b'\'' if rest[0] == b'b' => Some(1 + character_length(&rest[1..])?),
            b'r' => raw_string_length(rest, 2),
            _ => None,
        },
        _ => None,
    }
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `None` for a lifetime, which has no closing quote.
fn character_length(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    let close = if first == b'\\' {
        3 + rest.get(3..)?.iter().position(|&b| b == b'\'')?
    } else {
        1 + utf8_length(first)
    };
    (rest.get(close) == Some(&b'\'')).then_some(close + 1)
}

fn utf8_length(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

/// `None` for anything else that begins like a raw string, such as the identifier `r#type`.
fn raw_string_length(rest: &[u8], prefix: usize) -> Option<usize> {
    let hashes = rest[prefix..].iter().take_while(|&&b| b == b'#').count();
    let open = prefix + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let inside = &rest[open + 1..];
    let end = inside.windows(close.len()).position(|window| window == close.as_slice());
    Some(end.map_or(rest.len(), |end| open + 1 + end + close.len()))
}

#[cfg(test)]
mod tests;
