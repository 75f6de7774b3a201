//! Values against what their places want.

use serde_json::{Map as JsonMap, Value as Json};

use super::rules::{a, boolean_hint, literal, plain};
use super::types::Typer;
use crate::graph::{Kind, StepId};
use crate::lang::codes::{self, Code};
use crate::lang::diagnostic::{Problem, names, nearest};
use crate::lang::lower::{Site, SiteId, Want, at_pointer, inner_problem};
use crate::lang::source::Span;
use crate::lang::tree::Node;
use crate::types::{Field, Fit, Shape, Type};

/// Types of the expressions of a value, sorted by pointer.
type Leaves = Vec<(String, Type)>;

fn leaf<'l>(leaves: &'l [(String, Type)], pointer: &str) -> Option<&'l Type> {
    let found = leaves.binary_search_by(|(at, _)| at.as_str().cmp(pointer));
    found.ok().map(|index| &leaves[index].1)
}

/// A value as written: the types of its expressions by pointer, and the JSON around them.
struct Written<'s> {
    json: &'s Json,
    leaves: Leaves,
    node: &'s Node,
}

impl Typer<'_, '_> {
    /// The type of a site; reports what is wrong in it and for its place.
    pub(super) fn site(&mut self, id: SiteId) -> Type {
        let site = self.take(id);
        let leaves = self.leaves(&site);
        self.inner_programs(&site);
        let ty = match &site.json {
            Some(json) => {
                let written = Written {
                    json,
                    leaves,
                    node: &site.node,
                };
                let ty = self.written_type(written.json, "", &written.leaves);
                if let Want::Type {
                    ty: want,
                    code,
                    what,
                } = &site.want
                {
                    self.fit_value(&written, want, *code, what);
                }
                ty
            }
            None => {
                let ty = leaves
                    .into_iter()
                    .next()
                    .map(|(_, ty)| ty)
                    .unwrap_or_else(|| self.common.any.clone());
                self.fit_bare(&site, &ty);
                ty
            }
        };
        self.lower.sites[id as usize] = site;
        ty
    }

    /// Values in programs that a command of the site runs. Numbers and closed choices of plain words cannot be code.
    fn inner_programs(&mut self, site: &Site) {
        for inner in &site.inner {
            let before = self.lower.problems.len();
            let place = self.place(site.cx, &inner.text, false);
            let ty = self.shape(place, &inner.shape);
            self.lower.problems.truncate(before);
            if !is_plain_word(&ty) {
                self.lower.problem(inner_problem(&inner.reader, inner.span));
            }
        }
    }

    /// A site against a type that is known only now.
    pub(super) fn fit_site(&mut self, id: SiteId, want: &Type, code: Code, what: &str) {
        let site = self.take(id);
        if let Some(json) = &site.json {
            let before = self.lower.problems.len();
            let leaves = self.leaves(&site);
            // The expressions were reported when the site was typed.
            self.lower.problems.truncate(before);
            self.fit_value(
                &Written {
                    json,
                    leaves,
                    node: &site.node,
                },
                want,
                code,
                what,
            );
        }
        self.lower.sites[id as usize] = site;
    }

    /// Sites are taken out while they are looked at, and put back.
    fn take(&mut self, id: SiteId) -> Site {
        let slot = &mut self.lower.sites[id as usize];
        let empty = Site {
            cx: slot.cx,
            want: Want::Any,
            span: slot.span,
            json: None,
            node: Node::made(crate::lang::tree::Value::Null, slot.span),
            exprs: Vec::new(),
            raw: Vec::new(),
            inner: Vec::new(),
        };
        std::mem::replace(slot, empty)
    }

    fn leaves(&mut self, site: &Site) -> Leaves {
        let strict = matches!(site.want, Want::Condition(_));
        let mut leaves = Vec::with_capacity(site.exprs.len());
        for expr in &site.exprs {
            let place = self.place(site.cx, &expr.text, strict);
            let mut last = None;
            self.locals.clear();
            for part in &expr.parts {
                let ty = self.shape(place, &part.shape);
                if let Some(binds) = part.binds {
                    self.bind(binds, &ty);
                }
                last = Some(ty);
            }
            let ty = match (expr.native, last) {
                (true, Some(ty)) => ty,
                (true, None) | (false, _) => self.common.string.clone(),
            };
            leaves.push((expr.pointer.clone(), ty));
        }
        leaves.sort_by(|one, two| one.0.cmp(&two.0));
        leaves
    }

