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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
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
        let mut splitter = Splitter::default();
        splitter.push(text);
        splitter.finish()
    }
}

/// Splits text that comes in pieces.
#[derive(Debug, Default)]
pub struct Splitter {
    complete: Vec<Command>,
    command: Command,
    word: Word,
    place: Place,
    /// The bytes of the pieces before.
    bytes: usize,
}

impl Splitter {
    /// The commands that are complete, each given out once.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.complete)
    }

    /// The quotation mark that is open.
    pub fn open(&self) -> Option<char> {
        match self.place {
            Place::Quoted(mark) => Some(mark),
            Place::Escaped => Some('"'),
            _ => None,
        }
    }

    /// The text has ended.
    pub fn finish(mut self) -> Script {
        let open = self.open();
        let last = match self.place {
            Place::Bare | Place::Quoted(_) | Place::Escaped => self.word.clone(),
            _ => Word { start: self.bytes, text: String::new() },
        };
        self.end_word();
        if !self.command.words.is_empty() {
            self.complete.push(self.command);
        }
        Script { commands: self.complete, open, last }
    }

    /// Splits the next piece of the text.
    pub fn push(&mut self, text: &str) {
        for (index, character) in text.char_indices() {
            self.place = self.step(self.bytes + index, character);
        }
        self.bytes += text.len();
    }

    /// Takes the character at `index`, and returns where the next one stands.
    fn step(&mut self, index: usize, character: char) -> Place {
        match (self.place, character) {
            (Place::Quoted(mark), _) if character == mark => Place::AfterQuote,
            (Place::Quoted('"'), '\\') => Place::Escaped,
            (Place::Quoted(mark), _) => {
                self.word.text.push(character);
                Place::Quoted(mark)
            }
            (Place::Escaped, _) => {
                if !matches!(character, '"' | '\\') {
                    self.word.text.push('\\');
                }
                self.word.text.push(character);
                Place::Quoted('"')
            }
            (Place::Remark | Place::CommandStart, '\n') => Place::CommandStart,
            (Place::Remark, _) => Place::Remark,
            (_, '\n') => {
                self.end_word();
                self.complete.push(std::mem::take(&mut self.command));
                Place::CommandStart
            }
            (place @ (Place::CommandStart | Place::Between), _) if character.is_whitespace() => {
                place
            }
            (Place::CommandStart, '#') => Place::Remark,
            (Place::CommandStart | Place::Between, _) => {
                self.word = Word { start: index, text: String::new() };
                if matches!(character, '"' | '\'') {
                    return Place::Quoted(character);
                }
                self.word.text.push(character);
                Place::Bare
            }
            (_, _) if character.is_whitespace() => {
                self.end_word();
                Place::Between
            }
            (Place::Bare, '"' | '\'') if is_option_start(&self.word.text) => {
                Place::Quoted(character)
            }
            (Place::Bare, _) => {
                self.word.text.push(character);
                Place::Bare
            }
            (Place::AfterQuote | Place::Glued, _) => {
                self.command.glued.get_or_insert_default().push(character);
                Place::Glued
            }
        }
    }

    /// Ends the word, if the next character stands in one or right after one.
    fn end_word(&mut self) {
        if !matches!(self.place, Place::CommandStart | Place::Remark | Place::Between) {
            self.command.words.push(std::mem::take(&mut self.word.text));
        }
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
