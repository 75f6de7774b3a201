//! `file.*`: files below the folder of the run: that of its flow file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use ravel_core::effect::{Effect, ErrorClass, Failure, Outcome};
use ravel_core::expr::exact_json;
use ravel_core::lang::{Arguments, WrongArgument};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use serde_json::{Value, json};

use super::json::object;
use super::{Ask, Call, Context, Fault, Tool, flag_of, invalid, number_of, text_of, wrong};
use crate::abort::{Abort, stopped};
use crate::files::FileValue;
use crate::jail::{self, Kind, Refusal};
use crate::trouble;

/// Largest file that is read into a value, bytes, unless the step says `max_bytes`.
pub const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Most entries that `file.list` gives.
pub const LIST_MAX: usize = 10_000;
/// Deepest folder that `file.list` goes into.
pub const LIST_DEPTH_MAX: usize = 64;

fn path_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "description": "relative to the folder of the flow file, and inside it" })
}

fn file_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "$file": { "type": "string" } },
        "required": ["$file"],
        "description": "a file that a step made",
    })
}

pub(super) static READ: Tool = Tool {
    name: "file.read",
    doc: "Reads a file: as text, as JSON, or as a file value that can be handed to another step.",
    effect: Effect::Read,
    input: || {
        object(
            json!({
                "path": path_schema(),
                "file": file_schema(),
                "as": { "enum": ["text", "json", "file"], "default": "text" },
                "max_bytes": { "type": "integer", "minimum": 0, "default": READ_BYTES_MAX },
            }),
            &[],
        )
    },
    output: || {
        object(
            json!({ "text": { "type": "string" }, "json": {}, "file": file_schema(), "bytes": { "type": "integer" } }),
            &["bytes"],
        )
    },
    example: r#"{"path": "notes/today.md"}"#,
    rule: Some(read_rule),
    call: Call::Task(|context, ask| blocking(context, ask, read)),
};

pub(super) static WRITE: Tool = Tool {
    name: "file.write",
    doc: "Writes a whole file, on disk when the step is done; whoever looks sees the old file or the new one. Folders above it are made.",
    effect: Effect::Write,
    input: || {
        let fields = json!({ "path": path_schema(), "text": { "type": "string" }, "json": {}, "file": file_schema() });
        object(fields, &["path"])
    },
    output: path_output,
    example: r#"{"path": "out/report.md", "text": "All well.\n"}"#,
    rule: Some(write_rule),
    call: Call::Task(|context, ask| blocking(context, ask, write)),
};

pub(super) static APPEND: Tool = Tool {
    name: "file.append",
    doc: "Writes text at the end of a file, on disk when the step is done. The file and the folders above it are made. `bytes` is the size of the file after it.",
    effect: Effect::Once,
    input: || {
        object(
            json!({ "path": path_schema(), "text": { "type": "string" } }),
            &["path", "text"],
        )
    },
    output: path_output,
    example: r#"{"path": "out/journal.log", "text": "done\n"}"#,
    rule: Some(inside),
    call: Call::Task(|context, ask| blocking(context, ask, append)),
};

pub(super) static LIST: Tool = Tool {
    name: "file.list",
    doc: "Lists a folder, in order of the paths. Links are listed, not followed.",
    effect: Effect::Read,
    input: || {
        object(
            json!({
                "path": { "type": "string", "default": "." },
                "glob": { "type": "string", "description": "only paths like this, as in `**/*.py`" },
                "recursive": { "type": "boolean", "default": false },
            }),
            &[],
        )
    },
    output: || {
        let entry = object(
            json!({
                "path": { "type": "string" },
                "kind": { "enum": ["file", "folder", "link", "other"] },
                "bytes": { "type": "integer" },
            }),
            &["path", "kind", "bytes"],
        );
        object(
            json!({ "entries": { "type": "array", "items": entry } }),
            &["entries"],
        )
    },
    example: r#"{"path": "src", "glob": "**/*.py", "recursive": true}"#,
    rule: Some(list_rule),
    call: Call::Task(|context, ask| blocking(context, ask, list)),
};

pub(super) static EXISTS: Tool = Tool {
    name: "file.exists",
    doc: "Says whether something is there, and what.",
    effect: Effect::Read,
    input: || object(json!({ "path": path_schema() }), &["path"]),
    output: || {
        let kind = json!({ "enum": ["file", "folder", "other", null] });
        object(
            json!({ "exists": { "type": "boolean" }, "kind": kind }),
            &["exists", "kind"],
        )
    },
    example: r#"{"path": "out/report.md"}"#,
    rule: Some(inside),
    call: Call::Task(|context, ask| blocking(context, ask, exists)),
};

