//! Configuration: `ravel.toml` of the user, then of the project, then the environment, then the command line; the
//! later wins, key by key, and each value knows where it comes from.

pub(crate) mod keys;
mod layer;

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub(crate) use layer::{CONFIG_FILE_BYTES_MAX, Entry, Origin};

use crate::error::{Error, Result};

/// The name of the file, and of the folder beside it.
pub(crate) const FILE_NAME: &str = "ravel.toml";
/// The folder of a project's state.
pub(crate) const FOLDER_NAME: &str = ".ravel";
/// The database in it.
pub(crate) const DATABASE_NAME: &str = "ravel.db";
/// The variable that names the store.
pub(crate) const STORE_VARIABLE: &str = "RAVEL_STORE";
/// Variables with this prefix set a key: `RAVEL_CONFIG__PROVIDERS__LOCAL__URL` sets `providers.local.url`.
pub(crate) const VARIABLE_PREFIX: &str = "RAVEL_CONFIG__";

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    /// `--store`.
    pub(crate) store: Option<PathBuf>,
    /// `--config KEY=VALUE`.
    pub(crate) assignments: Vec<String>,
}

/// The world that configuration is read from; tests make their own.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// Where the command was started.
    pub(crate) folder: PathBuf,
    /// `~/.config`, when there is a home.
    pub(crate) user: Option<PathBuf>,
    /// The environment.
    pub(crate) variables: Vec<(String, String)>,
}

impl World {
    /// The world of this process.
    pub(crate) fn of_process() -> Result<Self> {
        let folder = std::env::current_dir()
            .map_err(|error| Error::trouble("cannot tell the current folder").because(error))?;
        let variables: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let get = |name: &str| {
            variables
                .iter()
                .find(|(key, value)| key == name && !value.is_empty())
        };
        let user = get("XDG_CONFIG_HOME")
            .map(|(_, path)| PathBuf::from(path))
            .or_else(|| get("HOME").map(|(_, home)| Path::new(home).join(".config")));
        Ok(Self {
            folder,
            user,
            variables,
        })
    }
}

/// The merged configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    entries: Vec<Entry>,
    folder: PathBuf,
    project: Option<PathBuf>,
    files: Vec<PathBuf>,
}

impl Config {
    /// Reads and merges everything. A mistake anywhere is an error with its position.
    pub(crate) fn load(world: &World, overrides: &Overrides, color: bool) -> Result<Self> {
        let project = find_project(&world.folder);
        let user_file = world
            .user
            .as_ref()
            .map(|user| user.join("ravel").join(FILE_NAME));
        let project_file = project.as_ref().map(|project| project.join(FILE_NAME));
        let mut config = Self {
            entries: Vec::new(),
            folder: world.folder.clone(),
            project,
            files: Vec::new(),
        };
        for file in user_file.into_iter().chain(project_file) {
            config.read_file(&file, color)?;
        }
        config.read_environment(&world.variables)?;
        for assignment in &overrides.assignments {
            let (key, value) = assignment.split_once('=').ok_or_else(|| {
                Error::usage(format!("`--config {assignment}` has no `=`"))
                    .hint("write --config models.fast=local/qwen")
            })?;
            let entry = layer::from_assignment(key.trim(), value, Origin::CommandLine("--config"))
                .map_err(|message| Error::usage(format!("`--config {assignment}`: {message}")))?;
            config.put(entry);
        }
        if let Some(store) = &overrides.store {
            let path = world.folder.join(store);
            config.put(Entry {
                path: vec!["store".into(), "path".into()],
                value: Value::String(path.to_string_lossy().into_owned()),
                origin: Origin::CommandLine("--store"),
            });
        }
        Ok(config)
    }

