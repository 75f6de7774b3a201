//! The checks of `ravel doctor`: one function each, one line in [`all`].

use std::collections::HashSet;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ravel_core::port_store::{Filter, Listing as _, Log as _};
use serde::Serialize;

use crate::cli::Context;
use crate::config::{Config, counted};
use crate::output::units;
use crate::wire::{self, Shelf, Stored};

/// A machine whose clock is behind this is wrong: the program is newer (2026-01-01).
const CLOCK_EARLIEST_MS: u64 = 1_767_225_600_000;
/// Less free space than this is worth a warning.
const SPACE_WARN_BYTES: u64 = 1 << 30;
/// Less free space than this will not do.
const SPACE_FAIL_BYTES: u64 = 64 << 20;
/// A write-ahead log larger than this was not checkpointed for long.
const WAL_WARN_BYTES: u64 = 256 << 20;
/// How long an endpoint may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The way out of damage.
const REPAIR: &str =
    "`ravel doctor --repair` keeps what is good of every run; or restore the database from a copy";

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

fn ok(name: impl Into<String>, found: impl Into<String>) -> Finding {
    Finding {
        name: name.into(),
        verdict: Verdict::Ok,
        found: found.into(),
        hint: None,
    }
}

fn warn(name: impl Into<String>, found: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding {
        name: name.into(),
        verdict: Verdict::Warn,
        found: found.into(),
        hint: Some(hint.into()),
    }
}

fn fail(name: impl Into<String>, found: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding {
        name: name.into(),
        verdict: Verdict::Fail,
        found: found.into(),
        hint: Some(hint.into()),
    }
}

/// Every check, in the order of what depends on what.
pub(super) fn all(context: &Context, offline: bool) -> Vec<Finding> {
    let mut findings = vec![clock()];
    match context.config() {
        Err(error) => {
            let report = error
                .rendered()
                .map(|text| format!("\n{text}"))
                .unwrap_or_default();
            findings.push(fail(
                "configuration",
                format!("{error}{report}"),
                "`ravel config --keys` lists every key",
            ));
        }
        Ok(config) => {
            findings.push(configuration(&config));
            findings.extend(store(&config));
            findings.extend(space(&config));
            findings.extend(secrets(&config));
            findings.extend(endpoints(&config, offline));
        }
    }
    findings.extend(sandbox());
    findings.push(processes());
    findings.push(program(
        "sh",
        &["-c", "echo ok"],
        Verdict::Fail,
        "`run` steps with shell text need it",
    ));
    findings.push(program(
        "python3",
        &["--version"],
        Verdict::Warn,
        "`run: {python: …}` steps need it",
    ));
    findings.push(program(
        "node",
        &["--version"],
        Verdict::Warn,
        "`run: {node: …}` steps need it",
    ));
    findings
}

fn clock() -> Finding {
    let now = units::now();
    if now < CLOCK_EARLIEST_MS {
        return fail(
            "clock",
            format!("it says {}", units::time(now)),
            "set it: deadlines and ids depend on it",
        );
    }
    ok("clock", units::rfc3339(now))
}

fn configuration(config: &Config) -> Finding {
    let files: Vec<String> = config
        .files()
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    let read = if files.is_empty() {
        "no ravel.toml; defaults".to_owned()
    } else {
        files.join(", ")
    };
    ok(
        "configuration",
        format!("{read} ({})", counted(config.entries().len(), "value")),
    )
}

