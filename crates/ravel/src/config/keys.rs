//! Every key of `ravel.toml`: one table from which files are checked, `ravel config --keys` prints and the reference
//! is generated.

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A string.
    Text,
    /// An integer, zero or more.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A path; relative to the file that says it.
    Path,
    /// Anything, tables included: checked by whoever reads it.
    Anything,
}

impl Shape {
    /// The words for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Integer => "a whole number",
            Self::Boolean => "true or false",
            Self::Path => "a path",
            Self::Anything => "anything",
        }
    }

    /// True when the value has this shape.
    pub(crate) fn fits(self, value: &serde_json::Value) -> bool {
        match self {
            Self::Text | Self::Path => value.is_string(),
            Self::Integer => value.is_u64(),
            Self::Boolean => value.is_boolean(),
            Self::Anything => true,
        }
    }
}

/// A key, or a family of keys: `*` stands for a name of the user's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    /// Segments separated by dots.
    pub(crate) pattern: &'static str,
    pub(crate) shape: Shape,
    /// One sentence.
    pub(crate) doc: &'static str,
}

const fn key(pattern: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key {
        pattern,
        shape,
        doc,
    }
}

/// Every key there is.
pub(crate) const KEYS: &[Key] = &[
    key(
        "store.path",
        Shape::Path,
        "The database. Default: `.ravel/ravel.db` of the project, else of this folder.",
    ),
    key(
        "models.*",
        Shape::Text,
        "An alias for a model: `provider/model`, or another alias.",
    ),
    key(
        "providers.*.url",
        Shape::Text,
        "Base URL of an OpenAI-compatible endpoint, or the whole URL of its chat endpoint.",
    ),
    key(
        "providers.*.key.env",
        Shape::Text,
        "The API key is the value of this environment variable.",
    ),
    key(
        "providers.*.key.file",
        Shape::Path,
        "The API key is the first line of this file.",
    ),
    key(
        "providers.*.headers.*",
        Shape::Text,
        "A further header of each call.",
    ),
    key(
        "providers.*.models.*.context",
        Shape::Integer,
        "Most tokens of prompt and answer together.",
    ),
    key(
        "providers.*.models.*.prices.version",
        Shape::Text,
        "Name of the price table, recorded with each attempt.",
    ),
    key(
        "providers.*.models.*.prices.input",
        Shape::Integer,
        "Micro-dollars for a million prompt tokens: 0 for a model of your own. A budget in dollars needs a price.",
    ),
    key(
        "providers.*.models.*.prices.cached",
        Shape::Integer,
        "The same, served from the provider's cache. Default: as `input`.",
    ),
    key(
        "providers.*.models.*.prices.output",
        Shape::Integer,
        "Micro-dollars for a million completion tokens.",
    ),
    key(
        "providers.*.models.*.prices.above",
        Shape::Anything,
        "Prices of long prompts: a list of `{tokens, input, cached, output}`.",
    ),
    key(
        "providers.*.limits.*",
        Shape::Integer,
        "A limit of each call there; `ravel limits` lists them.",
    ),
    key(
        "providers.*.quirks.schema",
        Shape::Text,
        "How a schema is asked for: `json_schema`, `json_object` or `prompt`.",
    ),
    key(
        "providers.*.quirks.schema_in_prompt",
        Shape::Boolean,
        "Put the schema into the prompt as well.",
    ),
    key(
        "providers.*.quirks.max_tokens",
        Shape::Text,
        "The field that limits output: `max_tokens` or `max_completion_tokens`.",
    ),
    key(
        "providers.*.quirks.stream",
        Shape::Boolean,
        "Answers come as a stream.",
    ),
    key(
        "providers.*.quirks.stream_usage",
        Shape::Boolean,
        "`stream_options.include_usage` is understood.",
    ),
    key(
        "providers.*.quirks.temperature",
        Shape::Text,
        "`pass`, `leave_out` or `refuse`.",
    ),
    key(
        "providers.*.quirks.seed",
        Shape::Text,
        "`pass`, `leave_out` or `refuse`.",
    ),
    key(
        "providers.*.quirks.stop",
        Shape::Text,
        "`pass`, `emulate` or `refuse`.",
    ),
    key(
        "providers.*.quirks.connections",
        Shape::Text,
        "Used again except to loopback (`auto`), always (`keep`), never (`fresh`).",
    ),
    key(
        "secrets.*.env",
        Shape::Text,
        "The secret is the value of this environment variable.",
    ),
    key(
        "secrets.*.file",
        Shape::Path,
        "The secret is the text of this file, its last line break removed.",
    ),
    key(
        "tools.*",
        Shape::Anything,
        "Tool servers (reserved; checked when they are supported).",
    ),
    key(
        "defaults.*",
        Shape::Anything,
        "Defaults of a step kind for every flow of the project, as in `defaults:` of a flow.",
    ),
    key(
        "limits.run.*",
        Shape::Integer,
        "A limit of each run, recorded when it starts; `ravel limits` lists them.",
    ),
    key(
        "limits.*",
        Shape::Integer,
        "A limit of the engine; `ravel limits` lists them.",
    ),
];