    fn fit_bare(&mut self, site: &Site, ty: &Type) {
        match &site.want {
            Want::Any => {}
            Want::Condition(key) => {
                if ty.fits(&self.common.boolean) == Fit::No {
                    let message = format!("`{key}` takes a boolean, and this is {}", a(ty));
                    let problem = Problem::new(codes::CONDITION, site.span, message);
                    self.lower.problem(problem.maybe_hint(boolean_hint(ty)));
                }
            }
            Want::Items => {
                if let Field::Missing(_) = ty.item() {
                    let name = self.owner_name(site.cx.owner);
                    let message =
                        format!("`for_each` takes a list or a map, and this is {}", a(ty));
                    let hint = match plain(ty).shape() {
                        Shape::Text => Some(
                            "split it into a list first, as with `| lines` or `| split(\",\")`"
                                .to_owned(),
                        ),
                        Shape::Integer | Shape::Number => Some(
                            "for a number of rounds write `range(n)`, or a `repeat`".to_owned(),
                        ),
                        Shape::Fields { .. } => {
                            list_field(ty).map(|field| format!("did you mean its field `{field}`?"))
                        }
                        Shape::Any
                        | Shape::Null
                        | Shape::Boolean
                        | Shape::Enum(_)
                        | Shape::File
                        | Shape::List(_)
                        | Shape::Nullable(_)
                        | Shape::OneOf(_)
                        | Shape::Named(_)
                        | Shape::Opaque => None,
                    };
                    let problem = Problem::new(codes::NOT_A_LIST, site.span, message)
                        .label(format!("items of `{name}`"));
                    self.lower.problem(problem.maybe_hint(hint));
                }
            }
            Want::Type {
                ty: want,
                code,
                what,
            } => {
                if ty.fits(want) == Fit::No {
                    let message = format!("{what} {}, and this is {}", a(want), a(ty));
                    self.lower.problem(Problem::new(*code, site.span, message));
                }
            }
        }
    }

    /// The type of a written value.
    fn written_type(&self, json: &Json, pointer: &str, leaves: &[(String, Type)]) -> Type {
        if let Some(ty) = leaf(leaves, pointer) {
            return ty.clone();
        }
        match json {
            Json::Object(map) => {
                if let Some(inner) = map.get("literal").filter(|_| map.len() == 1) {
                    return literal(inner);
                }
                let fields: Vec<(&String, Type)> = map
                    .iter()
                    .map(|(name, value)| {
                        (
                            name,
                            self.written_type(value, &below(pointer, name), leaves),
                        )
                    })
                    .collect();
                Type::fields(
                    fields
                        .iter()
                        .map(|(name, ty)| (name.as_str(), ty.clone(), true)),
                )
            }
            Json::Array(items) if !items.is_empty() => {
                let types: Vec<Type> = items
                    .iter()
                    .enumerate()
                    .map(|(index, value)| {
                        self.written_type(value, &below(pointer, &index.to_string()), leaves)
                    })
                    .collect();
                Type::one_of(&types).list()
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                literal(json)
            }
        }
    }

    fn fit_value(&mut self, written: &Written<'_>, want: &Type, code: Code, what: &str) {
        self.fit_part(written, written.json, "", want, (code, what));
    }

    /// A part of a written value, field by field, so that the problem points at the field.
    fn fit_part(
        &mut self,
        written: &Written<'_>,
        json: &Json,
        pointer: &str,
        want: &Type,
        for_what: (Code, &str),
    ) {
        let (code, what) = for_what;
        if let Some(ty) = leaf(&written.leaves, pointer) {
            if ty.fits(want) == Fit::No {
                let place = if pointer.is_empty() {
                    String::new()
                } else {
                    format!("`{}` as ", dotted(pointer))
                };
                let message = format!("{what} {place}{}, and this is {}", a(want), a(ty));
                self.misfit(written, pointer, code, message);
            }
            return;
        }
        let plain_want = plain(want);
        match (json, plain_want.shape()) {
            (Json::Object(map), Shape::Fields { .. })
                if !(map.len() == 1 && map.contains_key("literal")) =>
            {
                self.fit_fields(written, map, pointer, &plain_want, for_what);
            }
            (Json::Array(items), Shape::List(item)) => {
                let item = item.clone();
                for (index, value) in items.iter().enumerate() {
                    self.fit_part(
                        written,
                        value,
                        &below(pointer, &index.to_string()),
                        &item,
                        for_what,
                    );
                }
            }
            (_, _) => {
                self.fit_rest(written, json, pointer, want, for_what);
            }
        }
    }

