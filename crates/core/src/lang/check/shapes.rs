//! The type of an expression, and what is wrong inside it.

use serde_json::Value as Json;

use super::rules::{
    a, boolean_hint, contains, filter, is_null, joined, literal, math, of_kind, ordered, padded,
    part, plain,
};
use super::types::Typer;
use crate::expr::{Binding, CompareOp, Form, PathStep, Ref, Shape};
use crate::graph::StepId;
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, names, nearest};
use crate::lang::lower::{Bind, Cx, Found, Owner, foreign_fields};
use crate::lang::source::Span;
use crate::lang::tree::Node;
use crate::types::{Field, Fit, Shape as TypeShape, Type};

/// Where an expression stands while it is typed.
#[derive(Clone, Copy)]
pub(super) struct Place<'n> {
    pub(super) cx: Cx,
    pub(super) text: &'n Node,
    /// In conditions operands of `and`, `or`, `not` are booleans, too.
    pub(super) strict: bool,
}

impl Typer<'_, '_> {
    fn span(&self, place: Place<'_>, shape: &Shape) -> Span {
        self.lower.at(place.text, shape.at.clone())
    }

    /// The type that an expression gives.
    pub(super) fn shape(&mut self, place: Place<'_>, shape: &Shape) -> Type {
        match &shape.form {
            Form::Path(reference) => self.path(place, reference),
            Form::Literal(value) => literal(value),
            Form::Variable { slot, .. } => {
                let known = slot.and_then(|slot| self.locals.get(&slot));
                known.cloned().unwrap_or_else(|| self.common.any.clone())
            }
            Form::Below { of, steps } => {
                let ty = self.shape(place, of);
                match &of.form {
                    Form::Variable { name, .. } => {
                        // Reported as a field of a step would be.
                        let reference = Ref {
                            root: name.clone(),
                            path: steps.clone(),
                            guarded: false,
                            under: Vec::new(),
                            at: shape.at.clone(),
                        };
                        self.walk(place, &reference, ty, 0)
                    }
                    _ => self.below(place, shape, ty, steps),
                }
            }
            Form::Compare { op, left, right } => {
                self.compare(place, shape, *op, left, right);
                self.common.boolean.clone()
            }
            Form::Not(of) => {
                let ty = self.shape(place, of);
                self.operand(place, of, &ty, "not");
                self.common.boolean.clone()
            }
            Form::All(parts) | Form::Any(parts) => self.junction(place, shape, parts),
            Form::Defined { of, .. } => {
                self.shape(place, of);
                self.common.boolean.clone()
            }
            Form::Default { value, other } => {
                let (value, other) = (self.shape(place, value), self.shape(place, other));
                joined(value, other)
            }
            Form::FirstOf(parts) => Type::one_of(&self.each(place, parts)),
            Form::If {
                test,
                then,
                otherwise,
            } => self.choice(place, test, then, otherwise.as_deref()),
            Form::Math { op, left, right } => {
                let (left, right) = (self.shape(place, left), self.shape(place, right));
                math(*op, &left, &right)
            }
            Form::Negate(of) => self.shape(place, of),
            Form::Filter {
                name,
                returns,
                input,
                args,
            } => {
                let input = self.shape(place, input);
                self.arguments(place, args);
                filter(name, *returns, &input)
            }
            Form::Test { input, args, .. } => {
                self.shape(place, input);
                self.arguments(place, args);
                self.common.boolean.clone()
            }
            Form::Call { returns, args, .. } => {
                self.arguments(place, args);
                of_kind(*returns)
            }
            Form::List(items) if items.is_empty() => self.common.any.list(),
            Form::List(items) => Type::one_of(&self.each(place, items)).list(),
            Form::Object(fields) => self.object(place, fields),
            Form::Padded { before, of, after } => padded(before, &self.shape(place, of), after),
            Form::Other(parts) => {
                self.arguments(
                    Place {
                        strict: false,
                        ..place
                    },
                    parts,
                );
                self.common.any.clone()
            }
        }
    }

    /// Gives a variable of the template the type of what it is given.
    pub(super) fn bind(&mut self, binds: Binding, given: &Type) {
        let ty = match binds {
            Binding::Value(_) => given.clone(),
            Binding::Items(_) => {
                let given = plain(given);
                if let TypeShape::List(item) = given.shape() {
                    item.clone()
                } else if let TypeShape::Fields { .. } = given.shape() {
                    self.common.string.clone()
                } else {
                    self.common.any.clone()
                }
            }
        };
        self.locals.insert(binds.slot(), ty);
    }

