//! Random flows over every kind and field of the language.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// Deepest nesting of scopes.
const DEPTH_MAX: u32 = 3;
/// Most steps in the flow's own map.
const STEPS_MAX: u64 = 6;

/// A random flow. It passes the checker.
pub(crate) fn random(seed: u64) -> Value {
    let mut generator = Generator {
        dice: Dice::new(seed),
        names: 0,
        repaired: false,
        subs: Vec::new(),
    };
    generator.flow()
}

fn signals() -> Value {
    json!({ "ping": { "n": "integer" }, "pong": { "n": "integer" } })
}

struct Generator {
    dice: Dice,
    names: u32,
    /// Inside a scope that is repaired, where no `once` may stand.
    repaired: bool,
    /// Flows that may be called.
    subs: Vec<String>,
}

impl Generator {
    fn flow(&mut self) -> Value {
        let mut flows = Map::new();
        for number in 0..self.dice.roll(3) {
            let name = format!("sub{number}");
            let sub = self.sub(&name);
            flows.insert(name.clone(), sub);
            self.subs.push(name);
        }
        let mut flow = json!({ "ravel": 1, "name": "sim" });
        flow["signals"] = signals();
        if !flows.is_empty() {
            flow["flows"] = Value::Object(flows);
        }
        self.body(DEPTH_MAX, STEPS_MAX, &mut flow);
        self.policies(&mut flow, true);
        flow
    }

    /// A flow that others call, and that may call itself.
    fn sub(&mut self, name: &str) -> Value {
        let mut sub = json!({ "input": { "n": "integer" }, "signals": signals() });
        self.body(1, 3, &mut sub);
        if let Some(steps) = sub["steps"].as_object_mut()
            && self.dice.one_in(3)
        {
            let again = json!({
                "when": "input.n > 0",
                "flow": name,
                "with": { "n": "{{ input.n - 1 }}" },
                "max_depth": 3,
            });
            steps.insert("again".to_owned(), again);
        }
        self.policies(&mut sub, true);
        sub
    }

    /// What a flow or a scope may have beside its steps.
    fn policies(&mut self, scope: &mut Value, is_flow: bool) {
        if self.dice.one_in(5) {
            scope["catch"] = self.catch();
        }
        if self.dice.one_in(6) {
            let steps = self.cleanup();
            scope["finally"] = steps;
        }
        if self.dice.one_in(8) {
            scope["deadline"] = (*self.dice.pick(&["3s", "20s", "2m"])).into();
        }
        if self.dice.one_in(if is_flow { 4 } else { 8 }) {
            scope["budget"] = self.budget();
        }
    }

    fn budget(&mut self) -> Value {
        match self.dice.roll(3) {
            0 => json!({ "tokens": 150 + self.dice.roll(900) }),
            1 => json!({ "usd": 0.001 * (1 + self.dice.roll(9)) as f64 }),
            _ => json!({ "time": *self.dice.pick(&["2s", "10s", "1m"]) }),
        }
    }

    fn cleanup(&mut self) -> Value {
        self.names += 1;
        let mut steps = Map::new();
        steps.insert(format!("f{}", self.names), self.plain_tool("read"));
        Value::Object(steps)
    }

    fn catch(&mut self) -> Value {
        let mut handler = json!({ "output": 0 });
        if self.dice.one_in(3) {
            handler["errors"] = json!([*self.dice.pick(&[
                "timeout",
                "unavailable",
                "tool_error",
                "deadline",
                "join_unmet"
            ])]);
        }
        if self.dice.one_in(3) {
            handler["steps"] = self.cleanup();
        }
        let mut handlers = vec![handler];
        if self.dice.one_in(4) {
            handlers.push(json!({ "errors": ["cancelled"], "output": 7 }));
        }
        Value::Array(handlers)
    }

    /// Steps and the output of a scope.
    fn body(&mut self, depth: u32, most: u64, scope: &mut Value) {
        if depth < DEPTH_MAX && self.dice.one_in(6) {
            let count = 1 + self.dice.roll(most.min(3));
            let list: Vec<Value> = (0..count)
                .map(|_| {
                    self.names += 1;
                    let name = format!("s{}", self.names);
                    json!({ name: self.step(depth, &Map::new()) })
                })
                .collect();
            scope["steps"] = Value::Array(list);
        } else {
            scope["steps"] = self.map(depth, most);
        }
        scope["output"] = 1.into();
    }

    /// A map of steps, each reading some that came before.
    fn map(&mut self, depth: u32, most: u64) -> Value {
        let mut steps = Map::new();
        for _ in 0..=self.dice.roll(most) {
            self.names += 1;
            let name = format!("s{}", self.names);
            if depth > 0 && self.dice.one_in(9) {
                self.stream(depth, &name, &mut steps);
            } else {
                let step = self.step(depth, &steps);
                steps.insert(name, step);
            }
        }
        Value::Object(steps)
    }

