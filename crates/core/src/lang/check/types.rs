//! Types of steps, bodies and flows, in the order in which values come to be.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::common::Common;
use super::edges::Orders;
use super::rules::{a, first_of_many};
use super::shapes::Place;
use crate::expr::Ref;
use crate::graph::{BodyId, Catch, Gate, Kind, OnUncertain, StepId, Wait};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::{Lower, Owner, SiteId};
use crate::types::{Field, Fit, Shape, Type};

/// How deep calls of flows without `returns` are followed for a type.
const CALLS_DEPTH_MAX: usize = 32;

/// What a step's value is made of; copied out of the graph so that the typer can go on changing things.
enum Plan {
    Text,
    Tool(Option<Type>),
    Process(Vec<String>),
    Known(Type),
    Main,
    Nothing,
    Group(BodyId),
    ForEach(BodyId),
    Repeat(BodyId),
    Switch(Vec<StepId>),
    Race(BodyId),
    Flow(usize),
    Unknown,
}

/// The work of typing one bundle.
pub(super) struct Typer<'l, 'b> {
    pub(super) lower: &'l mut Lower<'b>,
    orders: &'l Orders,
    pub(super) common: Common,
    steps: Vec<Option<Type>>,
    /// Item types of `for_each`, carries of `repeat`, values under test.
    pub(super) items: BTreeMap<StepId, Type>,
    pub(super) carries: BTreeMap<StepId, Type>,
    pub(super) outputs: BTreeMap<StepId, Type>,
    /// Variables of the template that is being typed, by slot.
    pub(super) locals: BTreeMap<usize, Type>,
    flows: Vec<Option<Type>>,
    active: Vec<usize>,
    typed: Vec<bool>,
}

/// Types every expression and reports what cannot fit.
pub(super) fn check(lower: &mut Lower<'_>, orders: &Orders) {
    let (steps, flows) = (lower.steps.len(), lower.flows.len());
    let mut typer = Typer {
        lower,
        orders,
        common: Common::new(),
        steps: vec![None; steps],
        items: BTreeMap::new(),
        carries: BTreeMap::new(),
        outputs: BTreeMap::new(),
        locals: BTreeMap::new(),
        flows: vec![None; flows],
        active: Vec::new(),
        typed: vec![false; steps],
    };
    for flow in 0..flows {
        typer.flow(flow);
    }
    super::names::check(&mut typer);
}

impl Typer<'_, '_> {
    /// The type of a flow's output.
    fn flow(&mut self, flow: usize) -> Type {
        if let Some(known) = &self.flows[flow] {
            return known.clone();
        }
        let declared = self.lower.flows[flow].returns.clone();
        if self.active.contains(&flow) || self.active.len() >= CALLS_DEPTH_MAX {
            return declared.unwrap_or_else(|| self.common.any.clone());
        }
        self.active.push(flow);
        let body = self.lower.flows[flow].body;
        let value = match body {
            Some(body) => self.body(body),
            None => self.common.any.clone(),
        };
        self.flow_output(flow, body, declared.as_ref(), &value);
        for site in self
            .lower
            .flow_sites
            .get(&flow)
            .cloned()
            .unwrap_or_default()
        {
            if !self.is_output(body, site) {
                self.site(site);
            }
        }
        let handlers = std::mem::take(&mut self.lower.flows[flow].catch);
        self.handlers(&handlers);
        self.lower.flows[flow].catch = handlers;
        if let Some(body) = self.lower.flows[flow].finally {
            self.body(body);
        }
        self.active.pop();
        // With a `return` inside, another value may be the output.
        let inferred = if self.lower.flows[flow].has_return {
            self.common.any.clone()
        } else {
            value
        };
        let ty = declared.unwrap_or(inferred);
        self.flows[flow] = Some(ty.clone());
        ty
    }

