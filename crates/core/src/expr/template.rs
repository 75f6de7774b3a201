//! Text with `{{ }}` and `{% %}`.

use serde_json::Value;

use super::ast::{Kind, Node, Stmt, Target, Unit};
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

/// An expression of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What it is made of.
    pub shape: Shape,
    /// The variable that has its value, if one has and is never given another.
    pub binds: Option<Binding>,
}

/// How an expression gives a variable of the template its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// `{% for x in … %}`: one item after the other, or the keys of an object.
    Items(usize),
    /// `{% set x = … %}`
    Value(usize),
}

impl Binding {
    /// The slot of the variable.
    pub fn slot(self) -> usize {
        match self {
            Self::Items(slot) | Self::Value(slot) => slot,
        }
    }
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
        self.parts().into_iter().map(|part| part.shape).collect()
    }

    /// All expressions in it, in the order of the source, with the variables that they give values to.
    pub fn parts(&self) -> Vec<Part> {
        let mut assigned = vec![0; self.unit.locals.len()];
        count_assignments(&self.body, &mut assigned);
        let mut parts = Vec::new();
        each_node(&self.body, &mut |node, _, binds| {
            let once = |binds: &Binding| assigned[binds.slot()] == 1;
            parts.push(Part {
                shape: Shape::new(node, &self.unit),
                binds: binds.filter(once),
            });
        });
        parts
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
            each_node(&self.body, &mut |node, raw, _| {
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

/// The slot of a target that is one variable.
fn slot(target: &Target) -> Option<usize> {
    match target {
        Target::Local(slot) => Some(*slot),
        Target::Unpack(_) | Target::Field(..) => None,
    }
}

fn count_targets(target: &Target, counts: &mut [u32]) {
    match target {
        Target::Local(slot) => counts[*slot] += 1,
        Target::Unpack(targets) => targets
            .iter()
            .for_each(|target| count_targets(target, counts)),
        Target::Field(..) => {}
    }
}

/// How often each variable is given a value by the text.
fn count_assignments(body: &[Stmt], counts: &mut [u32]) {
    for statement in body {
        match statement {
            Stmt::Text(_) | Stmt::Emit { .. } | Stmt::Continue | Stmt::Break => {}
            Stmt::Set { target, .. } => count_targets(target, counts),
            Stmt::If {
                then, otherwise, ..
            } => {
                count_assignments(then, counts);
                count_assignments(otherwise, counts);
            }
            Stmt::For(statement) => {
                count_targets(&statement.target, counts);
                count_assignments(&statement.body, counts);
                count_assignments(&statement.otherwise, counts);
            }
            Stmt::With { assign, body, .. } => {
                assign
                    .iter()
                    .for_each(|(target, _)| count_targets(target, counts));
                count_assignments(body, counts);
            }
            Stmt::Capture { body, then, .. } => {
                count_assignments(body, counts);
                count_assignments(std::slice::from_ref(then), counts);
            }
        }
    }
}

/// Calls `see` with every expression, whether it is emitted raw, and the variable that it gives a value to.
fn each_node(body: &[Stmt], see: &mut impl FnMut(&Node, bool, Option<Binding>)) {
    for statement in body {
        match statement {
            Stmt::Text(_) | Stmt::Continue | Stmt::Break => {}
            Stmt::Emit { node, raw } => see(node, *raw, None),
            Stmt::Set { target, node } => see(node, false, slot(target).map(Binding::Value)),
            Stmt::If {
                test,
                then,
                otherwise,
            } => {
                see(test, false, None);
                each_node(then, see);
                each_node(otherwise, see);
            }
            Stmt::For(statement) => {
                see(
                    &statement.iter,
                    false,
                    slot(&statement.target).map(Binding::Items),
                );
                if let Some(filter) = &statement.filter {
                    see(filter, false, None);
                }
                each_node(&statement.body, see);
                each_node(&statement.otherwise, see);
            }
            Stmt::With { assign, body, .. } => {
                for (target, node) in assign {
                    see(node, false, slot(target).map(Binding::Value));
                }
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
