//! What a flow may name that it does not hold: tools, models, flows of the project. Handed in; without it nothing is known and nothing
//! of it is checked.

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
}

/// What there is outside the flow's own files.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// Tools by name. `None`: not known, so not checked.
    pub tools: Option<IndexMap<String, ToolInfo>>,
    /// Aliases of models. `provider/model` is always taken. `None`: not known, so not checked.
    pub models: Option<Vec<String>>,
    /// Flows of the project: name to path.
    pub flows: IndexMap<String, String>,
    /// `defaults` of the project, as under `defaults:` of a flow.
    pub defaults: Option<serde_json::Value>,
}
