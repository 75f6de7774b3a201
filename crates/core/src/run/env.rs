//! What expressions of a run see: the names of the language, looked up in the state.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::state::{NOBODY, Phase, Role, Slot as Place, State};
use crate::effect::Failure;
use crate::event::{Datum, Node, Settled, Slot};
use crate::expr::{
    DrawKind, DrawSource, Draws, EvalError, Expr, Lookup, PathStep, Ref, Scope, SeededDraws,
    Template, ValueTemplate,
};
use crate::graph::{Kind, Text};
use crate::port::{SECRET_CLOSE, SECRET_OPEN};
use crate::value::Val;

/// Names that only some places bind.
#[derive(Clone, Default)]
pub(super) struct Overlay {
    pub(super) output: Option<Val>,
    pub(super) error: Option<Val>,
    pub(super) carry: Option<Val>,
    pub(super) args: Option<Val>,
}

/// A place in a run from which an expression looks.
pub(super) struct Env<'s> {
    state: &'s State,
    /// The step that looks (its own `last`), or the scope whose inside is looked at.
    node: Node,
    /// Names are looked up among the main children of this node, then outwards.
    from: Node,
    overlay: Overlay,
    bound: Option<(&'s str, Val)>,
}

/// Values of `now()`, `random()`, `uuid()`: a function of the log, namely of the time of the turn in which the step
/// began its attempt, and of its place. Made only when something is drawn.
struct PlaceDraws<'e, 's> {
    env: &'e Env<'s>,
    source: Option<SeededDraws>,
}

impl DrawSource for PlaceDraws<'_, '_> {
    fn draw(&mut self, kind: DrawKind) -> Value {
        let source = self.source.get_or_insert_with(|| {
            let (state, node) = (self.env.state, self.env.node);
            let extra = state.node(node).extra.as_deref();
            let flight = extra.and_then(|extra| extra.flight.as_ref());
            let begun = extra.map_or(0, |extra| extra.attempts) - u32::from(flight.is_some());
            let at = flight.map_or(state.now, |flight| flight.started);
            let seed = format!("{}\n{}\n{begun}", state.id, state.path(node));
            SeededDraws::new(i64::try_from(at).unwrap_or(i64::MAX), seed.as_bytes())
        });
        source.draw(kind)
    }
}

impl<'s> Env<'s> {
    /// What a step sees: its siblings and the scopes around it.
    pub(super) fn of(state: &'s State, node: Node) -> Self {
        let around = state.around(node);
        let from = if around == NOBODY { node } else { around };
        Self {
            state,
            node,
            from,
            overlay: Overlay::default(),
            bound: None,
        }
    }

    /// What a scope's own `output`, `until` or `catch` sees: its children too.
    pub(super) fn inside(state: &'s State, node: Node) -> Self {
        Self {
            state,
            node,
            from: node,
            overlay: Overlay::default(),
            bound: None,
        }
    }

    pub(super) fn with(mut self, overlay: Overlay) -> Self {
        self.overlay = overlay;
        self
    }

