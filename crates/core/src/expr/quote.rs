//! Values in shell text and in URLs, and the places in shell text where that cannot work.

use std::ops::Range;

use serde_json::Value;

use super::ast::Stmt;
use super::inner::Command;
use super::ops;

/// Writes a value as one shell word, or a list as one word per item.
pub(crate) fn shell(value: &Value, out: &mut String) -> Result<(), String> {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                shell_word(item, out)?;
            }
            Ok(())
        }
        other => shell_word(other, out),
    }
}

fn shell_word(value: &Value, out: &mut String) -> Result<(), String> {
    if matches!(value, Value::Null | Value::Bool(_) | Value::Number(_)) {
        ops::print(value, out);
        return Ok(());
    }
    let text = ops::text(value);
    if text.contains('\0') {
        return Err("a shell word cannot hold a NUL character".to_owned());
    }
    out.push('\'');
    out.push_str(&text.replace('\'', r"'\''"));
    out.push('\'');
    Ok(())
}

/// Writes a value as one part of a URL.
pub(crate) fn url_part(value: &Value, out: &mut String) -> Result<(), String> {
    match value {
        Value::Array(_) | Value::Object(_) | Value::Null => {
            Err(format!("{} cannot be a part of a URL", ops::a_kind(value)))
        }
        // Every URL parser removes these, encoded or not, and with them the part before.
        Value::String(text) if text == "." || text == ".." => {
            Err(format!("{text:?} cannot be a part of a URL"))
        }
        other => {
            out.push_str(&percent_encode(&ops::text(other)));
            Ok(())
        }
    }
}

/// Encodes everything but the unreserved characters of RFC 3986.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A `{{ }}` of a shell text that stands where shell quoting does not protect it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandQuoted {
    /// Bytes of the expression inside the braces.
    pub at: Range<usize>,
    /// What it stands in.
    pub inside: Quote,
}

/// What a `{{ }}` may stand in, in shell text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quote {
    /// `'…'`
    Single,
    /// `"…"`
    Double,
    /// `<<WORD … WORD`
    HereDocument,
    /// `# …`, which the first newline of a value ends
    Comment,
    /// A backslash right before it, which takes the opening quote away
    Backslash,
    /// `$(( … ))`, which evaluates what it is given
    Arithmetic,
    /// A `$` right before it, which changes how the shell reads the quotes
    Dollar,
}

/// A `{{ }}` of a shell text that becomes a part of a program which the command it stands in runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerProgram {
    /// Bytes of the expression inside the braces.
    pub at: Range<usize>,
    /// What reads the program: `sh -c`, `eval`, `ssh`.
    pub reader: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    /// Inside `$( )` or `( )`.
    Nested,
    Backtick,
    Single,
    Double,
    Comment,
    /// Inside `$(( ))`.
    Arithmetic,
}

/// Follows the quoting of shell text: enough of it to know what a place stands in.
struct Shell {
    states: Vec<State>,
    /// End words of here-documents whose lines begin at the next line.
    announced: Vec<String>,
    /// The end word of the here-document we are in, and its line so far.
    document: Option<(String, String)>,
    word_start: bool,
    /// The text before ends with a backslash that escapes what comes next.
    escaped: bool,
    /// The two characters before.
    before: [char; 2],
    /// The commands we are in, from the outermost: those in `$( )` stand within a word of the one around.
    commands: Vec<Command>,
    inner: Vec<InnerProgram>,
}

impl Shell {
    fn state(&self) -> State {
        self.states.last().copied().unwrap_or(State::Plain)
    }

    fn inside(&self) -> Option<Quote> {
        if self.document.is_some() {
            return Some(Quote::HereDocument);
        }
        match self.state() {
            State::Single => Some(Quote::Single),
            State::Double => Some(Quote::Double),
            State::Comment => Some(Quote::Comment),
            _ if self.states.contains(&State::Arithmetic) => Some(Quote::Arithmetic),
            _ if self.escaped => Some(Quote::Backslash),
            _ if self.before[1] == '$' && self.before[0] != '\\' => Some(Quote::Dollar),
            State::Plain | State::Nested | State::Backtick | State::Arithmetic => None,
        }
    }

    fn value(&mut self, at: Range<usize>, raw: bool) {
        if self.document.is_none()
            && self.state() != State::Comment
            && let Some(command) = self.commands.last_mut()
        {
            command.value(at, raw);
        }
        self.word_start = false;
        self.escaped = false;
        self.before = ['\0'; 2];
        if let Some((_, line)) = &mut self.document {
            line.push('\0');
        }
    }

    fn text(&mut self, text: &str) {
        let mut rest = text.chars().peekable();
        while let Some(char) = rest.next() {
            self.escaped = false;
            if self.document.is_some() {
                self.document_char(char);
                continue;
            }
            let next = rest.peek().copied();
            let skip = match self.state() {
                State::Single => {
                    self.close_if(char == '\'');
                    self.quoted(char, '\'');
                    false
                }
                State::Comment => {
                    if char == '\n' {
                        self.states.pop();
                        self.newline();
                    }
                    false
                }
                State::Double => match (char, next) {
                    ('\\', Some(_)) => true,
                    ('$', Some('(')) => self.open(State::Nested),
                    ('`', _) => {
                        self.open(State::Backtick);
                        false
                    }
                    (char, _) => {
                        self.close_if(char == '"');
                        self.quoted(char, '"');
                        false
                    }
                },
                State::Plain | State::Nested | State::Backtick | State::Arithmetic => {
                    let shifts = self.states.contains(&State::Arithmetic);
                    if char == '<' && next == Some('<') && !shifts {
                        rest.next();
                        self.announce(&mut rest);
                        continue;
                    }
                    self.plain(char, next)
                }
            };
            self.before = [self.before[1], char];
            if skip && let Some(skipped) = rest.next() {
                self.before = [char, skipped];
                // An escaped newline is none.
                if char == '\\' && skipped != '\n' {
                    self.word(skipped);
                }
            }
        }
    }