    fn is_output(&self, body: Option<BodyId>, site: SiteId) -> bool {
        body.is_some_and(|body| self.lower.body_info[body.0 as usize].output == Some(site))
    }

    fn flow_output(
        &mut self,
        flow: usize,
        body: Option<BodyId>,
        declared: Option<&Type>,
        value: &Type,
    ) {
        let (Some(body), Some(declared)) = (body, declared) else {
            return;
        };
        let map = self.lower.flows[flow].map;
        match self.lower.body_info[body.0 as usize].output {
            Some(site) => self.fit_site(site, declared, codes::OUTPUT_MISFIT, "the flow returns"),
            None if self.lower.bodies[body.0 as usize].steps.len() > 1 => {
                if self.lower.flows[flow].has_return {
                    return;
                }
                let span = map
                    .get("returns")
                    .map_or(self.lower.flows[flow].node.span, |entry| entry.key);
                let name = self.lower.flows[flow].name.clone();
                let problem = Problem::new(
                    codes::NO_OUTPUT,
                    span,
                    format!("flow `{name}` has `returns` and no `output`"),
                );
                self.lower
                    .problem(problem.hint("say what it returns: `output: { … }`"));
            }
            None if value.fits(declared) == Fit::No => {
                let step = self.lower.bodies[body.0 as usize].steps[0];
                let span = self.lower.info(step).name_span;
                let message = format!(
                    "the flow returns {}, and its only step gives {}",
                    a(declared),
                    a(value)
                );
                self.lower.problem(
                    Problem::new(codes::OUTPUT_MISFIT, span, message)
                        .hint("add an `output` that fits"),
                );
            }
            None => {}
        }
    }

    /// The value of a body.
    fn body(&mut self, body: BodyId) -> Type {
        for position in self.orders.of(body).to_vec() {
            let step = self.lower.bodies[body.0 as usize].steps[position as usize];
            self.step(step);
        }
        let output = self.lower.body_info[body.0 as usize].output;
        match (output, self.lower.bodies[body.0 as usize].steps.as_slice()) {
            (Some(site), _) => self.site(site),
            (None, [only]) => self.value_of(*only),
            (None, _) => self.common.any.clone(),
        }
    }

    /// The type of a step that was typed before, or anything.
    pub(super) fn value_of(&self, step: StepId) -> Type {
        self.steps[step.0 as usize]
            .clone()
            .unwrap_or_else(|| self.common.any.clone())
    }

    fn plan(&self, step: StepId) -> Plan {
        let Some(def) = self.lower.def(step) else {
            return self
                .lower
                .info(step)
                .body
                .map_or(Plan::Unknown, Plan::Group);
        };
        match &def.kind {
            Kind::Model(_) => Plan::Text,
            Kind::Tool(tool) => Plan::Tool(
                self.lower
                    .tool_info(&tool.name)
                    .map(|tool| tool.output.clone()),
            ),
            Kind::Run(program) => {
                Plan::Process(program.files.keys().map(ToString::to_string).collect())
            }
            Kind::Human(human) => Plan::Known(human.form.clone()),
            Kind::Wait(Wait::Signal { name, .. }) => {
                let flow = self.lower.info(step).flow;
                self.lower.flows[flow]
                    .signals
                    .get(name)
                    .cloned()
                    .map_or(Plan::Unknown, Plan::Known)
            }
            Kind::Wait(Wait::For(_) | Wait::Until(_)) => Plan::Unknown,
            Kind::Set(_) => Plan::Main,
            Kind::Return(_) | Kind::Fail(_) => Plan::Nothing,
            Kind::Steps(body) => Plan::Group(*body),
            Kind::ForEach(spec) => Plan::ForEach(spec.body),
            Kind::Repeat(spec) => Plan::Repeat(spec.body),
            Kind::Switch(spec) => Plan::Switch(
                spec.cases
                    .iter()
                    .map(|(_, step)| *step)
                    .chain(spec.otherwise)
                    .collect(),
            ),
            Kind::Race(body) => Plan::Race(*body),
            Kind::Flow(call) => Plan::Flow(call.flow.0 as usize),
        }
    }

