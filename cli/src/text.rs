//! Bytes as text and back: the three forms of keys and values.
//!
//! | form   | shown                                             | accepted                       |
//! |--------|---------------------------------------------------|--------------------------------|
//! | plain  | printable UTF-8 as it is, other bytes as `\xNN`   | the bytes as they are          |
//! | escape | the same, and `\` as `\\`: reversible             | also `\n`, `\r`, `\t` and `\0` |
//! | hex    | two digits a byte                                 | two digits a byte, either case |
//!
//! Plain is for people and not reversible: the byte 0xff and the four characters `\xff` look alike.
//! This module does not know JSON; see `json`.

use std::fmt::Write;

#[cfg(test)]
mod tests;

/// Most characters of a name in a message.
const NAME_CHARACTERS_MAX: usize = 60;

/// The form in which bytes are written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Printable UTF-8 as it is, any other byte as `\xNN`. Not reversible.
    #[default]
    Plain,
    /// Plain, with `\` written as `\\`. Reversible.
    Escape,
    /// Two hexadecimal digits a byte. Reversible.
    Hex,
}

/// Text that is not in its form.
#[derive(Debug, PartialEq, Eq)]
pub struct BadText {
    /// Index of the bad byte in the text.
    pub index: usize,
    /// The fault.
    pub reason: &'static str,
}

impl Form {
    /// Appends `bytes` as text to `text`.
    pub fn render(self, bytes: &[u8], text: &mut String) {
        if self == Self::Hex {
            for byte in bytes {
                push_hex(*byte, text);
            }
            return;
        }
        for chunk in bytes.utf8_chunks() {
            self.render_valid(chunk.valid(), text);
            for byte in chunk.invalid() {
                text.push_str("\\x");
                push_hex(*byte, text);
            }
        }
    }

    /// Appends `valid`, copying the longest runs that need no escape.
    fn render_valid(self, valid: &str, text: &mut String) {
        let mut start = 0;
        for (index, character) in valid.char_indices() {
            if character == '\\' && self == Self::Escape {
                text.push_str(&valid[start..index]);
                text.push_str("\\\\");
            } else if is_printable(character) {
                continue;
            } else {
                text.push_str(&valid[start..index]);
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    text.push_str("\\x");
                    push_hex(byte, text);
                }
            }
            start = index + character.len_utf8();
        }
        text.push_str(&valid[start..]);
    }

    /// Parses `text` to bytes.
    ///
    /// # Errors
    /// [`BadText`] if the text is not in this form. Plain text always is.
    pub fn parse(self, text: &[u8]) -> Result<Vec<u8>, BadText> {
        match self {
            Self::Plain => Ok(text.to_vec()),
            Self::Escape => parse_escape(text),
            Self::Hex => parse_hex(text),
        }
    }
}

/// Splits `bytes` into pieces of about `piece_bytes`, at least 4, none of which ends inside a
/// character. The texts of the pieces in a row are the text of all bytes.
pub fn pieces(mut bytes: &[u8], piece_bytes: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let is_inside = |end: usize| bytes.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
        // A character has at most three bytes behind its first. More in a row are none.
        let ends = (0..4).map(|back| piece_bytes.saturating_sub(back));
        let end = ends.clone().find(|end| !is_inside(*end)).unwrap_or(piece_bytes);
        let piece;
        (piece, bytes) = bytes.split_at(end.min(bytes.len()));
        (!piece.is_empty()).then_some(piece)
    })
}

/// Makes `text` safe for a terminal, and keeps its line ends: parts of a message may come from a
/// file.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let content = line.strip_suffix('\n').unwrap_or(line);
        Form::Plain.render(content.as_bytes(), &mut shown);
        shown.push_str(&line[content.len()..]);
    }
    shown
}

/// Makes `text` safe for a terminal as [`printable`] does, and keeps its tabs as well.
pub fn printable_columns(text: &str) -> String {
    let columns = text.split_inclusive('\t').map(|part| {
        let content = part.strip_suffix('\t').unwrap_or(part);
        printable(content) + &part[content.len()..]
    });
    columns.collect()
}

/// Makes a name from a file safe for a terminal, on one line and in one column.
pub fn printable_name(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    Form::Plain.render(name.as_bytes(), &mut shown);
    shown
}

/// Formats `name` for a message: on one line, printable, and of bounded length.
pub fn shortened(name: &str) -> String {
    let end = name.char_indices().nth(NAME_CHARACTERS_MAX).map(|(end, _)| end);
    let mut shown = String::new();
    Form::Plain.render(&name.as_bytes()[..end.unwrap_or(name.len())], &mut shown);
    shown.push_str(if end.is_some() { "…" } else { "" });
    shown
}

/// Formats a key for a message; see [`shortened`].
pub fn shortened_bytes(bytes: &[u8]) -> String {
    let end = bytes.len().min(NAME_CHARACTERS_MAX);
    let mut shown = String::new();
    Form::Plain.render(&bytes[..end], &mut shown);
    shown.push_str(if end < bytes.len() { "…" } else { "" });
    shown
}

/// Formats `number` with a comma before each group of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun, which is given in the singular.
pub fn counted(count: u64, noun: &str) -> String {
    format!("{} {}", grouped(count), plural(count, noun))
}

/// Returns `noun`, given in the singular, in the number that `count` asks for.
pub fn plural(count: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => noun.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if noun.ends_with("ch") => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// Formats a number of bytes in the unit that leaves it at most three digits before the point.
pub fn size(bytes: f64) -> String {
    if bytes < 1000.0 {
        return format!("{bytes:.0} B");
    }
    let mut value = bytes / 1024.0;
    for unit in ["KiB", "MiB", "GiB"] {
        if value < 1000.0 {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Returns whether a terminal shows `character` and keeps its state.
///
/// Control characters move the cursor, the format characters below reorder or hide their
/// neighbours, and the two separators end a line for some readers.
pub fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

fn push_hex(byte: u8, text: &mut String) {
    write!(text, "{byte:02x}").expect("writing to a String does not fail");
}

fn parse_escape(text: &[u8]) -> Result<Vec<u8>, BadText> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut index = 0;
    while index < text.len() {
        if text[index] != b'\\' {
            bytes.push(text[index]);
            index += 1;
            continue;
        }
        let (byte, length) = match text.get(index + 1) {
            Some(b'\\') => (b'\\', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(b'0') => (0, 2),
            Some(b'x') => match text.get(index + 2..index + 4).and_then(hex_pair) {
                Some(byte) => (byte, 4),
                None => {
                    return Err(BadText { index, reason: "`\\x` needs two hexadecimal digits" });
                }
            },
            Some(_) => return Err(BadText { index, reason: "unknown escape sequence" }),
            None => return Err(BadText { index, reason: "the text ends in a single `\\`" }),
        };
        bytes.push(byte);
        index += length;
    }
    Ok(bytes)
}

fn parse_hex(text: &[u8]) -> Result<Vec<u8>, BadText> {
    if let Some(index) = text.iter().position(|byte| !byte.is_ascii_hexdigit()) {
        return Err(BadText { index, reason: "not a hexadecimal digit" });
    }
    if !text.len().is_multiple_of(2) {
        let reason = "an odd number of hexadecimal digits";
        return Err(BadText { index: text.len(), reason });
    }
    let pair = |(number, pair)| {
        hex_pair(pair).ok_or(BadText { index: 2 * number, reason: "not a hexadecimal digit" })
    };
    text.chunks(2).enumerate().map(pair).collect()
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let value = digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?;
    u8::try_from(value).ok()
}
