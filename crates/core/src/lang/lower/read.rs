//! Reading plain values off nodes, with the problems of what is not one.

use super::Lower;
use super::foreign::{foreign_habit, foreign_key};
use crate::effect::{ErrorClass, Millis};
use crate::lang::diagnostic::{Problem, names, nearest, quoted};
use crate::lang::keys::{self, Table};
use crate::lang::source::Span;
use crate::lang::tree::{Entry, Map, Node, Value};
use crate::lang::{codes, formats};

impl Lower<'_> {
    /// A value of the wrong shape.
    pub(crate) fn shape(
        &mut self,
        node: &Node,
        key: &str,
        expected: &str,
    ) -> Option<std::convert::Infallible> {
        let message = format!("`{key}` takes {expected}, and this is {}", node.what());
        self.problem(Problem::new(codes::WRONG_SHAPE, node.span, message));
        None
    }

    pub(crate) fn boolean(&mut self, node: &Node, key: &str) -> Option<bool> {
        match node.value {
            Value::Bool(value) => Some(value),
            Value::Null | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
                self.shape(node, key, "`true` or `false`");
                None
            }
        }
    }

    pub(crate) fn integer(&mut self, node: &Node, key: &str, min: i64, max: i64) -> Option<i64> {
        let number = match &node.value {
            Value::Number(number) => number
                .as_i64()
                .or_else(|| number.as_u64().map(|_| i64::MAX)),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => None,
        };
        let Some(number) = number else {
            self.shape(node, key, "a whole number");
            return None;
        };
        if (min..=max).contains(&number) {
            return Some(number);
        }
        let message = format!("`{key}` is {number}, and must be from {min} to {max}");
        self.problem(Problem::new(codes::OUT_OF_RANGE, node.span, message));
        None
    }

    pub(crate) fn number(&mut self, node: &Node, key: &str, min: f64, max: f64) -> Option<f64> {
        let number = match &node.value {
            Value::Number(number) => number.as_f64(),
            Value::Null | Value::Bool(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => None,
        };
        let Some(number) = number else {
            self.shape(node, key, "a number");
            return None;
        };
        if (min..=max).contains(&number) {
            return Some(number);
        }
        let message = format!("`{key}` is {number}, and must be from {min} to {max}");
        self.problem(Problem::new(codes::OUT_OF_RANGE, node.span, message));
        None
    }

    /// Text in one of the formats of [`formats`].
    pub(crate) fn format<T>(
        &mut self,
        node: &Node,
        key: &str,
        read: fn(&str) -> Result<T, String>,
        example: &str,
    ) -> Option<T> {
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                self.shape(node, key, &format!("text such as `{example}`"));
                return None;
            }
        };
        match read(&text) {
            Ok(value) => Some(value),
            Err(why) => {
                let problem = Problem::new(codes::BAD_FORMAT, node.span, why);
                let problem = if text.contains("{{") {
                    problem.hint(format!(
                        "`{key}` is fixed when the flow is checked, it takes no `{{{{ }}}}`"
                    ))
                } else {
                    problem
                };
                self.problem(problem);
                None
            }
        }
    }

    pub(crate) fn duration(&mut self, node: &Node, key: &str) -> Option<Millis> {
        self.format(node, key, formats::duration, "5m")
    }

    /// A duration in which something has to happen: none at all would end it before it begins.
    pub(crate) fn time_limit(&mut self, node: &Node, key: &str) -> Option<Millis> {
        let limit = self.duration(node, key)?;
        if limit == 0 {
            let message = format!("`{key}` is zero: it would be over before anything begins");
            let problem = Problem::new(codes::OUT_OF_RANGE, node.span, message);
            self.problem(problem.hint(format!("leave `{key}` out, or write how long, as in `5m`")));
        }
        Some(limit)
    }

    pub(crate) fn choice(
        &mut self,
        node: &Node,
        key: &str,
        choices: &[&'static str],
    ) -> Option<&'static str> {
        let Some(text) = node.text() else {
            self.shape(
                node,
                key,
                &format!("one of {}", names(choices.iter().copied())),
            );
            return None;
        };
        if let Some(choice) = choices.iter().find(|choice| **choice == text) {
            return Some(choice);
        }
        let hint = match nearest(text, choices.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("write one of {}", names(choices.iter().copied())),
        };
        self.problem(
            Problem::new(
                codes::CHOICE,
                node.span,
                format!("`{text}` is no value of `{key}`"),
            )
            .hint(hint),
        );
        None
    }

    /// Text that is not a template.
    pub(crate) fn plain_text<'n>(&mut self, node: &'n Node, key: &str) -> Option<&'n str> {
        let Some(text) = node.text() else {
            self.shape(node, key, "text");
            return None;
        };
        if text.contains("{{") {
            let message =
                format!("`{key}` is fixed when the flow is checked, it takes no `{{{{ }}}}`");
            self.problem(Problem::new(codes::WRONG_SHAPE, node.span, message));
            return None;
        }
        self.refuse_text(node, false);
        Some(text)
    }

    /// A text or a list of texts, each with its place.
    pub(crate) fn texts(&mut self, node: &Node, key: &str) -> Vec<(String, Span)> {
        match &node.value {
            Value::Text(text) => vec![(text.clone(), node.span)],
            Value::List(items) => {
                let mut out = Vec::new();
                for item in items {
                    match item.text() {
                        Some(text) => out.push((text.to_owned(), item.span)),
                        None => {
                            self.shape(item, key, "names");
                        }
                    }
                }
                out
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Map(_) => {
                self.shape(node, key, "a name or a list of names");
                Vec::new()
            }
        }
    }

    pub(crate) fn errors(&mut self, node: &Node, key: &str) -> Vec<ErrorClass> {
        let known: Vec<&str> = ErrorClass::ALL.iter().map(|class| class.name()).collect();
        let mut classes = Vec::new();
        for (name, span) in self.texts(node, key) {
            match ErrorClass::from_name(&name) {
                Some(class) => classes.push(class),
                None => {
                    let hint = match nearest(&name, known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("the classes are {}", known.join(", ")),
                    };
                    self.problem(
                        Problem::new(codes::CHOICE, span, format!("`{name}` is no error class"))
                            .hint(hint),
                    );
                }
            }
        }
        classes
    }

    pub(crate) fn map<'n>(&mut self, node: &'n Node, key: &str) -> Option<&'n Map> {
        let map = node.map();
        if map.is_none() {
            self.shape(node, key, "a map");
        }
        map
    }

    /// The map under a key that has its own keys, checked against their table.
    pub(crate) fn table_map<'n>(
        &mut self,
        node: &'n Node,
        table: &'static Table,
    ) -> Option<&'n Map> {
        let map = self.map(node, table.name)?;
        self.known_keys(map, &[table], &place(table));
        self.required_keys(map, table, node.span);
        Some(map)
    }

    /// A map or a list of maps under a key, each checked against their table.
    pub(crate) fn table_maps<'n>(
        &mut self,
        node: &'n Node,
        table: &'static Table,
    ) -> Vec<(&'n Map, Span)> {
        let nodes = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Map(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {
                std::slice::from_ref(node)
            }
        };
        let mut maps = Vec::new();
        for node in nodes {
            if let Some(map) = self.table_map(node, table) {
                maps.push((map, node.span));
            }
        }
        maps
    }

    /// Reports keys that none of the tables has.
    pub(crate) fn known_keys(&mut self, map: &Map, tables: &[&'static Table], place: &str) {
        for (key, entry) in map {
            if tables.iter().any(|table| table.get(key).is_some()) {
                continue;
            }
            self.unknown_key(key, entry, tables, place);
        }
    }

    fn unknown_key(&mut self, key: &str, entry: &Entry, tables: &[&'static Table], place: &str) {
        let here = tables
            .iter()
            .flat_map(|table| table.keys)
            .map(|key| key.name);
        let is_here = |meant: &str| tables.iter().any(|table| table.get(meant).is_some());
        let near = foreign_key(key, is_here).or_else(|| nearest(key, here.clone()));
        let elsewhere: Vec<&str> = keys::KINDS
            .iter()
            .filter(|kind| kind.available && kind.table.get(key).is_some())
            .map(|kind| kind.name)
            .collect();
        let of_leaf = keys::LEAF.get(key).is_some();
        let of_scope = keys::SCOPE.get(key).is_some();
        let is_step = tables.iter().any(|table| std::ptr::eq(*table, &keys::ANY));
        if is_step && (of_leaf || of_scope || !elsewhere.is_empty()) {
            let owners = match (of_leaf, of_scope) {
                (true, _) => "leaves only".to_owned(),
                (_, true) => "scopes only".to_owned(),
                (false, false) => names(elsewhere),
            };
            let problem = Problem::new(
                codes::WRONG_PLACE,
                entry.key,
                format!("{place} has no key `{key}`: that belongs to {owners}"),
            );
            self.problem(problem.maybe_hint(near.map(|near| format!("did you mean `{near}`?"))));
            return;
        }
        let is_step_or_flow =
            is_step || tables.iter().any(|table| std::ptr::eq(*table, &keys::FLOW));
        let habit = foreign_habit(key).filter(|_| is_step_or_flow);
        let hint = match near {
            _ if habit.is_some() => habit.unwrap_or_default().to_owned(),
            Some(near) => format!("did you mean `{near}`?"),
            None if here.clone().count() <= 8 => format!("the keys are {}", names(here)),
            None => format!("`ravel explain {}` lists the keys", codes::UNKNOWN_KEY),
        };
        self.problem(
            Problem::new(
                codes::UNKNOWN_KEY,
                entry.key,
                format!("{place} has no key `{key}`"),
            )
            .hint(hint),
        );
    }

    pub(crate) fn required_keys(&mut self, map: &Map, table: &'static Table, span: Span) {
        // A misspelt key is reported as such, not as missing, too.
        let misspelt = |wanted: &str| {
            map.keys().any(|key| {
                let meant = || foreign_key(key, |meant| meant == wanted).is_some();
                table.get(key).is_none() && (nearest(key, [wanted]).is_some() || meant())
            })
        };
        for key in table
            .required
            .iter()
            .filter(|key| !map.contains_key(**key) && !misspelt(key))
        {
            let example = table.get(key).map(|key| key.example).unwrap_or_default();
            let code = if *key == "max" && table.name == "repeat" {
                codes::UNBOUNDED
            } else {
                codes::MISSING_KEY
            };
            let message = if code == codes::UNBOUNDED {
                "a `repeat` without `max` may never end".to_owned()
            } else {
                format!("{} needs the key `{key}`", place(table))
            };
            self.problem(Problem::new(code, span, message).hint(format!("add `{key}: {example}`")));
        }
    }

    /// Checks the form of a name; true when it can be used.
    pub(crate) fn good_name(&mut self, name: &str, span: Span, what: &str) -> bool {
        let mut chars = name.chars();
        let first = chars.next().is_some_and(|c| c.is_ascii_lowercase());
        let good = first && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if good {
            return true;
        }
        let mut fixed: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '_'
                }
            })
            .collect();
        if !fixed.starts_with(|c: char| c.is_ascii_lowercase()) {
            fixed.insert_str(0, "s_");
        }
        let message = format!(
            "{} is no name of {what}: lower case letters, digits and `_`, a letter first",
            quoted(name)
        );
        let hint = (!name.is_empty()).then(|| format!("call it `{fixed}`"));
        self.problem(Problem::new(codes::BAD_NAME, span, message).maybe_hint(hint));
        false
    }
}

/// The place of a table in a sentence: `a flow`, `` `retry` ``.
fn place(table: &Table) -> String {
    if table.name.contains(' ') {
        table.name.to_owned()
    } else {
        format!("`{}`", table.name)
    }
}