    /// A producer, and a step that takes its items.
    fn stream(&mut self, depth: u32, name: &str, steps: &mut Map<String, Value>) {
        let items: Vec<u64> = (0..self.dice.roll(4)).collect();
        let mut producer = self.plain_tool(if self.repaired { "read" } else { "once" });
        producer["with"]["items"] = json!(items);
        let before = steps.clone();
        steps.insert(name.to_owned(), producer);
        self.names += 1;
        let number = self.names;
        let mut taker = json!({
            "for_each": { "stream": format!("{name}.items") },
            "as": format!("i{number}"),
            "parallel": 1 + self.dice.roll(3),
            "tolerate": self.dice.roll(4),
        });
        self.body(depth - 1, 2, &mut taker);
        if self.dice.one_in(2) {
            taker["item_key"] = format!("'k' ~ (i{number} % 2)").into();
        }
        self.decorate(&mut taker, &before, true);
        steps.insert(format!("s{number}"), taker);
    }

    fn step(&mut self, depth: u32, before: &Map<String, Value>) -> Value {
        let (mut step, is_scope) = if depth > 0 && self.dice.one_in(2) {
            (self.scope(depth), true)
        } else {
            (self.leaf(before), false)
        };
        self.decorate(&mut step, before, is_scope);
        step
    }

    fn scope(&mut self, depth: u32) -> Value {
        let repairs = !self.repaired && self.dice.one_in(8);
        let repaired = self.repaired;
        self.repaired |= repairs;
        let mut scope = match self.dice.roll(7) {
            0 => json!({}),
            1 => {
                self.names += 1;
                json!({
                    "for_each": format!("range({}) | list", self.dice.roll(4)),
                    "as": format!("i{}", self.names),
                    "parallel": 1 + self.dice.roll(3),
                    "tolerate": self.dice.roll(3),
                })
            }
            2 | 3 => json!({ "repeat": {
                "carry": 0,
                "until": format!("output >= {}", 2 + self.dice.roll(3)),
                "max": 2 + self.dice.roll(3),
                "on_max": *self.dice.pick(&["fail", "return"]),
            } }),
            4 => {
                let mut case = json!({});
                self.body(depth - 1, 2, &mut case);
                let switch = json!({
                    "switch": format!("1 + {}", self.dice.roll(2)),
                    "cases": { "2": case },
                    "else": self.plain_tool("read"),
                });
                self.repaired = repaired;
                return switch;
            }
            5 => {
                let right = match self.dice.roll(2) {
                    0 => json!({ "wait": "2s" }),
                    _ => json!({ "set": 3 }),
                };
                let race = json!({ "race": { "left": self.plain_tool("read"), "right": right } });
                self.repaired = repaired;
                return race;
            }
            _ => {
                self.repaired = repaired;
                let Some(sub) = self.called() else {
                    return self.plain_tool("read");
                };
                return json!({ "flow": sub, "with": { "n": self.dice.roll(3) } });
            }
        };
        self.body(depth - 1, 3, &mut scope);
        if scope.get("repeat").is_some() {
            scope["output"] = "{{ carry + 1 }}".into();
        }
        self.policies(&mut scope, false);
        if repairs {
            scope["gates"] = json!([{ "schema": "integer" }]);
            scope["repair"] = (1 + self.dice.roll(2)).into();
        }
        self.repaired = repaired;
        scope
    }

    /// A flow to call; not from where a `once` must not be.
    fn called(&mut self) -> Option<String> {
        if self.repaired || self.subs.is_empty() {
            return None;
        }
        Some(self.dice.pick(&self.subs).clone())
    }

    fn leaf(&mut self, before: &Map<String, Value>) -> Value {
        match self.dice.roll(12) {
            0..=3 => self.tool(before),
            4 | 5 => self.model(),
            6 => json!({ "set": { "v": self.dice.roll(100) } }),
            7 => match self.dice.roll(3) {
                0 => json!({ "wait": "5s" }),
                1 => json!({ "wait": { "signal": *self.dice.pick(&["ping", "pong"]) } }),
                _ => json!({ "wait": {
                    "signal": "ping", "deadline": "10s",
                    "on_deadline": if self.dice.one_in(2) { json!("fail") } else { json!({ "n": 0 }) },
                } }),
            },
            8 | 9 => self.human(),
            10 => {
                json!({ "fail": { "message": "on purpose", "class": *self.dice.pick(&["tool_error", "unavailable"]) } })
            }
            _ => json!({ "when": format!("{} > 2", self.dice.roll(4)), "return": 1 }),
        }
    }

    fn human(&mut self) -> Value {
        let mut human = json!({ "ask": "well?", "form": { "ok": "boolean" } });
        if self.dice.one_in(2) {
            human["deadline"] = "30s".into();
            if self.dice.one_in(2) {
                human["on_deadline"] = json!({ "ok": true });
            }
            if self.dice.one_in(3) {
                human["escalate"] = json!([{ "to": "lead", "deadline": "30s" }]);
            }
        }
        json!({ "human": human })
    }

