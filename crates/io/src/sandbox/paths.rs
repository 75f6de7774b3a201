//! What a confined process may read.

use std::fs;
use std::path::{Path, PathBuf};

/// Devices that are harmless to read and write.
pub(super) const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// What programs need to start at all: libraries, binaries, certificates, time zones.
const SYSTEM: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/ssl",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/proc/self",
    "/proc/meminfo",
    "/proc/cpuinfo",
];

/// Folders that hold people's homes, and the system's own secrets.
const SECRET: [&str; 7] = [
    "/home",
    "/root",
    "/run/secrets",
    "/run/user",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/ssh",
];

/// Hidden folders of a home that hold tools, not secrets. Everything else that is hidden is not readable.
const TOOLS: [&str; 16] = [
    ".pyenv",
    ".rustup",
    ".cargo/bin",
    ".cargo/registry",
    ".cargo/git",
    ".nvm",
    ".volta",
    ".fnm",
    ".bun",
    ".deno",
    ".asdf",
    ".rbenv",
    ".sdkman",
    ".local/bin",
    ".local/lib",
    ".local/share/uv",
];

pub(super) fn strict_reads() -> Vec<PathBuf> {
    SYSTEM.iter().map(PathBuf::from).collect()
}

/// Everything but what is secret, in homes and elsewhere. Landlock can only allow, so the readable rest is listed.
pub(super) fn workspace_reads(root: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let secret: Vec<PathBuf> = SECRET
        .iter()
        .map(PathBuf::from)
        .chain(home.map(Path::to_path_buf))
        .collect();
    let mut reads = Vec::new();
    allow(root, &secret, &mut reads);
    if let Some(home) = home {
        reads.extend(children(home).into_iter().filter(|path| !hidden(path)));
        reads.extend(TOOLS.iter().map(|tool| home.join(tool)));
    }
    reads
}

/// Allows a folder whole when nothing secret is in it, else its children one by one.
fn allow(folder: &Path, secret: &[PathBuf], reads: &mut Vec<PathBuf>) {
    if secret.iter().any(|path| path == folder) {
        return;
    }
    if !secret.iter().any(|path| path.starts_with(folder)) {
        reads.push(folder.to_path_buf());
        return;
    }
    for child in children(folder) {
        allow(&child, secret, reads);
    }
}

/// Entries that are not links: what a link leads to is judged where it lies.
fn children(folder: &Path) -> Vec<PathBuf> {
    let real = |entry: fs::DirEntry| {
        entry
            .file_type()
            .is_ok_and(|kind| !kind.is_symlink())
            .then(|| entry.path())
    };
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| real(entry.ok()?))
        .collect()
}

fn hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_entries_of_a_home_are_left_out_and_its_neighbours_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in [
            "etc",
            "srv/people/me/work",
            "srv/people/me/.ssh",
            "srv/people/me/.pyenv",
            "srv/data",
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let home = root.join("srv/people/me");
        let reads = workspace_reads(root, Some(&home));
        let mut found: Vec<&Path> = reads
            .iter()
            .map(PathBuf::as_path)
            .filter(|path| path.exists())
            .collect();
        found.sort_unstable();
        let wanted = [
            "etc",
            "srv/data",
            "srv/people/me/.pyenv",
            "srv/people/me/work",
        ]
        .map(|path| root.join(path));
        assert_eq!(
            found,
            wanted.iter().map(PathBuf::as_path).collect::<Vec<_>>()
        );
    }
}
