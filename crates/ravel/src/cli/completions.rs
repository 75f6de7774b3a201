//! `ravel completions SHELL`.

use clap::Args;
use clap_complete::Shell;

use super::Context;
use crate::error::Result;
use crate::exit::Exit;

/// Prints completions for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  ravel completions bash > ~/.local/share/bash-completion/completions/ravel"
)]
pub(super) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, context: &Context) -> Result<Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "ravel", &mut text);
        context.output.data(&String::from_utf8_lossy(&text))?;
        Ok(Exit::Succeeded)
    }
}