    fn step(&mut self, step: StepId) {
        if std::mem::replace(&mut self.typed[step.0 as usize], true) {
            return;
        }
        let sites = self.lower.info(step).sites.clone();
        let body = self.lower.info(step).body;
        let main = self.lower.info(step).main;
        let mut main_type = None;
        for site in &sites {
            if !self.lower.sites[*site as usize].cx.late {
                let inside = self.after_items(*site, main);
                if !inside {
                    let ty = self.site(*site);
                    if Some(*site) == main {
                        main_type = Some(ty.clone());
                        self.items_of(step, &ty);
                    }
                }
            }
        }
        for site in &sites {
            if !self.lower.sites[*site as usize].cx.late && self.after_items(*site, main) {
                self.site(*site);
            }
        }
        let value = self.value(step, main_type);
        let declared = self.lower.info(step).declared.clone();
        let value = self.contract(step, value, declared);
        let value = self.alternatives(step, value);
        self.steps[step.0 as usize] = Some(value.clone());
        self.outputs.entry(step).or_insert(value);
        self.around(step);
        for site in sites {
            if self.lower.sites[site as usize].cx.late && !self.is_output(body, site) {
                self.site(site);
            }
        }
    }

    /// `item_key` sees the item, so it comes after the items.
    fn after_items(&self, site: SiteId, main: Option<SiteId>) -> bool {
        main.is_some_and(|main| site > main)
            && matches!(
                self.lower.sites[site as usize].want,
                crate::lang::lower::Want::Any
            )
    }

    /// What `for_each` and `repeat` bind.
    fn items_of(&mut self, step: StepId, ty: &Type) {
        match self.lower.info(step).kind.map(|kind| kind.name) {
            Some("for_each") => {
                let item = match ty.item() {
                    Field::Found(item) => item,
                    Field::Unknown | Field::Missing(_) => self.common.any.clone(),
                };
                self.items.insert(step, item);
            }
            Some("repeat") => {
                self.carries.insert(step, first_of_many(ty));
            }
            Some(_) | None => {}
        }
    }

    fn value(&mut self, step: StepId, main: Option<Type>) -> Type {
        match self.plan(step) {
            Plan::Text => self.common.text.clone(),
            Plan::Tool(output) => output.unwrap_or_else(|| self.common.any.clone()),
            Plan::Process(files) => self.common.process(&files, None),
            Plan::Known(ty) => ty,
            Plan::Main => main.unwrap_or_else(|| self.common.any.clone()),
            Plan::Nothing | Plan::Unknown => self.common.any.clone(),
            Plan::Group(body) => self.body(body),
            Plan::ForEach(body) => {
                self.stream_items(step);
                self.body(body).list()
            }
            Plan::Repeat(body) => self.rounds(step, body),
            Plan::Switch(cases) => {
                let mut types = Vec::new();
                for case in cases {
                    self.step(case);
                    types.push(self.value_of(case));
                }
                super::wants::cases(self, step, main.as_ref());
                if types.is_empty() {
                    self.common.any.clone()
                } else {
                    Type::one_of(&types)
                }
            }
            Plan::Race(body) => self.race(body),
            Plan::Flow(flow) => self.flow(flow),
        }
    }

    fn rounds(&mut self, step: StepId, body: BodyId) -> Type {
        let output = self.body(body);
        self.outputs.insert(step, output.clone());
        if let (Some(carry), Some(site)) = (
            self.carries.get(&step).cloned(),
            self.lower.body_info[body.0 as usize].output,
        ) {
            self.fit_site(
                site,
                &carry,
                codes::MISFIT,
                "`carry` types the output, it is",
            );
        }
        match self.carries.get(&step) {
            Some(carry) => Type::one_of(&[output, carry.clone()]),
            None => output,
        }
    }