    fn read_file(&mut self, file: &Path, color: bool) -> Result<()> {
        let text = match std::fs::metadata(file) {
            Err(_) => return Ok(()),
            Ok(facts) if facts.len() > CONFIG_FILE_BYTES_MAX => {
                return Err(Error::usage(format!(
                    "{} is larger than {CONFIG_FILE_BYTES_MAX} bytes",
                    file.display()
                )));
            }
            Ok(_) => std::fs::read_to_string(file).map_err(|error| {
                Error::usage(format!("cannot read {}", file.display())).because(error)
            })?,
        };
        let shown = file.strip_prefix(&self.folder).unwrap_or(file);
        let entries = layer::from_toml(shown, &text).map_err(|problems| {
            let name = shown.display().to_string();
            let report: Vec<String> = problems
                .iter()
                .map(|problem| problem.render(&name, &text, color))
                .collect();
            Error::usage(format!("{name} has {}", counted(problems.len(), "mistake")))
                .report(report.join("\n\n") + "\n")
                .hint("`ravel config --keys` lists every key")
        })?;
        let home = file.parent().unwrap_or_else(|| Path::new(""));
        for mut entry in entries {
            absolute(&mut entry, home);
            self.put(entry);
        }
        self.files.push(file.to_owned());
        Ok(())
    }

    fn read_environment(&mut self, variables: &[(String, String)]) -> Result<()> {
        let mut ours: Vec<&(String, String)> = variables
            .iter()
            .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
            .collect();
        ours.sort();
        for (name, value) in ours {
            let key = name[VARIABLE_PREFIX.len()..]
                .to_lowercase()
                .replace("__", ".");
            let entry = layer::from_assignment(&key, value, Origin::Environment(name.clone()))
                .map_err(|message| Error::usage(format!("the variable {name}: {message}")))?;
            self.put(entry);
        }
        let store = variables
            .iter()
            .find(|(name, value)| name == STORE_VARIABLE && !value.is_empty());
        if let Some((name, value)) = store {
            let path = self.folder.join(value);
            self.put(Entry {
                path: vec!["store".into(), "path".into()],
                value: Value::String(path.to_string_lossy().into_owned()),
                origin: Origin::Environment(name.clone()),
            });
        }
        Ok(())
    }

    /// Sets a key: whatever was under it or above it goes.
    fn put(&mut self, entry: Entry) {
        self.entries
            .retain(|old| !old.path.starts_with(&entry.path) && !entry.path.starts_with(&old.path));
        self.entries.push(entry);
        self.entries
            .sort_by(|left, right| left.path.cmp(&right.path));
    }

    /// Every value with its origin, by key.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The files that were read, in order.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The project's folder, when there is one.
    pub(crate) fn project(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// The entry of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.path.join(".") == key)
    }

    /// Everything under a table, as one JSON value (an object, empty when nothing is set).
    pub(crate) fn table(&self, prefix: &[&str]) -> Value {
        let mut root = Map::new();
        for entry in &self.entries {
            let fits = entry.path.len() > prefix.len()
                && entry
                    .path
                    .iter()
                    .zip(prefix)
                    .all(|(have, want)| have == want);
            if fits {
                insert(&mut root, &entry.path[prefix.len()..], entry.value.clone());
            }
        }
        Value::Object(root)
    }

    /// Everything under a table, read into a type.
    pub(crate) fn section<T: DeserializeOwned>(&self, name: &str) -> Result<T> {
        serde_json::from_value(self.table(&[name])).map_err(|error| {
            Error::usage(format!("[{name}] of the configuration is wrong")).because(error)
        })
    }

    /// The database that commands work on.
    pub(crate) fn store_path(&self) -> PathBuf {
        self.get("store.path")
            .and_then(|entry| entry.value.as_str())
            .map_or_else(
                || {
                    self.project
                        .as_ref()
                        .unwrap_or(&self.folder)
                        .join(FOLDER_NAME)
                        .join(DATABASE_NAME)
                },
                PathBuf::from,
            )
    }
}

/// The nearest folder upwards that has a `ravel.toml` or a `.ravel`.
fn find_project(from: &Path) -> Option<PathBuf> {
    from.ancestors()
        .find(|folder| folder.join(FILE_NAME).is_file() || folder.join(FOLDER_NAME).is_dir())
        .map(Path::to_owned)
}

fn absolute(entry: &mut Entry, home: &Path) {
    let keys::Known::Key(key) = keys::find(&entry.path) else {
        return;
    };
    if key.shape == keys::Shape::Path
        && let Some(path) = entry.value.as_str()
    {
        entry.value = Value::String(home.join(path).to_string_lossy().into_owned());
    }
}

fn insert(table: &mut Map<String, Value>, path: &[String], value: Value) {
    let (first, rest) = path.split_first().expect("a key has a segment");
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let inner = table
        .entry(first.clone())
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}

