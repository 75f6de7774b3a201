//! Steps that may be skipped, and outputs that read them without a guard.

use super::edges::Orders;
use crate::expr::Expr;
use crate::graph::{BodyId, Join, Kind, StepId};
use crate::lang::codes;
use crate::lang::diagnostic::Problem;
use crate::lang::lower::{Lower, ReadOf};
use crate::lang::source::Span;

struct Skips<'l, 'b> {
    lower: &'l mut Lower<'b>,
    orders: &'l Orders,
    /// Whether a step may be skipped; known once it was visited.
    skippable: Vec<bool>,
    visited: Vec<bool>,
    /// Whether a step has a value whenever its `when` holds.
    by_when: Vec<bool>,
}

/// Reports outputs of scopes and flows that read what may be skipped.
pub(super) fn check(lower: &mut Lower<'_>, orders: &Orders) {
    let count = lower.steps.len();
    let bodies: Vec<BodyId> = (0..lower.flows.len())
        .filter_map(|flow| lower.flows[flow].body)
        .collect();
    let mut skips = Skips {
        lower,
        orders,
        skippable: vec![false; count],
        visited: vec![false; count],
        by_when: vec![false; count],
    };
    for body in bodies {
        skips.body(body);
    }
    for index in 0..skips.lower.bodies.len() {
        skips.body(BodyId(index as u32));
        skips.output(BodyId(index as u32));
    }
    let caught = std::mem::take(&mut skips.lower.catch_reads);
    for (read, failed) in caught {
        skips.caught(&read, failed);
    }
}

impl Skips<'_, '_> {
    fn body(&mut self, body: BodyId) {
        for position in self.orders.of(body).to_vec() {
            let step = self.lower.bodies[body.0 as usize].steps[position as usize];
            self.step(step);
        }
    }

    fn step(&mut self, step: StepId) {
        if std::mem::replace(&mut self.visited[step.0 as usize], true) {
            return;
        }
        let own = self.itself(step);
        // The steps inside come first: what they give decides whether the scope has a value.
        if let Some(body) = self.lower.info(step).body {
            self.body(body);
        }
        let hidden = self.lower.info(step).hidden.clone();
        for hidden in hidden {
            self.step(hidden);
        }
        let inside = self.inside(step);
        self.skippable[step.0 as usize] = own || inside;
        self.by_when[step.0 as usize] = !inside && self.only_by_when(step);
    }

    /// Whether a read may find nothing.
    fn may_miss(&self, read: &ReadOf) -> bool {
        let target = read.target.0 as usize;
        if read.guarded || read.meta || !self.skippable[target] {
            return false;
        }
        let when = self
            .lower
            .def(read.target)
            .and_then(|def| def.when.as_ref());
        let holds = |when: &Expr| read.under.iter().any(|held| held == when.source().trim());
        !(self.by_when[target] && when.is_some_and(holds))
    }

    /// Whether nothing but its condition skips a step.
    fn only_by_when(&self, step: StepId) -> bool {
        let Some(def) = self.lower.def(step) else {
            return false;
        };
        let Some(when) = &def.when else { return false };
        let under = [when.source().trim().to_owned()];
        let known = when.known();
        let is_there = |read: &ReadOf| {
            let name = &self.lower.info(read.target).name;
            let read = ReadOf {
                under: [&read.under[..], &under[..]].concat(),
                ..read.clone()
            };
            known.contains(name) || !self.may_miss(&read)
        };
        def.join == Join::All && self.lower.info(step).reads.iter().all(is_there)
    }

    /// By its condition, its join, or what it reads.
    fn itself(&self, step: StepId) -> bool {
        let by_reads = |reads: &[ReadOf]| reads.iter().any(|read| self.may_miss(read));
        let info = self.lower.info(step);
        let Some(def) = self.lower.def(step) else {
            return by_reads(&info.reads);
        };
        let reads_some = info.reads.iter().any(|read| !read.guarded && !read.meta);
        match def.join {
            Join::Failed => return true,
            // A join that goes on without some of its steps finds the values of those absent.
            Join::First(_) | Join::Settled if reads_some => return true,
            Join::All | Join::First(_) | Join::Settled => {}
        }
        def.when.is_some() || by_reads(&info.reads)
    }

    /// A scope whose value is that of a step that may be skipped.
    fn inside(&self, step: StepId) -> bool {
        let Some(def) = self.lower.def(step) else {
            return false;
        };
        let skippable = |step: &StepId| self.skippable[step.0 as usize];
        match &def.kind {
            Kind::Steps(body) => self.single(*body).is_some_and(|only| skippable(&only)),
            Kind::Repeat(spec) => self.single(spec.body).is_some_and(|only| skippable(&only)),
            Kind::Switch(spec) => {
                spec.cases.iter().any(|(_, case)| skippable(case))
                    || spec.otherwise.iter().any(skippable)
            }
            Kind::Model(_)
            | Kind::Tool(_)
            | Kind::Run(_)
            | Kind::Human(_)
            | Kind::Wait(_)
            | Kind::Set(_)
            | Kind::Return(_)
            | Kind::Fail(_)
            | Kind::ForEach(_)
            | Kind::Race(_)
            | Kind::Flow(_) => false,
        }
    }

    fn single(&self, body: BodyId) -> Option<StepId> {
        let body = &self.lower.bodies[body.0 as usize];
        match (body.output.is_none(), body.steps.as_slice()) {
            (true, [only]) => Some(*only),
            (true, _) | (false, _) => None,
        }
    }

    fn output(&mut self, body: BodyId) {
        let reads = self.lower.body_info[body.0 as usize].output_reads.clone();
        for read in reads {
            self.read(&read);
        }
    }

    /// Reads by the output of a handler. When a scope has failed nobody knows which of its steps have a value.
    fn caught(&mut self, read: &ReadOf, failed: bool) {
        if !failed || read.guarded || read.meta {
            return self.read(read);
        }
        let (name, at) = {
            let info = self.lower.info(read.target);
            (info.name.clone(), info.name_span)
        };
        let message = format!(
            "this reads `{name}`, which may have no value when its scope has failed, without a guard"
        );
        let problem = Problem::new(codes::UNGUARDED, read.span, message)
            .related(at, format!("`{name}` may be what failed, or not have run"));
        let hint = self.guard(read.span);
        self.lower.problem(problem.hint(hint));
    }

    /// How a read is guarded.
    fn guard(&self, span: Span) -> String {
        let text = self.lower.origin.sources.slice(span);
        format!(
            "write `{text} | default(…)`, `first_of({text}, …)` or a condition with `is defined`"
        )
    }

    /// Reports a read of an output that may find nothing.
    fn read(&mut self, read: &ReadOf) {
        if !self.may_miss(read) {
            return;
        }
        let info = self.lower.info(read.target);
        let name = info.name.clone();
        let related = match info.span("when") {
            Some(when) => (when, format!("`{name}` is skipped when this is false")),
            None => (
                info.name_span,
                format!("`{name}` is skipped when a step that it reads is"),
            ),
        };
        let message = format!("this reads `{name}`, which may be skipped, without a guard");
        let hint = self.guard(read.span);
        let problem =
            Problem::new(codes::UNGUARDED, read.span, message).related(related.0, related.1);
        self.lower.problem(problem.hint(hint));
    }
}
