//! From minijinja's syntax tree to ours: names resolved, unknown ones refused, references collected.
//!
//! Only this module and [`super::parse`] know minijinja's parser.

mod call;
mod stmt;

use minijinja::machinery::ast;
use serde_json::Value;

use super::ast::{At, Choice, CompareOp, Kind, LoopField, MathOp, Node, Root, Unit};
use super::hint::did_you_mean;
use super::scope::SyntaxError;
use super::template::Mode;
use super::{PathStep, Ref};

/// Levels of nesting of one expression. Each level is a stack frame of the evaluator.
pub(crate) const DEPTH_MAX: usize = 150;

/// What a test that came out one way tells.
enum Known {
    /// The name has a value.
    Name(String),
    /// The condition holds.
    Holds(String),
}

/// Lowers one source.
pub(crate) struct Lowering<'s> {
    source: &'s str,
    mode: Mode,
    pub(super) unit: Unit,
    /// Variables of the template, innermost scope last.
    scopes: Vec<Vec<(String, usize)>>,
    /// How many loops we are in.
    loops: usize,
    /// What is known here, because a test said so.
    known: Vec<Known>,
    depth: usize,
    /// What stands for `{` in the text outside of tags, where the parser must not see one.
    pub(crate) mask: Option<char>,
}

impl<'s> Lowering<'s> {
    pub(crate) fn new(source: &'s str, mode: Mode) -> Self {
        Self {
            source,
            mode,
            unit: Unit::default(),
            scopes: vec![Vec::new()],
            loops: 0,
            known: Vec::new(),
            depth: 0,
            mask: None,
        }
    }

