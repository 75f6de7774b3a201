//! Flows that pass the checker, and flows that do not, each with everything that is said about it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ravel_core::lang::{Bundle, TextLimits};

/// The flows of a folder below `tests`, by name; each with the other files of the folder at hand.
fn flows(folder: &str) -> Vec<(String, Result<Bundle, String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(folder);
    let mut files = BTreeMap::new();
    collect(&root, &root, &mut files);
    let flows = files.keys().filter(|path| !path.contains('/'));
    flows
        .map(|path| {
            let bundle = Bundle::load(path, &files, None, &TextLimits::default());
            (
                path.clone(),
                bundle.map_err(|diagnostics| rendered(&diagnostics)),
            )
        })
        .collect()
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(root, &path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension != "snap")
        {
            let name = path
                .strip_prefix(root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            files.insert(
                name,
                String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
            );
        }
    }
}

fn rendered(diagnostics: &[ravel_core::lang::Diagnostic]) -> String {
    let parts: Vec<String> = diagnostics
        .iter()
        .map(|diagnostic| diagnostic.render(false))
        .collect();
    parts.join("\n\n")
}

#[test]
fn good_flows_compile_without_a_word() {
    let mut problems = Vec::new();
    for (path, bundle) in flows("good") {
        match bundle {
            Ok(bundle) => {
                let checked = bundle.check();
                if !checked.diagnostics.is_empty() {
                    problems.push(format!("== {path}\n{}", rendered(&checked.diagnostics)));
                }
            }
            Err(text) => problems.push(format!("== {path}\n{text}")),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn broken_flows_say_what_is_wrong_where_and_what_to_do() {
    let mut silent = Vec::new();
    for (path, bundle) in flows("broken") {
        let text = match bundle {
            Ok(bundle) => rendered(&bundle.check().diagnostics),
            Err(text) => text,
        };
        if text.is_empty() {
            silent.push(path.clone());
        }
        insta::with_settings!({ snapshot_path => "broken", prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(path, text);
        });
    }
    assert_eq!(silent, Vec::<String>::new());
}
