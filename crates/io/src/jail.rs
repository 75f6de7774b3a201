//! A folder that nothing leads out of: neither `..` nor links nor races.
//!
//! Every path is resolved by the kernel below the folder's descriptor (`openat2`, beneath), so there is no moment
//! between a check and its use.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, fsync, mkdirat, open, openat2, renameat,
    unlinkat,
};
use rustix::io::Errno;

/// Permissions of new files and folders, before the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);
/// Links that lead out are refused; links that stay inside are followed.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Most tries to open a path whose folders are being moved.
const OPEN_TRIES_MAX: u32 = 100;
/// Most names that are tried for a new file before it gets its own.
const PART_NAMES_MAX: u64 = 1000;
const NOT_REGULAR: &str = "it is not a regular file";

/// Why a path was refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// There is nothing.
    Missing,
    /// The folder itself is gone.
    NoFolder(PathBuf),
    /// It leads out of the folder.
    Outside,
    /// The user may not.
    Denied,
    /// Something else stands there, or the path is no path.
    Wrong(String),
    /// The machine failed.
    Failed(io::Error),
}

impl From<Errno> for Refusal {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => Self::Missing,
            Errno::XDEV | Errno::LOOP => Self::Outside,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::ISDIR => Self::Wrong("it is a folder".to_owned()),
            Errno::NOTDIR => Self::Wrong("a part of the path is not a folder".to_owned()),
            // A pipe that nobody reads, or a device without a driver.
            Errno::NXIO | Errno::NODEV => Self::Wrong(NOT_REGULAR.to_owned()),
            Errno::NOTEMPTY => Self::Wrong("the folder is not empty".to_owned()),
            Errno::NAMETOOLONG => Self::Wrong("the name is too long".to_owned()),
            Errno::INVAL => Self::Wrong("the path is not valid".to_owned()),
            other => Self::Failed(other.into()),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).map_or(Self::Failed(error), Self::from)
    }
}

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct Jail {
    root: PathBuf,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Other,
}

/// Whether a path leads out of the folder, whatever stands there. (Others may, by links.)
pub(crate) fn surely_outside(path: &str, folder: Option<&str>) -> bool {
    let path = Path::new(path);
    if path.is_absolute() {
        return folder.is_some_and(|folder| !path.starts_with(folder));
    }
    let first = path
        .components()
        .find(|part| !matches!(part, Component::CurDir));
    matches!(first, Some(Component::ParentDir))
}

