//! `model:` one model call, and the names of models.

use std::sync::Arc;

use super::text::Places;
use super::{Cx, Lower, Want};
use crate::expr::{ValueTemplate, has_tags};
use crate::graph;
use crate::lang::codes;
use crate::lang::diagnostic::{Problem, names, nearest, quoted};
use crate::lang::limits::MAX_TOKENS_DEFAULT;
use crate::lang::tree::{Map, Node, Value};
use crate::types::Type;

/// How the URL of an image begins.
const IMAGE_URLS: [&str; 3] = ["http://", "https://", "data:"];

impl Lower<'_> {
    pub(super) fn model(&mut self, cx: Cx, map: &Map) -> Option<graph::Kind> {
        let entry = map.get("model")?;
        let name = self.known_model(cx, &entry.node)?;
        let misspelt = || {
            map.keys()
                .any(|key| nearest(key, ["prompt", "messages"]).is_some())
        };
        if !map.contains_key("prompt") && !map.contains_key("messages") && !misspelt() {
            let problem = Problem::new(
                codes::MISSING_KEY,
                entry.key,
                "a model call needs `prompt` or `messages`",
            );
            self.problem(problem.hint("add `prompt: …`"));
        } else if let (Some(_), Some(messages)) = (map.get("prompt"), map.get("messages")) {
            let problem = Problem::new(
                codes::WRONG_PLACE,
                messages.key,
                "`messages` stands in place of `prompt`, not beside it",
            );
            self.problem(problem);
        }
        if let Some(images) = map.get("images") {
            self.image_paths(&images.node);
        }
        let stop = map
            .get("stop")
            .map(|entry| self.texts(&entry.node, "stop"))
            .unwrap_or_default();
        let model = graph::Model {
            name,
            system: self.optional_text(cx, map, "system"),
            prompt: self.optional_text(cx, map, "prompt"),
            messages: self.wanted(cx, map, "messages", messages()),
            images: self.wanted(cx, map, "images", images()),
            examples: self.wanted(cx, map, "examples", examples()),
            max_tokens: self
                .small(map, "max_tokens", 1, 1_000_000)
                .map_or(MAX_TOKENS_DEFAULT, |max| max as u32),
            temperature: map
                .get("temperature")
                .and_then(|entry| self.number(&entry.node, "temperature", 0.0, 2.0)),
            seed: self.small(map, "seed", 0, i64::MAX).map(|seed| seed as u64),
            stop: stop.into_iter().map(|(text, _)| text.into()).collect(),
            emit: map
                .get("emit")
                .and_then(|entry| self.plain_text(&entry.node, "emit"))
                .map(Into::into),
            early: map
                .get("early")
                .and_then(|entry| self.boolean(&entry.node, "early"))
                .unwrap_or(false),
        };
        Some(graph::Kind::Model(Box::new(model)))
    }

    /// A model's name: its alias resolved, known if models are known.
    pub(crate) fn known_model(&mut self, cx: Cx, node: &Node) -> Option<Arc<str>> {
        if let Value::Map(_) = node.value {
            let problem = Problem::new(
                codes::NOT_AVAILABLE,
                node.span,
                "routes among models are not available in this version",
            );
            self.problem(problem.hint("name one model: an alias, or `provider/model`"));
            return None;
        }
        let name = self.plain_text(node, "model")?;
        let target = self.model_name(cx.flow, name);
        let models = self
            .origin
            .catalog
            .as_ref()
            .and_then(|catalog| catalog.models.as_ref());
        if let Some(models) = models
            && !target.contains('/')
            && !models.contains(&target)
        {
            let near = nearest(&target, models.iter().map(String::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if models.is_empty() => format!(
                    "set RAVEL_MODEL_URL, as in `export RAVEL_MODEL_URL=http://127.0.0.1:8080/v1`, and every name is the model there; or define it: `models: {{ {target}: provider/model }}` here or in ravel.toml"
                ),
                None => format!(
                    "the models are {}; or write `provider/model`, or set RAVEL_MODEL_URL to an endpoint of yours",
                    names(models.iter().map(String::as_str))
                ),
            };
            self.problem(
                Problem::new(
                    codes::UNKNOWN_MODEL,
                    node.span,
                    format!("there is no model `{target}`"),
                )
                .hint(hint),
            );
        }
        self.known_provider(&target, node);
        Some(target.into())
    }

    /// The provider of `provider/model`. With an endpoint of the environment every other name is its model.
    fn known_provider(&mut self, target: &str, node: &Node) {
        let Some(catalog) = &self.origin.catalog else {
            return;
        };
        let (Some(models), Some(providers)) = (&catalog.models, &catalog.providers) else {
            return;
        };
        let Some((provider, model)) = target.split_once('/') else {
            return;
        };
        if models.iter().any(|alias| alias == target) || providers.iter().any(|p| p == provider) {
            return;
        }
        let hint = match nearest(provider, providers.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}/{model}`?"),
            None => format!(
                "the providers are {}; another one is a table `[providers.{provider}]` in ravel.toml",
                names(providers.iter().map(String::as_str))
            ),
        };
        let message = format!("there is no provider `{provider}`");
        self.problem(Problem::new(codes::UNKNOWN_MODEL, node.span, message).hint(hint));
    }

    /// A path on this machine is no image: nothing would read it.
    fn image_paths(&mut self, node: &Node) {
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| self.image_paths(item)),
            Value::Text(text)
                if !has_tags(text) && !IMAGE_URLS.iter().any(|start| text.starts_with(start)) =>
            {
                let message = format!("{} is neither a file value nor a URL", quoted(text));
                let problem = Problem::new(codes::LITERAL_MISFIT, node.span, message);
                self.problem(problem.hint(format!(
                    "read it in a step of its own, `photo: {{ tool: file.read, with: {{ path: {}, as: file }} }}`, and show `{{{{ photo.file }}}}`",
                    quoted(text)
                )));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Map(_) => {}
        }
    }

    /// The value under a key whose type the call has.
    fn wanted(&mut self, cx: Cx, map: &Map, key: &str, ty: Type) -> Option<ValueTemplate> {
        let entry = map.get(key)?;
        let want = Want::Type {
            ty,
            code: codes::MISFIT,
            what: format!("`{key}` takes"),
        };
        self.value(cx, &entry.node, want, Places::default())
            .map(|(value, _)| value)
    }
}

/// A conversation.
fn messages() -> Type {
    let content = Type::one_of(&[Type::string(), Type::any().list()]);
    Type::fields([("role", Type::string(), true), ("content", content, true)]).list()
}

/// Answers that are shown as good ones.
fn examples() -> Type {
    Type::fields([("input", Type::any(), true), ("output", Type::any(), true)]).list()
}

/// File values and URLs.
fn images() -> Type {
    let image = Type::one_of(&[Type::file(), Type::string()]);
    Type::one_of(&[image.clone(), image.list()])
}
