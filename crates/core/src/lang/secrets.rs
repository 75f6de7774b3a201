//! Secrets written into flows: strings that look like keys of services.

use std::ops::Range;

/// How keys of services begin, and the least number of characters that follow.
const PREFIXES: &[(&str, usize, &str)] = &[
    ("sk-ant-", 20, "an API key"),
    ("sk-", 20, "an API key"),
    ("sk_live_", 16, "an API key"),
    ("rk_live_", 16, "an API key"),
    ("ghp_", 30, "a GitHub token"),
    ("gho_", 30, "a GitHub token"),
    ("ghs_", 30, "a GitHub token"),
    ("github_pat_", 30, "a GitHub token"),
    ("glpat-", 18, "a GitLab token"),
    ("xoxb-", 20, "a Slack token"),
    ("xoxp-", 20, "a Slack token"),
    ("AKIA", 16, "an AWS access key"),
    ("ASIA", 16, "an AWS access key"),
    ("AIza", 30, "a Google API key"),
    ("hf_", 30, "a Hugging Face token"),
    ("npm_", 30, "an npm token"),
];

/// Least length of a token after `Bearer `.
const BEARER_CHARACTERS_MIN: usize = 8;
/// Least length of a literal under a name such as `password`.
const NAMED_CHARACTERS_MIN: usize = 8;

/// No key that is looked for is shorter.
const TEXT_BYTES_MIN: usize = 14;

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '+' | '/' | '=')
}

/// The first key-like string in a text and what it looks like.
pub(crate) fn find(text: &str) -> Option<(Range<usize>, &'static str)> {
    if text.len() < TEXT_BYTES_MIN {
        return None;
    }
    if let Some(at) = text.find("-----BEGIN ")
        && text[at..]
            .lines()
            .next()
            .is_some_and(|line| line.contains("PRIVATE KEY"))
    {
        let end = text[at..].find('\n').map_or(text.len(), |len| at + len);
        return Some((at..end, "a private key"));
    }
    for word in ["Bearer ", "bearer ", "Basic "] {
        if let Some(at) = text.find(word) {
            let start = at + word.len();
            let length = text[start..].chars().take_while(|c| is_token(*c)).count();
            let mixed = text[start..start + length]
                .chars()
                .any(|c| c.is_ascii_digit());
            let header = at == 0 || text[..at].to_ascii_lowercase().trim_end().ends_with(':');
            if length >= BEARER_CHARACTERS_MIN && (mixed || header) {
                return Some((start..start + length, "a token"));
            }
        }
    }
    for (prefix, least, what) in PREFIXES {
        for (at, _) in text.match_indices(prefix) {
            let starts = text[..at]
                .chars()
                .next_back()
                .is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
            let rest = &text[at + prefix.len()..];
            let length = rest
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                .count();
            let mixed = rest[..length].chars().any(|c| c.is_ascii_digit());
            if starts && length >= *least && mixed {
                return Some((at..at + prefix.len() + length, what));
            }
        }
    }
    None
}

/// Whether a literal stands under a name that says it is a secret.
pub(crate) fn is_literal_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let says = [
        "password",
        "passwd",
        "api_key",
        "apikey",
        "secret_key",
        "client_secret",
        "access_token",
        "auth_token",
        "private_key",
    ]
    .iter()
    .any(|word| name == *word || name.ends_with(&format!("_{word}")));
    says && value.chars().count() >= NAMED_CHARACTERS_MIN
        && !value.contains("{{")
        && !value.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_services_are_found_and_prose_is_not() {
        let found = |text: &str| find(text).map(|(range, _)| text[range].to_owned());
        assert_eq!(
            found("Bearer abcdef0123456789"),
            Some("abcdef0123456789".to_owned())
        );
        assert_eq!(
            found("Authorization: Bearer topsecrettoken"),
            Some("topsecrettoken".to_owned())
        );
        assert_eq!(
            found("use sk-proj-0123456789abcdefghij now"),
            Some("sk-proj-0123456789abcdefghij".to_owned())
        );
        assert_eq!(
            found("AKIAIOSFODNN7EXAMPLE"),
            Some("AKIAIOSFODNN7EXAMPLE".to_owned())
        );
        assert_eq!(found("Bearer {{ secrets.token }}"), None);
        assert_eq!(found("the Bearer of this letter"), None);
        assert_eq!(
            found("risk-averse people task-oriented-and-so-on-forever"),
            None
        );
        assert!(is_literal_secret("db_password", "hunter2hunter2"));
        assert!(!is_literal_secret("password", "{{ secrets.db }}"));
        assert!(!is_literal_secret("max_tokens", "12345678"));
    }
}
