//! The terms that a run was started under: limits, prices and its folder. Recorded with the start, so replay never asks
//! the world.

use std::ops::Deref;
use std::sync::Arc;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::effect::Millis;
use crate::value::Val;

/// Limits, prices and the folder of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// Limits.
    pub limits: RunLimits,
    /// What each model name of the graph costs. The price of a model that
    /// is missing is not known: it is not called under a budget of money. A model of one's own has a price of 0.
    pub models: IndexMap<Arc<str>, Price>,
    /// The absolute folder that relative paths of its steps start at. Absent: that of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<Arc<str>>,
}

/// Terms that runs share, with the JSON that the start of each records: made once for a thousand runs.
#[derive(Clone, Debug)]
pub struct SharedTerms {
    terms: Arc<Terms>,
    json: Val,
}

impl SharedTerms {
    /// As recorded.
    pub(super) fn json(&self) -> &Val {
        &self.json
    }

    /// What a start recorded.
    pub(super) fn recorded(json: &Val) -> Self {
        let terms = serde_json::from_value(json.json().clone());
        Self {
            terms: Arc::new(terms.expect("terms were written by this program")),
            json: json.clone(),
        }
    }
}

impl From<Terms> for SharedTerms {
    fn from(terms: Terms) -> Self {
        let json = serde_json::to_value(&terms).expect("terms are plain data");
        Self {
            terms: Arc::new(terms),
            json: json.into(),
        }
    }
}

impl Default for SharedTerms {
    fn default() -> Self {
        Terms::default().into()
    }
}

impl Deref for SharedTerms {
    type Target = Terms;

    fn deref(&self) -> &Terms {
        &self.terms
    }
}

/// Limits of one run. Each has a default and a knob in `ravel.toml` (`[limits.run]`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    /// Items of one `for_each` at once when it says no `parallel`.
    pub for_each_parallel: u32,
    /// Most items of one `for_each`.
    pub for_each_items_max: u32,
    /// Most activations of a run.
    pub activations_max: u32,
    /// Deepest nesting of scopes and flows.
    pub depth_max: u32,
    /// Longest pause that a server may ask for by Retry-After, ms; a longer one ends the attempts.
    pub retry_after_max_ms: Millis,
    /// How long a stopped attempt may take to end, ms; after it its effect is unknown.
    pub stop_grace_ms: Millis,
    /// Most messages that wait in one inbox.
    pub inbox_max: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            for_each_parallel: 1_000,
            for_each_items_max: 1_000_000,
            activations_max: 10_000_000,
            depth_max: 64,
            retry_after_max_ms: 10 * 60 * 1_000,
            stop_grace_ms: 10_000,
            inbox_max: 10_000,
        }
    }
}

/// Price of a model, in micro-dollars per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Price {
    /// Prompt tokens.
    pub input_microusd_per_mtok: u64,
    /// Completion tokens.
    pub output_microusd_per_mtok: u64,
}
