//! What is known about model endpoints: providers, models, prices, limits. Plain data; read from `ravel.toml` by the
//! binary and completed from the environment.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use ravel_core::effect::{ErrorClass, Failure, Millis};
use secrecy::SecretString;
use serde::Deserialize;

use super::providers;

/// Environment variable with the URL of the endpoint for ad-hoc runs.
pub const ENV_URL: &str = "RAVEL_MODEL_URL";
/// Environment variable with the model's name at that endpoint.
pub const ENV_MODEL: &str = "RAVEL_MODEL";
/// Environment variable with that endpoint's key.
pub const ENV_KEY: &str = "RAVEL_MODEL_KEY";
/// Environment variable with what that model costs, in dollars per million tokens: `IN/OUT`, or one number for both.
pub(crate) const ENV_PRICE: &str = "RAVEL_MODEL_PRICE";
/// The version of the price table that [`ENV_PRICE`] makes.
const ENV_PRICE_VERSION: &str = "environment";
/// The name that the endpoint of [`ENV_URL`] gets as a provider.
pub const ENV_PROVIDER: &str = "env";
/// The model name that is sent when [`ENV_MODEL`] is not set: single-model servers ignore it.
const ENV_MODEL_DEFAULT: &str = "default";
/// Longest chain of aliases.
const ALIAS_DEPTH_MAX: usize = 8;

/// Providers and aliases.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Endpoints by name; an entry replaces the built-in row of that name.
    pub providers: BTreeMap<String, Provider>,
    /// Aliases that flows use: `provider/model`, or another alias.
    pub models: BTreeMap<String, String>,
    /// What a plain name means that is no alias. Set by [`Config::with_env`] for runs without a project.
    #[serde(skip)]
    pub otherwise: Option<String>,
}

/// An OpenAI-compatible endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    /// Base URL, as for other clients (`https://api.example.com/v1`), or the whole URL of the chat endpoint.
    pub url: String,
    /// Where its key is. Absent: no `Authorization` header.
    pub key: Option<KeySource>,
    /// Further headers of each call.
    pub headers: BTreeMap<String, String>,
    /// What it does differently.
    pub quirks: Quirks,
    /// Limits of its calls.
    pub limits: Limits,
    /// What is known about its models, by their names there. Others can be called too: nothing is known about them.
    pub models: BTreeMap<String, Model>,
}

impl Provider {
    /// The URL that a call is posted to.
    #[must_use]
    pub fn chat_url(&self) -> String {
        let base = self.url.trim_end_matches('/');
        let path = base
            .split_once("://")
            .map_or(base, |(_, rest)| rest)
            .split_once('/');
        match path {
            Some(_) if base.ends_with("/chat/completions") => base.to_owned(),
            Some(_) => format!("{base}/chat/completions"),
            None => format!("{base}/v1/chat/completions"),
        }
    }
}

/// Where a key is: never the key itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeySource {
    /// An environment variable.
    Env(String),
    /// The first line of a file.
    File(PathBuf),
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "environment variable `{name}`"),
            Self::File(path) => write!(f, "file `{}`", path.display()),
        }
    }
}

impl KeySource {
    /// Reads the key. Done for each call, so that a renewed key needs no restart.
    pub(crate) fn read(&self) -> Result<SecretString, Failure> {
        let text = match self {
            Self::Env(name) => std::env::var(name).ok(),
            Self::File(path) => std::fs::read_to_string(path).ok(),
        };
        let key = text
            .as_deref()
            .and_then(|text| text.lines().next())
            .map(str::trim)
            .unwrap_or_default();
        if key.is_empty() {
            let message =
                format!("the endpoint's key is missing: {self} is not set, not readable or empty");
            return Err(Failure::new(ErrorClass::Unauthorized, message).with_code("key_missing"));
        }
        Ok(SecretString::from(key))
    }
}

/// What an endpoint does differently. The defaults fit an unknown server: everything is asked for, and the schema is
/// also in the prompt in case `response_format` is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quirks {
    /// How a schema is asked for.
    pub schema: SchemaMode,
    /// Put the schema into the prompt even where `response_format` carries it.
    pub schema_in_prompt: bool,
    /// The field that limits output tokens.
    pub max_tokens: MaxTokensField,
    /// Answers come as a stream. Off: one body.
    pub stream: bool,
    /// `stream_options.include_usage` is understood.
    pub stream_usage: bool,
    /// `temperature`.
    pub temperature: Support,
    /// `seed`.
    pub seed: Support,
    /// `stop`.
    pub stop: StopSupport,
    /// Whether connections are used again.
    pub connections: Connections,
}