    /// A part that is neither fields nor a list, or is not written as what is wanted.
    fn fit_rest(
        &mut self,
        written: &Written<'_>,
        json: &Json,
        pointer: &str,
        want: &Type,
        for_what: (Code, &str),
    ) {
        let (code, what) = for_what;
        let inner = format!("{pointer}/");
        let first = written.leaves.partition_point(|(at, _)| *at < inner);
        let has_leaves = written
            .leaves
            .get(first)
            .is_some_and(|(at, _)| at.starts_with(&inner));
        let literal_json = match json {
            Json::Object(map) if map.len() == 1 => map.get("literal").unwrap_or(json),
            other => other,
        };
        if has_leaves {
            let ty = self.written_type(json, pointer, &written.leaves);
            if ty.fits(want) == Fit::No {
                let message = format!("{what} {}, and this is {}", a(want), a(&ty));
                self.misfit(written, pointer, code, message);
            }
        } else if let Err(violations) = want.takes(literal_json) {
            let why = violations
                .first()
                .map(ToString::to_string)
                .unwrap_or_default();
            let place = if pointer.is_empty() {
                String::new()
            } else {
                format!("`{}`: ", dotted(pointer))
            };
            let code = if code == codes::MISFIT {
                codes::LITERAL_MISFIT
            } else {
                code
            };
            self.misfit(written, pointer, code, format!("{place}{why}"));
        }
    }

    fn fit_fields(
        &mut self,
        written: &Written<'_>,
        map: &JsonMap<String, Json>,
        pointer: &str,
        want: &Type,
        for_what: (Code, &str),
    ) {
        let Shape::Fields { properties, rest } = want.shape() else {
            return;
        };
        let (code, what) = for_what;
        let arguments = if code == codes::MISFIT {
            codes::ARGUMENTS
        } else {
            code
        };
        let mut misspelt: Vec<&str> = Vec::new();
        for (name, value) in map {
            let inner = below(pointer, name);
            match (properties.get(name), rest) {
                (Some(property), _) => {
                    self.fit_part(written, value, &inner, &property.ty, for_what)
                }
                (None, Some(rest)) => self.fit_part(written, value, &inner, rest, for_what),
                (None, None) => {
                    let known = || properties.keys().map(String::as_str);
                    let near = nearest(name, known());
                    misspelt.extend(near);
                    let hint = match near {
                        Some(near) => format!("did you mean `{near}`?"),
                        None if properties.is_empty() => "it takes none".to_owned(),
                        None => format!("the fields are {}", names(known())),
                    };
                    let span = key_span(written.node, pointer, name).unwrap_or(written.node.span);
                    let message = format!("{what} no `{}`", dotted(&inner));
                    self.lower
                        .problem(Problem::new(arguments, span, message).hint(hint));
                }
            }
        }
        let missing: Vec<&str> = properties
            .iter()
            .filter(|(name, property)| {
                property.required && property.default.is_none() && !map.contains_key(*name)
            })
            .map(|(name, _)| name.as_str())
            .filter(|name| !misspelt.contains(name))
            .collect();
        if !missing.is_empty() {
            let span =
                at_pointer(written.node, pointer).map_or(written.node.span, |node| node.span);
            let message = format!(
                "{what} {}, which {} missing here",
                names(missing.iter().copied()),
                if missing.len() == 1 { "is" } else { "are" }
            );
            self.lower.problem(Problem::new(arguments, span, message));
        }
    }

    fn misfit(&mut self, written: &Written<'_>, pointer: &str, code: Code, message: String) {
        let span = at_pointer(written.node, pointer).map_or(written.node.span, |node| node.span);
        self.lower.problem(Problem::new(code, span, message));
    }
}

/// What other languages call the case for every other value.
const CATCH_ALL: &[&str] = &["default", "else", "otherwise", "_", "*"];

/// A case that was meant for every other value. True when there is one.
fn catch_all(typer: &mut Typer<'_, '_>, step: StepId, on: &Type) -> bool {
    let Some(Kind::Switch(spec)) = typer.lower.def(step).map(|def| &def.kind) else {
        return false;
    };
    if spec.otherwise.is_some() {
        return false;
    }
    let is_value = |word: &str| matches!(on.shape(), Shape::Enum(values) if values.iter().any(|value| value == word));
    let found = spec.cases.iter().find_map(|(value, case)| {
        let word = value.as_str()?;
        (CATCH_ALL.contains(&word) && !is_value(word)).then(|| (word.to_owned(), *case))
    });
    let Some((word, case)) = found else {
        return false;
    };
    let span = typer.lower.info(case).name_span;
    let message = format!("the case `{word}` is for the value \"{word}\" only, not for all others");
    typer.lower.problem(Problem::new(codes::CASE, span, message).hint(format!(
        "what is for every other value stands beside `cases`: `else: {{ … }}`; if \"{word}\" is a value, add an `else` for the others"
    )));
    true
}

