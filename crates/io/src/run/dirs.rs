//! Where the processes of attempts live.
//!
//! ```text
//! <root>/runs/<run>/<path>/<attempt>/   the directory of one attempt
//! <root>/runs/<run>/<path>/shared/      the directory that the steps of a list share
//! <root>/tmp/<token>/                   arguments, source and TMPDIR of a process; gone when it ends
//! <root>/pids/<run>/<token>.json        who runs (see `pids`)
//! <root>/files/<hash>                   result files, by content
//! ```
//!
//! A folder goes as soon as it is empty and no attempt uses it: with the attempt that was the last one in it, or with
//! the sweep of the engine that takes the run up after a crash. Only empty folders are removed so, which the system
//! does or refuses in one step; what a failed attempt left in its directory stays until the run is removed. A shared
//! directory goes when its run has succeeded, with all that is in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ravel_core::port::Job;

/// Longest name of a folder made from a path, bytes; longer ones end in a hash.
const NAME_BYTES_MAX: usize = 160;
/// Hex digits of the hash at the end of a shortened name.
const NAME_HASH_DIGITS: usize = 32;
/// The folder that the steps of a list share.
const SHARED: &str = "shared";
/// Permissions of a folder that is about to be removed.
const OWNER_ONLY: u32 = 0o700;
/// Hex digits at the beginning of a token that say whose run it is, and those that make it different from others.
const TOKEN_DIGITS: (usize, usize) = (16, 16);

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

/// The folders that attempts of this process use.
#[derive(Debug)]
pub(crate) struct Folders {
    root: PathBuf,
    /// How many attempts use each.
    used: Mutex<BTreeMap<PathBuf, usize>>,
}

/// The folders of one attempt. Dropped without [`Places::leave`], they stay for a sweep: a process may still be there.
#[derive(Debug)]
pub(crate) struct Places {
    folders: Arc<Folders>,
    /// The directory that the process works in.
    pub(crate) work: PathBuf,
    /// True when other steps work there too.
    pub(crate) shared: bool,
    /// Where the record of the process is.
    pub(crate) records: PathBuf,
}

impl Folders {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            used: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, usize>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the job's folders. Its directory is empty for an attempt of its own, as the steps before left it for a
    /// shared one.
    pub(crate) fn open(self: &Arc<Self>, job: &Job) -> io::Result<Places> {
        let work = of_job(&self.root, job);
        let records = of_records(&self.root, &job.run);
        let shared = job.workspace.is_some();
        // Held while they are made, so that nobody finds them empty and unused in between.
        let mut used = self.lock();
        if !shared {
            // A crashed engine may have started the same attempt; what it left is not this attempt's.
            remove(&work)?;
        }
        fs::create_dir_all(&work)?;
        fs::create_dir_all(&records)?;
        for folder in [&work, &records] {
            *used.entry(folder.clone()).or_default() += 1;
        }
        drop(used);
        Ok(Places {
            folders: Arc::clone(self),
            work,
            shared,
            records,
        })
    }

    /// Removes what a dead engine left of a run: empty folders, and the scratch folders of processes that never began.
    pub(crate) fn sweep(&self, run: &str) {
        let used = self.lock();
        if used.contains_key(&of_records(&self.root, run)) {
            return;
        }
        let mine = token_prefix(run);
        for scratch in entries(&self.root.join("tmp")) {
            let name = scratch.file_name().and_then(std::ffi::OsStr::to_str);
            if name.is_some_and(|name| name.starts_with(&mine)) {
                let _ = remove(&scratch);
            }
        }
        let run = of_run(&self.root, run);
        for step in entries(&run) {
            for attempt in entries(&step) {
                let _ = fs::remove_dir(attempt);
            }
            let _ = fs::remove_dir(step);
        }
        let _ = fs::remove_dir(run);
    }

    /// True when something of a run is on disk.
    pub(crate) fn holds(&self, run: &str) -> bool {
        of_run(&self.root, run).is_dir()
    }

    /// Removes the folders that the lists of a run shared. For a run that succeeded.
    pub(crate) fn tidy(&self, run: &str) {
        for step in entries(&of_run(&self.root, run)) {
            let shared = step.join(SHARED);
            if self.lock().contains_key(&shared) {
                continue;
            }
            match remove(&shared) {
                Ok(()) => self.prune(&step),
                Err(error) => {
                    tracing::warn!(run, folder = %shared.display(), error = %error, "the folder of a list could not be removed");
                }
            }
        }
    }

    /// Removes a folder and those above it up to the work root's own, as far as they are empty.
    fn prune(&self, folder: &Path) {
        for folder in folder.ancestors() {
            let own = folder.parent().and_then(Path::parent) == Some(&self.root);
            match fs::remove_dir(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return,
                Ok(()) | Err(_) if own => return,
                Ok(()) | Err(_) => {}
            }
        }
    }
}