pub(super) static DELETE: Tool = Tool {
    name: "file.delete",
    doc: "Removes a file, a link or an empty folder. What is not there is no error: `deleted` says whether it was.",
    effect: Effect::Write,
    input: || object(json!({ "path": path_schema() }), &["path"]),
    output: || object(json!({ "deleted": { "type": "boolean" } }), &["deleted"]),
    example: r#"{"path": "out/report.md"}"#,
    rule: Some(inside),
    call: Call::Task(|context, ask| blocking(context, ask, delete)),
};

fn path_output() -> Value {
    object(
        json!({ "path": { "type": "string" }, "bytes": { "type": "integer" } }),
        &["path", "bytes"],
    )
}

fn blocking<'a>(
    context: &'a Context,
    ask: Ask<'a>,
    work: fn(&Context, Ask<'a>) -> Result<Value, Fault>,
) -> BoxFuture<'a, Outcome> {
    async move {
        let done = tokio::task::block_in_place(|| work(context, ask));
        match (done, ask.abort.stopped()) {
            (Ok(value), _) => Outcome::done(value.into()),
            // Whatever it failed with, it failed because it was stopped.
            (Err(fault), Some(why)) => fault.because(stopped(why)).into(),
            (Err(fault), None) => fault.into(),
        }
    }
    .boxed()
}

/// Reads until the attempt is stopped: a file may be as large as the disk.
struct Stoppable<'a, R> {
    from: R,
    abort: &'a Abort,
}

impl<R: Read> Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.abort.stopped().is_some() {
            return Err(std::io::Error::other("stopped"));
        }
        self.from.read(buffer)
    }
}

/// The outcome of a refusal: nothing was changed.
fn refused(path: &str, refusal: Refusal) -> Fault {
    let failure = |class: ErrorClass, text: &str| Failure::new(class, format!("`{path}`: {text}"));
    Fault::not_done(match refusal {
        Refusal::Missing => failure(ErrorClass::NotFound, "there is no such file"),
        Refusal::NoFolder(folder) => crate::run::folder_missing(&format!("`{path}`"), &folder),
        Refusal::Outside => {
            failure(ErrorClass::PolicyDenied, &format!("it {LEADS_OUT}")).with_code("outside")
        }
        Refusal::Denied => failure(ErrorClass::PolicyDenied, "the system does not allow it"),
        Refusal::Wrong(text) => failure(ErrorClass::InvalidInput, &text),
        Refusal::Failed(error) => {
            trouble::failure(ErrorClass::ToolError, format!("`{path}`"), &error)
        }
    })
}

const LEADS_OUT: &str = "leads out of the folder of the run (that of its flow file)";
/// Where `file.read` reads from.
const READ_FROM: &[&str] = &["path", "file"];
/// What `file.write` writes.
const WRITTEN: &[&str] = &["text", "json", "file"];

/// A path that is written out stays inside.
fn inside(arguments: &Arguments) -> Result<(), WrongArgument> {
    let Some(path) = arguments.fields.get("path").and_then(Value::as_str) else {
        return Ok(());
    };
    if jail::surely_outside(path, arguments.folder.as_deref()) {
        return Err(WrongArgument {
            field: Some("path"),
            message: format!("`{path}` {LEADS_OUT}"),
        });
    }
    Ok(())
}

fn read_rule(arguments: &Arguments) -> Result<(), WrongArgument> {
    exactly_one(&arguments.fields, READ_FROM).map_err(|failure| wrong(None, &failure))?;
    inside(arguments)
}

fn write_rule(arguments: &Arguments) -> Result<(), WrongArgument> {
    exactly_one(&arguments.fields, WRITTEN).map_err(|failure| wrong(None, &failure))?;
    inside(arguments)
}

fn list_rule(arguments: &Arguments) -> Result<(), WrongArgument> {
    if let Some(glob) = arguments.fields.get("glob").and_then(Value::as_str) {
        matcher(glob).map_err(|failure| wrong(Some("glob"), &failure))?;
    }
    inside(arguments)
}

