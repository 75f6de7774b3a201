//! The policies of leaves and the budgets of all: retry, timeout, effect, what to do when uncertain.

use super::{Bind, Cx, Lower};
use crate::effect::Effect;
use crate::expr::Mode;
use crate::graph::{Budget, Concurrency, Leaf, OnUncertain, Retry, StepId};
use crate::lang::diagnostic::Problem;
use crate::lang::keys::{self, Kind};
use crate::lang::limits::{
    ATTEMPTS_MODEL, ATTEMPTS_TOOL, BACKOFF_MAX_MS, BACKOFF_MIN_MS, TIMEOUT_DEFAULT_MS,
    TIMEOUT_MODEL_MS, TIMEOUT_RUN_MS,
};
use crate::lang::tree::{Map, Node, Value};
use crate::lang::{codes, formats};

/// No second try.
pub(crate) fn once() -> Retry {
    Retry {
        attempts: 1,
        backoff_min: BACKOFF_MIN_MS,
        backoff_max: BACKOFF_MAX_MS,
        errors: None,
    }
}

/// `retry: 3`, `retry: { attempts: 3 }`.
fn says_attempts(retry: &Node) -> bool {
    matches!(retry.value, Value::Number(_)) || retry.get("attempts").is_some()
}

impl Lower<'_> {
    /// The policies of a leaf; defaults for scopes.
    pub(crate) fn leaf(&mut self, cx: Cx, id: StepId, kind: &'static Kind, map: &Map) -> Leaf {
        let mut leaf = super::step::no_leaf();
        if !kind.leaf {
            return leaf;
        }
        leaf.retry = self.retry(kind, map);
        self.info_mut(id).says_attempts = map
            .get("retry")
            .is_some_and(|entry| says_attempts(&entry.node));
        let timeout = map
            .get("timeout")
            .and_then(|entry| self.time_limit(&entry.node, "timeout"));
        leaf.timeout = timeout.unwrap_or(match kind.name {
            "model" => TIMEOUT_MODEL_MS,
            "run" => TIMEOUT_RUN_MS,
            _ => TIMEOUT_DEFAULT_MS,
        });
        leaf.effect = self.effect(kind, map);
        if let Some(entry) = map.get("on_uncertain") {
            leaf.on_uncertain = self.on_uncertain(cx, id, &entry.node);
        }
        leaf.key = map
            .get("key")
            .and_then(|entry| self.template(cx, &entry.node, "key", Mode::Text));
        leaf.cache = map
            .get("cache")
            .and_then(|entry| self.duration(&entry.node, "cache"));
        if let Some(entry) = map.get("concurrency") {
            leaf.concurrency = self.concurrency(cx, &entry.node);
        }
        leaf.worker = map
            .get("worker")
            .and_then(|entry| self.plain_text(&entry.node, "worker"))
            .map(Into::into);
        leaf
    }

    fn retry(&mut self, kind: &'static Kind, map: &Map) -> Retry {
        let attempts = match kind.name {
            "model" => ATTEMPTS_MODEL,
            "tool" => ATTEMPTS_TOOL,
            _ => 1,
        };
        let mut retry = Retry { attempts, ..once() };
        let Some(entry) = map.get("retry") else {
            return retry;
        };
        if let Value::Number(_) = entry.node.value {
            if let Some(attempts) = self.integer(&entry.node, "retry", 1, 100) {
                retry.attempts = attempts as u32;
            }
            return retry;
        }
        let Some(map) = self.table_map(&entry.node, &keys::RETRY) else {
            return retry;
        };
        if let Some(attempts) = self.small(map, "attempts", 1, 100) {
            retry.attempts = attempts as u32;
        }
        if let Some(entry) = map.get("backoff")
            && let Some((min, max)) =
                self.format(&entry.node, "backoff", formats::duration_range, "1s..30s")
        {
            (retry.backoff_min, retry.backoff_max) = (min, max);
        }
        retry.errors = map
            .get("errors")
            .map(|entry| self.errors(&entry.node, "errors"));
        retry
    }

    /// What the step says, else what its tool is, else the default of its kind.
    fn effect(&mut self, kind: &'static Kind, map: &Map) -> Effect {
        let tool = (kind.name == "tool")
            .then(|| {
                map.get("tool")?
                    .node
                    .text()
                    .and_then(|name| self.tool_info(name))
                    .map(|tool| tool.effect)
            })
            .flatten();
        let default = tool.unwrap_or(match kind.name {
            "model" => Effect::Read,
            "tool" | "run" => Effect::Once,
            _ => Effect::Pure,
        });
        let Some(entry) = map.get("effect") else {
            return default;
        };
        match self.choice(&entry.node, "effect", &["pure", "read", "write", "once"]) {
            Some("pure") => Effect::Pure,
            Some("read") => Effect::Read,
            Some("write") => Effect::Write,
            Some(_) => Effect::Once,
            None => default,
        }
    }

    /// What is known about a tool.
    pub(crate) fn tool_info(&self, name: &str) -> Option<&crate::lang::ToolInfo> {
        self.bundle.tools.as_ref()?.get(name)
    }

    fn on_uncertain(&mut self, cx: Cx, id: StepId, node: &Node) -> OnUncertain {
        let ask = OnUncertain::Ask { deadline: None };
        let Value::Map(map) = &node.value else {
            return match self.choice(node, "on_uncertain", &["ask", "retry", "fail"]) {
                Some("retry") => OnUncertain::Retry,
                Some("fail") => OnUncertain::Fail,
                Some(_) | None => ask,
            };
        };
        if let Some(entry) = map.get("check") {
            self.known_keys(map, &[&keys::CHECK], "`on_uncertain`");
            let frame = self.bind(cx.frame, vec![("args".to_owned(), Bind::Args)]);
            let check = self.hidden_step(id, "check", frame, &entry.node, super::step::Part::Leaf);
            return OnUncertain::Check(check);
        }
        if let Some(entry) = map.get("ask") {
            self.known_keys(map, &[&keys::ASK], "`on_uncertain`");
            let inner = self.table_map(&entry.node, &keys::ASK_DEADLINE);
            let deadline = inner
                .and_then(|map| map.get("deadline"))
                .and_then(|entry| self.duration(&entry.node, "deadline"));
            return OnUncertain::Ask { deadline };
        }
        let problem = Problem::new(
            codes::WRONG_SHAPE,
            node.span,
            "`on_uncertain` has one of `ask` and `check`",
        );
        self.problem(problem.hint("write `ask`, `retry`, `fail`, `{ ask: { deadline: 24h } }` or `{ check: { tool: … } }`"));
        ask
    }

    fn concurrency(&mut self, cx: Cx, node: &Node) -> Vec<Concurrency> {
        let mut limits = Vec::new();
        for (map, _) in self.table_maps(node, &keys::CONCURRENCY) {
            let key = map
                .get("key")
                .and_then(|entry| self.template(cx, &entry.node, "key", Mode::Text));
            let max = self.small(map, "max", 1, 100_000);
            if let (Some(key), Some(max)) = (key, max) {
                limits.push(Concurrency {
                    key,
                    max: max as u32,
                });
            }
        }
        limits
    }

    /// `budget:`.
    pub(crate) fn budget(&mut self, node: &Node) -> Option<Budget> {
        let map = self.table_map(node, &keys::BUDGET)?;
        let usd = map
            .get("usd")
            .and_then(|entry| self.number(&entry.node, "usd", 0.0, 1e9));
        let tokens = map
            .get("tokens")
            .and_then(|entry| self.format(&entry.node, "tokens", formats::count, "200k"));
        let time = map
            .get("time")
            .and_then(|entry| self.time_limit(&entry.node, "time"));
        Some(Budget {
            microusd: usd.map(|usd| (usd * 1e6).round() as u64),
            tokens,
            time,
        })
    }
}