impl Jail {
    pub(crate) const fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn folder(&self) -> Result<OwnedFd, Refusal> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open(&self.root, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => Refusal::NoFolder(self.root.clone()),
            other => other.into(),
        })
    }

    /// The path below the root; an absolute one must begin with the root.
    pub(crate) fn relative<'a>(&self, path: &'a str) -> Result<&'a Path, Refusal> {
        let path = Path::new(path);
        let path = if path.is_absolute() {
            path.strip_prefix(&self.root)
                .map_err(|_| Refusal::Outside)?
        } else {
            path
        };
        Ok(if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        })
    }

    fn at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Refusal> {
        // A descriptor that is only a place opens nothing; anything else must not wait for a pipe's other end.
        let careful = if flags.contains(OFlags::PATH) {
            OFlags::empty()
        } else {
            OFlags::NOCTTY | OFlags::NONBLOCK
        };
        let flags = flags | OFlags::CLOEXEC | careful;
        let mode = if flags.contains(OFlags::CREATE) {
            FILE_MODE
        } else {
            Mode::empty()
        };
        let root = self.folder()?;
        let mut tries = 1;
        loop {
            match openat2(&root, path, flags, mode, INSIDE) {
                // Something was moved meanwhile, and the kernel cannot say whether it led out.
                Err(Errno::AGAIN) if tries < OPEN_TRIES_MAX => tries += 1,
                opened => return Ok(opened?),
            }
        }
    }

    /// Opens a regular file to read it.
    pub(crate) fn read(&self, path: &str) -> Result<File, Refusal> {
        regular(self.at(self.relative(path)?, OFlags::RDONLY)?)
    }

    /// Opens a regular file to write at its end; makes it when it is not there.
    pub(crate) fn append(&self, path: &str) -> Result<File, Refusal> {
        let path = self.relative(path)?;
        self.make_parent(path)?;
        regular(self.at(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?)
    }

    /// Opens a folder to list it.
    pub(crate) fn list(&self, path: &Path) -> Result<OwnedFd, Refusal> {
        self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// What stands there.
    pub(crate) fn kind(&self, path: &str) -> Result<Kind, Refusal> {
        let there = self.at(self.relative(path)?, OFlags::PATH)?;
        Ok(match FileType::from_raw_mode(fstat(&there)?.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            _ => Kind::Other,
        })
    }

    /// Removes a file, a link or an empty folder.
    pub(crate) fn remove(&self, path: &str) -> Result<(), Refusal> {
        let (parent, name) = split(self.relative(path)?)?;
        let parent = self.at(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(&parent, name, AtFlags::REMOVEDIR)?,
            other => other?,
        }
        Ok(())
    }

    /// Puts a whole file in its place at once: whoever looks sees the old one or the new one. `fill` writes it. The
    /// returned flag says that the new file stands although its folder could not be synced.
    pub(crate) fn replace(
        &self,
        path: &str,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Result<(), io::Error>, Refusal> {
        let path = self.relative(path)?;
        self.make_parent(path)?;
        let (parent, name) = split(path)?;
        let folder = self.at(parent, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let (part, mut file) = new_part(&folder)?;
        let filled = fill(&mut file).and_then(|()| file.sync_all());
        let moved = filled
            .map_err(Refusal::from)
            .and_then(|()| Ok(renameat(&folder, part.as_str(), &folder, name)?));
        if let Err(refusal) = moved {
            let _ = unlinkat(&folder, part.as_str(), AtFlags::empty());
            return Err(refusal);
        }
        Ok(fsync(&folder).map_err(io::Error::from))
    }

    /// Makes the folders above a path.
    fn make_parent(&self, path: &Path) -> Result<(), Refusal> {
        let (parent, _) = split(path)?;
        let mut made = PathBuf::new();
        for part in parent.components() {
            let above = if made.as_os_str().is_empty() {
                Path::new(".").to_path_buf()
            } else {
                made.clone()
            };
            made.push(part);
            let Component::Normal(name) = part else {
                continue;
            };
            let above = self.at(&above, OFlags::PATH | OFlags::DIRECTORY)?;
            match mkdirat(&above, name, FOLDER_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Makes a file that was not there: whatever somebody put in the way (a link, a pipe, another name of a file elsewhere)
/// is neither opened nor written to.
fn new_part(folder: &OwnedFd) -> Result<(String, File), Refusal> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let first = PARTS.fetch_add(1, Ordering::Relaxed);
    for number in first..first + PART_NAMES_MAX {
        let name = format!(".ravel-{}-{number}.part", std::process::id());
        match openat2(folder, name.as_str(), flags, FILE_MODE, INSIDE) {
            Ok(file) => return Ok((name, File::from(file))),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let text = format!(
        "all names `.ravel-{}-….part` are taken there",
        std::process::id()
    );
    Err(Refusal::Wrong(text))
}

/// Makes the names of new files different.
static PARTS: AtomicU64 = AtomicU64::new(0);

/// A path's folder and its last name.
fn split(path: &Path) -> Result<(&Path, &std::ffi::OsStr), Refusal> {
    let name = path
        .file_name()
        .ok_or_else(|| Refusal::Wrong("the path names no file".to_owned()))?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    Ok((parent.unwrap_or_else(|| Path::new(".")), name))
}

fn regular(file: OwnedFd) -> Result<File, Refusal> {
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        FileType::Directory => Err(Refusal::Wrong("it is a folder".to_owned())),
        _ => Err(Refusal::Wrong(NOT_REGULAR.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::fs::symlink;

    use super::*;

    fn jail() -> (tempfile::TempDir, Jail) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        (dir, Jail::new(root))
    }

    #[test]
    fn nothing_leads_out() {
        let (dir, jail) = jail();
        let root = dir.path().join("root");
        symlink("../secret", root.join("relative")).unwrap();
        symlink(dir.path().join("secret"), root.join("absolute")).unwrap();
        symlink("..", root.join("up")).unwrap();
        let outside = dir.path().join("secret").to_str().unwrap().to_owned();
        for path in [
            "../secret",
            "relative",
            "absolute",
            "up/secret",
            "a/../../secret",
            "/etc/passwd",
            &outside,
        ] {
            let read = jail.read(path).map(|_| ());
            assert!(
                matches!(read, Err(Refusal::Outside | Refusal::Missing)),
                "{path}: {read:?}"
            );
        }
        for path in ["../new", "up/new", "relative"] {
            let _ = jail.replace(path, |file| file.write_all(b"x"));
            let _ = jail.append(path);
        }
        assert!(!dir.path().join("new").exists());
        assert_eq!(
            std::fs::read_to_string(dir.path().join("secret")).unwrap(),
            "secret"
        );
    }

    #[test]
    fn what_stands_in_the_way_of_a_new_file_is_not_written_to() {
        let (dir, jail) = jail();
        let root = dir.path().join("root");
        let next = PARTS.load(Ordering::Relaxed);
        // Other tests take numbers, too: enough of them are taken for any that comes.
        for number in next..next + 200 {
            let name = root.join(format!(".ravel-{}-{number}.part", std::process::id()));
            match number % 2 {
                0 => symlink(dir.path().join("secret"), name).unwrap(),
                _ => std::fs::hard_link(dir.path().join("secret"), name).unwrap(),
            }
        }
        jail.replace("new", |file| file.write_all(b"x"))
            .unwrap()
            .unwrap();
        assert_eq!(std::fs::read_to_string(root.join("new")).unwrap(), "x");
        assert_eq!(
            std::fs::read_to_string(dir.path().join("secret")).unwrap(),
            "secret"
        );
    }

    #[test]
    fn pipes_folders_and_paths_that_are_none_are_refused_without_waiting() {
        let (dir, jail) = jail();
        let root = dir.path().join("root");
        std::fs::create_dir(root.join("folder")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            FileType::Fifo,
            FILE_MODE,
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
        let long = "x".repeat(300);
        for path in ["pipe", "socket", "folder", "a\0b", &long, "pipe/x", ".", ""] {
            let read = jail.read(path).map(|_| ());
            let appended = jail.append(path).map(|_| ());
            for refused in [read, appended] {
                assert!(
                    matches!(refused, Err(Refusal::Wrong(_))),
                    "{path:?}: {refused:?}"
                );
            }
        }
        for path in ["folder", "a\0b", &long, "pipe/x", ".", "folder/.."] {
            let refused = jail.replace(path, |_| Ok(()));
            assert!(
                matches!(refused, Err(Refusal::Wrong(_))),
                "{path:?}: {refused:?}"
            );
        }
        let names = std::fs::read_dir(&root).unwrap().count();
        assert_eq!(names, 3, "nothing was left");
    }

    #[test]
    fn a_link_that_is_swapped_in_between_leads_nowhere() {
        let (dir, jail) = jail();
        let root = dir.path().join("root");
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/secret"), "inside").unwrap();
        symlink("real", root.join("inside")).unwrap();
        symlink("..", root.join("outside")).unwrap();
        symlink("real", root.join("way")).unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for target in ["outside", "inside"] {
                        let link = std::fs::read_link(root.join(target)).unwrap();
                        symlink(link, root.join("next")).unwrap();
                        std::fs::rename(root.join("next"), root.join("way")).unwrap();
                    }
                }
            });
            for _ in 0..500 {
                let mut text = String::new();
                match jail.read("way/secret") {
                    Ok(mut file) => {
                        file.read_to_string(&mut text).unwrap();
                        assert_eq!(text, "inside");
                    }
                    Err(refusal) => assert!(
                        matches!(refusal, Refusal::Outside | Refusal::Failed(_)),
                        "{refusal:?}"
                    ),
                }
                let _ = jail.replace("way/new", |_| Ok(()));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(!dir.path().join("new").exists());
    }

    #[test]
    fn a_file_is_replaced_whole_and_links_inside_are_followed() {
        let (dir, jail) = jail();
        jail.replace("a/b/c", |file| file.write_all(b"one"))
            .unwrap()
            .unwrap();
        jail.replace("a/b/c", |file| file.write_all(b"2"))
            .unwrap()
            .unwrap();
        symlink("b", dir.path().join("root/a/l")).unwrap();
        let mut text = String::new();
        jail.read("a/l/c")
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "2");
        let failed = jail.replace("a/b/c", |_| Err(io::Error::other("full")));
        assert!(matches!(failed, Err(Refusal::Failed(_))));
        let names: Vec<_> = std::fs::read_dir(dir.path().join("root/a/b"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["c"]);
    }
}