impl Default for Quirks {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

impl Quirks {
    /// Those of a server that nothing is known about.
    pub const UNKNOWN: Self = Self {
        schema: SchemaMode::JsonSchema,
        schema_in_prompt: true,
        max_tokens: MaxTokensField::MaxTokens,
        stream: true,
        stream_usage: true,
        temperature: Support::Pass,
        seed: Support::Pass,
        stop: StopSupport::Pass,
        connections: Connections::Auto,
    };
}

/// Whether connections are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Kept, except to loopback.
    Auto,
    /// Kept.
    Keep,
    /// A new one for each call.
    Fresh,
}

/// How a schema is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaMode {
    /// `response_format: {type: json_schema}`: constrained decoding.
    JsonSchema,
    /// `response_format: {type: json_object}`, the schema in the prompt.
    JsonObject,
    /// The schema in the prompt alone.
    Prompt,
}

/// The field that limits output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// What becomes of a sampling parameter that nothing can stand in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// It is passed on.
    Pass,
    /// It is left out, knowingly, and the attempt says so.
    LeaveOut,
    /// A call that sets it is refused before it is sent.
    Refuse,
}

/// What becomes of stop strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopSupport {
    /// They are passed on.
    Pass,
    /// The text is cut here, at the first one.
    Emulate,
    /// A call that sets them is refused before it is sent.
    Refuse,
}

/// What is known about a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Most tokens of prompt and answer together.
    pub context: Option<u64>,
    /// What it costs. Absent: not known, so that a budget in dollars does not let it be called.
    pub prices: Option<Prices>,
}

/// A price table, in micro-dollars per million tokens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Which table this is; recorded with each attempt.
    pub version: String,
    /// Prompt tokens that no cache served.
    pub input: u64,
    /// Prompt tokens from the provider's cache. Absent: as `input`.
    #[serde(default)]
    pub cached: Option<u64>,
    /// Completion tokens, reasoning included.
    pub output: u64,
    /// Prices of long prompts; the highest tier that is reached holds for the whole call.
    #[serde(default)]
    pub above: Vec<Tier>,
}

impl Prices {
    /// The most that a token of a prompt and one of an answer cost in a call, whatever its length: what is reserved
    /// before a call cannot know which tier its prompt reaches. `context` is the longest prompt that there is.
    #[must_use]
    pub fn at_most(&self, context: Option<u64>) -> (u64, u64) {
        let reached = |tier: &&Tier| context.is_none_or(|context| tier.tokens < context);
        let tiers = || self.above.iter().filter(reached);
        let input = tiers().map(|tier| tier.input.max(tier.cached.unwrap_or(0)));
        let first = self.input.max(self.cached.unwrap_or(0));
        let output = tiers().map(|tier| tier.output);
        (
            input.fold(first, u64::max),
            output.fold(self.output, u64::max),
        )
    }
}

/// Prices that hold above a number of prompt tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Prompt tokens, cached ones included, above which it holds.
    pub tokens: u64,
    /// As [`Prices::input`].
    pub input: u64,
    /// As [`Prices::cached`].
    #[serde(default)]
    pub cached: Option<u64>,
    /// As [`Prices::output`].
    pub output: u64,
}

/// Limits of one call, each with a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most ms until a connection stands.
    pub connect_timeout_ms: Millis,
    /// Most ms until the first token (with `stream` off: until the headers of the answer).
    pub first_token_timeout_ms: Millis,
    /// Most ms between two tokens (with `stream` off: between two pieces of the body).
    pub idle_timeout_ms: Millis,
    /// Most ms that a whole answer waits for its usage and end marker.
    pub tail_timeout_ms: Millis,
    /// Most bytes of an answer, and of one event of its stream.
    pub answer_bytes_max: usize,
    /// Most bytes of an error's body that are kept.
    pub error_bytes_max: usize,
    /// Largest image file.
    pub image_bytes_max: u64,
}