fn store(config: &Config) -> Vec<Finding> {
    let path = config.store_path();
    let name = format!("store {}", path.display());
    let shelf = match wire::open_existing(config) {
        Ok(Some(shelf)) => shelf,
        Ok(None) => return vec![ok(name, "not there yet; the first run makes it")],
        Err(error) => {
            let why = error.causes().pop().unwrap_or_else(|| error.to_string());
            return vec![fail(
                name,
                why,
                error
                    .hints()
                    .first()
                    .cloned()
                    .unwrap_or_else(|| REPAIR.into()),
            )];
        }
    };
    let mut findings = Vec::new();
    match shelf.store.check() {
        Err(error) => findings.push(fail(name, error.to_string(), REPAIR)),
        Ok(check) if check.damaged.is_empty() && check.file.is_empty() => {
            let runs = usize::try_from(check.whole).unwrap_or(usize::MAX);
            findings.push(ok(
                name,
                format!("{} verified, the file is sound", counted(runs, "run")),
            ));
        }
        Ok(check) => {
            let damaged = check
                .damaged
                .iter()
                .map(|(run, what)| format!("{run}: {what}"));
            let found: Vec<String> = check.file.iter().cloned().chain(damaged).collect();
            findings.push(fail(name, found.join("; "), REPAIR));
        }
    }
    findings.extend(files(&shelf));
    let mut wal = path.into_os_string();
    wal.push("-wal");
    let bytes = std::fs::metadata(Path::new(&wal)).map_or(0, |facts| facts.len());
    findings.push(if bytes > WAL_WARN_BYTES {
        warn(
            "write-ahead log",
            units::bytes(bytes),
            "a process keeps an old reader open: end it, and it is emptied",
        )
    } else {
        ok("write-ahead log", units::bytes(bytes))
    });
    findings
}

/// Stored files that are lost are named, up to so many.
const FILES_NAMED_MAX: usize = 5;

/// The content of the files that the runs of the store refer to.
fn files(shelf: &Shelf) -> Option<Finding> {
    let files = wire::files(shelf);
    let name = format!("files {}", files.folder().display());
    let runs = shelf.store.runs(&Filter::default()).ok()?;
    let mut seen = HashSet::new();
    let mut lost = Vec::new();
    for run in runs.iter().rev() {
        // What cannot be read is told by the check of the store.
        let Ok(turns) = shelf.store.load(&run.run) else {
            continue;
        };
        for Stored { file, maker } in wire::stored(&run.run, &turns) {
            if !seen.insert(file.hash.clone()) {
                continue;
            }
            if let Err(error) = files.open(&file) {
                let step = maker.step.as_deref().unwrap_or("its input");
                let (name, hash) = (&file.name, &file.hash);
                lost.push(format!(
                    "`{name}` ({hash}, from {step} of run {}) {error}",
                    run.run
                ));
            }
        }
    }
    if seen.is_empty() {
        return None;
    }
    let all = counted(seen.len(), "file");
    if lost.is_empty() {
        return Some(ok(name, format!("{all} verified")));
    }
    let count = lost.len();
    lost.truncate(FILES_NAMED_MAX);
    if count > FILES_NAMED_MAX {
        lost.push(format!("and {} more", count - FILES_NAMED_MAX));
    }
    Some(fail(
        name,
        format!("{count} of {all} cannot be had: {}", lost.join("; ")),
        "put them back from a copy, each under its hash; steps that read them fail until then. \
         `ravel runs retry RUN --from STEP` makes one anew in a new run",
    ))
}

fn space(config: &Config) -> Option<Finding> {
    let path = config.store_path();
    let folder = path.ancestors().skip(1).find(|folder| folder.is_dir())?;
    let facts = rustix::fs::statvfs(folder).ok()?;
    let free = facts.f_bavail.saturating_mul(facts.f_frsize);
    let found = format!("{} free at {}", units::bytes(free), folder.display());
    Some(match free {
        0..SPACE_FAIL_BYTES => fail(
            "space",
            found,
            "free some: a full disk stops every run (nothing acknowledged is lost)",
        ),
        SPACE_FAIL_BYTES..SPACE_WARN_BYTES => {
            warn("space", found, "`ravel runs gc` deletes old runs")
        }
        _ => ok("space", found),
    })
}

