//! Result files: kept by content, handed on as values.
//!
//! A file in a value is `{"$file": hash, "name", "bytes"}`. Its content lies in `<root>/files/<hash>` (BLAKE3),
//! on disk before the value is reported. A value that is given to a process becomes a path to a read-only copy.

use std::fs::{self, File};
use std::io::{self, Read, Seek as _, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ravel_core::effect::{ErrorClass, Failure};
use serde_json::{Value, json};

use crate::trouble;

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

/// Who made a stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maker {
    /// The run.
    pub run: Arc<str>,
    /// Path of the step; `None`: it came with the run's input.
    pub step: Option<Arc<str>>,
}

/// Finds who made the file with a hash, as far as a run knows. Asked only when the file cannot be had.
#[derive(Clone)]
pub struct Makers(Arc<FindMaker>);

type FindMaker = dyn Fn(&str, &str) -> Option<Maker> + Send + Sync;

impl Makers {
    /// `find` is given the run that needs the file, and the file's hash.
    pub fn new(find: impl Fn(&str, &str) -> Option<Maker> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl std::fmt::Debug for Makers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Makers")
    }
}

/// Why the content of a file value cannot be had.
#[derive(Debug)]
pub enum Lost {
    /// It is not in the store of files.
    Missing,
    /// What lies there has other bytes than were stored.
    Altered,
    /// The system does not give it.
    Unreadable(io::Error),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Altered => f.write_str("is not what was stored: its bytes have changed"),
            Self::Unreadable(error) => write!(f, "cannot be read: {}", trouble::text(error)),
        }
    }
}

impl std::error::Error for Lost {}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound {
            Self::Missing
        } else {
            Self::Unreadable(error)
        }
    }
}

impl Lost {
    /// Class and stable code of the failure of a step that needs the file.
    fn class(&self) -> (ErrorClass, &'static str) {
        match self {
            Self::Missing => (ErrorClass::NotFound, "stored_file_missing"),
            Self::Altered => (ErrorClass::NotFound, "stored_file_altered"),
            Self::Unreadable(error) => match trouble::of(error) {
                Some(trouble) => (trouble.class, trouble.code),
                None => (ErrorClass::Unavailable, "stored_file_unreadable"),
            },
        }
    }
}

/// The store of files, by content.
#[derive(Clone, Debug)]
pub struct Files {
    folder: PathBuf,
    makers: Option<Makers>,
}

impl Files {
    /// The store below a work root.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            folder: root.join("files"),
            makers: None,
        }
    }

    /// The same store, which can say who made a file that is lost.
    #[must_use]
    pub(crate) fn with_makers(self, makers: Option<Makers>) -> Self {
        Self { makers, ..self }
    }

    /// Where all content lies.
    #[must_use]
    pub fn folder(&self) -> &Path {
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

    /// Where the content of a file value lies, or belongs.
    #[must_use]
    pub fn place(&self, file: &FileValue) -> PathBuf {
        self.folder.join(&file.hash)
    }

    /// Opens the content of a file value; it is what was stored.
    ///
    /// # Errors
    /// When it is not there, or has other bytes.
    pub fn open(&self, file: &FileValue) -> Result<File, Lost> {
        let mut content = File::open(self.place(file))?;
        check(file, copy(&mut content, &mut io::sink())?.0)?;
        content.rewind()?;
        Ok(content)
    }

    /// Puts a read-only copy of the file into a folder and gives its path.
    fn copy_to(&self, file: &FileValue, folder: &Path) -> Result<PathBuf, Uncopied> {
        let mut content =
            File::open(self.place(file)).map_err(|error| Uncopied::Lost(error.into()))?;
        fs::create_dir_all(folder)?;
        let mut path = folder.join(&file.name);
        let mut number = 2;
        while path.exists() {
            path = folder.join(format!("{number}-{}", file.name));
            number += 1;
        }
        let (hash, _) = copy(&mut content, &mut File::create_new(&path)?)?;
        check(file, hash).map_err(Uncopied::Lost)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444))?;
        Ok(path)
    }

    /// The failure of a step of a run that needs a file that cannot be had: which file, where it belongs, who made it,
    /// and what can be done.
    pub(crate) fn failure(&self, run: &str, file: &FileValue, lost: &Lost) -> Failure {
        let maker = self
            .makers
            .as_ref()
            .and_then(|makers| (makers.0)(run, &file.hash));
        let (class, code) = lost.class();
        let FileValue { name, hash, bytes } = file;
        let made = match &maker {
            Some(Maker {
                run,
                step: Some(step),
            }) => format!(", which step `{step}` of run {run} made,"),
            Some(Maker { run, step: None }) => format!(", which came with the input of run {run},"),
            None => String::new(),
        };
        let anew = match &maker {
            Some(Maker {
                run,
                step: Some(step),
            }) => {
                format!("; or make it anew: `ravel runs retry {run} --from '{step}'`")
            }
            Some(Maker { step: None, .. }) | None => String::new(),
        };
        let text = format!(
            "the stored file `{name}` (BLAKE3 {hash}, {bytes} bytes){made} {lost}; put it back at {} from a copy, \
             then resume or retry{anew}",
            self.place(file).display()
        );
        Failure::new(class, text).with_code(code)
    }
}

