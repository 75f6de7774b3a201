//! What a flow may name that it does not hold: tools, models, flows of the project. Handed in; without it nothing is known and nothing
//! of it is checked.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::types::Type;

/// A tool, as the checker sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// The type of its arguments.
    pub input: Type,
    /// The type of its result. `any` when it does not say.
    pub output: Type,
    /// What it does to the world.
    pub effect: Effect,
    /// What it knows of its arguments beyond their types. Not stored: a flow that was started is not held to it again.
    #[serde(skip)]
    pub rule: ArgumentRule,
}

/// Arguments of a call as a flow writes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    /// An object of the fields that are given; null where only the run knows the value.
    pub fields: serde_json::Value,
    /// The absolute folder that relative paths start at, if it is known.
    pub folder: Option<String>,
}

/// Why a call must fail, whatever the world is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongArgument {
    /// The field at fault, if it is one.
    pub field: Option<&'static str>,
    /// A sentence.
    pub message: String,
}

/// Says what is wrong with arguments as far as they are written out.
pub type CheckArguments = fn(&Arguments) -> Result<(), WrongArgument>;

/// What a tool says of arguments before anything runs, if it does.
#[derive(Debug, Clone, Copy, Default)]
pub struct ArgumentRule(pub Option<CheckArguments>);

impl PartialEq for ArgumentRule {
    /// A rule is a part of the program, not of what is known about the tool.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// What there is outside the flow's own files.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Tools by name. `None`: not known, so not checked.
    pub tools: Option<IndexMap<String, ToolInfo>>,
    /// Aliases of models. `provider/model` is always taken. `None`: not known, so not checked.
    pub models: Option<Vec<String>>,
    /// Providers, as in `provider/model`. `None`: not known, so not checked.
    pub providers: Option<Vec<String>>,
    /// The models whose price is known. `None`: not known, so not checked.
    pub priced: Option<PricedModels>,
    /// The absolute folder that relative paths of the run's steps start at. `None`: not known, so not checked.
    pub folder: Option<String>,
    /// Flows of the project: name to path.
    pub flows: IndexMap<String, String>,
    /// `defaults` of the project, as under `defaults:` of a flow.
    pub defaults: Option<serde_json::Value>,
}

/// The models whose price is known, be it 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PricedModels {
    /// Aliases, and models as `provider/model`.
    pub names: BTreeSet<String>,
    /// Whether a name that is neither an alias nor `provider/model` leads to a model with a price.
    pub others: bool,
}

impl PricedModels {
    /// Whether the price of the model behind a name is known. `models` are the aliases.
    pub(crate) fn has(&self, name: &str, models: Option<&[String]>) -> bool {
        let is_alias = models.is_some_and(|models| models.iter().any(|alias| alias == name));
        self.names.contains(name) || (self.others && !is_alias && !name.contains('/'))
    }
}
