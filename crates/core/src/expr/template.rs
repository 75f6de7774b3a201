//! Text with `{{ }}` and `{% %}`.

use serde_json::Value;

use super::ast::{Kind, Node, Stmt, Unit};
use super::draws::Draws;
use super::eval::{Given, with_evaluator};
use super::quote::{HandQuoted, InnerProgram, unprotected};
use super::scope::{EvalError, Scope, SyntaxError};
use super::shape::Shape;
use super::{Limits, Ref, parse};

/// What a text is for: it decides how values are written into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Prompts and other text: texts as they are, everything else as compact JSON.
    #[default]
    Text,
    /// Shell text: every value is quoted to one word, a list to one word an item; `| raw_shell` opts out.
    Shell,
    /// A URL: every value is percent-encoded, except one that the URL begins with.
    Url,
}

/// A parsed text.
#[derive(Debug)]
pub struct Template {
    source: String,
    mode: Mode,
    body: Vec<Stmt>,
    unit: Unit,
    limits: Limits,
}

impl Template {
    /// Parses a text.
    pub fn parse(source: &str, mode: Mode) -> Result<Self, SyntaxError> {
        let (body, unit) = parse::template(source, mode)?;
        Ok(Self {
            source: source.to_owned(),
            mode,
            body,
            unit,
            limits: Limits::default(),
        })
    }

    /// The same text under other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What was parsed.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What it is for.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The text, if there is nothing to evaluate in it.
    pub fn literal(&self) -> Option<&str> {
        match &self.body[..] {
            [] => Some(""),
            [Stmt::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Every reference, in the order of the source.
    pub fn refs(&self) -> &[Ref] {
        &self.unit.refs
    }

    /// The shapes of all expressions in it, in the order of the source.
    pub fn shapes(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        each_node(&self.body, &mut |node, _| {
            shapes.push(Shape::new(node, &self.unit))
        });
        shapes
    }

    /// Values of a shell text that stand inside quotes or a here-document, where quoting them does harm.
    pub fn hand_quoted(&self) -> Vec<HandQuoted> {
        if self.mode == Mode::Shell {
            unprotected(&self.body).0
        } else {
            Vec::new()
        }
    }

    /// Values of a shell text that become a part of a program which a command in it runs, where they are not quoted any more.
    pub fn inner_programs(&self) -> Vec<InnerProgram> {
        if self.mode == Mode::Shell {
            unprotected(&self.body).1
        } else {
            Vec::new()
        }
    }

    /// Shapes of the values that opt out of shell quoting.
    pub fn raw_shell(&self) -> Vec<Shape> {
        let mut shapes = Vec::new();
        if self.mode == Mode::Shell {
            each_node(&self.body, &mut |node, raw| {
                if raw {
                    shapes.push(Shape::new(node, &self.unit));
                }
            });
        }
        shapes
    }

    /// Writes the text.
    pub fn render(&self, scope: &dyn Scope, draws: &mut Draws<'_>) -> Result<String, EvalError> {
        if let Some(text) = self.literal() {
            return Ok(text.to_owned());
        }
        let given = Given {
            unit: &self.unit,
            scope,
            draws,
            limits: self.limits,
            strict: false,
        };
        with_evaluator(given, &self.body[..], |evaluator, body| {
            let mut out = String::with_capacity(self.source.len());
            evaluator.run(body, self.mode, &mut out)?;
            Ok(out)
        })
    }

    /// [`Template::render`] as a value.
    pub fn eval(&self, scope: &dyn Scope, draws: &mut Draws<'_>) -> Result<Value, EvalError> {
        self.render(scope, draws).map(Value::String)
    }
}

/// Calls `see` with every expression, and whether it is emitted raw.
fn each_node(body: &[Stmt], see: &mut impl FnMut(&Node, bool)) {
    for statement in body {
        match statement {
            Stmt::Text(_) | Stmt::Continue | Stmt::Break => {}
            Stmt::Emit { node, raw } => see(node, *raw),
            Stmt::Set { node, .. } => see(node, false),
            Stmt::If {
                test,
                then,
                otherwise,
            } => {
                see(test, false);
                each_node(then, see);
                each_node(otherwise, see);
            }
            Stmt::For(statement) => {
                see(&statement.iter, false);
                if let Some(filter) = &statement.filter {
                    see(filter, false);
                }
                each_node(&statement.body, see);
                each_node(&statement.otherwise, see);
            }
            Stmt::With { assign, body, .. } => {
                assign.iter().for_each(|(_, node)| see(node, false));
                each_node(body, see);
            }
            Stmt::Capture { body, then, .. } => {
                each_node(body, see);
                match then.as_ref() {
                    // A block without filters: its value is the text itself.
                    Stmt::Set {
                        node:
                            Node {
                                kind: Kind::Local(_),
                                ..
                            },
                        ..
                    } => {}
                    then => each_node(std::slice::from_ref(then), see),
                }
            }
        }
    }
}
