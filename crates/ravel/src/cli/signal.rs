//! `ravel signal`: a message for an inbox of a run.

use std::sync::Arc;

use clap::Args;
use ravel_core::expr::exact_json;
use ravel_core::port_store::Message;
use ravel_core::value::Val;
use serde_json::Value;

use super::messages::{self, Sending};
use super::{Context, Json};
use crate::error::{Error, Result, nearest};
use crate::exit::Exit;
use crate::input;
use crate::wire;

/// Sends a message to a run
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel signal last user text=\"go on\"\n  ravel signal 0193 deploy --json-value '{\"version\": 3}' --id build-77\n\n\
    Messages are kept until a `wait` takes them. A second one with the same --id is dropped, and that\n    is said."
)]
pub(super) struct Signal {
    /// The run: its id, a unique beginning or end of it (3 characters or more), or `last`
    #[arg(value_name = "RUN")]
    run: String,
    /// The inbox: a name under `signals:` of the flow
    #[arg(value_name = "NAME")]
    name: String,
    /// Fields of the message: k=text, k=@file or k:=json
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// The whole message as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "fields")]
    json_value: Option<String>,
    /// The sender's id of the message
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    sending: Sending,
    #[command(flatten)]
    json: Json,
}

impl Signal {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let shelf = super::runs::shelf(context)?;
        let summary = wire::find_run(&shelf, &self.run)?;
        let graph = shelf.graphs.get(&summary.graph).map_err(|message| {
            Error::new(Exit::Damaged, "the flow of the run is not there").hint(message)
        })?;
        let known: Vec<&str> = graph.main().signals.keys().map(|name| &**name).collect();
        let Some(inbox) = graph.main().signals.get(self.name.as_str()) else {
            let near = nearest(&self.name, known.iter().copied());
            let hint = match (near, known.is_empty()) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, false) => format!("its inboxes: {}", known.join(", ")),
                (None, true) => "the flow has no `signals:`".to_owned(),
            };
            return Err(Error::not_found(format!(
                "`{}` has no inbox `{}`",
                summary.flow, self.name
            ))
            .hint(hint));
        };
        let schema = inbox.schema().clone();
        let value = match &self.json_value {
            Some(text) => exact_json(text)
                .map_err(|error| Error::usage("--json-value holds no JSON").because(error))?,
            None if self.fields.len() == 1 && !self.fields[0].contains('=') => {
                input::typed(&self.name, &self.fields[0], &schema, &schema)?
            }
            None => Value::Object(input::pairs(&self.fields, &schema)?),
        };
        let id = self.id.map(Arc::from);
        let message = Message::Signal {
            name: self.name.as_str().into(),
            value: Val::new(value),
            id,
        };
        let sent = messages::send(&shelf, &summary, &message, self.sending)?;
        sent.tell(
            context,
            self.json.json,
            &summary.run,
            &format!("the message for {}", self.name),
        )
    }
}
