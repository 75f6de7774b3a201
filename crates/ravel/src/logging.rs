//! Logs of the program itself, for those who look for a fault: to stderr, off unless asked for by `RAVEL_LOG`.

use tracing_subscriber::EnvFilter;

/// Chooses what is logged: `RAVEL_LOG=info`, `RAVEL_LOG=ravel_engine=debug`.
const FILTER_VARIABLE: &str = "RAVEL_LOG";
/// `RAVEL_LOG_FORMAT=json` writes one JSON object a line.
const FORMAT_VARIABLE: &str = "RAVEL_LOG_FORMAT";

/// Starts logging, in colour where talk is. A filter that cannot be read logs warnings, and says so.
pub(crate) fn init(color: bool) {
    let wanted = std::env::var(FILTER_VARIABLE).unwrap_or_else(|_| "error".to_owned());
    let filter = EnvFilter::try_new(&wanted);
    let broken = filter.as_ref().err().map(ToString::to_string);
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("warn"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(color)
        .with_writer(std::io::stderr);
    let json = std::env::var(FORMAT_VARIABLE).is_ok_and(|format| format == "json");
    let started = if json {
        builder.json().try_init()
    } else {
        builder.try_init()
    };
    if let Err(error) = started {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("no logs: {error}\n").as_bytes(),
        );
    }
    if let Some(broken) = broken {
        tracing::warn!(
            filter = wanted,
            error = broken,
            "the log filter cannot be read"
        );
    }
}