    fn draws<T>(&self, run: impl FnOnce(&mut Draws<'_>) -> T) -> T {
        let mut source = PlaceDraws {
            env: self,
            source: None,
        };
        run(&mut Draws::live(&mut source))
    }

    /// Binds one more name, in front of all others.
    pub(super) fn bind(mut self, name: &'s str, value: Val) -> Self {
        self.bound = Some((name, value));
        self
    }

    /// The node of a step that is visible from here.
    pub(super) fn step_named(&self, name: &str) -> Option<Node> {
        let mut at = self.from;
        loop {
            if let Some(step) = self.child_named(at, name) {
                return Some(step);
            }
            at = self.outwards(at)?;
        }
    }

    pub(super) fn eval(&self, expr: &Expr) -> Result<Value, EvalError> {
        self.draws(|draws| expr.eval(self, draws))
    }

    pub(super) fn eval_bool(&self, expr: &Expr) -> Result<bool, EvalError> {
        self.draws(|draws| expr.eval_bool(self, draws))
    }

    pub(super) fn value(&self, template: &ValueTemplate) -> Result<Val, EvalError> {
        self.draws(|draws| template.eval_val(self, draws))
    }

    pub(super) fn render(&self, template: &Template) -> Result<String, EvalError> {
        self.draws(|draws| template.render(self, draws))
    }

    /// Renders a text: inline ones see this place, `{file, with}` ones only their bindings.
    pub(super) fn text(&self, text: &Text) -> Result<String, EvalError> {
        let Some(with) = &text.with else {
            return self.render(&text.template);
        };
        let mut fields = Map::new();
        for (name, template) in with {
            fields.insert(name.to_string(), self.value(template)?.into_json());
        }
        let scope = crate::expr::ObjectScope::new(fields);
        self.draws(|draws| text.template.render(&scope, draws))
    }

    /// A value by reference where it is a part of the run that is worth referring to, else the value itself.
    pub(super) fn datum(&self, template: &ValueTemplate) -> Result<Datum, EvalError> {
        match template
            .as_reference()
            .and_then(|reference| self.reference(reference))
        {
            Some(datum) => Ok(datum),
            None => self.value(template).map(Datum::Value),
        }
    }

    pub(super) fn expr_datum(&self, expr: &Expr) -> Result<Datum, EvalError> {
        match expr
            .as_reference()
            .and_then(|reference| self.reference(reference))
        {
            Some(datum) => Ok(datum),
            None => self
                .draws(|draws| expr.eval_val(self, draws))
                .map(Datum::Value),
        }
    }

    fn reference(&self, reference: &Ref) -> Option<Datum> {
        let (node, slot) = self.origin(&reference.root)?;
        let key = |step: &PathStep| match step {
            PathStep::Key(key) => Some(Arc::from(key.as_str())),
            PathStep::Index(index) => usize::try_from(*index)
                .ok()
                .map(|index| index.to_string().into()),
        };
        let at: Vec<Arc<str>> = reference.path.iter().map(key).collect::<Option<_>>()?;
        let whole = self.state.slot_value(node, slot)?;
        is_large(whole.get_path(&at)?).then_some(Datum::Ref { node, slot, at })
    }

    /// Whose value a name is.
    fn origin(&self, name: &str) -> Option<(Node, Slot)> {
        match name {
            "input" => return Some((self.state.flow_of(self.from), Slot::Input)),
            "carry" | "output" | "error" | "last" | "loop" | "rounds" | "run" | "steps"
            | "secrets" | "args" => {
                return None;
            }
            _ => {}
        }
        let mut at = self.from;
        loop {
            if let Some(step) = self.child_named(at, name) {
                return Some((step, Slot::Value));
            }
            if self.binds_item(at, name) {
                return Some((at, Slot::Item));
            }
            at = self.outwards(at)?;
        }
    }

    /// The scope around a scope, up to the flow.
    fn outwards(&self, at: Node) -> Option<Node> {
        if self.state.is_flow(at) {
            return None;
        }
        Some(self.state.around(at))
    }

    fn child_named(&self, scope: Node, name: &str) -> Option<Node> {
        let body = self.state.body_of(scope)?;
        let position = self.state.graph.body(body).index.get(name)?;
        Some(self.state.kid(scope, *position))
    }

    fn binds_item(&self, node: Node, name: &str) -> bool {
        let activation = self.state.node(node);
        match activation.role {
            Role::Item(_) => match &self.state.graph.step(activation.step).kind {
                Kind::ForEach(spec) => *spec.bind == *name,
                _ => false,
            },
            Role::Root(_) | Role::Step | Role::Round(_) | Role::Handler(_) | Role::Finally => false,
        }
    }

    fn nearest(&self, wanted: impl Fn(Role) -> bool) -> Option<Node> {
        let mut at = self.from;
        loop {
            if wanted(self.state.node(at).role) {
                return Some(at);
            }
            at = self.outwards(at)?;
        }
    }

    fn loop_value(&self) -> Option<Val> {
        let at = self.nearest(|role| matches!(role, Role::Item(_) | Role::Round(_)))?;
        let activation = self.state.node(at);
        let (Role::Item(index) | Role::Round(index)) = activation.role else {
            return None;
        };
        let parent = self.state.node(activation.parent).extra.as_deref();
        let key = self.state.item_key(at);
        // How many items a stream gives is not known while it lasts, nor how many rounds there will be.
        let length = match (activation.role, self.state.source(activation.parent)) {
            (Role::Item(_), None) => parent.map(|extra| extra.items.len()),
            _ => None,
        };
        Some(json!({ "index": index, "key": key, "length": length }).into())
    }

    fn rounds(&self) -> Option<Val> {
        let at = match self.nearest(|role| matches!(role, Role::Round(_))) {
            Some(round) => self.state.node(round).parent,
            None => self.node,
        };
        let extra = self.state.node(at).extra.as_deref()?;
        let values = extra
            .rounds
            .iter()
            .filter_map(|round| self.state.node(*round).value.as_ref());
        Some(Value::Array(values.map(|value| value.json().clone()).collect()).into())
    }

    fn last(&self) -> Val {
        // A hidden step (a gate) and a step inside a repaired scope see the `last` of the nearest that has one.
        let mut at = self.node;
        loop {
            if let Some(last) = self
                .state
                .node(at)
                .extra
                .as_ref()
                .and_then(|extra| extra.last.as_ref())
            {
                let error = last.error.as_ref().map(failure_value);
                return json!({ "output": last.output, "error": error, "verdict": last.verdict })
                    .into();
            }
            match self.outwards(at) {
                Some(next) if next != NOBODY => at = next,
                _ => return json!({ "output": null, "error": null, "verdict": null }).into(),
            }
        }
    }

    fn run_value(&self) -> Val {
        let flow = self.state.flow_of(self.from);
        let name = match self.state.node(flow).role {
            Role::Root(id) => self.state.graph.flow(id).name.clone(),
            _ => self.state.graph.main().name.clone(),
        };
        json!({ "id": self.state.id, "flow": name, "state": self.state.outlook(self.whole(flow)), "created": self.state.created })
            .into()
    }

    /// Whose end is a flow's end: its own, or that of the scope around a called flow's steps.
    fn whole(&self, flow: Node) -> Node {
        let step = self.state.graph.step(self.state.node(flow).step);
        match (self.state.node(flow).role, &step.kind) {
            (Role::Step, Kind::Flow(call)) if self.state.graph.flow(call.flow).scope.is_some() => {
                self.state.kid(flow, 0)
            }
            _ => flow,
        }
    }

    /// In a gate: the value that it looks at.
    fn judged(&self) -> Option<Val> {
        let activation = self.state.node(self.node);
        let owner = matches!(activation.slot, Place::Gate(_)).then_some(activation.parent)?;
        self.state.slot_value(owner, Slot::Candidate)
    }

    /// In a handler or `finally`: the failure that led there.
    fn handled(&self) -> Option<Val> {
        let handler = self.nearest(|role| matches!(role, Role::Handler(_) | Role::Finally))?;
        let owner = self
            .state
            .node(self.state.node(handler).parent)
            .extra
            .as_deref()?;
        let caught = owner.caught.as_ref().map(|(_, failure)| failure);
        caught
            .or(owner.failing.as_ref())
            .map(|failure| failure_value(failure).into())
    }

    /// In a check: the arguments of the effect that it is about.
    fn checked(&self) -> Option<Val> {
        let activation = self.state.node(self.node);
        let owner = matches!(activation.slot, Place::Check(_)).then_some(activation.parent)?;
        let step = self.state.graph.step(self.state.node(owner).step);
        let with = match &step.kind {
            Kind::Tool(tool) => Some(&tool.with),
            Kind::Run(run) => run.with.as_ref(),
            _ => None,
        };
        Env::of(self.state, owner).value(with?).ok()
    }

    fn step_meta(&self, name: &str) -> Lookup {
        let mut at = self.from;
        loop {
            if let Some(step) = self.child_named(at, name) {
                return Lookup::Value(self.state.meta(step));
            }
            match self.outwards(at) {
                Some(next) => at = next,
                None => return Lookup::Unknown,
            }
        }
    }

    fn step_value(&self, node: Node, name: &str) -> Lookup {
        match &self.state.node(node).value {
            Some(value) => Lookup::Value(value.clone()),
            None => Lookup::Absent { step: name.into() },
        }
    }
}

/// A value that is cheaper to refer to than to write again.
fn is_large(value: &Value) -> bool {
    const INLINE_BYTES: usize = 64;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.len() > INLINE_BYTES,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

impl Scope for Env<'_> {
    fn lookup(&self, name: &str) -> Lookup {
        if let Some((bound, value)) = &self.bound
            && *bound == name
        {
            return Lookup::Value(value.clone());
        }
        let known = |value: Option<Val>| Lookup::Value(value.unwrap_or_else(Val::null));
        match name {
            "steps" | "secrets" => return Lookup::Members,
            "output" => {
                // In a compensation of a step that gave no value there is none, as of a step that did not run.
                let output = self.overlay.output.clone().or_else(|| self.judged());
                return output.map_or_else(
                    || Lookup::Absent {
                        step: "output".into(),
                    },
                    Lookup::Value,
                );
            }
            "error" => return known(self.overlay.error.clone().or_else(|| self.handled())),
            "args" => return known(self.overlay.args.clone().or_else(|| self.checked())),
            "carry" => {
                let round = || self.nearest(|role| matches!(role, Role::Round(_)));
                let carry = || round().and_then(|round| self.state.slot_value(round, Slot::Item));
                // In a first round that was given none there is none, as of a step that did not run.
                return match self.overlay.carry.clone().or_else(carry) {
                    Some(carry) => Lookup::Value(carry),
                    None => Lookup::Absent {
                        step: "carry".into(),
                    },
                };
            }
            "rounds" => return known(self.rounds()),
            "loop" => return known(self.loop_value()),
            "last" => return Lookup::Value(self.last()),
            "run" => return Lookup::Value(self.run_value()),
            _ => {}
        }
        match self.origin(name) {
            Some((node, Slot::Value)) => self.step_value(node, name),
            Some((node, slot)) => self
                .state
                .slot_value(node, slot)
                .map_or(Lookup::Unknown, Lookup::Value),
            None => Lookup::Unknown,
        }
    }

    fn member(&self, namespace: &str, key: &str) -> Lookup {
        match namespace {
            "steps" => self.step_meta(key),
            "secrets" => {
                Lookup::Value(Value::String(format!("{SECRET_OPEN}{key}{SECRET_CLOSE}")).into())
            }
            _ => Lookup::Unknown,
        }
    }
}

/// The `error` that flows see.
pub(super) fn failure_value(failure: &Failure) -> Value {
    json!({
        "class": failure.class,
        "code": failure.code,
        "message": failure.message,
        "step": failure.step,
        "data": failure.data,
    })
}

impl State {
    /// `steps.NAME`.
    fn meta(&self, node: Node) -> Val {
        let activation = self.node(node);
        let extra = activation.extra.as_deref();
        let seconds = match activation.phase {
            Phase::Pending => 0,
            Phase::Open => self.now.saturating_sub(activation.began),
            Phase::Settled(_) => activation.ended.saturating_sub(activation.began),
        } as f64
            / 1_000.0;
        let usage = self.last_usage(node);
        let mut meta = json!({
            "state": self.word(node),
            "error": extra.and_then(|extra| extra.error.as_ref()).map(failure_value),
            "attempts": extra.map_or(0, |extra| extra.attempts),
            "cost": usage.cost_microusd as f64 / 1e6,
            "seconds": seconds,
        });
        let is_loop = matches!(self.graph.step(activation.step).kind, Kind::ForEach(_));
        if is_loop && activation.role == Role::Step {
            meta["items"] = self
                .main_children(node)
                .map(|item| self.item_meta(item))
                .collect();
        }
        meta.into()
    }

