//! Which processes are alive, by locks that the operating system takes away when a process ends, however it ends.
//!
//! A process that owns runs holds an exclusive lock on `<store>.owners/<token>.lock`. Others test it with a shared
//! lock, so two that test at once do not mistake each other for the owner.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use ravel_core::port_store::Error;

/// Tries to get one's own lock while others test it for an instant.
const LOCK_TRIES_MAX: u32 = 10_000;

/// A held lock: the process is alive while it exists.
#[derive(Debug)]
pub(super) struct Alive {
    path: PathBuf,
    _file: File,
}

impl Drop for Alive {
    fn drop(&mut self) {
        // Still locked here, so nobody can take the name for a live one; a file that stays is removed by the next.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Locks of this process. Two handles on one store may use the same token: it is one owner then.
static HELD: LazyLock<Mutex<HashMap<PathBuf, Weak<Alive>>>> = LazyLock::new(Mutex::default);

/// The directory of the locks of one store.
#[derive(Clone, Debug)]
pub(super) struct Owners {
    directory: PathBuf,
}

impl Owners {
    pub(super) fn of(store: &Path) -> Self {
        let mut name = store.as_os_str().to_owned();
        name.push(".owners");
        Self {
            directory: name.into(),
        }
    }

    fn path(&self, token: &str) -> PathBuf {
        // Tokens are ours, but a name must never lead out of the directory.
        let safe: String = token
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        self.directory.join(format!("{safe}.lock"))
    }

    /// Shows that this process is alive under a token for as long as the result exists.
    pub(super) fn enter(&self, token: &str) -> Result<Arc<Alive>, Error> {
        let failed = |error: &dyn std::fmt::Display| Error::Io {
            message: format!("locking {}: {error}", self.path(token).display()),
        };
        std::fs::create_dir_all(&self.directory).map_err(|error| failed(&error))?;
        let directory = self
            .directory
            .canonicalize()
            .map_err(|error| failed(&error))?;
        let path = Self { directory }.path(token);
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(alive) = held.get(&path).and_then(Weak::upgrade) {
            return Ok(alive);
        }
        for _ in 0..LOCK_TRIES_MAX {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(|error| failed(&error))?;
            match file.try_lock() {
                Ok(()) if same_file(&file, &path) => {
                    let alive = Arc::new(Alive {
                        path: path.clone(),
                        _file: file,
                    });
                    held.retain(|_, alive| alive.strong_count() > 0);
                    held.insert(path, Arc::downgrade(&alive));
                    return Ok(alive);
                }
                // Removed by somebody who took it for a dead one's, or being tested: again.
                Ok(()) | Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
            }
        }
        Err(failed(&"another process uses the same token"))
    }

    /// True while some process is alive under the token.
    pub(super) fn is_alive(&self, token: &str) -> Result<bool, Error> {
        let path = self.path(token);
        let file = match OpenOptions::new().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => {
                return Err(Error::Io {
                    message: format!("reading {}: {error}", path.display()),
                });
            }
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(Error::Io {
                message: format!("testing the lock {}: {error}", path.display()),
            }),
        }
    }

    /// A process that is alive and owns runs, or may: its lock's name.
    pub(super) fn living(&self) -> Result<Option<String>, Error> {
        let failed = |error: io::Error| Error::Io {
            message: format!("reading {}: {error}", self.directory.display()),
        };
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(token) = name.to_str().and_then(|name| name.strip_suffix(".lock")) else {
                continue;
            };
            if self.is_alive(token)? {
                return Ok(Some(format!("a live process ({token})")));
            }
        }
        Ok(None)
    }

    /// Removes what a dead process left.
    pub(super) fn forget(&self, token: &str) {
        let path = self.path(token);
        if let Ok(file) = OpenOptions::new().read(true).open(&path)
            && file.try_lock_shared().is_ok()
        {
            // Best effort: an empty file that stays does no harm.
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// True when the path still leads to the open file.
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => false,
    }
}
