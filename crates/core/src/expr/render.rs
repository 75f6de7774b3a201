//! Runs the statements of a template.

use serde_json::Value;

use super::ast::{At, For, Stmt, Target};
use super::eval::{Evaluator, Item, Loop, demand, fail};
use super::scope::EvalError;
use super::template::Mode;
use super::{ops, quote};

/// How a statement ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Continue,
    Break,
}

impl<'v> Evaluator<'v> {
    /// Runs statements, writing into `out`.
    pub(crate) fn run(
        &mut self,
        body: &'v [Stmt],
        mode: Mode,
        out: &mut String,
    ) -> Result<Flow, EvalError> {
        for statement in body {
            let flow = self.statement(statement, mode, out)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(
        &mut self,
        statement: &'v Stmt,
        mode: Mode,
        out: &mut String,
    ) -> Result<Flow, EvalError> {
        match statement {
            Stmt::Text(text) => {
                out.push_str(text);
                self.room(At { start: 0, end: 0 }, out)?;
            }
            Stmt::Emit { node, raw } => {
                let value = self.value(node)?;
                let written = match mode {
                    Mode::Shell if !raw => quote::shell(value, out),
                    Mode::Url if !raw => quote::url_part(value, out),
                    Mode::Text | Mode::Shell | Mode::Url => {
                        ops::print(value, out);
                        Ok(())
                    }
                };
                written.map_err(|message| fail(node.at, message))?;
                self.room(node.at, out)?;
            }
            Stmt::If {
                test,
                then,
                otherwise,
            } => {
                let branch = if self.truth(test)? { then } else { otherwise };
                return self.run(branch, mode, out);
            }
            Stmt::For(statement) => return self.for_loop(statement, mode, out),
            Stmt::Set { target, node } => {
                let item = self.item(node)?;
                self.assign(target, item, node.at)?;
            }
            Stmt::With {
                fresh,
                assign,
                body,
            } => {
                self.locals[fresh.clone()].fill(None);
                for (target, node) in assign {
                    let item = self.item(node)?;
                    self.assign(target, item, node.at)?;
                }
                return self.run(body, mode, out);
            }
            Stmt::Capture {
                body,
                capture,
                then,
            } => {
                let mut text = String::new();
                let flow = self.run(body, Mode::Text, &mut text)?;
                let at = At { start: 0, end: 0 };
                self.locals[*capture] = Some(Item::Value(self.make(at, Value::String(text))?));
                return if flow == Flow::Next {
                    self.statement(then, mode, out)
                } else {
                    Ok(flow)
                };
            }
            Stmt::Continue => return Ok(Flow::Continue),
            Stmt::Break => return Ok(Flow::Break),
        }
        Ok(Flow::Next)
    }

    fn room(&self, at: At, out: &str) -> Result<(), EvalError> {
        if out.len() > self.limits.output_bytes {
            return Err(fail(
                at,
                format!("the text is longer than {} bytes", self.limits.output_bytes),
            ));
        }
        Ok(())
    }

    fn for_loop(
        &mut self,
        statement: &'v For,
        mode: Mode,
        out: &mut String,
    ) -> Result<Flow, EvalError> {
        let all: Vec<&'v Value> = match self.value(&statement.iter)? {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields
                .keys()
                .map(|key| self.keep(Value::String(key.clone())))
                .collect(),
            other => {
                let message = format!(
                    "`for` goes over a list or an object, not {}",
                    ops::a_kind(other)
                );
                return Err(fail(statement.at, message));
            }
        };
        let items = match &statement.filter {
            None => all,
            Some(filter) => {
                let mut kept = Vec::new();
                for item in all {
                    self.assign(&statement.target, Item::Value(item), statement.at)?;
                    if self.truth(filter)? {
                        kept.push(item);
                    }
                }
                kept
            }
        };
        if items.is_empty() {
            return self.run(&statement.otherwise, mode, out);
        }
        self.rounds(statement, items, mode, out)
    }

    fn rounds(
        &mut self,
        statement: &'v For,
        items: Vec<&'v Value>,
        mode: Mode,
        out: &mut String,
    ) -> Result<Flow, EvalError> {
        let length = items.len();
        let depth = self.loops.len();
        self.loops.push(Loop { items, index: 0 });
        for index in 0..length {
            self.spend(statement.at, 1)?;
            self.loops[depth].index = index;
            self.locals[statement.fresh.clone()].fill(None);
            let item = self.loops[depth].items[index];
            self.assign(&statement.target, Item::Value(item), statement.at)?;
            if self.run(&statement.body, mode, out)? == Flow::Break {
                break;
            }
        }
        self.loops.pop();
        Ok(Flow::Next)
    }

    fn assign(&mut self, target: &'v Target, item: Item<'v>, at: At) -> Result<(), EvalError> {
        match target {
            Target::Local(slot) => self.locals[*slot] = Some(item),
            Target::Unpack(targets) => {
                let Item::Value(Value::Array(items)) = item else {
                    return Err(match item {
                        Item::Value(other) => fail(
                            at,
                            format!("only a list can be taken apart, not {}", ops::a_kind(other)),
                        ),
                        other => demand(other),
                    });
                };
                if items.len() != targets.len() {
                    let message = format!("{} names for a list of {}", targets.len(), items.len());
                    return Err(fail(at, message));
                }
                for (target, item) in targets.iter().zip(items) {
                    self.assign(target, Item::Value(item), at)?;
                }
            }
            Target::Field(slot, key) => {
                let Item::Value(value) = item else {
                    return Err(demand(item));
                };
                let Some(Item::Value(Value::Object(fields))) = self.locals[*slot] else {
                    return Err(fail(at, "only a field of a `namespace()` can be set"));
                };
                let mut fields = fields.clone();
                fields.insert(key.clone(), value.clone());
                self.locals[*slot] = Some(Item::Value(self.make(at, Value::Object(fields))?));
            }
        }
        Ok(())
    }
}
