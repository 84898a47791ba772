//! The commands of a text, split into words.
//!
//! - A command ends at a line end outside quotes. A line that begins with `#` is a remark.
//! - White space separates words. A word that begins with a single or double quotation mark ends at
//!   the next one, and may hold anything, also line ends. The same applies to the value after the
//!   `=` of an option. White space must follow the closing mark.
//! - Inside double marks, `\"` is a quotation mark and `\\` a backslash. Any other backslash stands
//!   for itself. So does a quotation mark inside a word: `{"a":1}` is one word.
//!
//! It does not know the verbs.

#[cfg(test)]
mod tests;

/// A text split into commands.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The commands in order, without remarks and blank lines.
    pub commands: Vec<Command>,
    /// The quotation mark that is open at the end, where the last command may continue.
    pub open: Option<char>,
    /// The word at the end of the text, which may continue.
    pub last: Word,
}

/// A command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Its words.
    pub words: Vec<String>,
    /// Text that directly follows a closing quotation mark, which is an error.
    pub glued: Option<String>,
}

/// A word and its position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Index of its first byte, or of its opening quotation mark.
    pub start: usize,
    /// The text without quotes and escapes.
    pub text: String,
}

/// The state of the splitter before the next character.
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
    /// In text that directly follows a closing quotation mark.
    Glued,
}

impl Script {
    /// Splits `text`, all of it.
    pub fn parse(text: &str) -> Self {
        let mut splitter = Splitter::default();
        splitter.push(text);
        splitter.finish()
    }
}

/// Splits text that arrives in pieces.
#[derive(Debug, Default)]
pub struct Splitter {
    complete: Vec<Command>,
    command: Command,
    word: Word,
    place: Place,
    /// Bytes of the previous pieces.
    bytes: usize,
}

impl Splitter {
    /// Returns the complete commands, each once.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.complete)
    }

    /// Returns the open quotation mark.
    pub fn open(&self) -> Option<char> {
        match self.place {
            Place::Quoted(mark) => Some(mark),
            Place::Escaped => Some('"'),
            _ => None,
        }
    }

    /// Ends the text.
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

    /// Processes the character at `index`, and returns the next state.
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

    /// Ends the word, if the splitter is in a word or directly after one.
    fn end_word(&mut self) {
        if !matches!(self.place, Place::CommandStart | Place::Remark | Place::Between) {
            self.command.words.push(std::mem::take(&mut self.word.text));
        }
    }
}

/// Returns whether `word` is an option that ends with `=`.
fn is_option_start(word: &str) -> bool {
    word.starts_with("--") && word.find('=') == Some(word.len() - 1)
}

/// Quotes `text` so that it is one word.
pub fn quoted(text: &str) -> String {
    let is_plain = !text.is_empty()
        && !text.starts_with(['"', '\'', '#'])
        && !text.contains(char::is_whitespace);
    if is_plain {
        return text.to_owned();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
