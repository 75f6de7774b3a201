//! From the end of a process to the outcome of its attempt.

use std::fs::File;
use std::io;
use std::path::Path;

use ravel_core::effect::{ErrorClass, Failure, Outcome};
use ravel_core::expr::exact_json;
use ravel_core::port::RunRequest;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};
use serde_json::{Map, Value, json};

use super::{Ended, Runner};
use crate::abort::{Abort, stopped};
use crate::trouble;

/// Most bytes of stdout and stderr in a failure, each: its end.
pub const FAILURE_TAIL_BYTES_MAX: usize = 4096;

/// SIGKILL, SIGXCPU, SIGXFSZ: the signals by which limits speak.
const SIGKILL: i32 = libc::SIGKILL;
const SIGXCPU: i32 = libc::SIGXCPU;
const SIGXFSZ: i32 = libc::SIGXFSZ;

/// The program's output as text.
struct Texts {
    stdout: String,
    stdout_is: Stdout,
    stderr: String,
}

/// What can be relied on in stdout, which is data; stderr is talk, and may be cut and garbled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stdout {
    Whole,
    /// More than the limit.
    Cut,
    /// The byte at this place is no part of a text.
    NotText(u64),
}

pub(super) fn outcome(
    runner: &Runner,
    request: &RunRequest,
    cwd: &Path,
    ended: Ended,
    abort: &Abort,
) -> Outcome {
    let most = request.limits.output_bytes;
    let stdout_is = match ended.stdout.not_text_at() {
        Some(at) => Stdout::NotText(at),
        None if ended.stdout.is_whole() => Stdout::Whole,
        None => Stdout::Cut,
    };
    let texts = Texts {
        stdout: ended.stdout.into_text(most),
        stdout_is,
        stderr: ended.stderr.into_text(most),
    };
    if ended.stopped {
        let failure = abort
            .stopped()
            .map_or_else(|| Failure::new(ErrorClass::Cancelled, "stopped"), stopped);
        return Outcome::unknown(failure.with_data(tails(&texts, ended.code, ended.signal)));
    }
    let Some(code) = ended.code else {
        return Outcome::unknown(killed(request, ended.signal, &texts));
    };
    if !request.ok.contains(&code) {
        let text = format!("exited with code {code}{}", last_line(&texts.stderr));
        let failure = Failure::new(ErrorClass::ToolError, text).with_code(format!("exit_{code}"));
        return Outcome::done_with(failure.with_data(tails(&texts, Some(code), None)));
    }
    match value(runner, request, cwd, code, texts) {
        Ok(value) => Outcome::done(value.into()),
        Err(failure) => Outcome::done_with(failure),
    }
}

fn value(
    runner: &Runner,
    request: &RunRequest,
    cwd: &Path,
    code: i32,
    texts: Texts,
) -> Result<Value, Failure> {
    unspoilt(request, code, &texts)?;
    let mut files = Map::new();
    for (name, path) in &request.files {
        let file = result_file(cwd, path).map_err(|error| {
            let what = format!("the result file `{name}` ({path}) cannot be taken");
            let failure = trouble::failure(ErrorClass::ToolError, what, &error);
            let failure = match failure.code {
                Some(_) => failure,
                None => failure.with_code("file_missing"),
            };
            failure.with_data(tails(&texts, Some(code), None))
        })?;
        let stored = runner.files.put(path, file).map_err(|error| {
            let folder = runner.files.folder().display();
            let what = format!("the result file `{name}` cannot be stored in {folder}");
            trouble::failure(ErrorClass::Internal, what, &error)
        })?;
        files.insert(name.to_string(), stored.to_json());
    }
    let parsed = if request.json {
        Some(parse(&texts)?)
    } else {
        None
    };
    let mut value =
        json!({ "code": code, "stdout": texts.stdout, "stderr": texts.stderr, "files": files });
    if let (Some(parsed), Some(fields)) = (parsed, value.as_object_mut()) {
        fields.insert("json".to_owned(), parsed);
    }
    Ok(value)
}

