//! Where cases come from: the ones that the binary carries, or a folder.

use std::path::Path;

use ravel_core::lang;

use super::case::Case;
use crate::error::{Error, Result};

/// A case, or what is wrong with its file.
#[derive(Clone, Debug)]
pub(crate) struct Filed {
    /// `01-states/101-name.yaml`.
    pub(crate) file: String,
    pub(crate) case: std::result::Result<Case, String>,
}

/// Paths and texts of the cases that this program was built with.
pub(super) const CARRIED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/cases.rs"));

impl Filed {
    /// Reads a case.
    pub(crate) fn read(file: &str, text: &str) -> Self {
        let case = lang::document(file, text)
            .map_err(|problems| {
                let texts: Vec<String> = problems.iter().map(|one| one.render(false)).collect();
                texts.join("\n")
            })
            .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()))
            .and_then(|case| named(file, case));
        Self {
            file: file.to_owned(),
            case,
        }
    }

    /// `01-states`.
    pub(crate) fn section(&self) -> &str {
        self.file.split('/').next().unwrap_or_default()
    }

    /// True when a word is part of its path or title; a number means the case or the section of that number.
    pub(crate) fn is_meant(&self, word: &str) -> bool {
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            let numbered = self
                .case
                .as_ref()
                .is_ok_and(|case| case.case.to_string() == word);
            return numbered || self.section().split('-').next() == Some(word);
        }
        let title = self
            .case
            .as_ref()
            .is_ok_and(|case| case.title.to_lowercase().contains(&word.to_lowercase()));
        title || self.file.contains(word)
    }
}

/// The number stands in the file's name, too, and begins with the section's.
fn named(file: &str, case: Case) -> std::result::Result<Case, String> {
    let mut parts = file.split('/');
    let (section, name) = (parts.next().unwrap_or_default(), parts.next());
    let number = |text: &str| {
        text.split('-')
            .next()
            .and_then(|one| one.parse::<u32>().ok())
    };
    let Some(in_name) = name.and_then(number) else {
        return Err("its file is not `NN-section/NNN-name.yaml`".to_owned());
    };
    if in_name != case.case || number(section) != Some(in_name / CASES_OF_A_SECTION) {
        return Err(format!(
            "it is case {}, which its section and file name do not say",
            case.case
        ));
    }
    Ok(case)
}

/// Numbers that each section has.
const CASES_OF_A_SECTION: u32 = 100;

/// The cases that the binary carries.
pub(crate) fn carried() -> Vec<Filed> {
    CARRIED
        .iter()
        .map(|(file, text)| Filed::read(file, text))
        .collect()
}

/// The cases of a folder: `NN-section/NNN-name.yaml` below it.
pub(crate) fn of_folder(folder: &Path) -> Result<Vec<Filed>> {
    let mut cases = Vec::new();
    for section in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&section)? {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Error::usage(format!("cannot read {}", path.display())).because(error)
            })?;
            let file = path.strip_prefix(folder).unwrap_or(&path);
            cases.push(Filed::read(&file.to_string_lossy(), &text));
        }
    }
    Ok(cases)
}

fn entries(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let unread =
        |error| Error::usage(format!("cannot read the folder {}", folder.display())).because(error);
    let mut paths = std::fs::read_dir(folder)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|entry| entry.path()))
                .collect::<std::io::Result<Vec<_>>>()
        })
        .map_err(unread)?;
    paths.sort();
    Ok(paths)
}
