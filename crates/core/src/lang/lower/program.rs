//! `run:`: the program, what it gets, and its bounds.

use std::sync::Arc;

use indexmap::IndexMap;

use super::text::Places;
use super::{Cx, Lower, Want};
use crate::expr::Mode;
use crate::graph::{ProcessLimits, Program, RunProgram, Sandbox};
use crate::lang::diagnostic::{Problem, quoted};
use crate::lang::limits::{
    CPU_SECONDS_DEFAULT, FILE_BYTES_DEFAULT, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN,
    OUTPUT_BYTES_DEFAULT,
};
use crate::lang::tree::{Map, Node, Value};
use crate::lang::{codes, formats, keys};

/// Keys of which `run` as a map has one.
const PROGRAMS: [&str; 4] = ["shell", "python", "node", "program"];
/// Bytes of a value that are repeated in a hint.
const SHOWN_BYTES_MAX: usize = 60;

/// Words as a list in YAML's flow style, when they are short and plain.
fn shown_words(words: &[Node]) -> String {
    let texts: Option<Vec<&str>> = words.iter().map(Node::text).collect();
    let plain = |text: &&str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
    };
    let texts = texts.filter(|texts| !texts.is_empty() && texts.iter().all(plain));
    let shown = texts.map(|texts| format!("[{}]", texts.join(", ")));
    shown
        .filter(|shown| shown.len() <= SHOWN_BYTES_MAX)
        .unwrap_or_else(|| "[name, argument]".to_owned())
}

