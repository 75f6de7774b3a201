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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::names_after;

    #[test]
    fn a_secret_is_read_from_what_the_table_of_keys_says() {
        let said = serde_json::from_str::<Written>(r#"{"?": ""}"#).unwrap_err();
        let words: Vec<String> = said
            .to_string()
            .split('`')
            .skip(3)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        assert_eq!(words, names_after(&["secrets".to_owned(), "x".to_owned()]));
    }
}