/// What a path of segments is in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// A key with a value.
    Key(&'static Key),
    /// A table on the way to keys.
    Table,
    /// Nothing.
    Unknown,
}

/// Looks a path up.
pub(crate) fn find(path: &[String]) -> Known {
    let mut table = false;
    for key in KEYS {
        let pattern: Vec<&str> = key.pattern.split('.').collect();
        let fits = pattern
            .iter()
            .zip(path)
            .all(|(segment, name)| *segment == "*" || segment == name);
        if !fits {
            continue;
        }
        let inside = key.shape == Shape::Anything && path.len() >= pattern.len();
        if path.len() == pattern.len() || inside {
            return Known::Key(key);
        }
        if path.len() < pattern.len() {
            // A table's own name wins over the star of another pattern: `limits.run` is no limit called `run`.
            if path
                .last()
                .is_some_and(|name| name == pattern[path.len() - 1])
            {
                return Known::Table;
            }
            table = true;
        }
    }
    if table { Known::Table } else { Known::Unknown }
}

/// True when there are keys below this path.
pub(crate) fn has_below(path: &[String]) -> bool {
    KEYS.iter().any(|key| {
        let pattern: Vec<&str> = key.pattern.split('.').collect();
        pattern.len() > path.len()
            && pattern
                .iter()
                .zip(path)
                .all(|(segment, name)| *segment == "*" || segment == name)
    })
}

/// Names that could stand after this prefix, for hints.
pub(crate) fn names_after(prefix: &[String]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = KEYS
        .iter()
        .filter_map(|key| {
            let pattern: Vec<&'static str> = key.pattern.split('.').collect();
            let fits = pattern.len() > prefix.len()
                && pattern
                    .iter()
                    .zip(prefix)
                    .all(|(segment, name)| *segment == "*" || segment == name);
            fits.then(|| pattern[prefix.len()])
                .filter(|segment| *segment != "*")
        })
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn stars_stand_for_names_and_anything_for_subtrees() {
        assert!(
            matches!(find(&path("store.path")), Known::Key(key) if key.pattern == "store.path")
        );
        assert!(matches!(
            find(&path("providers.local.models.qwen.prices.input")),
            Known::Key(_)
        ));
        assert!(
            matches!(find(&path("tools.crm.headers.x")), Known::Key(key) if key.pattern == "tools.*")
        );
        assert!(matches!(find(&path("providers.local")), Known::Table));
        assert!(matches!(find(&path("limits.run")), Known::Table));
        assert!(matches!(find(&path("limits.runs")), Known::Key(_)));
        assert!(matches!(find(&path("store.pth")), Known::Unknown));
        assert!(matches!(find(&path("store.path.deep")), Known::Unknown));
    }

    /// What the reader of `[providers]` says when it meets `?` there.
    fn complaint(at: &str, value: serde_json::Value) -> String {
        let path = path(&at.replace('*', "x"));
        let whole = path.into_iter().rev().fold(value, |inner, name| {
            serde_json::Value::Object([(name, inner)].into_iter().collect())
        });
        serde_json::from_value::<ravel_io::model::Config>(whole)
            .unwrap_err()
            .to_string()
    }

    /// The words between backticks.
    fn words(text: &str) -> BTreeSet<String> {
        text.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    /// What would have been right in place of `?`.
    fn expected(complaint: &str) -> BTreeSet<String> {
        let (_, rest) = complaint.split_once("expected").unwrap();
        words(rest)
    }

    #[test]
    fn every_key_that_is_read_is_in_the_table_and_every_one_of_the_table_is_read() {
        for table in [
            "providers.*",
            "providers.*.key",
            "providers.*.models.*",
            "providers.*.models.*.prices",
            "providers.*.quirks",
        ] {
            let read = expected(&complaint(table, serde_json::json!({ "?": "" })));
            let known: BTreeSet<String> = names_after(&path(table))
                .into_iter()
                .map(str::to_owned)
                .collect();
            assert_eq!(known, read, "{table}");
        }
    }

    #[test]
    fn every_word_that_a_quirk_may_be_is_said_with_its_key() {
        let quirks = KEYS
            .iter()
            .filter(|key| key.pattern.contains(".quirks.") && key.shape == Shape::Text);
        for key in quirks {
            let read = expected(&complaint(key.pattern, "?".into()));
            assert_eq!(words(key.doc), read, "{}", key.pattern);
        }
    }

    #[test]
    fn every_key_that_the_guide_to_models_names_is_known() {
        let guide = include_str!("../../../../docs/models.md");
        let named = words(guide)
            .into_iter()
            .filter_map(|words| Some(words.strip_prefix("quirks.")?.split(' ').next()?.to_owned()));
        for name in named {
            let key = path(&format!("providers.x.quirks.{name}"));
            assert!(matches!(find(&key), Known::Key(_)), "{name}");
        }
    }

    #[test]
    fn hints_know_what_could_follow() {
        assert_eq!(names_after(&path("secrets.token")), ["env", "file"]);
        assert_eq!(
            names_after(&path("providers.x")),
            ["url", "key", "headers", "models", "limits", "quirks"]
        );
    }
}