/// Cases of a `switch` against the values that there are.
pub(super) fn cases(typer: &mut Typer<'_, '_>, step: StepId, on: Option<&Type>) {
    let Some(on) = on.map(plain) else { return };
    if catch_all(typer, step, &on) {
        return;
    }
    let values: Vec<Json> = match on.shape() {
        Shape::Enum(values) => values.clone(),
        Shape::Boolean => vec![Json::Bool(true), Json::Bool(false)],
        Shape::Text => {
            as_text(typer, step);
            return;
        }
        Shape::Any
        | Shape::Null
        | Shape::Integer
        | Shape::Number
        | Shape::File
        | Shape::List(_)
        | Shape::Fields { .. }
        | Shape::Nullable(_)
        | Shape::OneOf(_)
        | Shape::Named(_)
        | Shape::Opaque => return,
    };
    if values.iter().all(Json::is_string) {
        as_text(typer, step);
    }
    let Some(Kind::Switch(spec)) = typer.lower.def(step).map(|def| &def.kind) else {
        return;
    };
    let has_else = spec.otherwise.is_some();
    let written: Vec<(Json, Span)> = spec
        .cases
        .iter()
        .map(|(value, case)| (value.clone(), typer.lower.info(*case).name_span))
        .collect();
    let shown = |value: &Json| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let known: Vec<String> = values.iter().map(shown).collect();
    for (value, span) in &written {
        if !values.contains(value) {
            let name = shown(value);
            let hint = match nearest(&name, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the values are {}", names(known.iter().map(String::as_str))),
            };
            let message = format!("the case `{name}` is never chosen: the value is never that");
            typer
                .lower
                .problem(Problem::new(codes::CASE, *span, message).hint(hint));
        }
    }
    let missing: Vec<String> = values
        .iter()
        .filter(|value| !written.iter().any(|(case, _)| case == *value))
        .map(shown)
        .collect();
    let at = typer
        .lower
        .info(step)
        .span("switch")
        .unwrap_or_else(|| typer.lower.info(step).name_span);
    if !missing.is_empty() && !has_else {
        let message = format!(
            "this `switch` has no case for {}",
            names(missing.iter().map(String::as_str))
        );
        typer.lower.problem(
            Problem::new(codes::NOT_EXHAUSTIVE, at, message).hint("add the cases, or an `else`"),
        );
    }
    if missing.is_empty() && has_else {
        let span = typer.lower.info(step).span("else").unwrap_or(at);
        typer.lower.problem(Problem::new(
            codes::UNREACHABLE,
            span,
            "every value has a case, so `else` is never chosen",
        ));
    }
}

/// Case labels are text: with a text to compare with, `1` means "1".
fn as_text(typer: &mut Typer<'_, '_>, step: StepId) {
    if let Some(def) = &mut typer.lower.steps[step.0 as usize]
        && let Kind::Switch(spec) = &mut def.kind
    {
        for (value, _) in &mut spec.cases {
            if !value.is_string() {
                *value = Json::String(value.to_string());
            }
        }
    }
}

/// Whether no value of a type is anything but a word to a program.
fn is_plain_word(ty: &Type) -> bool {
    let plain_text = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte))
    };
    match plain(ty).shape() {
        Shape::Null | Shape::Boolean | Shape::Integer | Shape::Number => true,
        Shape::Enum(values) => values.iter().all(|value| match value {
            Json::Null | Json::Bool(_) | Json::Number(_) => true,
            Json::String(text) => plain_text(text),
            Json::Array(_) | Json::Object(_) => false,
        }),
        Shape::Any
        | Shape::Text
        | Shape::File
        | Shape::List(_)
        | Shape::Fields { .. }
        | Shape::Nullable(_)
        | Shape::OneOf(_)
        | Shape::Named(_)
        | Shape::Opaque => false,
    }
}

fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// `/a/b` as `a.b`.
fn dotted(pointer: &str) -> String {
    pointer
        .trim_start_matches('/')
        .replace('/', ".")
        .replace("~1", "/")
        .replace("~0", "~")
}

fn key_span(node: &Node, pointer: &str, name: &str) -> Option<Span> {
    at_pointer(node, pointer)?
        .map()?
        .get(name)
        .map(|entry| entry.key)
}

/// The only field that is a list, if there is one.
fn list_field(ty: &Type) -> Option<String> {
    let ty = plain(ty);
    let Shape::Fields { properties, .. } = ty.shape() else {
        return None;
    };
    let mut lists = properties
        .iter()
        .filter(|(_, property)| matches!(property.ty.shape(), Shape::List(_)));
    match (lists.next(), lists.next()) {
        (Some((name, _)), None) => Some(name.clone()),
        (Some(_), Some(_)) | (None, _) => None,
    }
}