    fn model(&mut self) -> Value {
        let mut model = json!({
            "model": "sim/small",
            "prompt": "words",
            "max_tokens": 20 + self.dice.roll(80),
        });
        if self.dice.one_in(3) {
            model["retry"] = self.retry();
        }
        model
    }

    fn retry(&mut self) -> Value {
        let mut retry = json!({ "attempts": 1 + self.dice.roll(3), "backoff": "1s..4s" });
        if self.dice.one_in(4) {
            retry["errors"] = json!(["tool_error", "unavailable", "timeout"]);
        }
        retry
    }

    fn plain_tool(&mut self, effect: &str) -> Value {
        json!({ "tool": "sim.do", "with": { "v": self.dice.roll(100) }, "effect": effect })
    }

    fn tool(&mut self, before: &Map<String, Value>) -> Value {
        let effect = *self.dice.pick(&["pure", "read", "write", "once", "once"]);
        let effect = if self.repaired && effect == "once" {
            "write"
        } else {
            effect
        };
        let mut tool = self.plain_tool(effect);
        if let Some(name) = self.one_of(before) {
            tool["with"]["from"] = format!("{{{{ {name} | default(none) }}}}").into();
        }
        if self.dice.one_in(3) {
            tool["retry"] = self.retry();
            if effect == "once" {
                tool["retry"]["errors"] = json!(["unavailable", "tool_error"]);
            }
        }
        if self.dice.one_in(3) {
            tool["timeout"] = (*self.dice.pick(&["1s", "10s"])).into();
        }
        if self.dice.one_in(4) {
            tool["concurrency"] = match self.dice.roll(3) {
                0 => json!([{ "key": "shop", "max": 1 }]),
                1 => json!([{ "key": "bank", "max": 2 }]),
                _ => json!([{ "key": "shop", "max": 1 }, { "key": "bank", "max": 2 }]),
            };
        }
        if matches!(effect, "write" | "once") && self.dice.one_in(3) {
            tool["compensate"] = json!({ "tool": "sim.undo", "with": {}, "effect": "write" });
        }
        if effect == "once" && self.dice.one_in(2) {
            tool["on_uncertain"] = match self.dice.roll(5) {
                0 => json!("retry"),
                1 => json!("fail"),
                2 => json!({ "ask": { "deadline": "1m" } }),
                3 => json!("ask"),
                _ => json!({ "check": { "tool": "sim.find", "with": {}, "effect": "read" } }),
            };
        }
        if matches!(effect, "pure" | "read") && self.dice.one_in(6) {
            tool["cache"] = "1m".into();
        }
        if effect != "once" && self.dice.one_in(6) {
            tool["gates"] = json!([{ "expr": "output.good" }]);
            tool["repair"] = (1 + self.dice.roll(2)).into();
        } else if self.dice.one_in(8) {
            tool["gates"] = match self.dice.roll(2) {
                0 => {
                    json!([{ "judge": { "model": "sim/small", "rubric": "good", "max_tokens": 30 } }])
                }
                _ => json!([{ "run": "true" }]),
            };
        }
        if self.dice.one_in(7) {
            tool["fallback"] = json!([{ "tool": "sim.other", "effect": "read" }]);
        }
        tool
    }

    fn one_of(&mut self, before: &Map<String, Value>) -> Option<String> {
        let names: Vec<&String> = before.keys().collect();
        (!names.is_empty()).then(|| (*self.dice.pick(&names)).clone())
    }

    /// Keys that any step may have.
    fn decorate(&mut self, step: &mut Value, before: &Map<String, Value>, is_scope: bool) {
        if self.dice.one_in(3)
            && let Some(name) = self.one_of(before)
        {
            let mut after = vec![name];
            if let Some(other) = self.one_of(before)
                && other != after[0]
            {
                after.push(other);
            }
            step["join"] = match self.dice.roll(6) {
                0 | 1 => "all".into(),
                2 => "any".into(),
                3 => "settled".into(),
                4 => "failed".into(),
                _ => json!({ "first": after.len() }),
            };
            if step["join"] == "any" && self.dice.one_in(3) {
                step["cancel_rest"] = true.into();
            }
            step["after"] = json!(after);
        }
        if step.get("catch").is_none() && self.dice.one_in(6) {
            step["catch"] = self.catch();
        }
        if step.get("deadline").is_none() && self.dice.one_in(10) {
            step["deadline"] = (*self.dice.pick(&["2s", "15s"])).into();
        }
        if step.get("when").is_none() && self.dice.one_in(8) {
            step["when"] = (*self.dice.pick(&["1 < 2", "2 < 1"])).into();
        }
        if self.dice.one_in(10) {
            step["priority"] = self.dice.roll(5).into();
        }
        if !is_scope
            && step.get("budget").is_none()
            && step.get("model").is_some()
            && self.dice.one_in(5)
        {
            step["budget"] = self.budget();
        }
    }
}