impl Places {
    /// Says that no process of the attempt is left: what is empty now goes.
    pub(crate) fn leave(self) {
        let folders = Arc::clone(&self.folders);
        let (work, records) = (self.work.clone(), self.records.clone());
        drop(self);
        let used = folders.lock();
        for folder in [work, records] {
            if !used.contains_key(&folder) {
                folders.prune(&folder);
            }
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        let mut used = self.folders.lock();
        for folder in [&self.work, &self.records] {
            if let Some(count) = used.get_mut(folder) {
                *count -= 1;
                if *count == 0 {
                    used.remove(folder);
                }
            }
        }
    }
}

/// What is in a folder; nothing when it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// Where the records of a run's processes are.
pub(crate) fn of_records(root: &Path, run: &str) -> PathBuf {
    root.join("pids").join(escape(run))
}

/// What the tokens of a run begin with.
fn token_prefix(run: &str) -> String {
    blake3::hash(run.as_bytes()).to_hex()[..TOKEN_DIGITS.0].to_owned()
}

/// The token of a process: different for each text, and recognisable as its run's.
pub(crate) fn token(run: &str, text: &str) -> String {
    let own = blake3::hash(text.as_bytes()).to_hex();
    format!("{}{}", token_prefix(run), &own[..TOKEN_DIGITS.1])
}

/// Removes a folder and all below it; nothing to do when it is not there.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder)?;
            fs::remove_dir_all(folder)
        }
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes the folders of a tree writable: some tools protect what they fetch even from its owner.
fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(OWNER_ONLY))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A link to a folder is no folder.
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
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
    use ravel_core::effect::Effect;
    use ravel_core::event::Attempt;
    use ravel_core::port::Request;

    use super::*;

    fn job(path: &str, workspace: Option<&str>) -> Job {
        Job {
            run: "r1".into(),
            path: path.into(),
            attempt: Attempt { node: 1, number: 1 },
            key: "k".into(),
            effect: Effect::Once,
            until: 0,
            workspace: workspace.map(Into::into),
            stream: None,
            cache: None,
            folder: None,
            request: Request::Tool {
                name: "debug.echo".into(),
                input: serde_json::Value::Null.into(),
            },
        }
    }

    /// Every folder and file below the root.
    fn tree(root: &Path) -> Vec<String> {
        let mut all = Vec::new();
        for path in entries(root) {
            all.push(path.strip_prefix(root).unwrap().display().to_string());
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            all.extend(
                tree(&path)
                    .into_iter()
                    .map(|below| format!("{name}/{below}")),
            );
        }
        all.sort();
        all
    }

    #[test]
    fn a_folder_goes_with_the_last_attempt_in_it_and_never_before() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Arc::new(Folders::new(dir.path()));
        let one = folders.open(&job("a", Some(""))).unwrap();
        let two = folders.open(&job("b", Some(""))).unwrap();
        one.leave();
        assert_eq!(
            tree(dir.path()),
            [
                "pids",
                "pids/r1",
                "runs",
                "runs/r1",
                "runs/r1/%",
                "runs/r1/%/shared"
            ]
        );
        folders.sweep("r1");
        assert!(two.work.is_dir() && two.records.is_dir());
        two.leave();
        assert_eq!(tree(dir.path()), ["pids", "runs"]);
    }

    #[test]
    fn what_lists_shared_goes_with_the_success_of_their_run_and_nothing_else_does() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Arc::new(Folders::new(dir.path()));
        let other = Job {
            run: "r2".into(),
            ..job("a", Some("list"))
        };
        for job in [job("a", Some("list")), job("b", None), other] {
            let places = folders.open(&job).unwrap();
            fs::write(places.work.join("left"), "").unwrap();
            places.leave();
        }
        folders.tidy("r1");
        assert_eq!(
            tree(dir.path()),
            [
                "pids",
                "runs",
                "runs/r1",
                "runs/r1/b",
                "runs/r1/b/1",
                "runs/r1/b/1/left",
                "runs/r2",
                "runs/r2/list",
                "runs/r2/list/shared",
                "runs/r2/list/shared/left"
            ]
        );
    }

    #[test]
    fn a_tree_that_is_protected_from_its_owner_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/file"), "").unwrap();
        for folder in ["a/b", "a", ""] {
            fs::set_permissions(top.join(folder), fs::Permissions::from_mode(0o555)).unwrap();
        }
        remove(&top).unwrap();
        open_up(dir.path()).unwrap();
        assert_eq!(tree(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn what_holds_something_stays() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Arc::new(Folders::new(dir.path()));
        let (full, empty) = (
            folders.open(&job("a", None)).unwrap(),
            folders.open(&job("b", None)).unwrap(),
        );
        fs::write(full.work.join("left"), "").unwrap();
        full.leave();
        empty.leave();
        assert_eq!(
            tree(dir.path()),
            [
                "pids",
                "runs",
                "runs/r1",
                "runs/r1/a",
                "runs/r1/a/1",
                "runs/r1/a/1/left"
            ]
        );
    }

    #[test]
    fn a_sweep_removes_what_is_empty_and_the_scratch_of_its_own_run() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Arc::new(Folders::new(dir.path()));
        // Dropped as a crash would: nothing is removed.
        drop(folders.open(&job("a", None)).unwrap());
        drop(
            folders
                .open(&Job {
                    run: "r2".into(),
                    ..job("a", None)
                })
                .unwrap(),
        );
        for run in ["r1", "r2"] {
            fs::create_dir_all(scratch(dir.path(), &token(run, "x")).join("tmp")).unwrap();
        }
        folders.sweep("r1");
        let other = format!("tmp/{}", token("r2", "x"));
        let wanted = [
            "pids",
            "pids/r1",
            "pids/r2",
            "runs",
            "runs/r2",
            "runs/r2/a",
            "runs/r2/a/1",
            "tmp",
            &other,
            &format!("{other}/tmp"),
        ];
        assert_eq!(tree(dir.path()), wanted);
    }

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
