//! What stands between the fields of csv and tsv, given or found out.
//!
//! It reads no fields itself; see `fields`.

use super::fields::{Fields, Splitter};

#[cfg(test)]
mod tests;

/// How much of an input is looked at, in bytes.
pub const SAMPLE_BYTES: u64 = 16 << 10;

/// How many records of an input are looked at.
const SAMPLE_RECORDS: usize = 10;

/// What stands between the fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(u8);

impl Delimiter {
    /// That of csv.
    pub const COMMA: Self = Self(b',');
    /// That of tsv.
    pub const TAB: Self = Self(b'\t');
    /// Those that are found out, in the order in which they are tried.
    pub const FOUND_OUT: [Self; 4] = [Self::COMMA, Self::TAB, Self(b';'), Self(b'|')];

    /// The delimiter that `text` names: an ASCII character, or `tab` or `\t`.
    ///
    /// # Errors
    /// What it must be.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            b"tab" | b"\\t" => Ok(Self::TAB),
            [b'"' | b'\n' | b'\r'] => {
                Err("a quotation mark or line end cannot separate fields".to_owned())
            }
            [byte] if byte.is_ascii() => Ok(Self(*byte)),
            _ => Err("expected one ASCII character, or `tab`".to_owned()),
        }
    }

    /// The byte.
    pub fn byte(self) -> u8 {
        self.0
    }

    /// Its name in a message.
    pub fn name(self) -> String {
        if self == Self::TAB { "tab".to_owned() } else { format!("`{}`", char::from(self.0)) }
    }

    /// The delimiter of the input that begins with `sample`, which may be cut anywhere:
    ///
    /// 1. The header and at most nine records after it are split by each candidate.
    /// 2. The candidate that gives the most fields wins, at least two, and the same number in each
    ///    record; the first in the order of [`Delimiter::FOUND_OUT`] if several do.
    /// 3. Without one, the same is asked of those that give no record more fields than the header.
    /// 4. Without one it is a comma.
    pub fn find(sample: &[u8]) -> Self {
        let is_whole = (sample.len() as u64) < SAMPLE_BYTES;
        let counts: Vec<(Self, Vec<usize>)> = Self::FOUND_OUT
            .into_iter()
            .map(|candidate| (candidate, field_counts(candidate, sample, is_whole)))
            .collect();
        let most = |fits: fn(usize, usize) -> bool| {
            let mut best: Option<(Self, usize)> = None;
            for (candidate, counts) in &counts {
                let Some((&header, records)) = counts.split_first() else { continue };
                let is_better = best.is_none_or(|(_, most)| header > most);
                if header >= 2 && is_better && records.iter().all(|count| fits(*count, header)) {
                    best = Some((*candidate, header));
                }
            }
            best.map(|(candidate, _)| candidate)
        };
        let equal = most(|count, header| count == header);
        equal.or_else(|| most(|count, header| count <= header)).unwrap_or(Self::COMMA)
    }
}

/// The number of fields of the first records in `sample`.
fn field_counts(delimiter: Delimiter, sample: &[u8], is_whole: bool) -> Vec<usize> {
    let mut splitter = Splitter::new(delimiter.byte());
    let (mut rest, mut counts, mut record) = (sample, Vec::new(), Fields::default());
    while counts.len() < SAMPLE_RECORDS {
        record.clear();
        let (used, ended) = splitter.split(rest, &mut record);
        rest = &rest[used..];
        if ended || (is_whole && splitter.finish(&mut record)) {
            counts.push(record.len());
        } else {
            break;
        }
    }
    counts
}
