//! Programs within shell text: what `sh -c`, `eval`, `ssh` or `python -c` is handed is read once more, without our quotes.
//!
//! This follows the words of one command, far enough to know which of them are a program.

use std::ops::Range;

use super::quote::InnerProgram;

/// Programs that take source text after a flag, and the letters of such flags.
const READERS: &[(&[&str], &[char])] = &[
    (
        &["sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "su"],
        &['c'],
    ),
    (&["python", "python2", "python3", "pypy3"], &['c']),
    (&["node", "nodejs", "bun", "deno"], &['e', 'p']),
    (&["perl", "ruby", "lua", "osascript"], &['e', 'E']),
    (&["php"], &['r']),
];
/// Long flags that are followed by source text.
const LONG_FLAGS: &[&str] = &["--eval", "--print", "--command"];
/// Words that a command may start with before its name.
const PREFIXES: &[&str] = &[
    "sudo", "exec", "command", "builtin", "nohup", "time", "env", "then", "do", "else", "if",
    "elif", "while", "until", "!", "{",
];
/// Options of `ssh` that are followed by an argument.
const SSH_WITH_ARGUMENT: &str = "BbcDEeFIiJLlmOopQRSWw";

/// The words of one command so far.
#[derive(Debug, Default)]
pub(crate) struct Command {
    words: Vec<Word>,
    in_word: bool,
    /// The next word is where something is redirected to.
    redirected: bool,
}

#[derive(Debug, Default)]
struct Word {
    /// Without quotes; a value is nothing here.
    text: String,
    values: Vec<Range<usize>>,
    /// It is a value and nothing else.
    is_one_value: bool,
}

impl Command {
    pub(crate) fn start_word(&mut self) {
        if !self.in_word {
            self.words.push(Word::default());
            self.in_word = true;
        }
    }

    pub(crate) fn push(&mut self, char: char) {
        self.start_word();
        if let Some(word) = self.words.last_mut() {
            word.text.push(char);
            word.is_one_value = false;
        }
    }

    /// A value; `raw` ones are shell code by intention.
    pub(crate) fn value(&mut self, at: Range<usize>, raw: bool) {
        self.start_word();
        if let Some(word) = self.words.last_mut() {
            word.is_one_value = word.text.is_empty() && word.values.is_empty();
            if !raw {
                word.values.push(at);
            }
        }
    }

    pub(crate) fn end_word(&mut self) {
        if self.in_word && std::mem::take(&mut self.redirected) {
            self.words.pop();
        }
        self.in_word = false;
    }

    pub(crate) fn redirect(&mut self) {
        self.end_word();
        self.redirected = true;
    }

    /// Adds the values that stand in a program which this command runs.
    pub(crate) fn inner_programs(mut self, out: &mut Vec<InnerProgram>) {
        self.end_word();
        let texts: Vec<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        for (program, reader) in inner_words(&texts) {
            let words = &self.words[program];
            if let [only] = words
                && only.is_one_value
            {
                // The value is the program, and not a part of one.
                continue;
            }
            let values = words.iter().flat_map(|word| &word.values);
            out.extend(values.map(|at| InnerProgram {
                at: at.clone(),
                reader: reader.clone(),
            }));
        }
    }
}

/// The words of a command that are read as a program, and what reads them. A word that is a value has no text.
pub(crate) fn inner_words(words: &[&str]) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let end = words.len();
    let start = words.iter().position(|word| !is_prefix(word));
    let start = start.unwrap_or(end);
    match words.get(start).map(|word| base(word)) {
        Some("eval") => found.push((start + 1..end, "eval".to_owned())),
        Some("ssh") => found.push((after_host(words, start + 1).min(end)..end, "ssh".to_owned())),
        Some("trap") => found.push((start + 1..(start + 2).min(end), "trap".to_owned())),
        Some(_) | None => {}
    }
    for (index, word) in words.iter().enumerate() {
        let Some((_, letters)) = READERS
            .iter()
            .find(|(names, _)| names.contains(&base(word)))
        else {
            continue;
        };
        if let Some((program, flag)) = program_after(words, index + 1, letters) {
            found.push((program..program + 1, format!("{} {flag}", base(word))));
        }
    }
    found
}