/// Refuses stdout that is not what the program printed: a step must not go on with a part of its data.
fn unspoilt(request: &RunRequest, code: i32, texts: &Texts) -> Result<(), Failure> {
    let (kind, text) = match texts.stdout_is {
        Stdout::Whole => return Ok(()),
        Stdout::Cut => (
            "output_limit",
            format!(
                "stdout is larger than {} bytes (limits.output): print less, raise the limit, or write a file and \
                 take it by `files:`",
                request.limits.output_bytes
            ),
        ),
        Stdout::NotText(at) => (
            "not_text",
            format!(
                "stdout is not text (byte {at} is not UTF-8): write it to a file and take it by `files:`"
            ),
        ),
    };
    let failure = Failure::new(ErrorClass::InvalidOutput, text).with_code(kind);
    Err(failure.with_data(tails(texts, Some(code), None)))
}

fn parse(texts: &Texts) -> Result<Value, Failure> {
    let invalid = |text: String| {
        Failure::new(ErrorClass::InvalidOutput, text)
            .with_data(json!({ "stdout": tail(&texts.stdout) }))
    };
    exact_json(&texts.stdout).map_err(|error| invalid(format!("stdout must be JSON: {error}")))
}

/// Opens a result without leaving the directory: the program may have put links there, and we read as ourselves.
fn result_file(cwd: &Path, path: &str) -> io::Result<File> {
    let folder = open(
        cwd,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = match openat2(folder, path, flags, Mode::empty(), inside) {
        Ok(file) => file,
        Err(rustix::io::Errno::XDEV) => {
            return Err(io::Error::other("it leads out of the step's directory"));
        }
        Err(error) => return Err(error.into()),
    };
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        _ => Err(io::Error::other("it is not a regular file")),
    }
}

fn killed(request: &RunRequest, signal: Option<i32>, texts: &Texts) -> Failure {
    let limits = &request.limits;
    let (class, code, text) = match signal {
        Some(SIGXCPU) => {
            let text = format!(
                "used up its CPU time (limits.cpu is {}s)",
                limits.cpu_seconds
            );
            (ErrorClass::Timeout, "cpu_limit".to_owned(), text)
        }
        Some(SIGXFSZ) => {
            let text = format!(
                "wrote a file that is too large (limits.file is {} bytes)",
                limits.file_bytes
            );
            (ErrorClass::ToolError, "file_limit".to_owned(), text)
        }
        Some(SIGKILL) => {
            let text = "was killed: by the kernel for lack of memory, or by somebody".to_owned();
            (ErrorClass::Crashed, "signal_9".to_owned(), text)
        }
        Some(other) => (
            ErrorClass::Crashed,
            format!("signal_{other}"),
            format!("was killed by signal {other}"),
        ),
        None => (
            ErrorClass::Crashed,
            "signal".to_owned(),
            "ended without a code".to_owned(),
        ),
    };
    let text = format!("the process {text}{}", last_line(&texts.stderr));
    Failure::new(class, text)
        .with_code(code)
        .with_data(tails(texts, None, signal))
}

fn tails(texts: &Texts, code: Option<i32>, signal: Option<i32>) -> Value {
    let mut data =
        json!({ "code": code, "stdout": tail(&texts.stdout), "stderr": tail(&texts.stderr) });
    if let (Some(signal), Some(fields)) = (signal, data.as_object_mut()) {
        fields.insert("signal".to_owned(), signal.into());
    }
    data
}

/// The end of a text.
fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(FAILURE_TAIL_BYTES_MAX);
    let from = (from..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len());
    &text[from..]
}

/// Longest piece of stderr in a message, characters.
const LAST_LINE_CHARS_MAX: usize = 200;

fn last_line(stderr: &str) -> String {
    let line = stderr
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    line.map_or_else(String::new, |line| {
        format!(
            ": {}",
            line.chars().take(LAST_LINE_CHARS_MAX).collect::<String>()
        )
    })
}
