//! Filters, tests and calls: known names, fitting arguments.

use minijinja::machinery::ast;
use serde_json::Value;

use super::super::ast::{Args, At, Kind, Node};
use super::super::scope::SyntaxError;
use super::super::template::Mode;
use super::super::{filters, functions, predicates};
use super::{Lowering, at, near};

impl Lowering<'_> {
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

    pub(super) fn test(&mut self, test: &ast::Test<'_>, whole: At) -> Result<Node, SyntaxError> {
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
            let wanted = if known.args == 0 {
                "no argument"
            } else {
                "one argument"
            };
            let message = format!(
                "the test `{}` takes {wanted}, not {}",
                test.name,
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

    pub(super) fn call(&mut self, call: &ast::Call<'_>, whole: At) -> Result<Node, SyntaxError> {
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
        let mut args = Args::default();
        args.named.resize_with(callee.params.len(), || None);
        for arg in given {
            match arg {
                ast::CallArg::Pos(expr) => {
                    let node = self.expr(expr, false)?;
                    callee.by_position(&mut args, node)?;
                }
                ast::CallArg::Kwarg(name, expr) => {
                    let node = self.expr(expr, false)?;
                    callee.by_name(&mut args, name, node)?;
                }
                ast::CallArg::PosSplat(_) | ast::CallArg::KwargSplat(_) => {
                    return Err(no_splat(at));
                }
            }
        }
        let mut required = args.named.iter().take(callee.required);
        match required.position(Option::is_none) {
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

impl Callee<'_> {
    /// Positional arguments come before named ones, so those given so far are the first ones.
    fn by_position(&self, args: &mut Args, node: Node) -> Result<(), SyntaxError> {
        // `map` takes its filter first and that filter's arguments after it.
        let params = if self.name == "map" {
            1
        } else {
            self.params.len()
        };
        match args.named.iter_mut().take(params).find(|arg| arg.is_none()) {
            Some(arg) => *arg = Some(node),
            None if self.rest => args.rest.push(node),
            None => {
                let message = format!("`{}` takes at most {params} arguments", self.name);
                return Err(SyntaxError::new(node.at, message));
            }
        }
        Ok(())
    }

    fn by_name(&self, args: &mut Args, name: &str, node: Node) -> Result<(), SyntaxError> {
        match self.params.iter().position(|param| *param == name) {
            Some(index) if args.named[index].is_none() => args.named[index] = Some(node),
            Some(_) => {
                return Err(SyntaxError::new(
                    node.at,
                    format!("`{name}` is given twice"),
                ));
            }
            None if self.extra => args.extra.push((name.to_owned(), node)),
            None => {
                let message = format!("`{}` has no parameter `{name}`", self.name);
                let error = SyntaxError::new(node.at, message);
                return Err(near(error, name, self.params.iter().copied()));
            }
        }
        Ok(())
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
