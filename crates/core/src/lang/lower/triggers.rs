//! `triggers:`: kept as written for the server; their form is checked here.

use super::Lower;
use crate::lang::diagnostic::Problem;
use crate::lang::tree::{Map, Node};
use crate::lang::{codes, keys};

/// Names and bounds of the fields of `cron`.
const FIELDS: [(&str, u32, u32); 5] = [
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
];

impl Lower<'_> {
    /// Checks the triggers of a flow.
    pub(crate) fn triggers(&mut self, node: &Node) {
        for (map, span) in self.table_maps(node, &keys::TRIGGER) {
            let kinds = ["cron", "webhook", "file"];
            if kinds.iter().filter(|kind| map.contains_key(**kind)).count() != 1 {
                let problem = Problem::new(
                    codes::KIND,
                    span,
                    "a trigger is one of `cron`, `webhook` and `file`",
                );
                self.problem(
                    problem.hint("write each as an entry of its own: `- cron: 0 6 * * *`"),
                );
            }
            self.cron(map);
            for key in ["tz", "webhook", "file"] {
                if let Some(entry) = map.get(key) {
                    self.plain_text(&entry.node, key);
                }
            }
            for (key, words) in [
                ("overlap", ["skip", "queue", "allow"]),
                ("missed", ["skip", "once", "all"]),
            ] {
                if let Some(entry) = map.get(key) {
                    self.choice(&entry.node, key, &words);
                }
            }
        }
    }

    fn cron(&mut self, map: &Map) {
        let Some(entry) = map.get("cron") else { return };
        let Some(text) = self.plain_text(&entry.node, "cron") else {
            return;
        };
        let parts: Vec<&str> = text.split_whitespace().collect();
        let why = if parts.len() == FIELDS.len() {
            parts
                .iter()
                .zip(FIELDS)
                .find_map(|(part, (name, low, high))| {
                    (!good_field(part, low, high)).then(|| {
                        format!(
                            "`{part}` is no {name}: {low} to {high}, `*`, `1-5`, `*/15`, or a list"
                        )
                    })
                })
        } else {
            Some(format!(
                "`{text}` has {} fields and not five: minute, hour, day, month, weekday",
                parts.len()
            ))
        };
        if let Some(why) = why {
            self.problem(Problem::new(codes::BAD_FORMAT, entry.node.span, why));
        }
    }
}

/// `*`, `5`, `1-5`, `*/15`, `1,15`.
fn good_field(text: &str, low: u32, high: u32) -> bool {
    let number = |text: &str| {
        text.parse::<u32>()
            .is_ok_and(|number| (low..=high).contains(&number))
    };
    text.split(',').all(|part| {
        let (range, step) = part
            .split_once('/')
            .map_or((part, None), |(range, step)| (range, Some(step)));
        let good_step = step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| step > 0));
        let good_range = match range.split_once('-') {
            Some((from, to)) => number(from) && number(to),
            None => range == "*" || number(range),
        };
        good_step && good_range
    })
}
