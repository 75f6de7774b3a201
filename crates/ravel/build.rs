//! Lists the cases of `conformance/` with their texts, so that the binary carries the suite it was built with.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let root = root.canonicalize()?;
    println!("cargo:rerun-if-changed={}", root.display());
    let mut list = String::from("&[\n");
    for section in entries(&root)?.into_iter().filter(|path| path.is_dir()) {
        for case in entries(&section)? {
            let name = case.strip_prefix(&root).map_err(io::Error::other)?;
            let _ = writeln!(
                list,
                "    ({:?}, include_str!({:?})),",
                name.display(),
                case.display()
            );
        }
    }
    list.push_str("]\n");
    let out = env::var_os("OUT_DIR").map(PathBuf::from);
    let out = out.ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    fs::write(out.join("cases.rs"), list)
}

/// What a folder holds, in order.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