    fn each(&mut self, place: Place<'_>, parts: &[Shape]) -> Vec<Type> {
        parts.iter().map(|part| self.shape(place, part)).collect()
    }

    fn arguments(&mut self, place: Place<'_>, args: &[Shape]) {
        for arg in args {
            self.shape(place, arg);
        }
    }

    fn junction(&mut self, place: Place<'_>, shape: &Shape, parts: &[Shape]) -> Type {
        let word = if matches!(shape.form, Form::All(_)) {
            "and"
        } else {
            "or"
        };
        let types: Vec<Type> = parts
            .iter()
            .map(|part| {
                let ty = self.shape(place, part);
                self.operand(place, part, &ty, word);
                ty
            })
            .collect();
        Type::one_of(&types)
    }

    /// In a condition there is no truthiness: an operand that cannot be a boolean is a mistake.
    fn operand(&mut self, place: Place<'_>, shape: &Shape, ty: &Type, word: &str) {
        if place.strict && ty.fits(&self.common.boolean) == Fit::No {
            let span = self.span(place, shape);
            let problem = Problem::new(
                codes::CONDITION,
                span,
                format!("`{word}` takes booleans, and this is {}", a(ty)),
            );
            self.lower.problem(problem.maybe_hint(boolean_hint(ty)));
        }
    }

    fn choice(
        &mut self,
        place: Place<'_>,
        test: &Shape,
        then: &Shape,
        otherwise: Option<&Shape>,
    ) -> Type {
        self.shape(place, test);
        let then = self.shape(place, then);
        match otherwise {
            Some(otherwise) => {
                let otherwise = self.shape(place, otherwise);
                joined(then, otherwise)
            }
            None => then.nullable(),
        }
    }

    fn object(&mut self, place: Place<'_>, fields: &[(Shape, Shape)]) -> Type {
        let mut known = Vec::new();
        let mut all = true;
        for (key, value) in fields {
            let ty = self.shape(place, value);
            if let Form::Literal(Json::String(name)) = &key.form {
                known.push((name.clone(), ty));
            } else {
                all = false;
            }
        }
        if all {
            Type::fields(
                known
                    .iter()
                    .map(|(name, ty)| (name.as_str(), ty.clone(), true)),
            )
        } else {
            Type::object()
        }
    }

    fn below(&mut self, place: Place<'_>, shape: &Shape, ty: Type, steps: &[PathStep]) -> Type {
        let mut at = ty;
        for step in steps {
            match at.field(&part(step)) {
                Field::Found(next) => at = next,
                Field::Unknown => return self.common.any.clone(),
                Field::Missing(known) => {
                    let span = self.span(place, shape);
                    let message = format!("there is no `{}` in {}", part(step), a(&at));
                    let near = nearest(&part(step), known.iter().map(String::as_str))
                        .map(|near| format!("did you mean `{near}`?"));
                    self.lower
                        .problem(Problem::new(codes::NO_FIELD, span, message).maybe_hint(near));
                    return self.common.any.clone();
                }
            }
        }
        at
    }

    /// The type of a reference; a field that is not there is the mistake this checker exists for.
    fn path(&mut self, place: Place<'_>, reference: &Ref) -> Type {
        let Some(found) = self.lower.find(place.cx.frame, &reference.root) else {
            return self.common.any.clone();
        };
        let (ty, skip) = match found {
            Found::Steps => match self.meta(place, reference) {
                Some(ty) => (ty, 1),
                None => return self.common.any.clone(),
            },
            Found::Secrets => return self.common.string.clone(),
            Found::Step { step, .. } => {
                self.read_without_output(step, place, reference);
                (self.value_of(step), 0)
            }
            Found::Input(flow) => (self.lower.flows[flow].input.clone(), 0),
            Found::Run => (self.common.run.clone(), 0),
            Found::Bind(bind) => (self.bound(bind, place, reference), 0),
        };
        self.walk(place, reference, ty, skip)
    }

    /// The type below what a reference starts at.
    fn walk(&mut self, place: Place<'_>, reference: &Ref, start: Type, skip: usize) -> Type {
        let mut ty = start;
        for (index, step) in reference.path.iter().enumerate().skip(skip) {
            match ty.field(&part(step)) {
                Field::Found(next) => ty = next,
                Field::Unknown => return self.common.any.clone(),
                Field::Missing(known) => {
                    self.no_field(place, reference, index, &ty, &known);
                    return self.common.any.clone();
                }
            }
        }
        ty
    }

