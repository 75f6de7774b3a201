//! The providers that need no configuration. One row of data each.

use super::config::{
    KeySource, MaxTokensField, Provider, Quirks, SchemaMode, StopSupport, Support,
};

/// A row: name, base URL, environment variable of the key (empty: none), quirks.
type Row = (&'static str, &'static str, &'static str, Quirks);

/// Serves `json_schema` faithfully, so that the prompt need not repeat the schema.
const FAITHFUL: Quirks = Quirks {
    schema_in_prompt: false,
    ..Quirks::UNKNOWN
};

/// Newer OpenAI models take only `max_completion_tokens`, and some refuse `stop`.
const OPENAI: Quirks = Quirks {
    max_tokens: MaxTokensField::MaxCompletionTokens,
    stop: StopSupport::Emulate,
    ..FAITHFUL
};

/// Knows `json_object` only.
const OBJECT_ONLY: Quirks = Quirks {
    schema: SchemaMode::JsonObject,
    ..Quirks::UNKNOWN
};

/// Sends usage unasked, and has another name for `seed`.
const MISTRAL: Quirks = Quirks {
    stream_usage: false,
    seed: Support::Refuse,
    ..Quirks::UNKNOWN
};

const ROWS: [Row; 9] = [
    (
        "openai",
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        OPENAI,
    ),
    (
        "openrouter",
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
        Quirks::UNKNOWN,
    ),
    (
        "groq",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
        Quirks::UNKNOWN,
    ),
    (
        "mistral",
        "https://api.mistral.ai/v1",
        "MISTRAL_API_KEY",
        MISTRAL,
    ),
    (
        "deepseek",
        "https://api.deepseek.com/v1",
        "DEEPSEEK_API_KEY",
        OBJECT_ONLY,
    ),
    (
        "together",
        "https://api.together.xyz/v1",
        "TOGETHER_API_KEY",
        Quirks::UNKNOWN,
    ),
    ("ollama", "http://127.0.0.1:11434/v1", "", Quirks::UNKNOWN),
    ("llamacpp", "http://127.0.0.1:8080/v1", "", Quirks::UNKNOWN),
    ("vllm", "http://127.0.0.1:8000/v1", "", Quirks::UNKNOWN),
];

/// The names of the built-in providers.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.0)
}

/// The built-in provider of this name.
pub(crate) fn built_in(name: &str) -> Option<Provider> {
    ROWS.iter()
        .find(|row| row.0 == name)
        .map(|&(_, url, key, quirks)| Provider {
            url: url.to_owned(),
            key: (!key.is_empty()).then(|| KeySource::Env(key.to_owned())),
            quirks,
            ..Provider::default()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_providers_go_without_a_key() {
        for (name, url, key, _) in ROWS {
            assert_eq!(
                url.starts_with("http://127.0.0.1:"),
                key.is_empty(),
                "{name}"
            );
            assert!(built_in(name).is_some(), "{name}");
        }
        assert_eq!(built_in("nobody"), None);
    }
}
