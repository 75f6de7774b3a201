//! What names an expression sees: frames, from the innermost outwards.

use indexmap::IndexMap;

use super::{Cx, Edge, Lower, OutputOf, Owner, Placed, ReadOf, Unknown};
use crate::expr::Ref;
use crate::graph::{BodyId, DepKind, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, nearest};
use crate::lang::source::Span;

/// Words that no step, item or flow may be called.
pub(crate) const RESERVED: &[&str] = &[
    "input", "run", "steps", "secrets", "loop", "carry", "rounds", "last", "output", "error",
    "args",
];

/// Index of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FrameId(pub(crate) u32);

/// One layer of names.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) parent: Option<FrameId>,
    pub(crate) kind: FrameKind,
}

/// What a frame adds.
#[derive(Debug)]
pub(crate) enum FrameKind {
    /// `input`, `run`, `steps`, `secrets` of a flow.
    Flow(usize),
    /// The steps of a body.
    Body {
        body: BodyId,
        names: IndexMap<String, (u32, StepId, Span)>,
    },
    /// Names bound by a step.
    Binds(Vec<(String, Bind)>),
}

/// What a bound name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bind {
    /// The item of a `for_each`.
    Item(StepId),
    /// `loop` of a `for_each` or `repeat`.
    Loop(StepId),
    /// The carry of a `repeat`.
    Carry(StepId),
    /// The outputs of earlier rounds.
    Rounds(StepId),
    /// The step's own value: in gates, `until` and `compensate`.
    Output(StepId),
    /// The error that a handler takes.
    Error,
    /// The failed try before this one.
    Last,
    /// The request that may or may not have happened.
    Args,
}

/// What a name was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Step {
        body: BodyId,
        position: u32,
        step: StepId,
    },
    Bind(Bind),
    Input(usize),
    Run,
    Steps,
    Secrets,
}