    /// `steps.NAME`.
    fn meta(&self, place: Place<'_>, reference: &Ref) -> Option<Type> {
        let name = reference.member()?;
        match self.lower.find(place.cx.frame, name)? {
            Found::Step { .. } => Some(self.common.meta.clone()),
            Found::Bind(_) | Found::Input(_) | Found::Run | Found::Steps | Found::Secrets => None,
        }
    }

    fn bound(&mut self, bind: Bind, place: Place<'_>, reference: &Ref) -> Type {
        match bind {
            Bind::Item(step) => self
                .items
                .get(&step)
                .cloned()
                .unwrap_or_else(|| self.common.any.clone()),
            Bind::Carry(step) | Bind::Output(step) => {
                if let Bind::Output(_) = bind {
                    self.read_without_output(step, place, reference);
                }
                let known = if matches!(bind, Bind::Output(_)) {
                    &self.outputs
                } else {
                    &self.carries
                };
                known
                    .get(&step)
                    .cloned()
                    .unwrap_or_else(|| self.common.any.clone())
            }
            Bind::Rounds(step) => {
                let carry = self
                    .carries
                    .get(&step)
                    .cloned()
                    .unwrap_or_else(|| self.common.any.clone());
                carry.list()
            }
            Bind::Loop(step) => self.rounds_of(step),
            Bind::Error => self.common.error.clone(),
            Bind::Last => self.common.last.clone(),
            Bind::Args => self.common.any.clone(),
        }
    }

    /// The type of `loop` in a `for_each` or a `repeat`.
    pub(super) fn rounds_of(&self, step: StepId) -> Type {
        let info = self.lower.info(step);
        if info.stream.is_none() && self.items.contains_key(&step) {
            self.common.items.clone()
        } else {
            self.common.rounds.clone()
        }
    }

    fn no_field(
        &mut self,
        place: Place<'_>,
        reference: &Ref,
        index: usize,
        ty: &Type,
        known: &[String],
    ) {
        let span = self.lower.at(place.text, reference.at.clone());
        let mut base = reference.clone();
        base.path.truncate(index);
        let reader = self.reader(place.cx);
        let wanted = part(&reference.path[index]);
        let mut upto = reference.clone();
        upto.path.truncate(index + 1);
        let is_step = index == 0
            && matches!(
                self.lower.find(place.cx.frame, &reference.root),
                Some(Found::Step { .. })
            );
        let what = if known.is_empty() && index == 0 && reference.root == "input" {
            "the flow has no such `input`".to_owned()
        } else if known.is_empty() {
            format!("`{base}` is {}, which has no fields", a(ty))
        } else if is_step {
            format!(
                "`{base}` returns {}",
                names(known.iter().map(String::as_str))
            )
        } else {
            format!("`{base}` has {}", names(known.iter().map(String::as_str)))
        };
        let near = nearest(&wanted, known.iter().map(String::as_str)).or(match known {
            [only] => Some(only.as_str()),
            _ => None,
        });
        let hint = value_of_step(reference, index)
            .or_else(|| near.and_then(|near| meant(reference, index, [near])))
            .or_else(|| self.hint_for_output(place.cx.frame, reference, index))
            .or_else(|| meant(reference, index, foreign_fields(&wanted, known)))
            .or_else(|| {
                (index == 0 && reference.root == "input")
                    .then(|| format!("declare it: `input: {{ {wanted}: string }}`"))
            });
        let message = format!("{reader} reads `{upto}`, but {what}");
        self.lower
            .problem(Problem::new(codes::NO_FIELD, span, message).maybe_hint(hint));
    }

    /// A step of a group, read through the group.
    fn hint_for_output(
        &self,
        frame: crate::lang::lower::FrameId,
        reference: &Ref,
        index: usize,
    ) -> Option<String> {
        let Some(Found::Step { step, .. }) = self.lower.find(frame, &reference.root) else {
            return None;
        };
        let body = self.lower.info(step).body?;
        let name = part(reference.path.get(index)?);
        let inside = self.lower.bodies[body.0 as usize]
            .index
            .contains_key(name.as_str());
        inside.then(|| {
            format!(
                "`{name}` is a step inside `{0}`: give it out by the `output` of `{0}`",
                reference.root
            )
        })
    }

    /// Who reads, for a message.
    pub(super) fn reader(&self, cx: Cx) -> String {
        match cx.owner {
            Owner::Flow(flow) => format!("flow `{}`", self.lower.flows[flow].name),
            Owner::Step(mut step) => {
                while let crate::lang::lower::Placed::Hidden { host } = self.lower.info(step).placed
                {
                    step = host;
                }
                format!("step `{}`", self.lower.info(step).name)
            }
        }
    }

