//! What a `run` step starts: the program, its arguments, its input, and how `args` reach it.
//!
//! Sources are run as they are written, so the line numbers of tracebacks are the flow's: Python's are compiled by a
//! prelude that is not part of the traceback, Node's come in by standard input after a preloaded module.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ravel_core::port::{RunCommand, RunRequest};
use serde_json::Value;

/// Arguments up to this size also come in `RAVEL_ARGS`; larger ones only as a file. The kernel takes at most 128 KiB
/// in one variable.
pub const ARGS_ENV_BYTES_MAX: usize = 96 * 1024;

const PYTHON_PRELUDE: &str = include_str!("prelude.py");
const NODE_PRELUDE: &str = include_str!("prelude.cjs");

/// A program that is ready to be ordered.
#[derive(Debug)]
pub(super) struct Program {
    /// Name and arguments.
    pub(super) words: Vec<String>,
    /// What it reads.
    pub(super) stdin: Option<PathBuf>,
    /// Variables by which it finds its arguments.
    pub(super) env: Vec<(String, String)>,
}

/// Writes arguments and source into the scratch folder.
pub(super) fn prepare(
    request: &RunRequest,
    args: Option<&Value>,
    scratch: &Path,
) -> io::Result<Program> {
    let json = args.unwrap_or(&Value::Null).to_string();
    let args_file = scratch.join("args.json");
    fs::write(&args_file, &json)?;
    let mut env = vec![("RAVEL_ARGS_FILE".to_owned(), text(&args_file)?)];
    if json.len() <= ARGS_ENV_BYTES_MAX {
        env.push(("RAVEL_ARGS".to_owned(), json));
    }
    // A file as input cannot block, and `jq` and friends read `with:` from it without ado.
    let with_args = args.is_some().then_some(args_file);
    let (words, stdin) = match &request.program {
        RunCommand::Shell(source) => (words(["sh", "-c", source]), with_args),
        RunCommand::Command(command) => {
            (command.iter().map(ToString::to_string).collect(), with_args)
        }
        RunCommand::Python(source) => {
            let path = scratch.join("step.py");
            fs::write(&path, source.as_bytes())?;
            env.push(("RAVEL_SOURCE".to_owned(), text(&path)?));
            (words(["python3", "-c", PYTHON_PRELUDE]), None)
        }
        RunCommand::Node(source) => {
            let path = scratch.join("step.js");
            let prelude = scratch.join("prelude.cjs");
            fs::write(&path, source.as_bytes())?;
            fs::write(&prelude, NODE_PRELUDE)?;
            (
                words(["node", "--require", &text(&prelude)?, "-"]),
                Some(path),
            )
        }
    };
    Ok(Program { words, stdin, env })
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// The path as text.
pub(super) fn text(path: &Path) -> io::Result<String> {
    let not_text = || {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is not UTF-8", path.display()),
        )
    };
    path.to_str().map(str::to_owned).ok_or_else(not_text)
}

/// Where a program's own installation lies: the folder above its `bin`, when that is nobody's home.
pub(super) fn installation(program: &str, path: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let is_file = |path: &PathBuf| path.is_file();
    let found = if program.contains('/') {
        Some(PathBuf::from(program)).filter(is_file)
    } else {
        std::env::split_paths(path)
            .map(|folder| folder.join(program))
            .find(is_file)
    };
    let Some(found) = found else {
        return Vec::new();
    };
    let mut places = vec![found.clone()];
    places.extend(found.canonicalize());
    let prefixes: Vec<PathBuf> = places
        .iter()
        .filter_map(|place| Some(place.parent()?.parent()?.to_owned()))
        .collect();
    let private = |prefix: &PathBuf| {
        prefix == Path::new("/") || home.is_some_and(|home| home.starts_with(prefix))
    };
    places.extend(prefixes.into_iter().filter(|prefix| !private(prefix)));
    places
}
