//! The environment of a process: what is handed on from the engine's own, and nothing else.

/// Variables of the engine's environment that every process gets. Anything else must be named in `env:`.
pub const ENV_ALLOWED: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "HOSTNAME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "XDG_CACHE_HOME",
    "PYENV_VERSION",
];
/// Variables that start like this are handed on too.
pub const ENV_ALLOWED_PREFIX: &str = "LC_";

/// The allowed part of an environment. Entries that are not UTF-8 are left out.
pub fn allowed(
    vars: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Vec<(String, String)> {
    let text = |(key, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((key.into_string().ok()?, value.into_string().ok()?))
    };
    let allowed = |key: &str| ENV_ALLOWED.contains(&key) || key.starts_with(ENV_ALLOWED_PREFIX);
    vars.into_iter()
        .filter_map(text)
        .filter(|(key, _)| allowed(key))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_variables_are_handed_on() {
        let vars = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("RAVEL_SECRET_A", "y"),
        ];
        let vars = vars.map(|(key, value)| (key.into(), value.into()));
        assert_eq!(
            allowed(vars),
            [("PATH", "/bin"), ("LC_ALL", "C")].map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
    }
}