impl Limits {
    /// The defaults. Two minutes to the first token: a long prompt on a small machine is read slowly.
    pub const DEFAULT: Self = Self {
        connect_timeout_ms: 10_000,
        first_token_timeout_ms: 120_000,
        idle_timeout_ms: 60_000,
        tail_timeout_ms: 2_000,
        answer_bytes_max: 16 * 1024 * 1024,
        error_bytes_max: 4 * 1024,
        image_bytes_max: 20 * 1024 * 1024,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a name in a flow leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    /// The provider's name.
    pub(crate) provider: String,
    /// The endpoint.
    pub(crate) endpoint: Provider,
    /// The model's name there.
    pub(crate) model: String,
}

impl Target {
    /// Most tokens of prompt and answer together.
    pub(crate) fn context(&self) -> Option<u64> {
        self.endpoint.models.get(&self.model)?.context
    }

    /// What the model costs.
    pub(crate) fn prices(&self) -> Option<&Prices> {
        self.endpoint.models.get(&self.model)?.prices.as_ref()
    }
}

impl Config {
    /// Completes the configuration from the environment: with [`ENV_URL`] set, every name that is no alias, `default`
    /// for one, means [`ENV_MODEL`] at that endpoint.
    #[must_use]
    pub fn with_env(mut self, variable: impl Fn(&str) -> Option<String>) -> Self {
        let Some(url) = variable(ENV_URL).filter(|url| !url.is_empty()) else {
            return self;
        };
        let key = variable(ENV_KEY)
            .filter(|key| !key.is_empty())
            .map(|_| KeySource::Env(ENV_KEY.to_owned()));
        let model = variable(ENV_MODEL).filter(|model| !model.is_empty());
        let model = model.unwrap_or_else(|| ENV_MODEL_DEFAULT.to_owned());
        let prices = variable(ENV_PRICE).and_then(|price| prices_of_env(&price));
        let known = Model {
            prices,
            ..Model::default()
        };
        self.otherwise = Some(format!("{ENV_PROVIDER}/{model}"));
        self.providers.insert(
            ENV_PROVIDER.to_owned(),
            Provider {
                url,
                key,
                models: BTreeMap::from([(model, known)]),
                ..Provider::default()
            },
        );
        self
    }

    /// The names of providers: those of the configuration and the built-in ones.
    #[must_use]
    pub fn provider_names(&self) -> Vec<String> {
        let built_in = providers::names().filter(|name| !self.providers.contains_key(*name));
        let written = self.providers.keys().cloned();
        written.chain(built_in.map(str::to_owned)).collect()
    }

    /// The aliases, and the models as `provider/model`, whose price is known.
    #[must_use]
    pub fn priced_names(&self) -> Vec<String> {
        let models = self.providers.iter().flat_map(|(provider, row)| {
            let models = row.models.keys();
            models.map(move |model| format!("{provider}/{model}"))
        });
        let names = models.chain(self.models.keys().cloned());
        names.filter(|name| self.prices(name).is_some()).collect()
    }

    /// True when a flow may use this name.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.resolve(name).is_ok()
    }

    /// What the model behind a name costs. `None`: that, or the name, is not known.
    #[must_use]
    pub fn prices(&self, name: &str) -> Option<Prices> {
        self.resolve(name).ok()?.prices().cloned()
    }

    /// The most that a token costs, of a prompt and of an answer: see [`Prices::at_most`].
    #[must_use]
    pub fn prices_at_most(&self, name: &str) -> Option<(u64, u64)> {
        let target = self.resolve(name).ok()?;
        let model = target.endpoint.models.get(&target.model)?;
        Some(model.prices.as_ref()?.at_most(model.context))
    }

    /// What a name means: an alias, else `provider/model`, else the endpoint of the environment.
    pub(crate) fn resolve(&self, name: &str) -> Result<Target, Failure> {
        let mut written = name;
        for _ in 0..ALIAS_DEPTH_MAX {
            let Some(meaning) = self.models.get(written) else {
                break;
            };
            written = meaning;
        }
        let target = self
            .split(written)
            .or_else(|| self.split(self.otherwise.as_deref()?));
        target.ok_or_else(|| unknown(written))
    }