    fn race(&mut self, body: BodyId) -> Type {
        self.body(body);
        let steps = self.lower.bodies[body.0 as usize].steps.clone();
        let winners: Vec<Json> = steps
            .iter()
            .map(|step| Json::from(self.lower.info(*step).name.as_str()))
            .collect();
        let values: Vec<Type> = steps.iter().map(|step| self.value_of(*step)).collect();
        let winner = Type::choice(winners);
        Type::fields([
            ("winner", winner, true),
            ("value", Type::one_of(&values), true),
        ])
    }

    fn stream_items(&mut self, step: StepId) {
        let Some(stream) = self.lower.info(step).stream else {
            return;
        };
        let crate::lang::lower::Placed::Body { body, .. } = self.lower.info(step).placed else {
            return;
        };
        let producer = self.lower.bodies[body.0 as usize].steps[stream.on as usize];
        let field = match self.lower.def(step).map(|def| &def.kind) {
            Some(Kind::ForEach(spec)) => match &spec.items {
                crate::graph::Items::Stream { field, .. } => field.clone(),
                crate::graph::Items::List(_) => return,
            },
            Some(_) | None => return,
        };
        let name = self.lower.info(producer).name.clone();
        let item = match self.value_of(producer).field(&field) {
            // The items of a text are its lines.
            Field::Found(text) if matches!(text.shape(), Shape::Text) => text,
            Field::Found(list) => match list.item() {
                Field::Found(item) => item,
                Field::Unknown => self.common.any.clone(),
                Field::Missing(_) => {
                    let message =
                        format!("`{name}.{field}` is {}, neither a list nor text", a(&list));
                    self.lower
                        .problem(Problem::new(codes::NOT_A_LIST, stream.span, message));
                    self.common.any.clone()
                }
            },
            Field::Unknown => self.common.any.clone(),
            Field::Missing(known) => {
                let known = crate::lang::names(known.iter().map(String::as_str));
                let message = format!("`{name}` returns {known}, no `{field}`");
                self.lower
                    .problem(Problem::new(codes::NO_FIELD, stream.span, message));
                self.common.any.clone()
            }
        };
        self.items.insert(step, item);
    }

    /// The value under its contract.
    fn contract(&mut self, step: StepId, value: Type, declared: Option<Type>) -> Type {
        let Some(declared) = declared else {
            return value;
        };
        match self.lower.info(step).kind.map(|kind| kind.name) {
            Some("run") => {
                let files = match self.lower.def(step).map(|def| &def.kind) {
                    Some(Kind::Run(program)) => {
                        program.files.keys().map(ToString::to_string).collect()
                    }
                    Some(_) | None => Vec::new(),
                };
                self.common.process(&files, Some(declared))
            }
            // What comes from outside may have more fields than the flow asks for.
            Some("model" | "tool" | "human") | None => declared,
            Some(_) => {
                if value.fits(&declared) == Fit::No {
                    let span = self.lower.info(step).span("returns");
                    let span = span.unwrap_or_else(|| self.lower.info(step).name_span);
                    let name = self.lower.info(step).name.clone();
                    let message = format!(
                        "step `{name}` gives {}, which cannot be {}",
                        a(&value),
                        a(&declared)
                    );
                    self.lower
                        .problem(Problem::new(codes::MISFIT, span, message));
                }
                declared
            }
        }
    }

    /// What fallbacks and handlers may give instead. A contract holds for them, too.
    fn alternatives(&mut self, step: StepId, value: Type) -> Type {
        let Some(def) = self.lower.def(step) else {
            return value;
        };
        let (fallbacks, typed) = (def.fallback.clone(), def.returns.is_some());
        let has_catch = !def.catch.is_empty();
        let mut types = vec![value];
        for fallback in fallbacks {
            self.step(fallback);
            types.push(self.value_of(fallback));
        }
        if typed {
            return types.swap_remove(0);
        }
        if has_catch {
            // The handler's value is typed after the step, whose steps it sees.
            types.push(self.common.any.clone());
        }
        Type::one_of(&types)
    }

