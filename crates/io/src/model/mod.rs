//! Model calls: a client for every OpenAI-compatible endpoint.
//!
//! One call is one attempt: nothing is retried, no fallback is chosen, no candidate is ranked here; whoever calls
//! decides that from the outcome. What is decided here is what an answer *is*: a stream that broke off, an error inside
//! a 200, a text cut at its limit are never a success, and what was used is booked whatever the end.
//!
//! | file | does | I/O |
//! |---|---|---|
//! | `config` | providers, aliases, prices, limits | reads keys |
//! | `providers` | the built-in providers, one row each | none |
//! | `request`, `schema` | the body of a call | none |
//! | `sse`, `answer`, `extract`, `items` | from bytes to a value | none |
//! | `fault`, `usage` | error classes; tokens and money | none |
//! | `images`, `transport`, `client` | files, connections, the call itself | yes |

mod answer;
mod client;
mod config;
mod extract;
pub(crate) mod fault;
mod images;
mod items;
mod providers;
mod request;
mod schema;
mod sse;
pub(crate) mod transport;
mod usage;

#[cfg(test)]
mod tests;

pub use client::{Call, Client, Sink};
pub use config::{
    Config, Connections, ENV_KEY, ENV_MODEL, ENV_PROVIDER, ENV_URL, KeySource, Limits,
    MaxTokensField, Model, Prices, Provider, Quirks, SchemaMode, StopSupport, Support, Tier,
};
pub use images::ReadFile;