    /// `guarded`: a guard takes the result, so it may be absent.
    pub(crate) fn expr(
        &mut self,
        expr: &ast::Expr<'_>,
        guarded: bool,
    ) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let message = format!("the expression is nested deeper than {DEPTH_MAX} levels");
            return Err(SyntaxError::new(at(expr.span()), message));
        }
        let node = self.expr_below(expr, guarded)?;
        self.depth -= 1;
        Ok(node)
    }

    fn boxed(&mut self, expr: &ast::Expr<'_>, guarded: bool) -> Result<Box<Node>, SyntaxError> {
        self.expr(expr, guarded).map(Box::new)
    }

    fn expr_below(&mut self, expr: &ast::Expr<'_>, guarded: bool) -> Result<Node, SyntaxError> {
        let whole = at(expr.span());
        match expr {
            ast::Expr::Var(_) | ast::Expr::GetAttr(_) => self.chain(expr, guarded),
            ast::Expr::GetItem(item) => match static_step(&item.subscript_expr) {
                Some(_) => self.chain(expr, guarded),
                None => {
                    let base = self.boxed(&item.expr, guarded)?;
                    let key = self.boxed(&item.subscript_expr, false)?;
                    Ok(Node {
                        at: base.at.to(whole),
                        kind: Kind::Subscript(base, key),
                    })
                }
            },
            ast::Expr::Const(constant) => Ok(Node {
                at: whole,
                kind: Kind::Const(json(&constant.value, whole)?),
            }),
            ast::Expr::Slice(slice) => self.slice(slice, whole),
            ast::Expr::UnaryOp(unary) => self.unary(unary, whole),
            ast::Expr::BinOp(binary) => self.binary(binary, guarded),
            ast::Expr::Compare(compare) => {
                let first = self.boxed(&compare.expr, false)?;
                let mut rest = Vec::new();
                for op in &compare.ops {
                    rest.push((compare_op(op.op), self.expr(&op.expr, false)?));
                }
                Ok(Node {
                    at: first.at.to(whole),
                    kind: Kind::Chain(first, rest),
                })
            }
            ast::Expr::IfExpr(choice) => self.choice(choice, guarded, whole),
            ast::Expr::Filter(filter) => self.filter(filter, whole),
            ast::Expr::Test(test) => self.test(test, whole),
            ast::Expr::Call(call) => self.call(call, whole),
            ast::Expr::List(list) => Ok(Node {
                at: whole,
                kind: Kind::List(self.all(&list.items)?),
            }),
            ast::Expr::Tuple(tuple) => Ok(Node {
                at: whole,
                kind: Kind::List(self.all(&tuple.items)?),
            }),
            ast::Expr::Map(map) => {
                let mut fields = Vec::new();
                for (key, value) in map.keys.iter().zip(&map.values) {
                    fields.push((self.expr(key, false)?, self.expr(value, false)?));
                }
                Ok(Node {
                    at: whole,
                    kind: Kind::Object(fields),
                })
            }
        }
    }

    fn all(&mut self, items: &[ast::Expr<'_>]) -> Result<Vec<Node>, SyntaxError> {
        items.iter().map(|item| self.expr(item, false)).collect()
    }

    /// `a.b["c"][0]`: static steps below a name or below another expression.
    fn chain(&mut self, expr: &ast::Expr<'_>, guarded: bool) -> Result<Node, SyntaxError> {
        let end = at(expr.span());
        let mut steps = Vec::new();
        let mut base = expr;
        loop {
            base = match base {
                ast::Expr::GetAttr(attr) => {
                    steps.push(PathStep::Key(attr.name.to_owned()));
                    &attr.expr
                }
                ast::Expr::GetItem(item) => match static_step(&item.subscript_expr) {
                    Some(step) => {
                        steps.push(step);
                        &item.expr
                    }
                    None => break,
                },
                _ => break,
            };
        }
        steps.reverse();
        if let ast::Expr::Var(var) = base {
            return self.name(var.id, steps, at(var.span()).to(end), guarded);
        }
        let base = self.boxed(base, guarded)?;
        Ok(Node {
            at: base.at.to(end),
            kind: Kind::Walk(base, steps),
        })
    }

    fn name(
        &mut self,
        name: &str,
        steps: Vec<PathStep>,
        at: At,
        guarded: bool,
    ) -> Result<Node, SyntaxError> {
        if let Some(slot) = self.local(name) {
            let local = Node {
                at,
                kind: Kind::Local(slot),
            };
            let kind = if steps.is_empty() {
                local.kind
            } else {
                Kind::Walk(Box::new(local), steps)
            };
            return Ok(Node { at, kind });
        }
        if name == "loop" && self.loops > 0 {
            return self.loop_field(steps, at);
        }
        if name == "null" && steps.is_empty() {
            return Ok(Node {
                at,
                kind: Kind::Const(Value::Null),
            });
        }
        let member = match steps.first() {
            Some(PathStep::Key(key)) => Some(key.clone()),
            Some(PathStep::Index(_)) | None => None,
        };
        let wanted = Root {
            name: name.to_owned(),
            member,
        };
        let root = self
            .unit
            .roots
            .iter()
            .position(|root| *root == wanted)
            .unwrap_or_else(|| {
                self.unit.roots.push(wanted);
                self.unit.roots.len() - 1
            });
        let guarded = guarded || self.has_value(name);
        let under = self.known.iter().filter_map(|known| match known {
            Known::Holds(condition) => Some(condition.clone()),
            Known::Name(_) => None,
        });
        let under = under.collect();
        self.unit.refs.push(Ref {
            root: name.to_owned(),
            path: steps,
            guarded,
            under,
            at: at.range(),
        });
        Ok(Node {
            at,
            kind: Kind::Path {
                root,
                reference: self.unit.refs.len() - 1,
            },
        })
    }

    fn loop_field(&self, mut steps: Vec<PathStep>, at: At) -> Result<Node, SyntaxError> {
        let Some(PathStep::Key(key)) = steps.first() else {
            return Err(SyntaxError::new(at, "`loop` has no value as a whole")
                .hint("read a field, as `loop.index`"));
        };
        let Some((_, field)) = LOOP_FIELDS.iter().find(|(name, _)| name == key) else {
            let error = SyntaxError::new(at, format!("`loop` has no field `{key}`"));
            return Err(near(error, key, LOOP_FIELDS.iter().map(|(name, _)| *name)));
        };
        steps.remove(0);
        let kind = Kind::Loop {
            depth: self.loops - 1,
            field: *field,
        };
        if steps.is_empty() {
            return Ok(Node { at, kind });
        }
        Ok(Node {
            at,
            kind: Kind::Walk(Box::new(Node { at, kind }), steps),
        })
    }

    fn local(&self, name: &str) -> Option<usize> {
        let mut all = self
            .scopes
            .iter()
            .rev()
            .flat_map(|scope| scope.iter().rev());
        all.find(|(known, _)| known == name).map(|(_, slot)| *slot)
    }

    fn slice(&mut self, slice: &ast::Slice<'_>, whole: At) -> Result<Node, SyntaxError> {
        let value = self.boxed(&slice.expr, false)?;
        let at = value.at.to(whole);
        let mut bound = |bound: &Option<ast::Expr<'_>>| {
            bound
                .as_ref()
                .map(|bound| self.expr(bound, false))
                .transpose()
        };
        let bounds = [
            bound(&slice.start)?,
            bound(&slice.stop)?,
            bound(&slice.step)?,
        ];
        Ok(Node {
            at,
            kind: Kind::Slice {
                value,
                bounds: Box::new(bounds),
            },
        })
    }

    fn unary(&mut self, unary: &ast::UnaryOp<'_>, whole: At) -> Result<Node, SyntaxError> {
        let inner = self.expr(&unary.expr, false)?;
        match unary.op {
            ast::UnaryOpKind::Neg => {
                if let Kind::Const(value) = &inner.kind
                    && let Ok(value) = super::ops::negate(value)
                {
                    return Ok(Node {
                        at: whole,
                        kind: Kind::Const(value),
                    });
                }
                Ok(Node {
                    at: whole,
                    kind: Kind::Negate(Box::new(inner)),
                })
            }
            // `a not in b` and `a is not b` come as `not (a in b)`.
            ast::UnaryOpKind::Not => match inner.kind {
                Kind::Compare(CompareOp::In, left, right)
                    if self.says_not_in(left.at, right.at) =>
                {
                    Ok(Node {
                        at: inner.at,
                        kind: Kind::Compare(CompareOp::NotIn, left, right),
                    })
                }
                Kind::Defined(of, wanted) => Ok(Node {
                    at: inner.at,
                    kind: Kind::Defined(of, !wanted),
                }),
                kind => {
                    let at = inner.at;
                    Ok(Node {
                        at,
                        kind: Kind::Not(Box::new(Node { at, kind })),
                    })
                }
            },
        }
    }

    fn says_not_in(&self, left: At, right: At) -> bool {
        let between = self.source.get(left.end as usize..right.start as usize);
        between.is_some_and(|between| {
            between
                .trim_start_matches(')')
                .trim_start()
                .starts_with("not")
        })
    }

    fn binary(&mut self, binary: &ast::BinOp<'_>, guarded: bool) -> Result<Node, SyntaxError> {
        let left = self.boxed(&binary.left, false)?;
        let known = self.known.len();
        match binary.op {
            ast::BinOpKind::ScAnd => self.learn(&left, true),
            ast::BinOpKind::ScOr => self.learn(&left, false),
            _ => {}
        }
        let passes_on = matches!(binary.op, ast::BinOpKind::ScAnd | ast::BinOpKind::ScOr);
        let right = self.boxed(&binary.right, guarded && passes_on)?;
        self.known.truncate(known);
        let at = left.at.to(right.at);
        let kind = match binary.op {
            ast::BinOpKind::ScAnd => Kind::And(left, right),
            ast::BinOpKind::ScOr => Kind::Or(left, right),
            ast::BinOpKind::Eq => Kind::Compare(CompareOp::Equal, left, right),
            ast::BinOpKind::Ne => Kind::Compare(CompareOp::NotEqual, left, right),
            ast::BinOpKind::Lt => Kind::Compare(CompareOp::Less, left, right),
            ast::BinOpKind::Lte => Kind::Compare(CompareOp::LessOrEqual, left, right),
            ast::BinOpKind::Gt => Kind::Compare(CompareOp::Greater, left, right),
            ast::BinOpKind::Gte => Kind::Compare(CompareOp::GreaterOrEqual, left, right),
            ast::BinOpKind::In => Kind::Compare(CompareOp::In, left, right),
            ast::BinOpKind::Add => Kind::Math(MathOp::Add, left, right),
            ast::BinOpKind::Sub => Kind::Math(MathOp::Subtract, left, right),
            ast::BinOpKind::Mul => Kind::Math(MathOp::Multiply, left, right),
            ast::BinOpKind::Div => Kind::Math(MathOp::Divide, left, right),
            ast::BinOpKind::FloorDiv => Kind::Math(MathOp::FloorDivide, left, right),
            ast::BinOpKind::Rem => Kind::Math(MathOp::Remainder, left, right),
            ast::BinOpKind::Pow => Kind::Math(MathOp::Power, left, right),
            ast::BinOpKind::Concat => Kind::Math(MathOp::Concat, left, right),
        };
        Ok(Node { at, kind })
    }

    fn choice(
        &mut self,
        choice: &ast::IfExpr<'_>,
        guarded: bool,
        whole: At,
    ) -> Result<Node, SyntaxError> {
        let test = self.expr(&choice.test_expr, false)?;
        let known = self.known.len();
        self.learn(&test, true);
        let then = self.expr(&choice.true_expr, guarded)?;
        self.known.truncate(known);
        self.learn(&test, false);
        let otherwise = choice.false_expr.as_ref();
        let otherwise = otherwise.map(|expr| self.expr(expr, guarded)).transpose()?;
        self.known.truncate(known);
        let at = At {
            start: then.at.start,
            end: whole.end.max(test.at.end),
        };
        Ok(Node {
            at,
            kind: Kind::If(Box::new(Choice {
                test,
                then,
                otherwise,
            })),
        })
    }

    fn has_value(&self, name: &str) -> bool {
        let is_name = |known: &Known| matches!(known, Known::Name(known) if known == name);
        self.known.iter().any(is_name)
    }

    /// The names that have a value where a condition holds.
    pub(crate) fn known_under(&mut self, condition: &Node) -> Vec<String> {
        self.learn(condition, true);
        let known = self.known.drain(..).filter_map(|known| match known {
            Known::Name(name) => Some(name),
            Known::Holds(_) => None,
        });
        known.collect()
    }

    /// Remembers the names that have a value when `test` came out as `outcome`.
    fn learn(&mut self, test: &Node, outcome: bool) {
        if outcome && let Some(text) = self.source.get(test.at.range()) {
            self.known.push(Known::Holds(text.trim().to_owned()));
        }
        match &test.kind {
            Kind::Defined(of, wanted) if *wanted == outcome => self.knows(of),
            Kind::Not(inner) => self.learn(inner, !outcome),
            Kind::And(left, right) if outcome => {
                self.learn(left, true);
                self.learn(right, true);
            }
            Kind::Or(left, right) if !outcome => {
                self.learn(left, false);
                self.learn(right, false);
            }
            // Whatever the outcome, it was read.
            Kind::Path { .. } | Kind::Walk(..) => self.knows(test),
            Kind::Default { input, other, .. } if outcome && is_falsy(other) => self.knows(input),
            Kind::Test { test, input, .. } if !outcome && test.names[0] == "none" => {
                if let Kind::Default { input, other, .. } = &input.kind
                    && matches!(&other.kind, Kind::Const(Value::Null))
                {
                    self.knows(input);
                }
            }
            Kind::Compare(op, left, right) => self.learn_compared(*op, left, right, outcome),
            _ => {}
        }
    }

    /// `x | default(c) != c`, `steps.x.state == "succeeded"`.
    fn learn_compared(&mut self, op: CompareOp, left: &Node, right: &Node, outcome: bool) {
        let equal = match op {
            CompareOp::Equal => outcome,
            CompareOp::NotEqual => !outcome,
            CompareOp::Less
            | CompareOp::LessOrEqual
            | CompareOp::Greater
            | CompareOp::GreaterOrEqual
            | CompareOp::In
            | CompareOp::NotIn => return,
        };
        for (side, constant) in [(left, right), (right, left)] {
            let Kind::Const(constant) = &constant.kind else {
                continue;
            };
            match &side.kind {
                Kind::Path { reference, .. } if equal => {
                    let reference = &self.unit.refs[*reference];
                    if let ("steps", [PathStep::Key(step), PathStep::Key(field)], Some("succeeded")) =
                        (&*reference.root, &*reference.path, constant.as_str())
                        && field == "state"
                    {
                        self.known.push(Known::Name(step.clone()));
                    }
                }
                Kind::Default { input, other, .. } => {
                    // The stand-in is the constant: what is not it was there. Or the other way round.
                    let is_stand_in = matches!(&other.kind, Kind::Const(other) if super::ops::equal(other, constant));
                    let is_const = matches!(&other.kind, Kind::Const(_));
                    if is_const && is_stand_in != equal {
                        self.knows(input);
                    }
                }
                _ => {}
            }
        }
    }

    /// Remembers that what a node reads has a value.
    fn knows(&mut self, node: &Node) {
        match &node.kind {
            Kind::Path { root, .. } => {
                let name = self.unit.roots[*root].name.clone();
                self.known.push(Known::Name(name));
            }
            Kind::Walk(of, _) => self.knows(of),
            _ => {}
        }
    }
}

