//! Expressions as other languages write them, for hints: what was most probably meant at the place of a syntax error.

/// Signs of other languages, and what is written here for them. Longer ones first.
const SIGNS: &[(&str, &str)] = &[
    ("===", "values are compared by `==`"),
    ("<>", "values are told apart by `!=`"),
    (
        "=>",
        "expressions have no functions of their own; lists are worked on by filters, as in `list | map(attribute=\"id\")`",
    ),
    ("=", "values are compared by `==`"),
    ("`", "text stands in quotes: \"…\" or '…'"),
];

/// Words of other languages.
const WORDS: &[(&str, &str)] = &[
    ("AND", "conditions are joined by `and`, in small letters"),
    ("OR", "conditions are joined by `or`, in small letters"),
    (
        "NOT",
        "a condition is turned around by `not`, in small letters",
    ),
    ("IS", "write `is`, in small letters"),
    ("IN", "write `in`, in small letters"),
    ("contains", "write it the other way round: `part in whole`"),
    ("matches", "regular expressions are the tool `text.match`"),
];

/// What was probably meant where an expression could not be parsed.
pub(super) fn slip(source: &str, offset: usize) -> Option<String> {
    let offset = (0..=offset.min(source.len()))
        .rev()
        .find(|at| source.is_char_boundary(*at))?;
    let rest = &source[offset..];
    if rest.starts_with('$') {
        return Some(dollar(rest));
    }
    if source.matches("{{").count() > source.matches("}}").count() {
        return Some(
            "`{{` is closed by `}}`; braces that are text stand in `{% raw %}…{% endraw %}`"
                .to_owned(),
        );
    }
    let word: String = rest.chars().take_while(|c| c.is_alphabetic()).collect();
    if let Some((_, meant)) = WORDS.iter().find(|(other, _)| *other == word) {
        return Some((*meant).to_owned());
    }
    // A sign of several letters may be noticed at any of them.
    SIGNS.iter().find_map(|(sign, meant)| {
        let begins = |back: usize| {
            let start = offset.checked_sub(back)?;
            source.get(start..)?.starts_with(sign).then_some(())
        };
        (0..sign.len())
            .find_map(begins)
            .map(|()| (*meant).to_owned())
    })
}

/// `$json.x`, `${x}`, `$x`.
fn dollar(rest: &str) -> String {
    let of_n8n = ["$json", "$input", "$node", "$items", "$("];
    if of_n8n.iter().any(|start| rest.starts_with(start)) {
        return "that is n8n's: a step's value is read by the name of the step, `{{ step.field }}`, and the flow's input as `{{ input.field }}`".to_owned();
    }
    "names stand without `$`: `{{ step.field }}`, `{{ input.field }}`; a variable of the shell is `$NAME` outside the braces".to_owned()
}

#[cfg(test)]
mod tests {
    use super::slip;

    #[test]
    fn signs_of_other_languages_are_known_wherever_they_are_noticed() {
        for (source, offset, start) in [
            ("a = 0", 2, "values are compared"),
            ("a === 0", 4, "values are compared"),
            ("a <> b", 3, "values are told apart"),
            ("a AND b", 2, "conditions are joined by `and`, in"),
            ("ä = 1", 3, "values are compared"),
            ("{{ $json.x }}", 3, "that is n8n's"),
            ("{{ ${x} }}", 3, "names stand without"),
            ("{{ abc", 3, "`{{` is closed"),
        ] {
            let found = slip(source, offset).unwrap_or_default();
            assert!(found.starts_with(start), "{source}: {found}");
        }
        assert_eq!(slip("a + ", 4), None);
        assert_eq!(slip("a >= b c", 7), None);
    }
}