/// Why a file was not copied.
enum Uncopied {
    /// It cannot be had.
    Lost(Lost),
    /// The copy cannot be written.
    Unwritten(io::Error),
}

impl From<io::Error> for Uncopied {
    fn from(error: io::Error) -> Self {
        Self::Unwritten(error)
    }
}

fn check(file: &FileValue, hash: String) -> Result<(), Lost> {
    if hash == file.hash {
        Ok(())
    } else {
        Err(Lost::Altered)
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

/// Puts the files that a request of a run names into a folder, each once, and their paths in their places.
#[derive(Debug)]
pub(crate) struct Unpack<'a> {
    files: &'a Files,
    run: &'a str,
    folder: PathBuf,
    done: Vec<(FileValue, String)>,
}

impl<'a> Unpack<'a> {
    pub(crate) const fn new(files: &'a Files, run: &'a str, folder: PathBuf) -> Self {
        Self {
            files,
            run,
            folder,
            done: Vec::new(),
        }
    }

    fn path(&mut self, file: FileValue) -> Result<String, Failure> {
        if let Some((_, path)) = self.done.iter().find(|(done, _)| *done == file) {
            return Ok(path.clone());
        }
        let failed = |uncopied: Uncopied| match uncopied {
            Uncopied::Lost(lost) => self.files.failure(self.run, &file, &lost),
            Uncopied::Unwritten(error) => {
                let what = format!("the file `{}` ({}) cannot be copied", file.name, file.hash);
                trouble::failure(ErrorClass::Internal, what, &error)
            }
        };
        let path = self.files.copy_to(&file, &self.folder).map_err(failed)?;
        let path = path
            .into_os_string()
            .into_string()
            .map_err(|_| Failure::new(ErrorClass::InvalidInput, "the work root is not UTF-8"))?;
        self.done.push((file, path.clone()));
        Ok(path)
    }

    /// A path that may stand between the quotes that the file's JSON stood between.
    fn quotable_path(&mut self, file: FileValue) -> Result<String, Failure> {
        let path = self.path(file)?;
        if path.contains(['\'', '"', '\\']) {
            let text = format!("the work root has a quote in its path: {path}");
            Err(Failure::new(ErrorClass::InvalidInput, text))
        } else {
            Ok(path)
        }
    }

    /// The value with a path in the place of each file.
    pub(crate) fn value(&mut self, value: &Value) -> Result<Value, Failure> {
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
    pub(crate) fn text(&mut self, text: &str) -> Result<String, Failure> {
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
        let mut unpack = Unpack::new(&files, "r", dir.path().join("inputs"));
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