fn read(context: &Context, ask: Ask<'_>) -> Result<Value, Fault> {
    let Ask { input, abort, .. } = ask;
    exactly_one(input, READ_FROM).map_err(Fault::not_done)?;
    let most = number_of(input, "max_bytes", READ_BYTES_MAX);
    let (path, from) = open(context, ask, input)?;
    let file = Stoppable { from, abort };
    if text_of(input, "as") == "file" {
        let name = Path::new(&path)
            .file_name()
            .map_or_else(|| "file".into(), |name| name.to_string_lossy());
        let stored = context
            .files
            .put(&name, file)
            .map_err(|error| match trouble::of(&error) {
                Some(_) => {
                    let folder = context.files.folder().display();
                    let what = format!("`{path}` cannot be kept in {folder}");
                    Fault::not_done(trouble::failure(ErrorClass::ToolError, what, &error))
                }
                None => refused(&path, error.into()),
            })?;
        return Ok(json!({ "file": stored.to_json(), "bytes": stored.bytes }));
    }
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| refused(&path, error.into()))?;
    if bytes.len() as u64 > most {
        let text = format!("`{path}`: it is larger than {most} bytes (max_bytes)");
        return Err(Fault::done(
            Failure::new(ErrorClass::InvalidOutput, text).with_code("too_large"),
        ));
    }
    let size = bytes.len();
    let not_text = |text: String| {
        let failure = Failure::new(ErrorClass::InvalidOutput, format!("`{path}`: {text}"));
        Fault::done(failure.with_code("not_text"))
    };
    let as_json = text_of(input, "as") == "json";
    let text = String::from_utf8(bytes)
        .map_err(|_| not_text("it is not UTF-8; read it `as: file`".to_owned()))?;
    if as_json {
        let value =
            exact_json(&text).map_err(|error| not_text(format!("it is not JSON: {error}")))?;
        return Ok(json!({ "json": value, "bytes": size }));
    }
    Ok(json!({ "text": text, "bytes": size }))
}

/// Refuses arguments that name none or several of these.
fn exactly_one(input: &Value, names: &[&str]) -> Result<(), Failure> {
    if names
        .iter()
        .filter(|name| input.get(**name).is_some())
        .count()
        == 1
    {
        return Ok(());
    }
    Err(invalid(format!(
        "exactly one of these is needed: {}",
        names.join(", ")
    )))
}

/// The file that is meant, and how it is called in messages.
fn open(context: &Context, ask: Ask<'_>, input: &Value) -> Result<(String, File), Fault> {
    if let Some(value) = input.get("file") {
        let Some(file) = FileValue::from_json(value) else {
            return Err(Fault::not_done(invalid("file: this is not a file value")));
        };
        let opened = context
            .files
            .open(&file)
            .map_err(|lost| Fault::not_done(context.files.failure(&ask.job.run, &file, &lost)))?;
        return Ok((file.name, opened));
    }
    let path = text_of(input, "path");
    let opened = ask
        .jail
        .read(path)
        .map_err(|refusal| refused(path, refusal))?;
    Ok((path.to_owned(), opened))
}

fn write(context: &Context, ask: Ask<'_>) -> Result<Value, Fault> {
    let Ask { input, abort, .. } = ask;
    exactly_one(input, WRITTEN).map_err(Fault::not_done)?;
    let path = text_of(input, "path");
    let source: Box<dyn Read> = match (input.get("text").and_then(Value::as_str), input.get("json"))
    {
        (Some(text), _) => Box::new(text.as_bytes()),
        (None, Some(value)) => {
            let text = serde_json::to_string_pretty(value)
                .map_err(|error| Fault::not_done(invalid(error.to_string())))?;
            Box::new(std::io::Cursor::new(text + "\n"))
        }
        (None, None) => Box::new(open(context, ask, &json!({ "file": input.get("file") }))?.1),
    };
    let mut bytes = 0;
    let mut source = Stoppable {
        from: source,
        abort,
    };
    let fill = |file: &mut File| std::io::copy(&mut source, file).map(|copied| bytes = copied);
    let synced = ask
        .jail
        .replace(path, fill)
        .map_err(|refusal| refused(path, refusal))?;
    synced.map_err(|error| half(path, &error))?;
    Ok(json!({ "path": path, "bytes": bytes }))
}

fn append(_: &Context, ask: Ask<'_>) -> Result<Value, Fault> {
    let input = ask.input;
    let path = text_of(input, "path");
    let mut file = ask
        .jail
        .append(path)
        .map_err(|refusal| refused(path, refusal))?;
    file.write_all(text_of(input, "text").as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|e| half(path, &e))?;
    let bytes = file.metadata().map_err(|error| half(path, &error))?.len();
    Ok(json!({ "path": path, "bytes": bytes }))
}

