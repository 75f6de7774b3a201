//! HTTP connections: who is reached how.
//!
//! Connections are kept and used again, but not those to loopback: a new one costs next to nothing there, and small
//! servers close theirs after a streamed answer without saying so, which would lose the next call.
//!
//! Certificates come from the system's store. A machine without one can still talk to loopback; an `https` call then
//! fails with the certificate's error. Proxies of the environment are used, except for plain HTTP to loopback.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ravel_core::effect::Millis;
use reqwest::Url;

use super::config::{Connections, Limits};

/// The clients of one engine, made when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Transport {
    clients: Mutex<BTreeMap<Kind, reqwest::Client>>,
}

/// What clients differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    loopback: bool,
    keep: bool,
    connect_timeout_ms: Millis,
}

impl Transport {
    /// The client for this address, or why there is none.
    pub(crate) fn client(
        &self,
        url: &Url,
        limits: &Limits,
        connections: Connections,
    ) -> Result<reqwest::Client, String> {
        let loopback = url.scheme() == "http" && is_loopback(url);
        let kind = Kind {
            loopback,
            keep: match connections {
                Connections::Auto => !loopback,
                Connections::Keep => true,
                Connections::Fresh => false,
            },
            connect_timeout_ms: limits.connect_timeout_ms,
        };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&kind) {
            return Ok(client.clone());
        }
        let made = if loopback {
            builder(kind).no_proxy().tls_certs_only([]).build()
        } else {
            builder(kind)
                .build()
                .or_else(|_| builder(kind).tls_certs_only([]).build())
        };
        let client = made.map_err(|error| chain(&error))?;
        clients.insert(kind, client.clone());
        Ok(client)
    }
}

/// One call is one attempt: nothing is repeated or followed here.
fn builder(kind: Kind) -> reqwest::ClientBuilder {
    static PROVIDER: OnceLock<()> = OnceLock::new();
    PROVIDER.get_or_init(|| {
        // Somebody in this process may have chosen one already; that one serves too.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let kept_max = if kind.keep { usize::MAX } else { 0 };
    reqwest::Client::builder()
        .pool_max_idle_per_host(kept_max)
        .connect_timeout(Duration::from_millis(kind.connect_timeout_ms))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .tcp_nodelay(true)
        .user_agent(concat!("ravel/", env!("CARGO_PKG_VERSION")))
}

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

/// What went wrong below an error of a client. The error's own text is left out: it holds the address, and that may
/// hold a key.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    std::error::Error::source(error).map_or_else(|| "no cause is known".to_owned(), chain)
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_told_by_its_address() {
        for (url, expected) in [
            ("http://127.0.0.1:1/x", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://127.0.0.1.example/", false),
            ("http://10.0.0.1/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
