//! `ravel config`: the merged configuration and where each value comes from.

use clap::Args;
use serde_json::{Value, json};

use super::{Context, Json};
use crate::config::keys::KEYS;
use crate::config::{Config, Entry};
use crate::error::{Error, Result, nearest};
use crate::exit::Exit;
use crate::output::{Column, Table, Tone};

/// Shows the configuration and where each value comes from
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel config\n  ravel config models.fast\n  ravel config --keys\n\n\
    Later sources win, key by key: ~/.config/ravel/ravel.toml, ravel.toml of the project,\n\
    RAVEL_CONFIG__SECTION__KEY and RAVEL_STORE, --config and --store."
)]
pub(super) struct Show {
    /// Only this key, or the keys below it
    key: Option<String>,
    /// Lists every key that there is, with its meaning
    #[arg(long, conflicts_with = "key")]
    keys: bool,
    #[command(flatten)]
    json: Json,
}

impl Show {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        if self.keys {
            return keys(context, self.json.json);
        }
        let config = context.config()?;
        let wanted: Vec<&Entry> = config
            .entries()
            .iter()
            .filter(|entry| self.key.as_ref().is_none_or(|key| is_below(entry, key)))
            .collect();
        if let (Some(key), true) = (&self.key, wanted.is_empty()) {
            let near = nearest(key, KEYS.iter().map(|known| known.pattern));
            return Err(Error::not_found(format!("`{key}` is not set")).maybe_hint(
                near.map(|near| {
                    format!("there is a key `{near}`; `ravel config --keys` lists all")
                }),
            ));
        }
        if self.json.json {
            context.output.json(&document(&config, &wanted))?;
            return Ok(Exit::Succeeded);
        }
        let mut table = Table::new([
            Column::left("key"),
            Column::flexible("value"),
            Column::left("from"),
        ]);
        for entry in wanted {
            table.row([
                (entry.path.join("."), None),
                (entry.value.to_string(), None),
                (entry.origin.to_string(), Some(Tone::Faint)),
            ]);
        }
        if self.key.is_none() {
            let said = config.get("store.path").is_some();
            if !said {
                let path = Value::String(config.store_path().display().to_string());
                table.row([
                    ("store.path".into(), None),
                    (path.to_string(), None),
                    ("default".into(), Some(Tone::Faint)),
                ]);
            }
        }
        context
            .output
            .data(&table.render(context.output.paint, context.output.data_width()))?;
        if config.files().is_empty() {
            context
                .output
                .talk("no ravel.toml was found; `ravel config --keys` lists what can be set");
        }
        Ok(Exit::Succeeded)
    }
}

fn is_below(entry: &Entry, key: &str) -> bool {
    let path = entry.path.join(".");
    path == key
        || path
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with('.'))
}

fn document(config: &Config, entries: &[&Entry]) -> Value {
    let values: Vec<Value> = entries
        .iter()
        .map(|entry| json!({"key": entry.path.join("."), "value": entry.value, "from": entry.origin.to_string()}))
        .collect();
    json!({
        "project": config.project(),
        "files": config.files(),
        "store": config.store_path(),
        "values": values,
    })
}

fn keys(context: &Context, as_json: bool) -> Result<Exit> {
    if as_json {
        let keys: Vec<Value> = KEYS
            .iter()
            .map(|key| json!({"key": key.pattern, "type": key.shape.name(), "doc": key.doc}))
            .collect();
        context.output.json(&json!({"keys": keys}))?;
    } else {
        let mut table = Table::new([
            Column::left("key"),
            Column::left("type"),
            Column::flexible("meaning"),
        ]);
        for key in KEYS {
            table.row([
                (key.pattern.to_owned(), None),
                (key.shape.name().to_owned(), Some(Tone::Faint)),
                (key.doc.to_owned(), None),
            ]);
        }
        context
            .output
            .data(&table.render(context.output.paint, context.output.data_width()))?;
    }
    Ok(Exit::Succeeded)
}