impl Lower<'_> {
    /// `run:` in its two forms. The map form's own keys win over those on the step.
    pub(crate) fn program(&mut self, cx: Cx, map: &Map) -> Option<RunProgram> {
        let entry = map.get("run")?;
        if self.misplaced_program(&entry.node) {
            return None;
        }
        let inner = match &entry.node.value {
            Value::Map(inner) if !inner.contains_key("file") && !self.looks_braced(&entry.node) => {
                self.known_keys(inner, &[&keys::PROGRAM], "`run`");
                Some(inner)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => None,
        };
        let (program, is_data) = match inner {
            None => (
                Program::Shell(self.text(cx, &entry.node, "run", Mode::Shell)?),
                false,
            ),
            Some(inner) => self.program_of(cx, inner, &entry.node)?,
        };
        let get = |key: &str| {
            inner
                .and_then(|inner| inner.get(key))
                .or_else(|| map.get(key))
                .map(|entry| &entry.node)
        };
        let with = get("with")
            .and_then(|node| self.value(cx, node, Want::Any, Places::default()))
            .map(|(value, _)| value);
        if let Some(map) = get("env").and_then(Node::map) {
            for (name, entry) in map {
                self.refuse_named_secret(name, &entry.node);
            }
        }
        let env = get("env")
            .and_then(|node| self.values(cx.with_secrets(), node, "env"))
            .unwrap_or_default();
        let cwd = get("cwd").and_then(|node| self.template(cx, node, "cwd", Mode::Text));
        let ok = get("ok")
            .map(|node| self.exit_codes(node))
            .unwrap_or_else(|| vec![0]);
        let mut files = IndexMap::new();
        for (name, entry) in get("files")
            .and_then(|node| self.map(node, "files"))
            .into_iter()
            .flatten()
        {
            if let Some(path) = self.template(cx, &entry.node, "files", Mode::Text) {
                files.insert(name.as_str().into(), path);
            }
        }
        let sandbox = self.sandbox(get("sandbox"), is_data);
        let limits = self.process_limits(get("limits"));
        Some(RunProgram {
            program,
            with,
            env,
            cwd,
            ok,
            files,
            sandbox,
            limits,
        })
    }

    /// How far the program is confined. One that is data is, unless the flow says otherwise.
    fn sandbox(&mut self, node: Option<&Node>, is_data: bool) -> Sandbox {
        let said =
            node.and_then(|node| self.choice(node, "sandbox", &["none", "workspace", "strict"]));
        match said {
            Some("workspace") => Sandbox::Workspace,
            Some("strict") => Sandbox::Strict,
            Some(_) => Sandbox::None,
            None if is_data => Sandbox::Workspace,
            None => Sandbox::None,
        }
    }

    /// `run: [ls, -l]`, `run: { bash: … }`: a program at another place, or under another name. True when that was reported.
    fn misplaced_program(&mut self, node: &Node) -> bool {
        let (span, message, hint) = match &node.value {
            Value::List(words) => (
                node.span,
                "`run` takes shell text or a map, and this is a list".to_owned(),
                format!(
                    "a program with its arguments is `run: {{ program: {} }}`",
                    shown_words(words)
                ),
            ),
            Value::Map(map) if !PROGRAMS.iter().any(|key| map.contains_key(*key)) => {
                let shells = ["bash", "sh", "zsh", "cmd", "command", "script", "exec"];
                let found = map.iter().find(|(key, _)| shells.contains(&key.as_str()));
                let Some((key, entry)) = found else {
                    return false;
                };
                let text = match &entry.node.value {
                    Value::Text(text) if text.len() <= SHOWN_BYTES_MAX && !text.contains('\n') => {
                        quoted(text)
                    }
                    _ => "\"…\"".to_owned(),
                };
                let hint = match (key.as_str(), &entry.node.value) {
                    (_, Value::List(words)) => format!(
                        "a program with its arguments is `run: {{ program: {} }}`",
                        shown_words(words)
                    ),
                    ("bash" | "zsh", _) => format!(
                        "shell text stands right there, and `sh` reads it: `run: {text}`; for {key} itself write `run: {{ program: [{key}, -c, {text}] }}`"
                    ),
                    (_, _) => format!("shell text stands right there: `run: {text}`"),
                };
                (entry.key, format!("`run` has no key `{key}`"), hint)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(_) => {
                return false;
            }
        };
        self.problem(Problem::new(codes::WRONG_SHAPE, span, message).hint(hint));
        true
    }

    /// The program of a map form, and whether it is data.
    fn program_of(&mut self, cx: Cx, map: &Map, node: &Node) -> Option<(Program, bool)> {
        let given: Vec<&str> = PROGRAMS
            .into_iter()
            .filter(|key| map.contains_key(*key))
            .collect();
        let [key] = given.as_slice() else {
            let problem = Problem::new(
                codes::MISSING_KEY,
                node.span,
                "`run` has one of `shell`, `python`, `node` and `program`",
            );
            self.problem(problem.hint("write `run: { python: \"print(args)\", with: { … } }`"));
            return None;
        };
        let entry = &map[*key];
        match *key {
            "shell" => Some((
                Program::Shell(self.text(cx, &entry.node, "shell", Mode::Shell)?),
                false,
            )),
            "program" => {
                let words = entry.node.list().is_some_and(|words| !words.is_empty());
                let template = entry.node.text().is_some_and(|text| text.contains("{{"));
                if !words && !template {
                    self.shape(
                        &entry.node,
                        "program",
                        "a list: the program and its arguments",
                    );
                    return None;
                }
                let (value, site) = self.value(cx, &entry.node, Want::Any, Places::default())?;
                if let Some(words) = entry.node.list() {
                    self.inner_words(site, words);
                }
                Some((Program::Command(value), false))
            }
            language => self.source_program(cx, language, &entry.node),
        }
    }

    fn source_program(&mut self, cx: Cx, language: &str, node: &Node) -> Option<(Program, bool)> {
        let python = language == "python";
        if let Value::Map(map) = &node.value {
            if map.contains_key("code") {
                self.table_map(node, &keys::CODE);
                let (value, _) = self.value(cx, &map["code"].node, Want::Any, Places::default())?;
                return Some((
                    if python {
                        Program::PythonCode(value)
                    } else {
                        Program::NodeCode(value)
                    },
                    true,
                ));
            }
            if map.contains_key("file") {
                self.table_map(node, &keys::FILE);
                let (_, content) = self.file_node(cx.flow, map)?;
                let source: Arc<str> = content.text().unwrap_or_default().into();
                return Some((
                    if python {
                        Program::Python(source)
                    } else {
                        Program::Node(source)
                    },
                    false,
                ));
            }
        }
        let Some(source) = node.text() else {
            self.shape(
                node,
                language,
                "source text, `{ file: … }` or `{ code: … }`",
            );
            return None;
        };
        if let Some(start) = source.find("{{")
            && let Some(length) = source[start..].find("}}")
        {
            let span = self.at(node, start..start + length + 2);
            let name = if python { "Python" } else { "Node" };
            let problem = Problem::new(
                codes::SOURCE_TEMPLATE,
                span,
                format!("`{{{{ }}}}` does nothing in {name} source"),
            );
            let access = if python {
                "`args[\"name\"]`"
            } else {
                "`args.name`"
            };
            self.problem(problem.hint(format!(
                "hand the value in by `with: {{ name: … }}` and read {access}"
            )));
        }
        Some((
            if python {
                Program::Python(source.into())
            } else {
                Program::Node(source.into())
            },
            false,
        ))
    }

    fn exit_codes(&mut self, node: &Node) -> Vec<i32> {
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(_) => {
                std::slice::from_ref(node)
            }
        };
        let mut codes = Vec::new();
        for item in items {
            codes.extend(self.integer(item, "ok", -255, 255).map(|code| code as i32));
        }
        codes
    }

    fn process_limits(&mut self, node: Option<&Node>) -> ProcessLimits {
        let mut limits = ProcessLimits {
            cpu_seconds: CPU_SECONDS_DEFAULT,
            memory_bytes: MEMORY_BYTES_DEFAULT,
            output_bytes: OUTPUT_BYTES_DEFAULT,
            file_bytes: FILE_BYTES_DEFAULT,
        };
        let Some(map) = node.and_then(|node| self.table_map(node, &keys::LIMITS)) else {
            return limits;
        };
        if let Some(cpu) = map
            .get("cpu")
            .and_then(|entry| self.duration(&entry.node, "cpu"))
        {
            limits.cpu_seconds = cpu.div_ceil(1000).max(1);
        }
        for (key, limit) in [
            ("memory", &mut limits.memory_bytes),
            ("output", &mut limits.output_bytes),
            ("file", &mut limits.file_bytes),
        ] {
            if let Some(bytes) = map
                .get(key)
                .and_then(|entry| self.format(&entry.node, key, formats::bytes, "512MiB"))
            {
                *limit = bytes;
            }
        }
        if let Some(entry) = map.get("memory")
            && limits.memory_bytes < MEMORY_BYTES_MIN
        {
            let written = entry.node.to_json().to_string();
            let message = format!(
                "`memory` is {} bytes, and no program starts with less than {MEMORY_BYTES_MIN} (32MiB)",
                limits.memory_bytes
            );
            let hint = matches!(entry.node.value, Value::Number(_))
                .then(|| format!("with a unit it is `{written}MiB` or `{written}GiB`"));
            let problem = Problem::new(codes::OUT_OF_RANGE, entry.node.span, message);
            self.problem(problem.maybe_hint(hint));
        }
        limits
    }
}
