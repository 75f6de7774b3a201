//! Where the processes of attempts live.
//!
//! ```text
//! <root>/runs/<run>/<path>/<attempt>/   the directory of one attempt
//! <root>/runs/<run>/<path>/shared/      the directory that the steps of a list share
//! <root>/tmp/<token>/                   arguments, source and TMPDIR of a process; gone when it ends
//! <root>/pids/<run>/<token>.json        who runs (see `pids`)
//! <root>/files/<hash>                   result files, by content
//! ```

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ravel_core::port::Job;

/// Longest name of a folder made from a path, bytes; longer ones end in a hash.
const NAME_BYTES_MAX: usize = 160;
/// Hex digits of the hash at the end of a shortened name.
const NAME_HASH_DIGITS: usize = 32;
/// The folder that the steps of a list share.
const SHARED: &str = "shared";

/// One folder's name for any text: readable, reversible unless it is long, never `.` or `..`.
pub(crate) fn escape(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || b"-_~[]".contains(&byte) || (byte == b'.' && at > 0) {
            name.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() {
        return "%".to_owned();
    }
    if name.len() > NAME_BYTES_MAX {
        let hash = blake3::hash(text.as_bytes()).to_hex();
        name.truncate(NAME_BYTES_MAX - NAME_HASH_DIGITS - 1);
        name.push('-');
        name.push_str(&hash[..NAME_HASH_DIGITS]);
    }
    name
}

/// The folder of everything that the processes of a run made.
pub(crate) fn of_run(root: &Path, run: &str) -> PathBuf {
    root.join("runs").join(escape(run))
}

/// The directory in which the job's process works.
pub(crate) fn of_job(root: &Path, job: &Job) -> PathBuf {
    let run = of_run(root, &job.run);
    match &job.workspace {
        Some(scope) => run.join(escape(scope)).join(SHARED),
        None => run
            .join(escape(&job.path))
            .join(job.attempt.number.to_string()),
    }
}

/// Makes the job's directory: empty for an attempt of its own, as the steps before left it for a shared one.
pub(crate) fn open(root: &Path, job: &Job) -> io::Result<PathBuf> {
    let folder = of_job(root, job);
    if job.workspace.is_none() {
        // A crashed engine may have started the same attempt; what it left is not this attempt's.
        remove(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    folder.canonicalize()
}

/// Removes a folder and all below it; nothing to do when it is not there.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The scratch folder of a process.
pub(crate) fn scratch(root: &Path, token: &str) -> PathBuf {
    root.join("tmp").join(token)
}

/// A folder that is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(root: &Path, token: &str) -> io::Result<Self> {
        let folder = scratch(root, token);
        fs::create_dir_all(&folder)?;
        Ok(Self(folder.canonicalize()?))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Best effort: what stays is removed with the run.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_one_folder_that_is_nobody_elses() {
        assert_eq!(escape("docs[3]/summary"), "docs[3]%2Fsummary");
        assert_eq!(escape("draft~2/turn[0]"), "draft~2%2Fturn[0]");
        assert_eq!(
            [escape(".."), escape("."), escape("")],
            ["%2E.", "%2E", "%"].map(str::to_owned)
        );
        let long = "a/".repeat(400);
        assert_eq!(escape(&long).len(), NAME_BYTES_MAX);
        assert_ne!(escape(&long), escape(&format!("{long}b")));
    }
}