/// A failure after something may have been written.
fn half(path: &str, error: &std::io::Error) -> Fault {
    Fault::unknown(trouble::failure(
        ErrorClass::ToolError,
        format!("`{path}`"),
        error,
    ))
}

fn exists(_: &Context, ask: Ask<'_>) -> Result<Value, Fault> {
    let path = text_of(ask.input, "path");
    match ask.jail.kind(path) {
        Ok(kind) => {
            let kind = match kind {
                Kind::File => "file",
                Kind::Folder => "folder",
                Kind::Other => "other",
            };
            Ok(json!({ "exists": true, "kind": kind }))
        }
        Err(Refusal::Missing) => Ok(json!({ "exists": false, "kind": null })),
        Err(refusal) => Err(refused(path, refusal)),
    }
}

fn delete(_: &Context, ask: Ask<'_>) -> Result<Value, Fault> {
    let path = text_of(ask.input, "path");
    match ask.jail.remove(path) {
        Ok(()) => Ok(json!({ "deleted": true })),
        Err(Refusal::Missing) => Ok(json!({ "deleted": false })),
        Err(refusal) => Err(refused(path, refusal)),
    }
}

fn list(_: &Context, ask: Ask<'_>) -> Result<Value, Fault> {
    let input = ask.input;
    let path = input.get("path").and_then(Value::as_str).unwrap_or(".");
    let glob = input
        .get("glob")
        .and_then(Value::as_str)
        .map(matcher)
        .transpose()
        .map_err(Fault::not_done)?;
    let start = ask
        .jail
        .relative(path)
        .map_err(|refusal| refused(path, refusal))?;
    let depth = if flag_of(input, "recursive", false) {
        LIST_DEPTH_MAX
    } else {
        1
    };
    let too_large = |text: String| {
        let failure = Failure::new(ErrorClass::InvalidOutput, format!("`{path}`: {text}"));
        Fault::done(failure.with_code("too_large"))
    };
    let recursive = depth > 1;
    let mut entries = Vec::new();
    let mut folders = vec![(start.to_path_buf(), PathBuf::new(), depth)];
    while let Some((folder, below, depth)) = folders.pop() {
        let found = match entries_of(ask, &folder) {
            // Gone, or something else by now: then it is not in the list.
            Err(Refusal::Missing | Refusal::Wrong(_)) if !below.as_os_str().is_empty() => continue,
            found => found.map_err(|refusal| refused(path, refusal))?,
        };
        for entry in found {
            let place = below.join(&entry.name);
            if entry.kind == "folder" && recursive {
                if depth == 1 {
                    let text = format!("deeper than {LIST_DEPTH_MAX} folders; list a part of it");
                    return Err(too_large(text));
                }
                folders.push((folder.join(&entry.name), place.clone(), depth - 1));
            }
            if glob.as_ref().is_some_and(|glob| !glob.is_match(&place)) {
                continue;
            }
            if entries.len() == LIST_MAX {
                let text = format!("more than {LIST_MAX} entries; narrow it by `glob`");
                return Err(too_large(text));
            }
            entries.push((place.to_string_lossy().into_owned(), entry));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    let entry = |(path, entry): (String, Entry)| json!({ "path": path, "kind": entry.kind, "bytes": entry.bytes });
    Ok(json!({ "entries": entries.into_iter().map(entry).collect::<Vec<_>>() }))
}

struct Entry {
    /// As the system has it: it need not be text.
    name: OsString,
    kind: &'static str,
    bytes: u64,
}

fn entries_of(ask: Ask<'_>, folder: &Path) -> Result<Vec<Entry>, Refusal> {
    let folder = ask.jail.list(folder)?;
    let mut entries = Vec::new();
    for entry in Dir::read_from(&folder)? {
        if ask.abort.stopped().is_some() {
            return Err(Refusal::Failed(std::io::Error::other("stopped")));
        }
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        // Gone meanwhile: then it is not in the list.
        let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => "file",
            FileType::Directory => "folder",
            FileType::Symlink => "link",
            _ => "other",
        };
        let bytes = if kind == "file" {
            u64::try_from(stat.st_size).unwrap_or(0)
        } else {
            0
        };
        entries.push(Entry {
            name: OsString::from_vec(name.to_bytes().to_vec()),
            kind,
            bytes,
        });
    }
    Ok(entries)
}

fn matcher(glob: &str) -> Result<GlobMatcher, Failure> {
    let made = GlobBuilder::new(glob).literal_separator(true).build();
    made.map(|glob| glob.compile_matcher())
        .map_err(|error| invalid(format!("glob: {error}")))
}
