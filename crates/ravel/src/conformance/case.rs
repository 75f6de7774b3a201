//! A case as it is written: a flow, outside moves in order, and what must be seen. The format is explained in
//! `conformance/README.md` and, for other programs, in `conformance/case.schema.json`.

use indexmap::IndexMap;
use ravel_core::effect::{ErrorClass, Millis};
use ravel_core::event::Skip;
use ravel_core::lang::formats;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// One file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Its number: the section's number and two digits.
    pub(crate) case: u32,
    /// The fact, in a line.
    pub(crate) title: String,
    /// Why it matters, or what goes wrong elsewhere.
    pub(crate) why: String,
    /// An ordinary flow.
    pub(crate) flow: Value,
    /// Its input.
    #[serde(default = "no_fields")]
    pub(crate) input: Value,
    /// Limits and prices.
    #[serde(default)]
    pub(crate) terms: CaseTerms,
    /// Outside moves and looks, in order.
    #[serde(default)]
    pub(crate) script: Vec<Move>,
    /// What must be seen at the end.
    pub(crate) expect: Expect,
}

fn no_fields() -> Value {
    Value::Object(serde_json::Map::new())
}

/// What the run is started under.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseTerms {
    /// Limits of one run, by their names in `ravel limits`.
    #[serde(default)]
    pub(crate) limits: IndexMap<String, u64>,
    /// What models cost.
    #[serde(default)]
    pub(crate) prices: IndexMap<String, CasePrice>,
}

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CasePrice {
    pub(crate) input: f64,
    pub(crate) output: f64,
}

/// One entry of a script.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Move {
    /// An attempt ends.
    End(Box<End>),
    /// An attempt streams items of its field.
    Items(Items),
    /// A person answers.
    Answer(Answer),
    /// A message arrives.
    Signal(Signal),
    /// Somebody cancels the run or one activation.
    Cancel(Cancel),
    /// The flow is changed under the run.
    Edit(Edit),
    /// The engine is lost, and another takes the run over.
    Crash(Crash),
    /// The clock reaches this time since the start.
    Time(Span),
    /// Names this place in the log.
    Mark(String),
    /// Goes on with a new run that begins as this one did up to a mark.
    Fork(String),
    /// Goes on with a new run that does this step, and what follows it, again.
    RetryFrom(String),
    /// What must be seen now.
    Expect(Box<Expect>),
}

impl Move {
    /// The word that it is written with.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::End(_) => "end",
            Self::Items(_) => "items",
            Self::Answer(_) => "answer",
            Self::Signal(_) => "signal",
            Self::Cancel(_) => "cancel",
            Self::Edit(_) => "edit",
            Self::Crash(_) => "crash",
            Self::Time(_) => "time",
            Self::Mark(_) => "mark",
            Self::Fork(_) => "fork",
            Self::RetryFrom(_) => "retry_from",
            Self::Expect(_) => "expect",
        }
    }
}

/// How an attempt ends: one of `done`, `failed`, `not_done`, `unknown`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    pub(crate) path: String,
    /// Which attempt, when it is not the one that is under way.
    pub(crate) attempt: Option<u32>,
    /// The effect took place and gave this value.
    #[serde(default, deserialize_with = "present")]
    pub(crate) done: Option<Value>,
    /// The effect took place and the result is a failure.
    pub(crate) failed: Option<Fault>,
    /// Certainly no effect.
    pub(crate) not_done: Option<Fault>,
    /// It may have taken place.
    pub(crate) unknown: Option<Fault>,
    /// What it used.
    pub(crate) usage: Option<Used>,
    /// The report comes too late and must change nothing.
    #[serde(default)]
    pub(crate) ignored: bool,
}