    fn split(&self, name: &str) -> Option<Target> {
        let (provider, model) = name.split_once('/')?;
        let endpoint = self
            .providers
            .get(provider)
            .cloned()
            .or_else(|| providers::built_in(provider))?;
        let target = || Target {
            provider: provider.to_owned(),
            endpoint,
            model: model.to_owned(),
        };
        (!model.is_empty()).then(target)
    }
}

/// `0.15/0.60`, `0`. Text that is no price is none: a budget in dollars then names the variable.
fn prices_of_env(text: &str) -> Option<Prices> {
    let microusd = |text: &str| {
        let dollars: f64 = text.trim().parse().ok()?;
        (dollars.is_finite() && dollars >= 0.0).then(|| (dollars * 1e6).round() as u64)
    };
    let (input, output) = text.split_once('/').unwrap_or((text, text));
    Some(Prices {
        version: ENV_PRICE_VERSION.to_owned(),
        input: microusd(input)?,
        cached: None,
        output: microusd(output)?,
        above: Vec::new(),
    })
}

fn unknown(name: &str) -> Failure {
    let message = format!(
        "no model is known as `{name}`: add it under [models] in ravel.toml, write provider/model, \
         or set {ENV_URL} and {ENV_MODEL}"
    );
    Failure::new(ErrorClass::NotFound, message).with_code("unknown_model")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config() -> Config {
        serde_json::from_value(json!({
            "providers": { "house": {
                "url": "http://127.0.0.1:9",
                "key": { "env": "HOUSE_KEY" },
                "models": { "small/v2": {
                    "context": 8192,
                    "prices": { "version": "p1", "input": 100, "output": 400, "above": [{ "tokens": 10, "input": 1, "output": 2 }] }
                } }
            } },
            "models": { "fast": "house/small/v2", "quick": "fast", "lost": "nobody/model", "ring": "ring" }
        }))
        .unwrap()
    }

    #[test]
    fn an_alias_leads_to_its_provider_model_and_prices() {
        let prices = Prices {
            version: "p1".to_owned(),
            input: 100,
            cached: None,
            output: 400,
            above: vec![Tier {
                tokens: 10,
                input: 1,
                cached: None,
                output: 2,
            }],
        };
        let model = Model {
            context: Some(8192),
            prices: Some(prices.clone()),
        };
        let expected = Target {
            provider: "house".to_owned(),
            endpoint: Provider {
                url: "http://127.0.0.1:9".to_owned(),
                key: Some(KeySource::Env("HOUSE_KEY".to_owned())),
                models: BTreeMap::from([("small/v2".to_owned(), model)]),
                ..Provider::default()
            },
            model: "small/v2".to_owned(),
        };
        for name in ["fast", "quick", "house/small/v2"] {
            let target = config().resolve(name).unwrap();
            assert_eq!(
                (target.context(), target.prices()),
                (Some(8192), Some(&prices))
            );
            assert_eq!(target, expected);
        }
        assert_eq!(config().prices("quick"), Some(prices));
    }

    #[test]
    fn the_most_that_a_call_can_cost_is_that_of_its_dearest_tier() {
        let tier = |tokens, input, cached, output| Tier {
            tokens,
            input,
            cached,
            output,
        };
        let prices = Prices {
            version: "p1".to_owned(),
            input: 100,
            cached: Some(120),
            output: 400,
            above: vec![
                tier(10, 200, None, 300),
                tier(1_000, 150, Some(250), 800),
                tier(100_000, 900, None, 900),
            ],
        };
        assert_eq!(prices.at_most(None), (900, 900));
        assert_eq!(prices.at_most(Some(100_000)), (250, 800));
        assert_eq!(prices.at_most(Some(10)), (120, 400));
        assert_eq!(config().prices_at_most("quick"), Some((100, 400)));
        assert_eq!(config().prices_at_most("lost"), None);
    }

    #[test]
    fn a_built_in_provider_needs_no_configuration() {
        let target = config().resolve("openai/some-model").unwrap();
        assert_eq!(
            (target.provider.as_str(), target.model.as_str()),
            ("openai", "some-model")
        );
        assert_eq!(
            target.endpoint.quirks.max_tokens,
            MaxTokensField::MaxCompletionTokens
        );
        assert_eq!((target.context(), target.prices()), (None, None));
    }

    #[test]
    fn the_environment_gives_unknown_names_a_meaning_and_leaves_aliases_alone() {
        let variables = |name: &str| match name {
            ENV_URL => Some("http://127.0.0.1:7".to_owned()),
            ENV_KEY => Some("k".to_owned()),
            _ => None,
        };
        let config = config().with_env(variables);
        let target = config.resolve("strong").unwrap();
        assert_eq!(
            (target.provider.as_str(), target.model.as_str()),
            (ENV_PROVIDER, ENV_MODEL_DEFAULT)
        );
        assert_eq!(
            target.endpoint.key,
            Some(KeySource::Env(ENV_KEY.to_owned()))
        );
        assert_eq!(config.resolve("fast").unwrap().provider, "house");
        assert_eq!(Config::default().with_env(|_| None), Config::default());
    }

    #[test]
    fn an_unknown_name_is_refused_with_what_to_do() {
        for (name, meaning) in [
            ("slow", "slow"),
            ("lost", "nobody/model"),
            ("ring", "ring"),
            ("house/", "house/"),
        ] {
            let message = format!(
                "no model is known as `{meaning}`: add it under [models] in ravel.toml, write provider/model, \
                 or set RAVEL_MODEL_URL and RAVEL_MODEL"
            );
            let expected = Failure::new(ErrorClass::NotFound, message).with_code("unknown_model");
            assert_eq!(
                (config().resolve(name), config().knows(name)),
                (Err(expected), false)
            );
        }
        assert!(config().knows("fast"));
    }

    #[test]
    fn the_environment_says_what_its_model_costs_or_nobody_knows() {
        let prices = |price: Option<&str>| {
            let price = price.map(str::to_owned);
            let variable = |name: &str| match name {
                ENV_URL => Some("http://127.0.0.1:9".to_owned()),
                ENV_PRICE => price.clone(),
                _ => None,
            };
            let config = Config::default().with_env(variable);
            let prices = config.prices("any");
            prices.map(|prices| (prices.input, prices.output))
        };
        assert_eq!(prices(None), None);
        assert_eq!(prices(Some("0")), Some((0, 0)));
        assert_eq!(prices(Some("0.15 / 0.6")), Some((150_000, 600_000)));
        for wrong in ["", "cheap", "-1", "1/", "NaN", "inf"] {
            assert_eq!(prices(Some(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn the_models_with_a_price_are_named_by_provider_and_by_alias() {
        let config: Config = serde_json::from_value(json!({
            "providers": { "ollama": { "url": "http://127.0.0.1:9", "models": {
                "own": { "prices": { "version": "own", "input": 0, "output": 0 } },
                "other": { "context": 100 },
            } } },
            "models": { "fast": "ollama/own", "strong": "ollama/other" },
        }))
        .unwrap();
        assert_eq!(config.priced_names(), ["ollama/own", "fast"]);
        assert_eq!(config.provider_names()[..2], ["ollama", "openai"]);
    }

    #[test]
    fn the_chat_url_follows_from_any_usual_base() {
        let cases = [
            (
                "http://127.0.0.1:8080",
                "http://127.0.0.1:8080/v1/chat/completions",
            ),
            (
                "http://127.0.0.1:8080/",
                "http://127.0.0.1:8080/v1/chat/completions",
            ),
            (
                "https://a.example/v1/",
                "https://a.example/v1/chat/completions",
            ),
            (
                "https://a.example/openai/v1",
                "https://a.example/openai/v1/chat/completions",
            ),
            (
                "https://a.example/x/chat/completions",
                "https://a.example/x/chat/completions",
            ),
        ];
        for (url, expected) in cases {
            let provider = Provider {
                url: url.to_owned(),
                ..Provider::default()
            };
            assert_eq!(provider.chat_url(), expected);
        }
    }

    #[test]
    fn a_misspelt_key_in_the_configuration_is_refused() {
        let result = serde_json::from_value::<Config>(
            json!({ "providers": { "p": { "url": "http://x", "kee": 1 } } }),
        );
        assert!(
            result
                .unwrap_err()
                .to_string()
                .contains("unknown field `kee`")
        );
    }
}
