//! Where the relative paths of a run start: at its folder, which may be gone by now.

use std::path::{Path, PathBuf};

use ravel_core::effect::{ErrorClass, Failure};

/// The directory that `cwd:` means.
pub(super) fn directory(folder: &Path, cwd: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(cwd);
    if let Ok(path) = path.canonicalize()
        && path.is_dir()
    {
        return Ok(path);
    }
    if Path::new(cwd).is_relative() && !folder.is_dir() {
        return Err(folder_missing(&format!("`cwd`: {cwd}"), folder));
    }
    let text = format!("`cwd`: {} is not a directory", path.display());
    Err(Failure::new(ErrorClass::NotFound, text))
}

/// The failure of a relative path whose start is gone.
pub(crate) fn folder_missing(what: &str, folder: &Path) -> Failure {
    let text = format!(
        "{what}: {} is not there any more, where the relative paths of this run start; put it back, then resume or retry",
        folder.display()
    );
    Failure::new(ErrorClass::NotFound, text).with_code("folder_missing")
}
