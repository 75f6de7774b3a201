//! Random flows under random outcomes, cut after every move.
//!
//! The generator draws nested scopes over every kind with an outcome of its own; the world checks the machine's promises
//! after every turn. A failing seed is printed with its flow.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::world::{Does, World, echo};
use crate::effect::{ErrorClass, Fate};
use crate::event::{Event, Input, Settled};
use crate::port::Job;
use crate::run::state::{Role, Slot};

/// A small generator that is the same on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.roll(n) == 0
    }
}

struct Generator {
    dice: Dice,
    names: u32,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        dice.roll(2);
        Self { dice, names: 0 }
    }

    fn flow(&mut self) -> Value {
        let steps = self.map(3, 5);
        json!({ "ravel": 1, "name": "random", "steps": steps, "output": 1 })
    }

    /// A map of steps, each reading some that came before.
    fn map(&mut self, depth: u32, most: u64) -> Value {
        let mut steps = Map::new();
        let count = 1 + self.dice.roll(most);
        for _ in 0..count {
            self.names += 1;
            let name = format!("s{}", self.names);
            if depth > 0 && self.dice.one_in(6) {
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
        let mut producer = self.tool(steps);
        producer["with"]["items"] = json!(items);
        steps.insert(name.to_owned(), producer);
        self.names += 1;
        let number = self.names;
        let mut taker = json!({
            "for_each": { "stream": format!("{name}.items") },
            "as": format!("i{number}"),
            "parallel": 1 + self.dice.roll(3),
            "tolerate": self.dice.roll(4),
            "steps": self.map(depth - 1, 2),
            "output": 1,
        });
        if self.dice.one_in(2) {
            taker["item_key"] = format!("'k' ~ (i{number} % 2)").into();
        }
        let before: Map<String, Value> = steps
            .iter()
            .filter(|(step, _)| **step != *name)
            .map(|(step, value)| (step.clone(), value.clone()))
            .collect();
        self.decorate(&mut taker, &before);
        steps.insert(format!("s{number}"), taker);
    }

    fn step(&mut self, depth: u32, before: &Map<String, Value>) -> Value {
        let mut step = match self.dice.roll(if depth == 0 { 4 } else { 10 }) {
            0 | 1 => self.tool(before),
            2 => json!({ "set": { "v": self.dice.roll(100) } }),
            3 => json!({ "wait": "5s" }),
            4 => json!({ "steps": self.map(depth - 1, 3), "output": 1 }),
            5 => json!({
                "for_each": "range(3) | list",
                "as": format!("i{}", self.names),
                "parallel": 1 + self.dice.roll(3),
                "tolerate": self.dice.roll(4),
                "steps": self.map(depth - 1, 2),
                "output": 1,
            }),
            6 => json!({
                "repeat": { "carry": 0, "until": "output >= 2", "max": 3 },
                "steps": self.map(depth - 1, 2),
                "output": "{{ carry + 1 }}",
            }),
            7 => json!({
                "switch": "1 + 1",
                "cases": { "2": { "steps": self.map(depth - 1, 2), "output": 1 } },
                "else": { "set": 0 },
            }),
            8 => json!({ "race": { "left": self.tool(before), "right": { "wait": "3s" } } }),
            _ => {
                json!({ "human": { "ask": "well?", "form": { "ok": "boolean" }, "deadline": "1m", "on_deadline": { "ok": true } } })
            }
        };
        self.decorate(&mut step, before);
        step
    }

    fn tool(&mut self, before: &Map<String, Value>) -> Value {
        let mut with = json!({ "v": self.dice.roll(100) });
        if let Some(name) = self.pick(before) {
            with["from"] = format!("{{{{ {name} | default(none) }}}}").into();
        }
        let effect = ["read", "read", "write", "once"][self.dice.roll(4) as usize];
        let mut tool = json!({ "tool": "test.echo", "with": with, "effect": effect });
        if effect == "read" {
            tool["retry"] = json!({ "attempts": 1 + self.dice.roll(2), "backoff": "1s..2s" });
        }
        if self.dice.one_in(4) {
            tool["concurrency"] = json!({ "key": "shop", "max": 1 + self.dice.roll(2) });
        }
        if self.dice.one_in(4) {
            tool["compensate"] = json!({ "tool": "test.undo", "with": {} });
        }
        tool
    }

    fn pick(&mut self, before: &Map<String, Value>) -> Option<String> {
        let count = before.len() as u64;
        (count > 0)
            .then(|| before.keys().nth(self.dice.roll(count) as usize).cloned())
            .flatten()
    }

    fn decorate(&mut self, step: &mut Value, before: &Map<String, Value>) {
        if self.dice.one_in(3)
            && let Some(name) = self.pick(before)
        {
            step["after"] = json!([name]);
            step["join"] = ["all", "any", "settled", "failed"][self.dice.roll(4) as usize].into();
        }
        if self.dice.one_in(5) {
            step["catch"] = json!([{ "output": 0 }]);
        }
        if self.dice.one_in(6) {
            step["deadline"] = "30s".into();
        }
        if self.dice.one_in(6) {
            step["when"] = "1 < 2".into();
        }
    }
}

/// What an attempt does is a function of its place: the same in every run of the seed.
fn outcome(job: &Job, failing: bool) -> Does {
    let hash = blake3::hash(job.path.as_bytes());
    let end = match hash.as_bytes()[0] {
        0..25 if failing => Does::Fails(Fate::NotDone, ErrorClass::Unavailable),
        25..35 if failing => Does::Fails(Fate::Done, ErrorClass::ToolError),
        35..45 if failing => Does::Hangs,
        45..55 if failing => Does::Fails(Fate::Unknown, ErrorClass::Timeout),
        _ => echo(job),
    };
    let crate::port::Request::Tool { input, .. } = &job.request else {
        return end;
    };
    let Some(items) = input.json()["items"].as_array() else {
        return end;
    };
    let mut items = items.clone();
    // What is streamed need not be what the value says.
    match hash.as_bytes()[1] {
        0..60 if failing => items.insert(0, json!(77)),
        60..120 if failing => items.push(json!(78)),
        120..180 if failing => items.truncate(job.attempt.number as usize),
        _ => {}
    }
    Does::Streams(items, Box::new(end))
}

/// Moves the world to its end; people say that nothing happened and nothing shall be tried again.
fn finish(world: &mut World) {
    for _ in 0..200 {
        world.drive();
        let Some(question) = world.questions().first().cloned() else {
            break;
        };
        let answer = match question.topic {
            crate::event::Topic::Human => json!({ "ok": true }),
            crate::event::Topic::Uncertain => json!({ "not_done": "fail" }),
            crate::event::Topic::Compensation => json!({ "action": "give_up" }),
        };
        world
            .answer(&question.id, answer)
            .expect("the answer fits the form");
    }
}

/// Facts that hold for every log.
fn check_log(world: &World, seed: u64) {
    let mut settled = BTreeMap::new();
    let mut cancelled = false;
    let mut once_starts: BTreeMap<u32, u32> = BTreeMap::new();
    for event in world.log.iter().flat_map(|turn| &turn.events) {
        match event {
            Event::Settled {
                node, path, state, ..
            } => {
                assert_eq!(
                    settled.insert(*node, *state),
                    None,
                    "seed {seed}: `{path}` settles once"
                );
            }
            Event::AttemptStarted {
                node, path, effect, ..
            } => {
                assert!(
                    !settled.contains_key(node),
                    "seed {seed}: `{path}` starts after it settled"
                );
                if effect.must_be_durable() {
                    check_item(world, &settled, *node, seed);
                }
                if *effect == crate::effect::Effect::Once {
                    *once_starts.entry(*node).or_default() += 1;
                }
                let cleanup = path.contains("compensate")
                    || path.contains("finally")
                    || path.contains("check");
                let settled_join = world
                    .run
                    .step(*node)
                    .is_some_and(|step| step.join == crate::graph::Join::Settled);
                let inside_settled = path.contains('/');
                assert!(
                    !cancelled || cleanup || settled_join || inside_settled,
                    "seed {seed}: `{path}` starts after the cancel"
                );
            }
            Event::AttemptFinished {
                node,
                fate: Fate::NotDone,
                ..
            } => {
                once_starts.remove(node);
            }
            Event::CancelRequested { node: 0, .. } => cancelled = true,
            _ => {}
        }
    }
    for (node, starts) in once_starts {
        let path = world.run.node(node).expect("it started").path;
        assert_eq!(
            starts, 1,
            "seed {seed}: the once `{path}` started again without a word that nothing happened"
        );
    }
}

/// Nothing below an item of a stream changes the world before the producer has succeeded, or for an item that its
/// value does not have.
fn check_item(world: &World, settled: &BTreeMap<u32, Settled>, node: u32, seed: u64) {
    let state = &world.run.state;
    if state.node(node).slot == Slot::Compensation {
        return;
    }
    let mut at = node;
    while at != 0 {
        let owner = state.node(at).parent;
        let is_item = matches!(state.node(at).role, Role::Item(_));
        if is_item && let Some((producer, field)) = state.source(owner) {
            let path = state.path(node);
            assert_eq!(
                settled.get(&producer),
                Some(&Settled::Succeeded),
                "seed {seed}: `{path}` changes the world before its item is final"
            );
            let value = state.node(producer).value.as_ref();
            let items = value.and_then(|value| value.get_path(&[&field])).cloned();
            let item = state.slot_value(at, crate::event::Slot::Item);
            let Role::Item(index) = state.node(at).role else {
                unreachable!("checked above")
            };
            let wanted = items.and_then(|items| items.get(index as usize).cloned());
            assert_eq!(
                item.map(crate::value::Val::into_json),
                wanted,
                "seed {seed}: `{path}` changes the world for an item that is none"
            );
        }
        at = owner;
    }
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    // A longer hunt: RAVEL_SEEDS=100000 (or FIRST..LAST) cargo test -p ravel-core random
    let range = option_env!("RAVEL_SEEDS").unwrap_or_default();
    match range.split_once("..") {
        Some((first, last)) => first.parse().unwrap_or(0)..last.parse().unwrap_or(default),
        None => 0..range.parse().unwrap_or(default),
    }
}

#[test]
fn a_run_that_is_cut_after_any_move_ends_as_if_nothing_had_happened() {
    for seed in seeds(30) {
        let flow = Generator::new(seed).flow().to_string();
        let script = || -> super::world::Script { Box::new(|job| outcome(job, false)) };
        let mut whole = World::new(&flow, json!({}), script());
        finish(&mut whole);
        assert!(
            whole.run.is_final(),
            "seed {seed}: {flow}\n{:#?}",
            whole.run.waits_on()
        );
        check_log(&whole, seed);
        if whole.run.state() != crate::port::RunState::Succeeded {
            // What a failing scope still stops depends on who was first.
            continue;
        }
        for cut in 0..10 {
            let mut world = World::new(&flow, json!({}), script());
            for _ in 0..cut {
                world.step();
            }
            if world.run.is_final() {
                break;
            }
            world.crash();
            // What was lost is said to have happened, with the value that it would have had.
            vouch(&mut world);
            finish(&mut world);
            assert_eq!(
                compared(&world),
                compared(&whole),
                "seed {seed}, cut after {cut} moves: {flow}"
            );
        }
    }
}

/// Answers each question about a lost `once` with "not done, again".
fn vouch(world: &mut World) {
    let uncertain = |world: &World| {
        let questions = world.questions();
        questions
            .into_iter()
            .find(|question| question.topic == crate::event::Topic::Uncertain)
    };
    while let Some(question) = uncertain(world) {
        world
            .answer(&question.id, json!({ "not_done": "retry" }))
            .expect("the answer fits the form");
    }
}

/// The outcome without what depends on who was first: children of races.
fn compared(world: &World) -> BTreeMap<String, (Settled, Option<Value>)> {
    let races: Vec<String> = world
        .run
        .nodes()
        .filter(|view| view.kind == "race")
        .map(|view| view.path.to_string())
        .collect();
    let mut outcome = world.outcome();
    outcome.retain(|path, _| !races.iter().any(|race| path.starts_with(race)));
    outcome
}

#[test]
fn failures_cancels_and_crashes_end_every_run_and_break_no_promise() {
    for seed in seeds(150) {
        let flow = Generator::new(seed).flow().to_string();
        let mut world = World::new(&flow, json!({}), Box::new(|job| outcome(job, true)));
        world.youngest_first = seed % 2 == 0;
        let mut dice = Dice(seed | 1);
        for _ in 0..dice.roll(12) {
            world.step();
        }
        match dice.roll(3) {
            0 => {
                let _ = world.input(Input::Cancel {
                    path: None,
                    by: None,
                    reason: None,
                });
            }
            1 => world.crash(),
            _ => {}
        }
        finish(&mut world);
        assert!(
            world.run.is_final(),
            "seed {seed}: {flow}\n{:#?}\n{}",
            world.run.waits_on(),
            world.story()
        );
        check_log(&world, seed);
    }
}