/// `1 mistake`, `2 mistakes`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        home: tempfile::TempDir,
    }

    impl Case {
        fn new(project: Option<&str>, user: Option<&str>) -> Self {
            let home = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(home.path().join("project/deep")).unwrap();
            std::fs::create_dir_all(home.path().join("config/ravel")).unwrap();
            if let Some(text) = project {
                std::fs::write(home.path().join("project/ravel.toml"), text).unwrap();
            }
            if let Some(text) = user {
                std::fs::write(home.path().join("config/ravel/ravel.toml"), text).unwrap();
            }
            Self { home }
        }

        fn load(&self, variables: &[(&str, &str)], overrides: &Overrides) -> Result<Config> {
            let world = World {
                folder: self.home.path().join("project/deep"),
                user: Some(self.home.path().join("config")),
                variables: variables
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
            };
            Config::load(&world, overrides, false)
        }

        fn shown(&self, config: &Config) -> Vec<String> {
            let home = self.home.path().display().to_string();
            config
                .entries()
                .iter()
                .map(|entry| {
                    format!(
                        "{} = {} ({})",
                        entry.path.join("."),
                        entry.value,
                        entry.origin
                    )
                    .replace(&home, "~")
                })
                .collect()
        }
    }

    #[test]
    fn later_sources_win_key_by_key_and_say_so() {
        let case = Case::new(
            Some("[models]\nfast = \"local/a\"\n[store]\npath = \"state/r.db\"\n"),
            Some(
                "[models]\nfast = \"user/x\"\nstrong = \"user/y\"\n[secrets.k]\nfile = \"k.txt\"\n",
            ),
        );
        let overrides = Overrides {
            store: None,
            assignments: vec!["models.slow=local/s".into()],
        };
        let config = case
            .load(&[("RAVEL_CONFIG__MODELS__STRONG", "env/z")], &overrides)
            .unwrap();
        assert_eq!(
            case.shown(&config),
            [
                "models.fast = \"local/a\" (~/project/ravel.toml:2)",
                "models.slow = \"local/s\" (--config)",
                "models.strong = \"env/z\" ($RAVEL_CONFIG__MODELS__STRONG)",
                "secrets.k.file = \"~/config/ravel/k.txt\" (~/config/ravel/ravel.toml:5)",
                "store.path = \"~/project/state/r.db\" (~/project/ravel.toml:4)",
            ]
        );
        assert_eq!(config.table(&["models"])["fast"], "local/a");
    }

    #[test]
    fn the_store_is_the_projects_or_the_folders_or_as_said() {
        let lone = Case::new(None, None);
        let config = lone.load(&[], &Overrides::default()).unwrap();
        assert_eq!(
            config.store_path(),
            lone.home.path().join("project/deep/.ravel/ravel.db")
        );

        let project = Case::new(Some(""), None);
        let config = project.load(&[], &Overrides::default()).unwrap();
        assert_eq!(
            config.store_path(),
            project.home.path().join("project/.ravel/ravel.db")
        );

        let config = project
            .load(&[("RAVEL_STORE", "env.db")], &Overrides::default())
            .unwrap();
        assert_eq!(
            config.store_path(),
            project.home.path().join("project/deep/env.db")
        );

        let said = Overrides {
            store: Some("/x/y.db".into()),
            assignments: Vec::new(),
        };
        let config = project.load(&[("RAVEL_STORE", "env.db")], &said).unwrap();
        assert_eq!(config.store_path(), Path::new("/x/y.db"));
    }

    #[test]
    fn a_value_replaces_the_table_that_was_there() {
        let case = Case::new(
            Some("[tools.crm]\nurl = \"a\"\n"),
            Some("[tools]\ncrm = \"b\"\n"),
        );
        let config = case.load(&[], &Overrides::default()).unwrap();
        assert_eq!(
            config.table(&["tools"]),
            serde_json::json!({"crm": {"url": "a"}})
        );
    }

    #[test]
    fn mistakes_name_the_file() {
        let case = Case::new(Some("[modls]\nfast = \"x\"\n"), None);
        let error = case.load(&[], &Overrides::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("project/ravel.toml has 1 mistake"),
            "{error}"
        );
        assert_eq!(error.exit(), crate::exit::Exit::Usage);
    }
}