    fn open(&mut self, state: State) -> bool {
        self.states.push(state);
        if matches!(state, State::Nested | State::Backtick | State::Arithmetic) {
            self.commands.push(Command::default());
        }
        true
    }

    fn close_if(&mut self, closes: bool) {
        if closes
            && let Some(State::Nested | State::Backtick | State::Arithmetic) = self.states.pop()
        {
            self.end_command();
            self.commands.pop();
        }
    }

    /// A character of a quoted word; `quote` ends it.
    fn quoted(&mut self, char: char, quote: char) {
        if char != quote {
            self.word(char);
        }
    }

    fn word(&mut self, char: char) {
        if let Some(command) = self.commands.last_mut() {
            command.push(char);
        }
    }

    fn end_command(&mut self) {
        if let Some(command) = self.commands.last_mut() {
            std::mem::take(command).inner_programs(&mut self.inner);
        }
    }

    /// Returns whether the next character is used up too.
    fn plain(&mut self, char: char, next: Option<char>) -> bool {
        let word_start = std::mem::replace(&mut self.word_start, false);
        match char {
            '\\' => {
                self.escaped = next.is_none();
                return next.is_some();
            }
            '\'' | '"' => {
                let quote = if char == '"' {
                    State::Double
                } else {
                    State::Single
                };
                self.states.push(quote);
                if let Some(command) = self.commands.last_mut() {
                    command.start_word();
                }
            }
            '#' if word_start => self.states.push(State::Comment),
            '`' if self.state() == State::Backtick => self.close_if(true),
            '`' => {
                self.open(State::Backtick);
            }
            '(' => {
                let arithmetic = self.before == ['$', '('];
                if self.before[1] != '$' && !arithmetic {
                    self.end_command();
                }
                self.open(if arithmetic {
                    State::Arithmetic
                } else {
                    State::Nested
                });
                self.word_start = true;
            }
            ')' => self.close_if(matches!(self.state(), State::Nested | State::Arithmetic)),
            '\n' => self.newline(),
            ' ' | '\t' | ';' | '&' | '|' => {
                self.word_start = true;
                self.separator(char);
            }
            '<' | '>' => {
                if let Some(command) = self.commands.last_mut() {
                    command.redirect();
                }
            }
            char => self.word(char),
        }
        false
    }

    fn separator(&mut self, char: char) {
        match (char, self.commands.last_mut()) {
            (' ' | '\t', Some(command)) => command.end_word(),
            // `2>&1`, `>|`
            (_, Some(command)) if matches!(self.before[1], '<' | '>') => command.redirect(),
            (_, _) => self.end_command(),
        }
    }

    fn newline(&mut self) {
        self.word_start = true;
        self.end_command();
        if !self.announced.is_empty() {
            self.document = Some((self.announced.remove(0), String::new()));
        }
    }

    /// Reads the end word after `<<`, or nothing after `<<<`.
    fn announce(&mut self, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
        if let Some(command) = self.commands.last_mut() {
            command.redirect();
        }
        if rest.peek() == Some(&'<') {
            rest.next();
            return;
        }
        while rest
            .next_if(|char| matches!(char, '-' | ' ' | '\t'))
            .is_some()
        {}
        let mut word = String::new();
        while let Some(char) =
            rest.next_if(|char| !char.is_whitespace() && !matches!(char, ';' | '|' | '&' | ')'))
        {
            if !matches!(char, '\'' | '"' | '\\') {
                word.push(char);
            }
        }
        if !word.is_empty() {
            self.announced.push(word);
        }
    }

    fn document_char(&mut self, char: char) {
        let Some((word, line)) = &mut self.document else {
            return;
        };
        if char != '\n' {
            line.push(char);
            return;
        }
        let ended = line.trim_start_matches('\t') == word;
        line.clear();
        if ended {
            self.document = None;
            self.newline();
        }
    }
}

/// The values of a shell template that quoting does not protect: inside quotes, and in programs that a command is handed.
pub(crate) fn unprotected(body: &[Stmt]) -> (Vec<HandQuoted>, Vec<InnerProgram>) {
    let mut shell = Shell {
        states: Vec::new(),
        announced: Vec::new(),
        document: None,
        word_start: true,
        escaped: false,
        before: ['\0'; 2],
        commands: vec![Command::default()],
        inner: Vec::new(),
    };
    let mut found = Vec::new();
    walk(body, &mut shell, &mut found);
    while !shell.commands.is_empty() {
        shell.end_command();
        shell.commands.pop();
    }
    (found, shell.inner)
}

/// Follows the statements in the order of the text; branches are read as if they came one after the other.
fn walk(body: &[Stmt], shell: &mut Shell, found: &mut Vec<HandQuoted>) {
    for statement in body {
        match statement {
            Stmt::Text(text) => shell.text(text),
            Stmt::Emit { node, raw } => {
                if let (false, Some(inside)) = (raw, shell.inside()) {
                    found.push(HandQuoted {
                        at: node.at.range(),
                        inside,
                    });
                }
                shell.value(node.at.range(), *raw);
            }
            Stmt::For(statement) => {
                walk(&statement.body, shell, found);
                walk(&statement.otherwise, shell, found);
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                walk(then, shell, found);
                walk(otherwise, shell, found);
            }
            Stmt::With { body, .. } => walk(body, shell, found),
            Stmt::Capture { then, .. } => walk(std::slice::from_ref(then), shell, found),
            Stmt::Set { .. } | Stmt::Continue | Stmt::Break => {}
        }
    }
}
