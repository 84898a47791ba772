//! The commands in a text, each as its words.
//!
//! - A command ends at a line end outside quotes; one that begins with `#` is a remark.
//! - Words stand between white space. A word that begins with a quotation mark, single or double,
//!   goes on to the next one and may hold anything, line ends too; so does what follows the `=` of
//!   an option. White space must follow the closing mark.
//! - Inside double marks `\"` is a quotation mark and `\\` a backslash; any other backslash, and
//!   each one elsewhere, stands for itself. So do quotation marks inside a word: `{"a":1}` is taken
//!   as it is.
//!
//! It knows no verbs.

#[cfg(test)]
mod tests;

/// What a text consists of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The commands, in order, remarks and blank lines left out.
    pub commands: Vec<Command>,
    /// The quotation mark that is open at the end; the last command goes on.
    pub open: Option<char>,
    /// The word at the end of the text, which may go on.
    pub last: Word,
}

/// A command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Its words.
    pub words: Vec<String>,
    /// The text right after a closing quotation mark: the words are not what was meant.
    pub glued: Option<String>,
}

/// A word and where it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// The index of its first byte, that of a quotation mark included.
    pub start: usize,
    /// What it stands for.
    pub text: String,
}

/// Where the next character stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    CommandStart,
    Remark,
    Between,
    Bare,
    Quoted(char),
    /// After a backslash inside double quotes.
    Escaped,
    AfterQuote,
    /// In what follows a closing quotation mark and should not.
    Glued,
}

impl Script {
    /// Splits `text`.
    pub fn parse(text: &str) -> Self {
        let mut script = Self::default();
        let (mut command, mut word) = (Command::default(), Word::default());
        let mut place = Place::CommandStart;
        for (index, character) in text.char_indices() {
            place = match (place, character) {
                (Place::Quoted(mark), _) if character == mark => Place::AfterQuote,
                (Place::Quoted('"'), '\\') => Place::Escaped,
                (Place::Quoted(_), _) => {
                    word.text.push(character);
                    place
                }
                (Place::Escaped, _) => {
                    if !matches!(character, '"' | '\\') {
                        word.text.push('\\');
                    }
                    word.text.push(character);
                    Place::Quoted('"')
                }
                (Place::Remark | Place::CommandStart, '\n') => Place::CommandStart,
                (Place::Remark, _) => Place::Remark,
                (_, '\n') => {
                    end_word(place, &mut word, &mut command);
                    script.commands.push(std::mem::take(&mut command));
                    Place::CommandStart
                }
                (Place::CommandStart | Place::Between, _) if character.is_whitespace() => place,
                (Place::CommandStart, '#') => Place::Remark,
                (Place::CommandStart | Place::Between, _) => {
                    word = Word { start: index, text: String::new() };
                    if matches!(character, '"' | '\'') {
                        Place::Quoted(character)
                    } else {
                        word.text.push(character);
                        Place::Bare
                    }
                }
                (_, _) if character.is_whitespace() => {
                    end_word(place, &mut word, &mut command);
                    Place::Between
                }
                (Place::Bare, '"' | '\'') if is_option_start(&word.text) => {
                    Place::Quoted(character)
                }
                (Place::Bare, _) => {
                    word.text.push(character);
                    Place::Bare
                }
                (Place::AfterQuote | Place::Glued, _) => {
                    command.glued.get_or_insert_default().push(character);
                    Place::Glued
                }
            };
        }
        script.open = match place {
            Place::Quoted(mark) => Some(mark),
            Place::Escaped => Some('"'),
            _ => None,
        };
        script.last = match place {
            Place::Bare | Place::Quoted(_) | Place::Escaped => word.clone(),
            _ => Word { start: text.len(), text: String::new() },
        };
        end_word(place, &mut word, &mut command);
        if !command.words.is_empty() {
            script.commands.push(command);
        }
        script
    }
}

/// Ends the word that a place is in, if it is in one.
fn end_word(place: Place, word: &mut Word, command: &mut Command) {
    if !matches!(place, Place::CommandStart | Place::Remark | Place::Between) {
        command.words.push(std::mem::take(&mut word.text));
    }
}

/// Whether `word` is an option up to its `=`.
fn is_option_start(word: &str) -> bool {
    word.starts_with("--") && word.find('=') == Some(word.len() - 1)
}

/// `text` as a word that is read as `text`.
pub fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && !text.starts_with(['"', '\'', '#'])
        && !text.contains(char::is_whitespace);
    if is_plain {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