    fn compare(
        &mut self,
        place: Place<'_>,
        shape: &Shape,
        op: CompareOp,
        left: &Shape,
        right: &Shape,
    ) {
        let loose = Place {
            strict: false,
            ..place
        };
        let (left_ty, right_ty) = (self.shape(loose, left), self.shape(loose, right));
        let fine = match op {
            CompareOp::Equal | CompareOp::NotEqual => {
                if self.compare_enum(place, shape, (left, &left_ty), (right, &right_ty)) {
                    return;
                }
                is_null(left) || is_null(right) || left_ty.overlaps(&right_ty)
            }
            CompareOp::Less
            | CompareOp::LessOrEqual
            | CompareOp::Greater
            | CompareOp::GreaterOrEqual => ordered(&left_ty, &right_ty),
            CompareOp::In | CompareOp::NotIn => contains(&left_ty, &right_ty),
        };
        if fine {
            return;
        }
        let span = self.span(place, shape);
        let (left, right) = (a(&left_ty), a(&right_ty));
        let message = match op {
            CompareOp::Equal | CompareOp::NotEqual => {
                format!("this compares {left} with {right}, which are never equal")
            }
            CompareOp::Less
            | CompareOp::LessOrEqual
            | CompareOp::Greater
            | CompareOp::GreaterOrEqual => {
                format!("{left} and {right} have no order")
            }
            CompareOp::In | CompareOp::NotIn => format!("{left} is never in {right}"),
        };
        let numeric =
            |ty: &Type| matches!(plain(ty).shape(), TypeShape::Integer | TypeShape::Number);
        let textual = |ty: &Type| matches!(plain(ty).shape(), TypeShape::Text);
        let hint = ((numeric(&left_ty) && textual(&right_ty)) || (textual(&left_ty) && numeric(&right_ty)))
            .then(|| "make the text a number with `| int` or `| float`, or leave the quotes of the number out".to_owned());
        self.lower
            .problem(Problem::new(codes::COMPARISON, span, message).maybe_hint(hint));
    }

    /// A text compared with a closed choice that does not have it. True when that was reported.
    fn compare_enum(
        &mut self,
        place: Place<'_>,
        shape: &Shape,
        left: (&Shape, &Type),
        right: (&Shape, &Type),
    ) -> bool {
        let (word, ty) = if let Form::Literal(Json::String(word)) = &right.0.form {
            (word, left.1)
        } else if let Form::Literal(Json::String(word)) = &left.0.form {
            (word, right.1)
        } else {
            return false;
        };
        let plain_type = plain(ty);
        let TypeShape::Enum(values) = plain_type.shape() else {
            return false;
        };
        if values.iter().any(|value| value == word) {
            return false;
        }
        let texts: Vec<&str> = values.iter().filter_map(Json::as_str).collect();
        let span = self.span(place, shape);
        let hint =
            nearest(word, texts.iter().copied()).map(|near| format!("did you mean \"{near}\"?"));
        let message = format!("this is never \"{word}\": the values are {}", names(texts));
        self.lower
            .problem(Problem::new(codes::COMPARISON, span, message).maybe_hint(hint));
        true
    }
}

/// `steps.build.outputs.version` of another tool: here the value of a step is read by its name.
fn value_of_step(reference: &Ref, index: usize) -> Option<String> {
    const VALUES: [&str; 6] = ["output", "outputs", "value", "result", "data", "outcome"];
    let word = part(reference.path.get(index)?);
    if reference.root != "steps" || index != 1 || !VALUES.contains(&word.as_str()) {
        return None;
    }
    let fixed = Ref {
        root: reference.member()?.to_owned(),
        path: reference.path[2..].to_vec(),
        ..reference.clone()
    };
    Some(format!(
        "the value of a step is read by its name: `{{{{ {fixed} }}}}`"
    ))
}

/// The reference with another field at an index.
fn meant<'f>(
    reference: &Ref,
    index: usize,
    fields: impl IntoIterator<Item = &'f str>,
) -> Option<String> {
    let fixed = fields.into_iter().map(|field| {
        let mut fixed = reference.clone();
        fixed.path[index] = PathStep::Key(field.to_owned());
        format!("`{{{{ {fixed} }}}}`")
    });
    let fixed: Vec<String> = fixed.collect();
    (!fixed.is_empty()).then(|| format!("did you mean {}?", fixed.join(" or ")))
}
