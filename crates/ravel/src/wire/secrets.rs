//! `[secrets]` of the configuration: names of places, never values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ravel_io::secret::Source;
use serde::Deserialize;

use crate::config::Config;
use crate::error::Result;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Env(String),
    File(PathBuf),
}

/// Where each named secret comes from.
pub(crate) fn sources(config: &Config) -> Result<BTreeMap<String, Source>> {
    let written: BTreeMap<String, Written> = config.section("secrets")?;
    Ok(written
        .into_iter()
        .map(|(name, source)| match source {
            Written::Env(variable) => (name, Source::Env(variable)),
            Written::File(path) => (name, Source::File(path)),
        })
        .collect())
}
