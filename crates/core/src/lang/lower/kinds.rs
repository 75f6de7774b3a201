//! The leaves. Scopes are in `scopes`.

use serde_json::Value as Json;

use super::text::Places;
use super::{Cx, Lower, Want};
use crate::effect::ErrorClass;
use crate::expr::{Mode, Template, ValueTemplate, has_tags};
use crate::graph::{self, Escalate, Fail, Human, OnDeadline, StepId, Tool, Wait};
use crate::lang::catalog::Arguments;
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, nearest, quoted};
use crate::lang::formats;
use crate::lang::keys::{self, Kind};
use crate::lang::tree::{Map, Node, Value};
use crate::types::{Shape, Type};

impl Lower<'_> {
    /// What a step does. `None` when a part without which it makes no sense is wrong.
    pub(crate) fn lower_kind(
        &mut self,
        cx: Cx,
        id: StepId,
        kind: &'static Kind,
        map: &Map,
        typed: bool,
    ) -> Option<graph::Kind> {
        match kind.name {
            "model" => self.model(cx, map),
            "tool" => self.tool(cx, id, map),
            "run" => self
                .program(cx, map)
                .map(|program| graph::Kind::Run(Box::new(program))),
            "human" => self.human(cx, map),
            "wait" => self.wait(cx, map),
            "set" => self.main_value(cx, id, map, "set").map(graph::Kind::Set),
            "return" => self.return_value(cx, id, map),
            "fail" => self.fail(cx, map),
            "steps" => self.group(cx, id, map),
            "for_each" => self.for_each(cx, id, map),
            "repeat" => self.repeat(cx, id, map),
            "switch" => self.switch(cx, id, map),
            "race" => self.race(cx, id, map),
            "flow" => self.call(cx, id, map, typed),
            _ => None,
        }
    }

    /// The value under a key, remembered as the one that gives the step's own.
    pub(crate) fn main_value(
        &mut self,
        cx: Cx,
        id: StepId,
        map: &Map,
        key: &str,
    ) -> Option<ValueTemplate> {
        let entry = map.get(key)?;
        let (value, site) = self.value(cx, &entry.node, Want::Any, Places::default())?;
        self.info_mut(id).main = Some(site);
        Some(value)
    }

    pub(super) fn optional_text(&mut self, cx: Cx, map: &Map, key: &str) -> Option<graph::Text> {
        let entry = map.get(key)?;
        self.text(cx, &entry.node, key, Mode::Text)
    }

    fn optional_template(&mut self, cx: Cx, map: &Map, key: &str) -> Option<Template> {
        let entry = map.get(key)?;
        self.template(cx, &entry.node, key, Mode::Text)
    }

    fn tool(&mut self, cx: Cx, id: StepId, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("tool")?;
        let name = self.plain_text(&entry.node, "tool")?;
        let known = self
            .origin
            .catalog
            .as_ref()
            .and_then(|catalog| catalog.tools.as_ref());
        if let Some(tools) = known
            && !tools.contains_key(name)
        {
            let near = nearest(name, tools.keys().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "tools come from the built-in ones and the servers in ravel.toml; `ravel doctor` lists them".to_owned(),
            };
            self.problem(
                Problem::new(
                    codes::UNKNOWN_TOOL,
                    entry.node.span,
                    format!("there is no tool `{name}`"),
                )
                .hint(hint),
            );
        }
        let input = self.tool_info(name).map(|tool| tool.input.clone());
        let want = match &input {
            Some(ty) => Want::Type {
                ty: ty.clone(),
                code: codes::MISFIT,
                what: format!("`{name}` takes"),
            },
            None => Want::Any,
        };
        let places = Places {
            url: name.starts_with("http."),
            secrets_below: Some("/headers/"),
        };
        let with = match map.get("with") {
            Some(with) => {
                let (value, site) = self.value(cx, &with.node, want, places)?;
                self.info_mut(id).main = Some(site);
                value
            }
            // What stands beside the tool was reported there.
            None if !self.arguments_beside(map).is_empty() => {
                ValueTemplate::constant(serde_json::json!({}))
            }
            None => {
                self.no_arguments(input.as_ref(), &format!("`{name}`"), entry.node.span);
                ValueTemplate::constant(serde_json::json!({}))
            }
        };
        self.argument_rule(
            name,
            entry.node.span,
            map.get("with").map(|with| &with.node),
        );
        Some(graph::Kind::Tool(Tool {
            name: name.into(),
            with,
        }))
    }

    /// What the tool itself knows to be wrong with arguments that are written out.
    fn argument_rule(&mut self, name: &str, call: crate::lang::Span, with: Option<&Node>) {
        let Some(info) = self.tool_info(name) else {
            return;
        };
        let (Some(rule), Shape::Fields { properties, .. }) = (info.rule.0, info.input.shape())
        else {
            return;
        };
        let is_other = |field: &String| !properties.contains_key(field);
        let given = with.and_then(Node::map);
        // Arguments of one expression are not known; a misspelt one is a problem of its own.
        if with.is_some() && given.is_none_or(|given| given.keys().any(is_other)) {
            return;
        }
        let mut fields = serde_json::Map::new();
        for (field, entry) in given.into_iter().flatten() {
            let json = entry.node.to_json();
            let known = if is_written_out(&json) {
                json
            } else {
                Json::Null
            };
            fields.insert(field.clone(), known);
        }
        let arguments = Arguments {
            fields: fields.into(),
            folder: self
                .origin
                .catalog
                .as_ref()
                .and_then(|catalog| catalog.folder.clone()),
        };
        if let Err(wrong) = rule(&arguments) {
            let field = wrong.field.and_then(|field| with?.get(field));
            let span = field.or(with).map_or(call, |node| node.span);
            self.problem(Problem::new(codes::LITERAL_MISFIT, span, wrong.message));
        }
    }

    /// A call without `with`: fine unless something is required.
    pub(crate) fn no_arguments(
        &mut self,
        input: Option<&Type>,
        name: &str,
        span: crate::lang::Span,
    ) {
        let violations = input.and_then(|ty| ty.takes(&serde_json::json!({})).err());
        if let Some(first) = violations.and_then(|all| all.into_iter().next()) {
            let problem = Problem::new(
                codes::ARGUMENTS,
                span,
                format!("{name} is called without arguments: {}", first.message),
            );
            self.problem(problem.hint("hand them in: `with: { … }`"));
        }
    }

    fn return_value(&mut self, cx: Cx, id: StepId, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("return")?;
        let want = match self.flows[cx.flow].returns.clone() {
            Some(ty) => Want::Type {
                ty,
                code: codes::OUTPUT_MISFIT,
                what: "the flow returns".to_owned(),
            },
            None => Want::Any,
        };
        let (value, site) = self.value(cx, &entry.node, want, Places::default())?;
        self.info_mut(id).main = Some(site);
        self.flows[cx.flow].has_return = true;
        Some(graph::Kind::Return(value))
    }

    fn fail(&mut self, cx: Cx, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("fail")?;
        let Value::Map(_) = &entry.node.value else {
            let message = self.template(cx, &entry.node, "fail", Mode::Text)?;
            return Some(graph::Kind::Fail(Fail {
                class: ErrorClass::ToolError,
                code: None,
                message,
            }));
        };
        let map = self.table_map(&entry.node, &keys::FAIL)?;
        let class = map
            .get("class")
            .and_then(|entry| self.errors(&entry.node, "class").first().copied());
        let code = self.optional_template(cx, map, "code");
        let message = self.optional_template(cx, map, "message")?;
        Some(graph::Kind::Fail(Fail {
            class: class.unwrap_or(ErrorClass::ToolError),
            code,
            message,
        }))
    }

    fn human(&mut self, cx: Cx, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("human")?;
        if let Some(ask) = entry.node.text() {
            let message = "`human` takes a map, and this is text";
            let hint = format!(
                "write `human: {{ ask: {}, form: {{ ok: boolean }} }}`",
                quoted(ask)
            );
            self.problem(Problem::new(codes::WRONG_SHAPE, entry.node.span, message).hint(hint));
            return None;
        }
        let map = self.table_map(&entry.node, &keys::HUMAN)?;
        let form = match map.get("form") {
            Some(entry) => self.read_type(cx.flow, &entry.node)?,
            None => Type::fields([("ok", Type::boolean(), true)]),
        };
        let ask = self.optional_text(cx, map, "ask");
        let to = self.optional_template(cx, map, "to");
        let deadline = map
            .get("deadline")
            .and_then(|entry| self.duration(&entry.node, "deadline"));
        let on_deadline = self.on_deadline(cx, map, &form, "the form takes");
        let mut escalate = Vec::new();
        if let Some(entry) = map.get("escalate") {
            for (rung, _) in self.table_maps(&entry.node, &keys::ESCALATE) {
                escalate.push(Escalate {
                    ask: self.optional_text(cx, rung, "ask"),
                    to: self.optional_template(cx, rung, "to"),
                    deadline: rung
                        .get("deadline")
                        .and_then(|entry| self.duration(&entry.node, "deadline")),
                });
            }
        }
        if !map.contains_key("deadline") {
            for key in ["on_deadline", "escalate"] {
                if let Some(entry) = map.get(key) {
                    let problem = Problem::new(
                        codes::POINTLESS,
                        entry.key,
                        format!("`{key}` has no effect without `deadline`"),
                    );
                    self.problem(problem.hint("add `deadline: 24h`"));
                }
            }
        }
        Some(graph::Kind::Human(Box::new(Human {
            ask: ask?,
            form,
            to,
            deadline,
            on_deadline,
            escalate,
        })))
    }

    fn on_deadline(&mut self, cx: Cx, map: &Map, form: &Type, what: &str) -> OnDeadline {
        let Some(entry) = map.get("on_deadline") else {
            return OnDeadline::Fail;
        };
        if entry.node.text() == Some("fail") {
            return OnDeadline::Fail;
        }
        let want = Want::Type {
            ty: form.clone(),
            code: codes::MISFIT,
            what: what.to_owned(),
        };
        match self.value(cx, &entry.node, want, Places::default()) {
            Some((value, _)) => OnDeadline::Answer(value),
            None => OnDeadline::Fail,
        }
    }

    fn wait(&mut self, cx: Cx, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("wait")?;
        match &entry.node.value {
            Value::Map(map) if !self.looks_braced(&entry.node) => {
                self.wait_map(cx, map, &entry.node)
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::List(_)
            | Value::Map(_) => self.wait_for(cx, &entry.node),
        }
    }

    /// A duration, checked where it is written out.
    fn wait_for(&mut self, cx: Cx, node: &Node) -> Option<graph::Kind> {
        let is_written_out = match &node.value {
            Value::Text(text) => !has_tags(text),
            Value::Number(_) => true,
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => false,
        };
        if is_written_out {
            self.duration(node, "wait")?;
        }
        let (value, _) = self.value(cx, node, time_or_number(), Places::default())?;
        Some(graph::Kind::Wait(Wait::For(value)))
    }

    /// A time that is written out is held to what the run will hold it to.
    fn instant_written_out(&mut self, node: &Node) -> Option<()> {
        let json = match &node.value {
            Value::Text(text) if has_tags(text) => return Some(()),
            Value::Text(_) | Value::Number(_) => node.to_json(),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => return Some(()),
        };
        match formats::instant(&json) {
            Ok(_) => Some(()),
            Err(why) => {
                self.problem(Problem::new(codes::BAD_FORMAT, node.span, why));
                None
            }
        }
    }

    fn wait_map(&mut self, cx: Cx, map: &Map, node: &Node) -> Option<graph::Kind> {
        self.known_keys(map, &[&keys::WAIT], "`wait`");
        if let Some(entry) = map.get("for") {
            return self.wait_for(cx, &entry.node);
        }
        if let Some(entry) = map.get("until") {
            self.instant_written_out(&entry.node)?;
            let (value, _) = self.value(cx, &entry.node, time_or_number(), Places::default())?;
            return Some(graph::Kind::Wait(Wait::Until(value)));
        }
        let Some(entry) = map.get("signal") else {
            let problem = Problem::new(
                codes::MISSING_KEY,
                node.span,
                "`wait` has one of `for`, `until` and `signal`",
            );
            self.problem(
                problem.hint("write `wait: 5m`, `wait: { until: … }` or `wait: { signal: NAME }`"),
            );
            return None;
        };
        let name = self.plain_text(&entry.node, "signal")?;
        let signals = &self.flows[cx.flow].signals;
        let Some(ty) = signals.get(name).cloned() else {
            let known: Vec<&str> = signals.keys().map(|name| &**name).collect();
            let hint = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "declare it at the top of the flow: `signals: {{ {name}: {{ text: string }} }}`"
                ),
            };
            self.problem(
                Problem::new(
                    codes::UNKNOWN_NAME,
                    entry.node.span,
                    format!("there is no signal `{name}`"),
                )
                .hint(hint),
            );
            return None;
        };
        self.flows[cx.flow].signals_used.push(name.to_owned());
        let deadline = map
            .get("deadline")
            .and_then(|entry| self.duration(&entry.node, "deadline"));
        let on_deadline = self.on_deadline(cx, map, &ty, "the signal is");
        Some(graph::Kind::Wait(Wait::Signal {
            name: name.into(),
            deadline,
            on_deadline,
        }))
    }
}

/// Whether a value is known before the run: no expression is in it.
fn is_written_out(json: &Json) -> bool {
    match json {
        Json::String(text) => !has_tags(text),
        Json::Array(items) => items.iter().all(is_written_out),
        Json::Object(fields) => fields.values().all(is_written_out),
        Json::Null | Json::Bool(_) | Json::Number(_) => true,
    }
}

/// What `wait` takes where its value is computed.
fn time_or_number() -> Want {
    Want::Type {
        ty: Type::one_of(&[Type::string(), Type::number()]),
        code: codes::MISFIT,
        what: "`wait` takes".to_owned(),
    }
}
