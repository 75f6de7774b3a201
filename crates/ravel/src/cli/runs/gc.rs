//! `ravel runs gc`: retention.

use clap::Args;
use ravel_core::port_store::Listing as _;
use serde_json::json;

use crate::cli::{Context, Json};
use crate::config::counted;
use crate::error::Result;
use crate::exit::Exit;
use crate::output::units;
use crate::wire::{self, store_error};

/// Deletes runs that have been over for long
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  ravel runs gc --older-than 30d --dry-run\n  ravel runs gc --older-than 7d --keep 100\n\n\
    Live runs, and runs that a live fork continues, stay."
)]
pub(super) struct Gc {
    /// Runs whose last turn is older than this
    #[arg(long, value_name = "SPAN", value_parser = units::parse_duration)]
    older_than: u64,
    /// Keeps at least so many of the newest runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    keep: usize,
    /// Only says what would be deleted
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    json: Json,
}

impl Gc {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let config = context.config()?;
        let collected = match wire::open_existing(&config)? {
            Some(shelf) => {
                let before = units::now().saturating_sub(self.older_than);
                let collected = shelf
                    .store
                    .collect(before, self.keep, self.dry_run)
                    .map_err(store_error)?;
                if !self.dry_run {
                    wire::remove_work(&shelf, &config, &collected.runs)?;
                }
                collected
            }
            None => ravel_core::port_store::Collected::default(),
        };
        if self.json.json {
            context
                .output
                .json(&json!({"dry_run": self.dry_run, "collected": collected}))?;
            return Ok(Exit::Succeeded);
        }
        let verb = if self.dry_run {
            "would delete"
        } else {
            "deleted"
        };
        context.output.talk(&format!(
            "{verb} {} and {}, {}",
            counted(collected.runs.len(), "run"),
            counted(
                usize::try_from(collected.blobs).unwrap_or(usize::MAX),
                "blob"
            ),
            units::bytes(collected.bytes)
        ));
        if !collected.pinned.is_empty() {
            context.output.talk(&format!(
                "kept as the beginning of a fork: {}",
                collected.pinned.join(", ")
            ));
        }
        Ok(Exit::Succeeded)
    }
}
