//! Result files: kept by content, handed on as values.
//!
//! A file in a value is `{"$file": hash, "name", "bytes"}`. Its content lies in `<root>/files/<hash>` (BLAKE3),
//! on disk before the value is reported. A value that is given to a process becomes a path to a read-only copy.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// The key that makes an object a file value.
pub const FILE_KEY: &str = "$file";
/// Copied at a time, bytes.
const COPY_BYTES: usize = 64 * 1024;
/// Longest name of a file value, bytes.
const NAME_BYTES_MAX: usize = 128;
/// Hex digits of a BLAKE3 hash.
const HASH_DIGITS: usize = 64;

/// A file in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileValue {
    /// What it is called: one path segment of plain characters.
    pub name: String,
    /// BLAKE3 of its content, in hex.
    pub hash: String,
    /// Its size.
    pub bytes: u64,
}

impl FileValue {
    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ FILE_KEY: self.hash, "name": self.name, "bytes": self.bytes })
    }

    /// The file that a JSON value is, if it is one.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        let hash = fields.get(FILE_KEY)?.as_str()?;
        let valid = hash.len() == HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        valid.then_some(())?;
        let name = plain_name(
            fields
                .get("name")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
        let bytes = fields
            .get("bytes")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        Some(Self {
            name,
            hash: hash.to_ascii_lowercase(),
            bytes,
        })
    }
}

/// A name that is one path segment and needs no quoting in a shell.
fn plain_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._-+".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = last.chars().map(plain).take(NAME_BYTES_MAX).collect();
    if name.trim_matches('.').is_empty() {
        "file".to_owned()
    } else {
        name
    }
}

/// The store of files, by content.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    /// The store below a work root.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            folder: root.join("files"),
        }
    }

    /// Where the content lies.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the content in; it is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn put(&self, name: &str, mut from: impl Read) -> io::Result<FileValue> {
        fs::create_dir_all(&self.folder)?;
        let part = self.folder.join(format!(
            "part-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut file = File::create(&part)?;
        let copied = copy(&mut from, &mut file).and_then(|done| file.sync_all().map(|()| done));
        let (hash, bytes) = match copied {
            Ok(done) => done,
            Err(error) => {
                let _ = fs::remove_file(&part);
                return Err(error);
            }
        };
        fs::set_permissions(&part, fs::Permissions::from_mode(0o444))?;
        fs::rename(&part, self.folder.join(&hash))?;
        File::open(&self.folder)?.sync_all()?;
        Ok(FileValue {
            name: plain_name(name),
            hash,
            bytes,
        })
    }

    /// Opens the content with this hash.
    ///
    /// # Errors
    /// When it is not here.
    pub fn open(&self, hash: &str) -> io::Result<File> {
        if hash.len() != HASH_DIGITS || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not the hash of a file",
            ));
        }
        File::open(self.folder.join(hash))
    }

    /// Puts a read-only copy of the file into a folder and gives its path.
    fn copy_to(&self, file: &FileValue, folder: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let mut path = folder.join(&file.name);
        let mut number = 2;
        while path.exists() {
            path = folder.join(format!("{number}-{}", file.name));
            number += 1;
        }
        fs::copy(self.folder.join(&file.hash), &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444))?;
        Ok(path)
    }
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<(String, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0_u8; COPY_BYTES];
    let mut bytes = 0;
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
        bytes += count as u64;
    }
    Ok((hasher.finalize().to_hex().to_string(), bytes))
}

/// Puts the files that a request names into a folder, each once, and their paths in their places.
#[derive(Debug)]
pub(crate) struct Unpack<'a> {
    files: &'a Files,
    folder: PathBuf,
    done: Vec<(FileValue, String)>,
}

impl<'a> Unpack<'a> {
    pub(crate) const fn new(files: &'a Files, folder: PathBuf) -> Self {
        Self {
            files,
            folder,
            done: Vec::new(),
        }
    }

    fn path(&mut self, file: FileValue) -> Result<String, String> {
        if let Some((_, path)) = self.done.iter().find(|(done, _)| *done == file) {
            return Ok(path.clone());
        }
        let failed = |error: io::Error| {
            format!(
                "the file `{}` ({}) cannot be had: {error}",
                file.name, file.hash
            )
        };
        let path = self.files.copy_to(&file, &self.folder).map_err(failed)?;
        let path = path
            .into_os_string()
            .into_string()
            .map_err(|_| "the work root is not UTF-8".to_owned())?;
        self.done.push((file, path.clone()));
        Ok(path)
    }

    /// A path that may stand between the quotes that the file's JSON stood between.
    fn quotable_path(&mut self, file: FileValue) -> Result<String, String> {
        let path = self.path(file)?;
        if path.contains(['\'', '"', '\\']) {
            Err(format!("the work root has a quote in its path: {path}"))
        } else {
            Ok(path)
        }
    }

    /// The value with a path in the place of each file.
    pub(crate) fn value(&mut self, value: &Value) -> Result<Value, String> {
        if let Some(file) = FileValue::from_json(value) {
            return self.path(file).map(Value::String);
        }
        match value {
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, field)| Ok((key.clone(), self.value(field)?)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(value.clone()),
        }
    }

    /// The text with a path in the place of each file that was printed into it as JSON.
    pub(crate) fn text(&mut self, text: &str) -> Result<String, String> {
        const BEGIN: &str = "{\"$file\"";
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(BEGIN) {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let file = values
                .next()
                .and_then(Result::ok)
                .and_then(|value| FileValue::from_json(&value));
            let (piece, used) = match file {
                Some(file) => (self.quotable_path(file)?, values.byte_offset()),
                None => (BEGIN.to_owned(), BEGIN.len()),
            };
            out.push_str(&piece);
            rest = &rest[used..];
        }
        Ok(out + rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_goes_in_by_content_and_comes_out_read_only() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path());
        let file = files.put("../a b.txt", "hello".as_bytes()).unwrap();
        assert_eq!((file.name.as_str(), file.bytes), ("a_b.txt", 5));
        assert_eq!(FileValue::from_json(&file.to_json()), Some(file.clone()));
        let mut unpack = Unpack::new(&files, dir.path().join("inputs"));
        let path = dir
            .path()
            .join("inputs/a_b.txt")
            .to_str()
            .unwrap()
            .to_owned();
        let value = json!({ "log": [file.to_json(), 1] });
        assert_eq!(unpack.value(&value).unwrap(), json!({ "log": [path, 1] }));
        let shell = format!("wc -l '{}' {{\"$file\":1}}", file.to_json());
        assert_eq!(
            unpack.text(&shell).unwrap(),
            format!("wc -l '{path}' {{\"$file\":1}}")
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "hello");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o444
        );
    }
}
