//! Statements of templates: `for`, `if`, `set`, `with`, `filter`, `break`, `continue`.

use minijinja::machinery::ast;

use super::super::ast::{At, For, Kind, Node, Stmt, Target};
use super::super::filters;
use super::super::parse::STATEMENTS;
use super::super::scope::SyntaxError;
use super::super::template::Mode;
use super::{Lowering, at};

impl Lowering<'_> {
    /// The statements of a whole template.
    pub(crate) fn template(&mut self, template: &ast::Stmt<'_>) -> Result<Vec<Stmt>, SyntaxError> {
        let ast::Stmt::Template(template) = template else {
            return Ok(Vec::new());
        };
        let mut body = self.body(&template.children)?;
        // What a URL starts with is its base, not a part of it.
        if let (Mode::Url, Some(Stmt::Emit { raw, .. })) = (self.mode, body.first_mut()) {
            *raw = true;
        }
        Ok(body)
    }

    fn body(&mut self, statements: &[ast::Stmt<'_>]) -> Result<Vec<Stmt>, SyntaxError> {
        statements
            .iter()
            .map(|statement| self.statement(statement))
            .collect()
    }

    fn statement(&mut self, statement: &ast::Stmt<'_>) -> Result<Stmt, SyntaxError> {
        match statement {
            ast::Stmt::EmitRaw(raw) => Ok(Stmt::Text(match self.mask {
                Some(sign) => raw.raw.replace(sign, "{"),
                None => raw.raw.to_owned(),
            })),
            ast::Stmt::EmitExpr(emit) => self.emit(&emit.expr),
            ast::Stmt::ForLoop(statement) => self.for_loop(statement, at(statement.span())),
            ast::Stmt::IfCond(statement) => {
                let test = self.expr(&statement.expr, false)?;
                let known = self.known.len();
                self.learn(&test, true);
                let then = self.body(&statement.true_body)?;
                self.known.truncate(known);
                self.learn(&test, false);
                let otherwise = self.body(&statement.false_body)?;
                self.known.truncate(known);
                Ok(Stmt::If {
                    test,
                    then,
                    otherwise,
                })
            }
            ast::Stmt::WithBlock(statement) => self.with_block(statement),
            ast::Stmt::Set(statement) => {
                let node = self.expr(&statement.expr, true)?;
                Ok(Stmt::Set {
                    target: self.target(&statement.target)?,
                    node,
                })
            }
            ast::Stmt::SetBlock(statement) => {
                let filter = statement.filter.as_ref();
                let (body, capture, node) =
                    self.capture(&statement.body, filter, at(statement.span()))?;
                let then = Box::new(Stmt::Set {
                    target: self.target(&statement.target)?,
                    node,
                });
                Ok(Stmt::Capture {
                    body,
                    capture,
                    then,
                })
            }
            ast::Stmt::FilterBlock(statement) => {
                let (body, capture, node) = self.capture(
                    &statement.body,
                    Some(&statement.filter),
                    at(statement.filter_span),
                )?;
                Ok(Stmt::Capture {
                    body,
                    capture,
                    then: Box::new(Stmt::Emit { node, raw: false }),
                })
            }
            ast::Stmt::Continue(_) => Ok(Stmt::Continue),
            ast::Stmt::Break(_) => Ok(Stmt::Break),
            ast::Stmt::Do(statement) => Err(refused("do", at(statement.span()))),
            ast::Stmt::AutoEscape(statement) => Err(refused("autoescape", at(statement.span()))),
            ast::Stmt::Macro(statement) => Err(refused("macro", at(statement.span()))),
            ast::Stmt::CallBlock(statement) => Err(refused("call", at(statement.call_expr_span))),
            ast::Stmt::Template(statement) => Err(refused("template", at(statement.span()))),
        }
    }

    fn emit(&mut self, expr: &ast::Expr<'_>) -> Result<Stmt, SyntaxError> {
        if let (Mode::Shell, ast::Expr::Filter(filter)) = (self.mode, expr)
            && filter.name == filters::RAW_SHELL
            && let (Some(input), []) = (&filter.expr, &filter.args[..])
        {
            return Ok(Stmt::Emit {
                node: self.expr(input, false)?,
                raw: true,
            });
        }
        Ok(Stmt::Emit {
            node: self.expr(expr, false)?,
            raw: false,
        })
    }

    fn for_loop(&mut self, statement: &ast::ForLoop<'_>, whole: At) -> Result<Stmt, SyntaxError> {
        if statement.recursive {
            return Err(refused("for … recursive", whole));
        }
        let iter = self.expr(&statement.iter, false)?;
        self.scopes.push(Vec::new());
        let start = self.unit.locals.len();
        let target = self.target(&statement.target)?;
        let filter = statement
            .filter_expr
            .as_ref()
            .map(|filter| self.expr(filter, false))
            .transpose()?;
        self.loops += 1;
        let body = self.body(&statement.body)?;
        self.loops -= 1;
        self.scopes.pop();
        let fresh = start..self.unit.locals.len();
        let otherwise = self.body(&statement.else_body)?;
        let at = iter.at;
        Ok(Stmt::For(Box::new(For {
            at,
            target,
            iter,
            filter,
            body,
            otherwise,
            fresh,
        })))
    }

    fn with_block(&mut self, statement: &ast::WithBlock<'_>) -> Result<Stmt, SyntaxError> {
        self.scopes.push(Vec::new());
        let start = self.unit.locals.len();
        let mut assign = Vec::new();
        for (target, expr) in &statement.assignments {
            let node = self.expr(expr, true)?;
            assign.push((self.target(target)?, node));
        }
        let body = self.body(&statement.body)?;
        self.scopes.pop();
        Ok(Stmt::With {
            fresh: start..self.unit.locals.len(),
            assign,
            body,
        })
    }

    /// A body that becomes text: the slot it goes to, and the filters on that slot.
    fn capture(
        &mut self,
        body: &[ast::Stmt<'_>],
        filter: Option<&ast::Expr<'_>>,
        whole: At,
    ) -> Result<(Vec<Stmt>, usize, Node), SyntaxError> {
        let body = self.body(body)?;
        let capture = self.new_local("the text of a block");
        let text = Node {
            at: At {
                start: whole.start,
                end: whole.start,
            },
            kind: Kind::Local(capture),
        };
        let node = filter.map_or(Ok(text), |filter| self.filters(filter, capture, whole))?;
        Ok((body, capture, node))
    }

    fn filters(
        &mut self,
        chain: &ast::Expr<'_>,
        capture: usize,
        whole: At,
    ) -> Result<Node, SyntaxError> {
        let text = At {
            start: whole.start,
            end: whole.start,
        };
        match chain {
            ast::Expr::Filter(filter) => {
                let input = match &filter.expr {
                    Some(inner) => self.filters(inner, capture, whole)?,
                    None => Node {
                        at: text,
                        kind: Kind::Local(capture),
                    },
                };
                self.filter_on(filter, Box::new(input), whole)
            }
            other => Err(SyntaxError::new(at(other.span()), "expected a filter")),
        }
    }

    fn new_local(&mut self, name: &str) -> usize {
        self.unit.locals.push(name.to_owned());
        self.unit.locals.len() - 1
    }

    fn target(&mut self, target: &ast::Expr<'_>) -> Result<Target, SyntaxError> {
        match target {
            ast::Expr::Var(var) => {
                let scope = self.scopes.last().map_or(&[][..], Vec::as_slice);
                if let Some((_, slot)) = scope.iter().find(|(name, _)| name == var.id) {
                    return Ok(Target::Local(*slot));
                }
                let slot = self.new_local(var.id);
                if let Some(scope) = self.scopes.last_mut() {
                    scope.push((var.id.to_owned(), slot));
                }
                Ok(Target::Local(slot))
            }
            ast::Expr::List(list) => {
                let targets = list
                    .items
                    .iter()
                    .map(|item| self.target(item))
                    .collect::<Result<_, _>>()?;
                Ok(Target::Unpack(targets))
            }
            ast::Expr::GetAttr(attr) => {
                let at = at(attr.span());
                let ast::Expr::Var(var) = &attr.expr else {
                    return Err(SyntaxError::new(
                        at,
                        "only a field of a `namespace()` can be set",
                    ));
                };
                let slot = self.local(var.id).ok_or_else(|| {
                    SyntaxError::new(
                        at,
                        format!("`{}` is not a variable of this template", var.id),
                    )
                    .hint(format!("begin with `{{% set {} = namespace() %}}`", var.id))
                })?;
                Ok(Target::Field(slot, attr.name.to_owned()))
            }
            other => Err(SyntaxError::new(
                at(other.span()),
                "this cannot be assigned to",
            )),
        }
    }
}

fn refused(statement: &str, at: At) -> SyntaxError {
    SyntaxError::new(at, format!("`{{% {statement} %}}` is not supported")).hint(STATEMENTS)
}
