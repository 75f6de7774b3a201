//! `ravel schema`: the language as JSON Schema.

use clap::Args;

use super::Context;
use crate::error::Result;
use crate::exit::Exit;

/// Prints the JSON Schema of flows, for editors
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel schema > ravel.schema.json\n\n\
    In VS Code: \"yaml.schemas\": { \"./ravel.schema.json\": [\"flows/*.yaml\"] }. In the file itself:\n\
    # yaml-language-server: $schema=./ravel.schema.json")]
pub(super) struct Schema {}

impl Schema {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let Self {} = self;
        context.output.json(&ravel_core::lang::json_schema())?;
        Ok(Exit::Succeeded)
    }
}
