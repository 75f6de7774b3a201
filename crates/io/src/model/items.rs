//! Finds the finished elements of one array field while the JSON object around it is still being written. No I/O.
//!
//! ```text
//! Outside --`{`--> Fields --`"field": [`--> Elements --`,` or `]` at its depth--> Elements (one element handed out)
//! Elements --closing `]`--> Over
//! any --malformed element--> Over      (the whole answer is judged at its end; here only certain elements count)
//! ```

use serde_json::Value;

/// Watches the text of an answer for elements of a field.
#[derive(Debug)]
pub(crate) struct Scanner {
    field: String,
    state: State,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The string or element that is being read.
    token: String,
    /// The last whole string at depth 1: a key once a colon follows.
    last_string: Option<String>,
    /// The key whose value comes next at depth 1.
    key: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Outside,
    Fields,
    Elements,
    Over,
}

impl Scanner {
    /// A scanner for the array in this field of the top object.
    pub(crate) fn new(field: &str) -> Self {
        Self {
            field: field.to_owned(),
            state: State::Outside,
            depth: 0,
            in_string: false,
            escaped: false,
            token: String::new(),
            last_string: None,
            key: None,
        }
    }

    /// Takes the next piece of text; gives the elements that it completes.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Value> {
        let mut elements = Vec::new();
        for char in text.chars() {
            match self.state {
                State::Outside => {
                    if char == '{' {
                        self.state = State::Fields;
                        self.depth = 1;
                    }
                }
                State::Fields => self.in_fields(char),
                State::Elements => elements.extend(self.in_elements(char)),
                State::Over => break,
            }
        }
        elements
    }

    /// Reads one character of a string; true while it is inside.
    fn in_string(&mut self, char: char) -> bool {
        if !self.in_string {
            return false;
        }
        if self.escaped {
            self.escaped = false;
        } else if char == '\\' {
            self.escaped = true;
        } else if char == '"' {
            self.in_string = false;
        }
        true
    }

    fn in_fields(&mut self, char: char) {
        if self.in_string {
            self.in_string(char);
            self.token.push(char);
            if !self.in_string && self.depth == 1 {
                self.last_string = serde_json::from_str(&self.token).ok();
            }
            return;
        }
        match char {
            '"' => {
                self.in_string = true;
                self.token.clear();
                self.token.push(char);
            }
            ':' if self.depth == 1 => self.key = self.last_string.take(),
            ',' if self.depth == 1 => self.key = None,
            '[' if self.depth == 1 && self.key.as_deref() == Some(self.field.as_str()) => {
                self.state = State::Elements;
                self.depth = 2;
                self.token.clear();
            }
            '[' | '{' => self.depth += 1,
            ']' | '}' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.state = State::Over;
                }
            }
            _ => {}
        }
    }

    fn in_elements(&mut self, char: char) -> Option<Value> {
        if self.in_string(char) {
            self.token.push(char);
            return None;
        }
        let ends = self.depth == 2 && matches!(char, ',' | ']');
        if !ends {
            match char {
                '"' => self.in_string = true,
                '[' | '{' => self.depth += 1,
                ']' | '}' => self.depth -= 1,
                _ => {}
            }
            self.token.push(char);
            return None;
        }
        if char == ']' {
            self.state = State::Over;
        }
        let element = std::mem::take(&mut self.token);
        if char == ']' && element.trim().is_empty() {
            return None;
        }
        let value = serde_json::from_str(&element).ok();
        if value.is_none() {
            self.state = State::Over;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scan(text: &str, size: usize) -> Vec<Value> {
        let mut scanner = Scanner::new("items");
        let chars: Vec<char> = text.chars().collect();
        chars
            .chunks(size)
            .flat_map(|piece| scanner.push(&piece.iter().collect::<String>()))
            .collect()
    }

    #[test]
    fn elements_come_out_whatever_the_pieces() {
        let text = r#"Sure: ```json
            {"note":"items: [1]","inner":{"items":[0]},"items" : [ {"a":"],}\"é"}, [1,[2]], "x,y", 3 ,null],"after":[9]}"#;
        let expected = vec![
            json!({"a": "],}\"é"}),
            json!([1, [2]]),
            json!("x,y"),
            json!(3),
            json!(null),
        ];
        for size in 1..=text.chars().count() {
            assert_eq!(scan(text, size), expected, "pieces of {size}");
        }
    }

    #[test]
    fn an_element_counts_only_when_it_is_whole() {
        assert_eq!(
            scan(r#"{"items":[{"a":1},{"a":2"#, 3),
            vec![json!({"a": 1})]
        );
        assert_eq!(scan(r#"{"items":[12"#, 3), Vec::<Value>::new());
    }

    #[test]
    fn an_empty_or_absent_array_has_no_elements() {
        assert_eq!(scan(r#"{"items":[ ],"x":[1]}"#, 2), Vec::<Value>::new());
        assert_eq!(scan(r#"{"items":"[1,2]","x":[1]}"#, 2), Vec::<Value>::new());
    }

    #[test]
    fn a_malformed_element_ends_the_scan() {
        assert_eq!(scan(r#"{"items":[1,oops,3]}"#, 2), vec![json!(1)]);
    }
}