impl Lower<'_> {
    pub(crate) fn push_frame(&mut self, parent: Option<FrameId>, kind: FrameKind) -> FrameId {
        self.frames.push(Frame { parent, kind });
        FrameId(self.frames.len() as u32 - 1)
    }

    pub(crate) fn bind(&mut self, parent: FrameId, binds: Vec<(String, Bind)>) -> FrameId {
        self.push_frame(Some(parent), FrameKind::Binds(binds))
    }

    pub(crate) fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    /// Looks a name up, from a frame outwards.
    pub(crate) fn find(&self, frame: FrameId, name: &str) -> Option<Found> {
        let mut at = Some(frame);
        while let Some(id) = at {
            let frame = self.frame(id);
            match &frame.kind {
                FrameKind::Body { body, names } => {
                    if let Some((position, step, _)) = names.get(name) {
                        return Some(Found::Step {
                            body: *body,
                            position: *position,
                            step: *step,
                        });
                    }
                }
                FrameKind::Binds(binds) => {
                    if let Some((_, bind)) = binds.iter().find(|(bound, _)| bound == name) {
                        return Some(Found::Bind(*bind));
                    }
                }
                FrameKind::Flow(flow) => {
                    return match name {
                        "input" => Some(Found::Input(*flow)),
                        "run" => Some(Found::Run),
                        "steps" => Some(Found::Steps),
                        "secrets" => Some(Found::Secrets),
                        _ => None,
                    };
                }
            }
            at = frame.parent;
        }
        None
    }

    /// Where a name that a new one would hide was given.
    pub(crate) fn shadowed(&self, frame: FrameId, name: &str) -> Option<Option<Span>> {
        let mut at = Some(frame);
        while let Some(id) = at {
            let frame = self.frame(id);
            match &frame.kind {
                FrameKind::Body { names, .. } => {
                    if let Some((_, _, span)) = names.get(name) {
                        return Some(Some(*span));
                    }
                }
                FrameKind::Binds(binds) => {
                    if binds.iter().any(|(bound, _)| bound == name) {
                        return Some(None);
                    }
                }
                FrameKind::Flow(_) => return None,
            }
            at = frame.parent;
        }
        None
    }

    /// All names in sight.
    pub(crate) fn in_sight(&self, frame: FrameId) -> Vec<String> {
        let mut names = Vec::new();
        let mut at = Some(frame);
        while let Some(id) = at {
            let frame = self.frame(id);
            match &frame.kind {
                FrameKind::Body { names: steps, .. } => names.extend(steps.keys().cloned()),
                FrameKind::Binds(binds) => names.extend(binds.iter().map(|(name, _)| name.clone())),
                FrameKind::Flow(_) => {
                    names.extend(["input", "run", "steps", "secrets"].map(str::to_owned))
                }
            }
            at = frame.parent;
        }
        names
    }

    /// Notes that an expression reads a name: edges, reads, and the problems of names.
    pub(crate) fn reference(&mut self, cx: Cx, reference: &Ref, span: Span) {
        match self.find(cx.frame, &reference.root) {
            Some(Found::Step {
                body,
                position,
                step,
            }) => {
                let read = ReadOf {
                    target: step,
                    guarded: reference.guarded,
                    under: reference.under.clone(),
                    meta: false,
                    span,
                };
                self.read_step(cx, (body, position), read);
            }
            Some(Found::Steps) => self.read_meta(cx, reference, span),
            Some(Found::Secrets) if !cx.secrets => {
                let problem = Problem::new(
                    codes::SECRET_PLACE,
                    span,
                    "a secret can be read only in `env` and in headers",
                );
                self.problem(problem.hint(
                    "give it to the process by `env: { TOKEN: \"{{ secrets.NAME }}\" }`, or to a request by `headers`",
                ));
            }
            Some(Found::Input(flow)) => self.flows[flow].read_input(reference.member()),
            Some(Found::Bind(Bind::Carry(step))) => self.read_carry(cx, step, reference, span),
            Some(Found::Bind(_) | Found::Run | Found::Secrets) => {}
            None => self.unknown_name(cx, reference, span),
        }
    }

    /// Without a first value there is none in the first round: who reads it then fails always, unless a condition keeps it away.
    fn read_carry(&mut self, cx: Cx, step: StepId, reference: &Ref, span: Span) {
        if self.info(step).main.is_some() || reference.guarded || !reference.under.is_empty() {
            return;
        }
        let mut at = match cx.owner {
            Owner::Step(owner) => owner,
            Owner::Flow(_) => return,
        };
        // In a handler: whether it comes to that nobody knows.
        if let Some(Found::Bind(Bind::Error)) = self.find(cx.frame, "error") {
            return;
        }
        while at != step {
            let info = self.info(at);
            if info.span("when").is_some() || info.span("join").is_some() {
                return;
            }
            at = match info.placed {
                // A case of a `switch`, which may not be chosen.
                Placed::Hidden { host } if self.info(host).span("cases").is_some() => return,
                Placed::Hidden { host } => host,
                Placed::Body { body, .. } => match self.body_info[body.0 as usize].owner {
                    Owner::Step(scope) => scope,
                    Owner::Flow(_) => return,
                },
            };
        }
        let message = "`carry` has no value in the first round: this `repeat` does not say one";
        let problem = Problem::new(codes::UNKNOWN_NAME, span, message);
        let problem = problem.related(self.info(step).name_span, "this `repeat`");
        self.problem(
            problem.hint("say it: `repeat: { carry: …, max: … }`; or write `carry | default(…)`"),
        );
    }

    fn read_meta(&mut self, cx: Cx, reference: &Ref, span: Span) {
        let Some(name) = reference.member() else {
            let problem = Problem::new(
                codes::UNKNOWN_NAME,
                span,
                "`steps` is read by a step's name",
            );
            self.problem(problem.hint("write `steps.NAME.state`; the fields are `state`, `error`, `attempts`, `cost`, `seconds`, `items`"));
            return;
        };
        match self.find(cx.frame, name) {
            Some(Found::Step {
                body,
                position,
                step,
            }) => {
                let read = ReadOf {
                    target: step,
                    guarded: true,
                    under: Vec::new(),
                    meta: true,
                    span,
                };
                self.read_step(cx, (body, position), read);
            }
            Some(Found::Bind(_) | Found::Input(_) | Found::Run | Found::Steps | Found::Secrets)
            | None => {
                let hint = self.names_for_hint(cx.frame).and_then(|names| {
                    nearest(name, names.iter().map(String::as_str))
                        .map(|near| format!("did you mean `steps.{near}`?"))
                });
                let problem = Problem::new(
                    codes::UNKNOWN_NAME,
                    span,
                    format!("there is no step `{name}` here"),
                );
                self.problem(problem.maybe_hint(hint));
            }
        }
    }

    fn unknown_name(&mut self, cx: Cx, reference: &Ref, span: Span) {
        let name = &reference.root;
        let Some(names) = self.names_for_hint(cx.frame) else {
            let message = format!("there is no step or name `{name}` here");
            self.problem(Problem::new(codes::UNKNOWN_NAME, span, message));
            return;
        };
        let mut of_place = true;
        let hint = match name.as_str() {
            "item" if self.item_in_sight(cx.frame).is_some() => self
                .item_in_sight(cx.frame)
                .map(|item| format!("the item is called `{item}` here, as `as` says")),
            "last" => Some("`last` is there in steps with `repair` and in fallbacks".to_owned()),
            "output" => Some("`output` is there in gates, `until` and `compensate`".to_owned()),
            "error" => Some("`error` is there in handlers under `catch`".to_owned()),
            "carry" | "rounds" => Some(format!("`{name}` is there in the steps of a `repeat`")),
            "loop" => Some("`loop` is there in the steps of a `for_each` or `repeat`".to_owned()),
            "args" => Some("`args` is there in a `check`, and in Python and Node source".to_owned()),
            "env" => Some("the environment is not read by expressions; hand values in as input, secrets as `secrets.NAME`".to_owned()),
            _ => {
                of_place = false;
                nearest(name, names.iter().map(String::as_str)).map(|near| {
                    let mut fixed = reference.clone();
                    fixed.root = near.to_owned();
                    format!("did you mean `{fixed}`?")
                })
            }
        };
        let hint = hint.or_else(|| self.inner_step_hint(cx.flow, name));
        if !of_place {
            self.unknown.push(Unknown {
                problem: self.problems.len(),
                cx,
                name: name.clone(),
            });
        }
        self.problem(
            Problem::new(
                codes::UNKNOWN_NAME,
                span,
                format!("there is no step or name `{name}` here"),
            )
            .maybe_hint(hint),
        );
    }

    /// The name of the item of the innermost `for_each` around.
    fn item_in_sight(&self, frame: FrameId) -> Option<String> {
        let mut at = Some(frame);
        while let Some(id) = at {
            let frame = self.frame(id);
            if let FrameKind::Binds(binds) = &frame.kind {
                let item = binds.iter().find(|(_, bind)| matches!(bind, Bind::Item(_)));
                if let Some((name, _)) = item {
                    return Some(name.clone());
                }
            }
            at = frame.parent;
        }
        None
    }

    /// A step of that name exists, but inside a scope.
    fn inner_step_hint(&self, flow: usize, name: &str) -> Option<String> {
        let inner = self
            .info
            .iter()
            .find(|info| info.flow == flow && info.name == name)?;
        let Placed::Body { body, .. } = inner.placed else {
            return None;
        };
        match self.body_info[body.0 as usize].owner {
            Owner::Step(scope) => {
                let scope = &self.info(scope).name;
                Some(format!(
                    "`{name}` is a step inside `{scope}`: give it out by the `output` of `{scope}`"
                ))
            }
            Owner::Flow(_) => None,
        }
    }

    /// Notes a read of a step and makes the edge that it needs.
    fn read_step(&mut self, cx: Cx, (body, position): (BodyId, u32), read: ReadOf) {
        let (step, meta, span) = (read.target, read.meta, read.span);
        if !meta {
            let info = self.info_mut(step);
            info.read_at.get_or_insert(span);
        }
        let reader = match cx.owner {
            Owner::Flow(_) => None,
            Owner::Step(reader) => Some(reader),
        };
        match cx.output_of {
            // The output of a handler's own steps.
            Some(OutputOf::Body(of)) if of != body && self.inside_of(cx.owner) == Some(body) => {
                self.catch_reads.push((read.clone(), true));
            }
            Some(OutputOf::Body(of)) => {
                let info = &mut self.body_info[of.0 as usize];
                info.output_reads.push(read.clone());
            }
            Some(OutputOf::Catch) => {
                let failed = self.inside_of(cx.owner) == Some(body);
                self.catch_reads.push((read.clone(), failed));
            }
            None => {}
        }
        let Some(reader) = reader else { return };
        let info = self.info_mut(reader);
        if cx.late {
            info.late_reads.push(read);
        } else {
            info.reads.push(read);
        }
        let Some((ancestor, own)) = self.ancestor_in(reader, body) else {
            return;
        };
        if ancestor == step {
            self.self_reference(reader, step, meta, span);
            return;
        }
        let how = if own && !cx.late && !meta {
            DepKind::Value
        } else {
            DepKind::Weak
        };
        self.info_mut(ancestor).edges.push(Edge {
            on: position,
            how,
            span,
        });
    }

    /// The steps of a scope or flow, once they are read.
    fn inside_of(&self, owner: Owner) -> Option<BodyId> {
        match owner {
            Owner::Step(step) => self.info(step).body,
            Owner::Flow(flow) => self.flows[flow].body,
        }
    }

    fn self_reference(&mut self, reader: StepId, step: StepId, meta: bool, span: Span) {
        if meta {
            return;
        }
        let name = self.info(step).name.clone();
        let message = if reader == step {
            format!("step `{name}` reads its own value")
        } else {
            format!("a step inside `{name}` reads the value of `{name}`, which waits for it")
        };
        let hint = "the failed try before this one is `last`, the value under test is `output`";
        self.problem(Problem::new(codes::CYCLE, span, message).hint(hint));
    }

    /// The step of `body` that holds `step`, and whether it is `step` itself.
    pub(crate) fn ancestor_in(&self, step: StepId, body: BodyId) -> Option<(StepId, bool)> {
        let mut at = step;
        loop {
            match self.info(at).placed {
                Placed::Body { body: own, .. } if own == body => return Some((at, at == step)),
                Placed::Body { body: own, .. } => match self.body_info[own.0 as usize].owner {
                    Owner::Step(scope) => at = scope,
                    Owner::Flow(_) => return None,
                },
                Placed::Hidden { host } => at = host,
            }
        }
    }
}
