//! What a model says, on its way to people and to the steps that take its items.

use ravel_core::value::Val;

use crate::live::Live;
use crate::model;
use crate::secret::{self, Secrets, Stream};

pub(super) struct Sink<'a> {
    pub(super) live: &'a Live,
    /// Name of the streamed field.
    pub(super) field: Option<&'a str>,
    pub(super) scrubber: Stream,
    pub(super) secrets: &'a Secrets,
}

impl Sink<'_> {
    /// Shows what was held back.
    pub(super) fn finish(&mut self) {
        let rest = self.scrubber.finish();
        if !rest.is_empty() {
            self.live.text(&rest);
        }
    }
}

impl model::Sink for Sink<'_> {
    fn text(&mut self, text: &str) {
        let text = self.scrubber.push(text);
        if !text.is_empty() {
            self.live.text(&text);
        }
    }

    fn items(&mut self, items: Vec<Val>) {
        if let Some(field) = self.field {
            let clean =
                |item: Val| match secret::value_has_mark(item.json()) || !self.secrets.is_empty() {
                    true => self
                        .secrets
                        .scrub_value(secret::without_marks(item.into_json()))
                        .into(),
                    false => item,
                };
            self.live
                .items(field, items.into_iter().map(clean).collect());
        }
    }
}