    /// Hidden steps around a step: checks, gates, compensation, handlers.
    fn around(&mut self, step: StepId) {
        let Some(def) = self.lower.def(step) else {
            for hidden in self.lower.info(step).hidden.clone() {
                self.step(hidden);
            }
            return;
        };
        let mut hidden: Vec<StepId> = Vec::new();
        if let OnUncertain::Check(check) = def.leaf.on_uncertain {
            hidden.push(check);
        }
        for gate in &def.gates {
            match gate {
                Gate::Run(step) | Gate::Judge(step) => hidden.push(*step),
                Gate::Expr(_) | Gate::Schema(_) => {}
            }
        }
        hidden.extend(def.compensate);
        let finally = def.finally;
        for hidden in hidden {
            self.step(hidden);
        }
        if let Some(def) = &mut self.lower.steps[step.0 as usize] {
            let handlers = std::mem::take(&mut def.catch);
            self.handlers(&handlers);
            if let Some(def) = &mut self.lower.steps[step.0 as usize] {
                def.catch = handlers;
            }
        }
        if let Some(finally) = finally {
            self.body(finally);
        }
    }

    fn handlers(&mut self, handlers: &[Catch]) {
        for handler in handlers {
            if let Some(body) = handler.body {
                self.body(body);
            }
        }
    }

    /// A scope whose value is read and that has none to give.
    pub(super) fn read_without_output(&mut self, step: StepId, place: Place<'_>, reference: &Ref) {
        let Some(body) = self.without_output(step) else {
            return;
        };
        let steps = &self.lower.bodies[body.0 as usize].steps;
        if steps.len() < 2 {
            return;
        }
        let last = steps
            .last()
            .map(|last| self.lower.info(*last).name.clone())
            .unwrap_or_default();
        let name = self.lower.info(step).name.clone();
        let count = steps.len();
        let at = self.lower.info(step).name_span;
        let span = self.lower.at(place.text, reference.at.clone());
        let message =
            format!("`{name}` has {count} steps and no `output`, so it has no value to read");
        let problem = Problem::new(codes::NO_OUTPUT, span, message).related(at, "this scope");
        self.lower.problem(problem.hint(format!(
            "say what its value is: `output: \"{{{{ {last} }}}}\"`"
        )));
    }

    fn without_output(&self, step: StepId) -> Option<BodyId> {
        let body = match self.plan(step) {
            Plan::Group(body) | Plan::ForEach(body) | Plan::Repeat(body) => body,
            Plan::Flow(flow)
                if !self.lower.flows[flow].has_return
                    && self.lower.flows[flow].returns.is_none() =>
            {
                self.lower.flows[flow].body?
            }
            Plan::Flow(_)
            | Plan::Text
            | Plan::Tool(_)
            | Plan::Process(_)
            | Plan::Known(_)
            | Plan::Main
            | Plan::Nothing
            | Plan::Switch(_)
            | Plan::Race(_)
            | Plan::Unknown => return None,
        };
        self.lower.bodies[body.0 as usize]
            .output
            .is_none()
            .then_some(body)
    }

    /// Where an expression of a site stands.
    pub(super) fn place<'n>(
        &self,
        cx: crate::lang::lower::Cx,
        text: &'n crate::lang::tree::Node,
        strict: bool,
    ) -> Place<'n> {
        Place { cx, text, strict }
    }

    /// The step that owns a site, if one does.
    pub(super) fn owner_name(&self, owner: Owner) -> String {
        match owner {
            Owner::Step(step) => self.lower.info(step).name.clone(),
            Owner::Flow(flow) => self.lower.flows[flow].name.to_string(),
        }
    }
}
