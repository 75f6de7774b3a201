//! `ravel init`: a small flow that runs as it is.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::{Context, Json};
use crate::config::FILE_NAME;
use crate::error::{Error, Result};
use crate::exit::Exit;
use crate::output::Tone;

/// The flow that is written.
pub(crate) const FLOW: &str = include_str!("init/hello.yaml");
/// The configuration that is written.
pub(crate) const CONFIG: &str = include_str!("init/ravel.toml");

/// Writes a small flow that runs, and a ravel.toml
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ravel init\n  ravel run hello.yaml -i name=Ada")]
pub(super) struct Init {
    /// The folder [default: this one]
    folder: Option<PathBuf>,
    /// Name of the flow and of its file
    #[arg(long, default_value = "hello", value_parser = name)]
    name: String,
    /// Overwrites files that are there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    json: Json,
}

/// A name as the language has it for flows. A letter is first, so that it is neither an option nor a hidden file.
fn name(text: &str) -> std::result::Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    let fixed: String = text
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    let fixed = fixed.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let fixed = match fixed.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => fixed.to_owned(),
        Some(_) => format!("flow-{fixed}"),
        None => "flow".to_owned(),
    };
    Err(format!(
        "a name of a flow is letters, digits, `_`, `-` and `.`, a letter first; call it `{fixed}`"
    ))
}

impl Init {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let folder = self.folder.clone().unwrap_or_default();
        let target = context.world.folder.join(&folder);
        std::fs::create_dir_all(&target).map_err(|error| {
            Error::trouble(format!("cannot make {}", target.display())).because(error)
        })?;
        // In quotes: `no` and `null` are names, too.
        let named = match self.name.as_str() {
            "hello" => "name: hello".to_owned(),
            name => format!("name: \"{name}\""),
        };
        let flow = FLOW
            .replace("name: hello", &named)
            .replace("hello.yaml", &format!("{}.yaml", self.name));
        let files = [
            (format!("{}.yaml", self.name), flow),
            (FILE_NAME.to_owned(), CONFIG.to_owned()),
        ];
        if let (false, Some((taken, _))) = (
            self.force,
            files.iter().find(|(file, _)| target.join(file).exists()),
        ) {
            return Err(
                Error::usage(format!("{} is there already", folder.join(taken).display()))
                    .hint("choose another --name, or overwrite with --force"),
            );
        }
        for (file, text) in &files {
            write(&target.join(file), text)?;
        }
        let written: Vec<String> = files
            .iter()
            .map(|(file, _)| folder.join(file).display().to_string())
            .collect();
        if self.json.json {
            context.output.json(&json!({"files": written}))?;
        } else {
            for file in &written {
                context.output.talk(&format!(
                    "{} {file}",
                    context.output.paint_talk.tone(Tone::Good, "wrote")
                ));
            }
            context
                .output
                .talk(&format!("run it: ravel run {} -i name=Ada", written[0]));
        }
        Ok(Exit::Succeeded)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)
        .map_err(|error| Error::trouble(format!("cannot write {}", path.display())).because(error))
}