/// A constant that is false to Jinja.
fn is_falsy(node: &Node) -> bool {
    match &node.kind {
        Kind::Const(value) => !super::ops::truthy(value),
        Kind::List(items) => items.is_empty(),
        Kind::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

static LOOP_FIELDS: &[(&str, LoopField)] = &[
    ("index", LoopField::Index),
    ("index0", LoopField::Index0),
    ("revindex", LoopField::RevIndex),
    ("revindex0", LoopField::RevIndex0),
    ("first", LoopField::First),
    ("last", LoopField::Last),
    ("length", LoopField::Length),
    ("depth", LoopField::Depth),
    ("depth0", LoopField::Depth0),
    ("previtem", LoopField::PrevItem),
    ("nextitem", LoopField::NextItem),
];

pub(crate) fn at(span: minijinja::machinery::Span) -> At {
    At {
        start: span.start_offset,
        end: span.end_offset.max(span.start_offset),
    }
}

fn static_step(subscript: &ast::Expr<'_>) -> Option<PathStep> {
    match subscript {
        ast::Expr::Const(constant) => match constant.value.as_str() {
            Some(key) => Some(PathStep::Key(key.to_owned())),
            None if constant.value.is_integer() => constant.value.as_i64().map(PathStep::Index),
            None => None,
        },
        ast::Expr::UnaryOp(unary) if matches!(unary.op, ast::UnaryOpKind::Neg) => {
            match static_step(&unary.expr)? {
                PathStep::Index(index) => Some(PathStep::Index(-index)),
                PathStep::Key(_) => None,
            }
        }
        _ => None,
    }
}

fn json(value: &minijinja::Value, at: At) -> Result<Value, SyntaxError> {
    serde_json::to_value(value)
        .map_err(|error| SyntaxError::new(at, format!("the constant is not JSON: {error}")))
}

fn compare_op(op: ast::CompareOpKind) -> CompareOp {
    match op {
        ast::CompareOpKind::Eq => CompareOp::Equal,
        ast::CompareOpKind::Ne => CompareOp::NotEqual,
        ast::CompareOpKind::Lt => CompareOp::Less,
        ast::CompareOpKind::Lte => CompareOp::LessOrEqual,
        ast::CompareOpKind::Gt => CompareOp::Greater,
        ast::CompareOpKind::Gte => CompareOp::GreaterOrEqual,
        ast::CompareOpKind::In => CompareOp::In,
        ast::CompareOpKind::NotIn => CompareOp::NotIn,
    }
}

fn near<'c>(
    error: SyntaxError,
    name: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> SyntaxError {
    match did_you_mean(name, candidates) {
        Some(candidate) => error.hint(format!("did you mean `{candidate}`?")),
        None => error,
    }
}
