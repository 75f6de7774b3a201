//! From minijinja's syntax tree to ours: names resolved, unknown ones refused, references collected.
//!
//! This is the only file (with [`super::lower_stmt`]) that knows minijinja's parser.

use minijinja::machinery::ast;
use serde_json::Value;

use super::ast::{Args, At, CompareOp, Kind, LoopField, MathOp, Node, Root, Unit};
use super::hint::did_you_mean;
use super::scope::SyntaxError;
use super::template::Mode;
use super::{PathStep, Ref, filters, functions, predicates};

/// Levels of nesting of one expression. Each level is a stack frame of the evaluator.
pub(crate) const DEPTH_MAX: usize = 150;

/// Lowers one source.
pub(crate) struct Lowering<'s> {
    pub(super) source: &'s str,
    pub(super) mode: Mode,
    pub(super) unit: Unit,
    /// Variables of the template, innermost scope last.
    pub(super) scopes: Vec<Vec<(String, usize)>>,
    /// How many loops we are in.
    pub(super) loops: usize,
    /// Names that are known to have a value here, because a test said so.
    pub(super) known: Vec<String>,
    depth: usize,
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
        let guarded = guarded || self.known.iter().any(|known| known == name);
        self.unit.refs.push(Ref {
            root: name.to_owned(),
            path: steps,
            guarded,
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

    pub(super) fn local(&self, name: &str) -> Option<usize> {
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
                .map(|bound| self.boxed(bound, false))
                .transpose()
        };
        let (start, stop, step) = (
            bound(&slice.start)?,
            bound(&slice.stop)?,
            bound(&slice.step)?,
        );
        Ok(Node {
            at,
            kind: Kind::Slice {
                value,
                start,
                stop,
                step,
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
        let test = self.boxed(&choice.test_expr, false)?;
        let known = self.known.len();
        self.learn(&test, true);
        let then = self.boxed(&choice.true_expr, guarded)?;
        self.known.truncate(known);
        self.learn(&test, false);
        let otherwise = choice
            .false_expr
            .as_ref()
            .map(|expr| self.boxed(expr, guarded))
            .transpose()?;
        self.known.truncate(known);
        let at = At {
            start: then.at.start,
            end: whole.end.max(test.at.end),
        };
        Ok(Node {
            at,
            kind: Kind::If {
                test,
                then,
                otherwise,
            },
        })
    }

    /// Remembers the names that have a value when `test` came out as `outcome`.
    pub(super) fn learn(&mut self, test: &Node, outcome: bool) {
        match &test.kind {
            Kind::Defined(of, wanted) if *wanted == outcome => {
                if let Kind::Path { root, .. } = &of.kind {
                    self.known.push(self.unit.roots[*root].name.clone());
                }
            }
            Kind::Not(inner) => self.learn(inner, !outcome),
            Kind::And(left, right) if outcome => {
                self.learn(left, true);
                self.learn(right, true);
            }
            Kind::Or(left, right) if !outcome => {
                self.learn(left, false);
                self.learn(right, false);
            }
            _ => {}
        }
    }

    pub(super) fn filter(
        &mut self,
        filter: &ast::Filter<'_>,
        whole: At,
    ) -> Result<Node, SyntaxError> {
        let Some(input) = &filter.expr else {
            return Err(SyntaxError::new(
                whole,
                "a filter needs something before its `|`",
            ));
        };
        let guard = filters::DEFAULT.contains(&filter.name) || filter.name == functions::FIRST_OF;
        let input = self.boxed(input, guard)?;
        self.filter_on(filter, input, whole)
    }

    /// A filter on an input that is lowered already.
    pub(super) fn filter_on(
        &mut self,
        filter: &ast::Filter<'_>,
        input: Box<Node>,
        whole: At,
    ) -> Result<Node, SyntaxError> {
        let at = input.at.to(whole);
        let name_at = self.find_after(filter.name, input.at.end, at);
        if filters::DEFAULT.contains(&filter.name) {
            return self.default(filter, input, at);
        }
        if filter.name == functions::FIRST_OF {
            let mut args = vec![*input];
            args.extend(self.positional(&filter.args, at, true)?);
            return Ok(Node {
                at,
                kind: Kind::FirstOf(args),
            });
        }
        if filter.name == filters::RAW_SHELL {
            let message = match self.mode {
                Mode::Shell => "`raw_shell` must be the last filter of a `{{ }}`",
                Mode::Text | Mode::Url => "`raw_shell` is for shell text only",
            };
            return Err(SyntaxError::new(name_at, message));
        }
        let Some(known) = filters::find(filter.name) else {
            let error = SyntaxError::new(name_at, format!("there is no filter `{}`", filter.name));
            return Err(filter_hint(error, filter.name));
        };
        let callee = Callee {
            name: known.name,
            params: known.params,
            required: known.required,
            rest: known.rest,
            extra: known.extra,
        };
        let args = self.bind(&callee, &filter.args, name_at)?;
        check_named_by_text(known.name, &args)?;
        Ok(Node {
            at,
            kind: Kind::Filter {
                filter: known,
                input,
                args,
            },
        })
    }

    fn default(
        &mut self,
        filter: &ast::Filter<'_>,
        input: Box<Node>,
        at: At,
    ) -> Result<Node, SyntaxError> {
        let callee = Callee {
            name: "default",
            params: &["default_value", "boolean"],
            required: 0,
            rest: false,
            extra: false,
        };
        let mut args = self.bind(&callee, &filter.args, at)?.named.into_iter();
        let other = args.next().flatten().unwrap_or(Node {
            at,
            kind: Kind::Const(Value::String(String::new())),
        });
        let falsy = match args.next().flatten().map(|node| (node.at, node.kind)) {
            None => false,
            Some((_, Kind::Const(Value::Bool(falsy)))) => falsy,
            Some((at, _)) => {
                return Err(SyntaxError::new(
                    at,
                    "`boolean` of `default` is `true` or `false`",
                ));
            }
        };
        Ok(Node {
            at,
            kind: Kind::Default {
                input,
                other: Box::new(other),
                falsy,
            },
        })
    }

    fn test(&mut self, test: &ast::Test<'_>, whole: At) -> Result<Node, SyntaxError> {
        let guard = matches!(test.name, predicates::DEFINED | predicates::UNDEFINED);
        let input = self.boxed(&test.expr, guard)?;
        let at = input.at.to(whole);
        if guard {
            return Ok(Node {
                at,
                kind: Kind::Defined(input, test.name == predicates::DEFINED),
            });
        }
        let name_at = self.find_after(test.name, input.at.end, at);
        let Some(known) = predicates::find(test.name) else {
            let error = SyntaxError::new(name_at, format!("there is no test `{}`", test.name));
            return Err(near(error, test.name, predicates::names()));
        };
        let args = self.positional(&test.args, name_at, false)?;
        if args.len() != known.args {
            let message = format!(
                "the test `{}` takes {} arguments, not {}",
                test.name,
                known.args,
                args.len()
            );
            return Err(SyntaxError::new(name_at, message));
        }
        Ok(Node {
            at,
            kind: Kind::Test {
                test: known,
                input,
                args,
            },
        })
    }

    fn call(&mut self, call: &ast::Call<'_>, whole: At) -> Result<Node, SyntaxError> {
        let name = match &call.expr {
            ast::Expr::Var(var) if self.local(var.id).is_none() => var.id,
            ast::Expr::GetAttr(attr) => return self.method(attr, call, whole),
            other => {
                return Err(SyntaxError::new(
                    at(other.span()).to(whole),
                    "this is not a function",
                ));
            }
        };
        let at = at(call.expr.span()).to(whole);
        if name == functions::FIRST_OF {
            let args = self.positional(&call.args, at, true)?;
            if args.is_empty() {
                return Err(SyntaxError::new(at, "`first_of` takes at least 1 argument"));
            }
            return Ok(Node {
                at,
                kind: Kind::FirstOf(args),
            });
        }
        let Some(function) = functions::FUNCTIONS
            .iter()
            .find(|function| function.name == name)
        else {
            let error = SyntaxError::new(at, format!("there is no function `{name}`"));
            if filters::find(name).is_some() {
                return Err(error.hint(format!("`{name}` is a filter: write `value | {name}`")));
            }
            return Err(near(error, name, functions::names()));
        };
        let callee = Callee {
            name,
            params: function.params,
            required: function.required,
            rest: false,
            extra: function.extra,
        };
        let args = self.bind(&callee, &call.args, at)?;
        Ok(Node {
            at,
            kind: Kind::Call { function, args },
        })
    }

    fn method(
        &mut self,
        attr: &ast::GetAttr<'_>,
        call: &ast::Call<'_>,
        whole: At,
    ) -> Result<Node, SyntaxError> {
        let at = at(attr.expr.span()).to(whole);
        if let ast::Expr::Var(var) = &attr.expr
            && (var.id, attr.name) == ("loop", "cycle")
            && self.loops > 0
        {
            let args = self.positional(&call.args, at, false)?;
            if args.is_empty() {
                return Err(SyntaxError::new(
                    at,
                    "`loop.cycle` takes at least 1 argument",
                ));
            }
            return Ok(Node {
                at,
                kind: Kind::Cycle {
                    depth: self.loops - 1,
                    args,
                },
            });
        }
        let error = SyntaxError::new(
            at,
            format!("values have no methods, so no `.{}()`", attr.name),
        );
        Err(match filters::find(attr.name) {
            Some(filter) => error.hint(format!("write it as a filter: `value | {}`", filter.name)),
            None => filter_hint(error, attr.name),
        })
    }

    fn positional(
        &mut self,
        args: &[ast::CallArg<'_>],
        at: At,
        guarded: bool,
    ) -> Result<Vec<Node>, SyntaxError> {
        let mut nodes = Vec::new();
        for arg in args {
            match arg {
                ast::CallArg::Pos(expr) => nodes.push(self.expr(expr, guarded)?),
                ast::CallArg::Kwarg(name, _) => {
                    return Err(SyntaxError::new(
                        at,
                        format!("there is no parameter `{name}` here"),
                    ));
                }
                ast::CallArg::PosSplat(_) | ast::CallArg::KwargSplat(_) => {
                    return Err(no_splat(at));
                }
            }
        }
        Ok(nodes)
    }

    fn bind(
        &mut self,
        callee: &Callee<'_>,
        given: &[ast::CallArg<'_>],
        at: At,
    ) -> Result<Args, SyntaxError> {
        let mut args = Args {
            named: Vec::new(),
            ..Args::default()
        };
        args.named.resize_with(callee.params.len(), || None);
        let mut position = 0;
        for arg in given {
            match arg {
                ast::CallArg::Pos(expr) => {
                    let node = self.expr(expr, false)?;
                    // `map` takes its filter first and that filter's arguments after it.
                    let open =
                        position < callee.params.len() && !(callee.name == "map" && position > 0);
                    if open {
                        args.named[position] = Some(node);
                        position += 1;
                    } else if callee.rest {
                        args.rest.push(node);
                    } else {
                        let message = format!(
                            "`{}` takes at most {} arguments",
                            callee.name,
                            callee.params.len()
                        );
                        return Err(SyntaxError::new(node.at, message));
                    }
                }
                ast::CallArg::Kwarg(name, expr) => {
                    let node = self.expr(expr, false)?;
                    match callee.params.iter().position(|param| param == name) {
                        Some(index) if args.named[index].is_none() => {
                            args.named[index] = Some(node)
                        }
                        Some(_) => {
                            return Err(SyntaxError::new(
                                node.at,
                                format!("`{name}` is given twice"),
                            ));
                        }
                        None if callee.extra => args.extra.push(((*name).to_owned(), node)),
                        None => {
                            let message = format!("`{}` has no parameter `{name}`", callee.name);
                            return Err(near(
                                SyntaxError::new(node.at, message),
                                name,
                                callee.params.iter().copied(),
                            ));
                        }
                    }
                }
                ast::CallArg::PosSplat(_) | ast::CallArg::KwargSplat(_) => {
                    return Err(no_splat(at));
                }
            }
        }
        match args
            .named
            .iter()
            .take(callee.required)
            .position(Option::is_none)
        {
            Some(missing) => {
                let message = format!("`{}` needs `{}`", callee.name, callee.params[missing]);
                Err(SyntaxError::new(at, message))
            }
            None => Ok(args),
        }
    }

    /// Where a name stands that follows a node; minijinja does not say.
    fn find_after(&self, name: &str, start: u32, otherwise: At) -> At {
        let found = self
            .source
            .get(start as usize..)
            .and_then(|rest| rest.find(name));
        found.map_or(otherwise, |found| {
            let start = start + found as u32;
            At {
                start,
                end: start + name.len() as u32,
            }
        })
    }
}

/// What arguments are bound to.
struct Callee<'c> {
    name: &'c str,
    params: &'static [&'static str],
    required: usize,
    rest: bool,
    extra: bool,
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

/// Names that Jinja users know, and what says the same here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("append", "add lists: `list + [item]`"),
    ("e", "leave it out: text is never escaped"),
    ("endswith", "use the test `is endingwith`"),
    ("escape", "leave it out: text is never escaped"),
    ("get", "use `object[name] | default(other)`"),
    ("groupby", "use `group_by`, which gives `{key, items}`"),
    ("pprint", "use `to_json(2)`"),
    ("safe", "leave it out: text is never escaped"),
    ("startswith", "use the test `is startingwith`"),
    ("strip", "use `trim`"),
    ("wordcount", "use `words | length`"),
];

fn filter_hint(error: SyntaxError, name: &str) -> SyntaxError {
    match ELSEWHERE.iter().find(|(other, _)| *other == name) {
        Some((_, instead)) => error.hint(*instead),
        None => near(error, name, filters::names()),
    }
}

fn no_splat(at: At) -> SyntaxError {
    SyntaxError::new(at, "`*` and `**` do not spread arguments here")
}

/// Filters that take the name of another filter or test: known names only, as far as they are written out.
fn check_named_by_text(filter: &str, args: &Args) -> Result<(), SyntaxError> {
    let named = |index: usize| match args.named.get(index).and_then(Option::as_ref) {
        Some(Node {
            at,
            kind: Kind::Const(Value::String(name)),
        }) => Some((*at, name.as_str())),
        _ => None,
    };
    let of_attribute = matches!(filter, "selectattr" | "rejectattr");
    match filter {
        "map" => match named(0) {
            Some((at, name)) if filters::find(name).is_none() => Err(filter_hint(
                SyntaxError::new(at, format!("there is no filter `{name}`")),
                name,
            )),
            _ => Ok(()),
        },
        "select" | "reject" | "selectattr" | "rejectattr" => match named(usize::from(of_attribute))
        {
            Some((at, name))
                if predicates::find(name).is_none()
                    && !(of_attribute
                        && matches!(name, predicates::DEFINED | predicates::UNDEFINED)) =>
            {
                Err(near(
                    SyntaxError::new(at, format!("there is no test `{name}`")),
                    name,
                    predicates::names(),
                ))
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}