/// Tokens and dollars. Where they are expected only what is said is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Used {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usd: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Items {
    pub(crate) path: String,
    pub(crate) field: String,
    pub(crate) items: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// The step that asked.
    pub(crate) path: String,
    pub(crate) value: Value,
    /// The code of the refusal that must come.
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Signal {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) id: Option<String>,
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cancel {
    /// One activation; absent: the run.
    pub(crate) path: Option<String>,
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Edit {
    /// The version of the graph that the edit was made from; 1 at the start.
    pub(crate) base: u32,
    pub(crate) flow: Value,
    pub(crate) refused: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Crash {
    /// How long nobody runs it.
    pub(crate) down: Option<Span>,
}

/// What must be seen; keys that are absent are not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Expect {
    /// The flow does not check, or the input does not fit: there is no run.
    pub(crate) refused: Option<Refusal>,
    pub(crate) state: Option<String>,
    #[serde(deserialize_with = "present")]
    pub(crate) output: Option<Value>,
    pub(crate) error: Option<Fault>,
    /// Every activation.
    pub(crate) outcomes: Option<IndexMap<String, Outcome>>,
    /// Some activations.
    pub(crate) states: Option<IndexMap<String, Outcome>>,
    /// Every start of an attempt so far, in order.
    pub(crate) started: Option<Vec<Group>>,
    /// Every settlement so far, in order, of the paths that are named.
    pub(crate) settled: Option<Vec<Group>>,
    /// `start PATH` and `settle PATH` in order, of what is named.
    pub(crate) history: Option<Vec<Group>>,
    /// Attempts without an end, those that are being stopped apart.
    pub(crate) under_way: Option<Vec<String>>,
    /// Attempts without an end that were told to stop.
    pub(crate) stopping: Option<Vec<String>>,
    /// What the run waits for besides attempts.
    pub(crate) waits: Option<Vec<WaitsFor>>,
    /// What was last sent out for a path.
    pub(crate) sent: Option<IndexMap<String, Value>>,
    /// The idempotency keys of each path's attempts, numbered by their first use in the case.
    pub(crate) keys: Option<IndexMap<String, Vec<u32>>>,
    /// Effects that stand although the run ended badly.
    pub(crate) uncompensated: Option<Vec<String>>,
    pub(crate) usage: Option<Used>,
    /// Time of the last thing that happened, since the start.
    pub(crate) time: Option<Span>,
    /// Most attempts at once under each concurrency key.
    pub(crate) peak: Option<IndexMap<String, u32>>,
}

/// Why there is no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refusal {
    /// The flow does not check.
    Check,
    /// The input is not of the flow's type.
    Input,
}

/// The state of an activation, with what it settled with.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Pending,
    Ready,
    Running,
    Waiting,
    Cancelled,
    Succeeded(Value),
    Failed(Fault),
    Skipped(Skip),
}

/// A failure: a class, or a map with one. Only what is said is compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Fault {
    pub(crate) class: ErrorClass,
    pub(crate) code: Option<String>,
    pub(crate) step: Option<String>,
    /// The other side asks to wait this long.
    pub(crate) retry_after: Option<Span>,
}

impl TryFrom<Value> for Fault {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Whole {
            class: ErrorClass,
            code: Option<String>,
            step: Option<String>,
            retry_after: Option<Span>,
        }
        if value.is_string() {
            let class = serde_json::from_value(value)?;
            return Ok(Self {
                class,
                code: None,
                step: None,
                retry_after: None,
            });
        }
        let whole: Whole = serde_json::from_value(value)?;
        Ok(Self {
            class: whole.class,
            code: whole.code,
            step: whole.step,
            retry_after: whole.retry_after,
        })
    }
}

/// One thing, or several in any order.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(crate) struct Group(pub(crate) Vec<String>);

impl TryFrom<Value> for Group {
    type Error = serde_json::Error;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value {
            Value::String(one) => Ok(Self(vec![one])),
            several => Ok(Self(serde_json::from_value(several)?)),
        }
    }
}

/// A wait: one of `person`, `time`, `signal`, `permit`, `budget`, `items` with a path, and what else is known of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WaitsFor {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) person: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) permit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) budget: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) items: Option<String>,
    /// Of a person: `human`, `uncertain`, `compensation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) about: Option<String>,
    /// Of a person: the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ask: Option<String>,
    /// Of a person: who.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// Of a signal: the inbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inbox: Option<String>,
    /// Of a time: `wait`, `retry`, `deadline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// Of items: the producer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Span>,
}

/// A span as flows write it: `90s`, `1h30m`; `0` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Millis);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        formats::duration(&text)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const UNITS: [(Millis, &str); 4] =
            [(3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
        let unit = UNITS
            .iter()
            .find(|(size, _)| self.0 > 0 && self.0.is_multiple_of(*size));
        match unit {
            Some((size, unit)) => serializer.collect_str(&format_args!("{}{unit}", self.0 / size)),
            None => serializer.serialize_str("0s"),
        }
    }
}

/// A key that is there counts, also when its value is null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