/// The word after the first flag that takes source text. Words that are no flags end the search.
fn program_after<'w>(words: &[&'w str], from: usize, letters: &[char]) -> Option<(usize, &'w str)> {
    for (index, word) in words.iter().enumerate().skip(from) {
        let flag = word.strip_prefix('-')?;
        let long = LONG_FLAGS.contains(word);
        if long || (!flag.starts_with('-') && flag.ends_with(letters)) {
            return (index + 1 < words.len()).then_some((index + 1, *word));
        }
    }
    None
}

fn is_prefix(word: &str) -> bool {
    let assignment = word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    });
    assignment || PREFIXES.contains(&word)
}

/// `/bin/sh` as `sh`.
fn base(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// Where the words after the host of an `ssh` begin.
fn after_host(words: &[&str], from: usize) -> usize {
    let mut at = from;
    while let Some(flag) = words.get(at).and_then(|word| word.strip_prefix('-')) {
        let takes = flag.chars().count() == 1 && flag.contains(|c| SSH_WITH_ARGUMENT.contains(c));
        at += if takes { 2 } else { 1 };
    }
    at + 1
}

#[cfg(test)]
mod tests {
    use crate::expr::{Mode, Template};

    /// `value: reader` of each value that is a part of a program.
    fn inner(text: &str) -> Vec<String> {
        let template = Template::parse(text, Mode::Shell).expect("it parses");
        let found = template.inner_programs();
        found
            .into_iter()
            .map(|found| format!("{}: {}", &text[found.at], found.reader))
            .collect()
    }

    #[test]
    fn values_in_programs_that_a_command_runs_are_found() {
        let cases: &[(&str, &[&str])] = &[
            ("sh -c 'echo '{{ a }}", &["a: sh -c"]),
            ("/bin/bash -lc 'echo '{{ a }} {{ b }}", &["a: bash -lc"]),
            (
                "sudo -u x sh -ec {{ a }}{{ b }}",
                &["a: sh -ec", "b: sh -ec"],
            ),
            ("X=1 eval echo {{ a }} {{ b }}", &["a: eval", "b: eval"]),
            ("ssh -p 22 {{ host }} ls {{ a }} > {{ out }}", &["a: ssh"]),
            ("python3 -c print\\({{ a }}\\)", &["a: python3 -c"]),
            ("node --eval console.log\\({{ a }}\\)", &["a: node --eval"]),
            ("find . -exec sh -c 'rm '{{ a }} \\;", &["a: sh -c"]),
            ("x=$(ssh h cat {{ a }}); echo {{ b }}", &["a: ssh"]),
            ("true && eval x={{ a }}", &["a: eval"]),
            ("if eval f {{ a }}; then echo {{ b }}; fi", &["a: eval"]),
            ("trap 'rm '{{ a }} EXIT", &["a: trap"]),
        ];
        for (text, expected) in cases {
            assert_eq!(inner(text), *expected, "{text}");
        }
    }

    #[test]
    fn arguments_beside_a_program_are_safe() {
        let cases = [
            "sh -c 'echo \"$1\"' sh {{ a }}",
            "sh script.sh {{ a }}",
            "python -m http.server {{ a }}",
            "python tool.py -c {{ a }}",
            "ssh {{ host }}",
            "ssh host ls < {{ a }} 2>&1",
            "echo {{ a }} | ssh host 'read -r x'",
            "echo eval {{ a }}",
            "grep -c {{ a }}",
            "sh -c {{ a }}",
            "ssh host {{ a }}",
            "python3 -c {{ a }} {{ b }}",
            "sh -c x{{ a | raw_shell }}",
            "# sh -c\necho {{ a }}",
        ];
        for text in cases {
            assert_eq!(inner(text), Vec::<String>::new(), "{text}");
        }
    }
}