    fn item_meta(&self, item: Node) -> Value {
        let extra = self.node(item).extra.as_deref();
        let error = extra
            .and_then(|extra| extra.error.as_ref())
            .map(failure_value);
        json!({ "state": self.word(item), "error": error })
    }

    /// The state of an activation in one word.
    pub(super) fn word(&self, node: Node) -> &'static str {
        let activation = self.node(node);
        match activation.phase {
            Phase::Pending => "pending",
            Phase::Settled(state) => state.name(),
            Phase::Open => {
                let waits = activation.extra.as_deref().is_some_and(|extra| {
                    extra.flight.is_none()
                        && (extra.question.is_some()
                            || extra.wait_until.is_some()
                            || extra.wait_signal.is_some()
                            || extra.retry_at.is_some())
                });
                if waits {
                    "waiting"
                } else if self.queued.contains(&node) {
                    "ready"
                } else {
                    "running"
                }
            }
        }
    }

    /// How a flow will end as things stand: what `finally` wants to know.
    pub(super) fn outlook(&self, flow: Node) -> &'static str {
        let extra = self.node(flow).extra.as_deref();
        match extra {
            Some(extra)
                if extra
                    .stopping
                    .is_some_and(|why| why != crate::event::Stop::Returned) =>
            {
                Settled::Cancelled.name()
            }
            Some(extra) if extra.failing.is_some() => Settled::Failed.name(),
            _ => match self.node(flow).phase {
                Phase::Settled(state) => state.name(),
                Phase::Pending | Phase::Open if self.node(flow).live == 0 => {
                    Settled::Succeeded.name()
                }
                Phase::Pending | Phase::Open => "running",
            },
        }
    }
}

/// The value of a text that must be one line for a message.
pub(super) fn shared(text: String) -> Arc<str> {
    Arc::from(text)
}