fn secrets(config: &Config) -> Vec<Finding> {
    let sources = match wire::secret_sources(config) {
        Ok(sources) => sources,
        Err(error) => {
            return vec![fail(
                "secrets",
                error.to_string(),
                "a secret is `env = \"NAME\"` or `file = \"path\"`",
            )];
        }
    };
    let secrets = ravel_io::secret::Secrets::new(sources.clone());
    sources
        .keys()
        .map(|name| match secrets.get(name) {
            Ok(_) => ok(format!("secret {name}"), "there"),
            Err(failure) => warn(
                format!("secret {name}"),
                &*failure.message,
                format!("steps that use it will fail as `{}`", failure.class),
            ),
        })
        .collect()
}

fn endpoints(config: &Config, offline: bool) -> Vec<Finding> {
    let models = match wire::models(config) {
        Ok(models) => models,
        Err(error) => {
            let why = error.causes().pop().unwrap_or_else(|| error.to_string());
            return vec![fail("models", why, "`ravel config --keys` lists every key")];
        }
    };
    if models.providers.is_empty() {
        let hint = "set RAVEL_MODEL_URL, or write [providers.NAME] and [models] into ravel.toml; flows without models need none";
        return vec![warn("models", "no endpoint is configured", hint)];
    }
    let mut findings: Vec<Finding> = Vec::new();
    for (name, provider) in &models.providers {
        let title = format!("endpoint {name}");
        let url = provider.chat_url();
        if offline {
            findings.push(ok(title, format!("{url} (not tried)")));
            continue;
        }
        findings.push(match connect(&url) {
            Ok(()) => ok(title, format!("{url} accepts connections")),
            Err(why) => warn(
                title,
                format!("{url}: {why}"),
                "start the server, or correct providers.*.url",
            ),
        });
    }
    for (alias, model) in &models.models {
        if !models.knows(alias) {
            let hint = "an alias is `provider/model` of a provider that is configured";
            findings.push(fail(
                format!("model {alias}"),
                format!("`{model}` leads nowhere"),
                hint,
            ));
        }
    }
    findings
}

fn connect(url: &str) -> Result<(), String> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| "this is no URL".to_owned())?;
    let host = rest.split('/').next().unwrap_or(rest);
    let host = host.rsplit('@').next().unwrap_or(host);
    let address = if host.rsplit(']').next().unwrap_or(host).contains(':') {
        host.to_owned()
    } else {
        format!("{host}:{}", if scheme == "https" { 443 } else { 80 })
    };
    let mut addresses = address
        .to_socket_addrs()
        .map_err(|error| error.to_string())?;
    let first = addresses
        .next()
        .ok_or_else(|| "the name has no address".to_owned())?;
    TcpStream::connect_timeout(&first, CONNECT_TIMEOUT)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn sandbox() -> Vec<Finding> {
    let probe = ravel_io::sandbox::probe();
    [("workspace", probe.workspace), ("strict", probe.strict)]
        .into_iter()
        .map(|(level, missing)| match missing {
            None => ok(format!("sandbox {level}"), "works"),
            Some(why) => warn(
                format!("sandbox {level}"),
                why,
                "steps that ask for it are refused; nothing is weakened in silence",
            ),
        })
        .collect()
}

fn processes() -> Finding {
    match ravel_io::run::adopt() {
        Ok(()) => ok(
            "processes",
            "what a step starts ends with it, also when its supervisor is killed",
        ),
        Err(error) => warn(
            "processes",
            format!("this process cannot inherit orphans ({error})"),
            "a daemon that hides from its step lives on when the step's supervisor is killed",
        ),
    }
}

fn program(name: &str, arguments: &[&str], missing: Verdict, need: &str) -> Finding {
    let output = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            ok(name, text.lines().next().unwrap_or("works"))
        }
        Ok(output) => Finding {
            verdict: missing,
            ..warn(name, format!("it ends with {}", output.status), need)
        },
        Err(error) => Finding {
            verdict: missing,
            ..warn(name, format!("not found ({error})"), need)
        },
    }
}
