//! The JSON Schema for editors against the flows of the repository: it takes what the checker takes, and no misspelt key.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![expect(clippy::disallowed_methods, reason = "the flows under test are files")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use ravel_core::lang::{Bundle, Diagnostic, TextLimits, codes, json_schema};
use serde_json::Value;

/// Files below a folder of the repository, by path from there.
fn files(folder: &str) -> BTreeMap<String, String> {
    fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                collect(root, &path, files);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                files.insert(name.to_owned(), text);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = BTreeMap::new();
    collect(&root, &root, &mut files);
    files
}

fn is_flow(path: &str, value: &Value) -> bool {
    path.ends_with(".yaml") && value.get("steps").is_some()
}

/// The flows of a folder as JSON, by path.
fn flows(folder: &str) -> Vec<(String, Value)> {
    let files = files(folder);
    let mut flows = Vec::new();
    for path in files.keys().filter(|path| path.ends_with(".yaml")) {
        if let Ok(bundle) = Bundle::load(path, &files, None, &TextLimits::default()) {
            let flow = &bundle.flows[path];
            if is_flow(path, flow) {
                flows.push((format!("{folder}/{path}"), flow.clone()));
            }
        }
    }
    flows
}

/// The whole flows in the fenced blocks of Markdown pages, but for blocks that show what is wrong.
fn flows_of_pages() -> Vec<(String, Value)> {
    let mut flows = Vec::new();
    let mut pages: Vec<(String, String, usize)> = Vec::new();
    for (path, text) in files("../../docs") {
        if path.ends_with(".md") && !path.starts_with("reference/") {
            pages.push((format!("docs/{path}"), text, 0));
        }
    }
    for entry in codes::TABLE {
        // The first block of a page of a code is the mistake.
        pages.push((entry.code.to_string(), entry.page.to_owned(), 1));
    }
    for (path, text, skipped) in pages {
        for block in text.split("```yaml\n").skip(1 + skipped) {
            let block = block.split("```").next().unwrap();
            if let Ok(bundle) = Bundle::from_text("page.yaml", block) {
                let flow = &bundle.flows["page.yaml"];
                if is_flow("page.yaml", flow) {
                    flows.push((path.clone(), flow.clone()));
                }
            }
        }
    }
    flows
}

fn validator() -> Validator {
    jsonschema::validator_for(&json_schema()).unwrap()
}

fn good_flows() -> Vec<(String, Value)> {
    let mut all = flows("../../examples");
    all.extend(flows("tests/good"));
    all
}

#[test]
fn the_schema_takes_every_flow_of_the_examples_and_the_docs() {
    let validator = validator();
    let mut all = good_flows();
    let of_examples = all.len();
    all.extend(flows_of_pages());
    assert!(
        of_examples > 8 && all.len() > of_examples + 50,
        "{}",
        all.len()
    );
    let mut wrong = Vec::new();
    for (path, flow) in all {
        wrong.extend(
            validator
                .iter_errors(&flow)
                .map(|error| format!("{path}: {}: {error}", error.instance_path())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_schema_refuses_flows_with_unknown_keys() {
    let validator = validator();
    let names = [
        "step_unknown_keys.yaml",
        "flow_unknown_keys.yaml",
        "budget_keys.yaml",
        "step_key_of_other_kind.yaml",
        "for_each_keys.yaml",
        "defaults_mistakes.yaml",
    ];
    for (path, flow) in flows("tests/broken") {
        if names.iter().any(|name| path.ends_with(name)) {
            assert!(!validator.is_valid(&flow), "{path}");
        }
    }
}

/// JSON pointers of every object in a value.
fn objects(value: &Value, at: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            out.push(at.to_owned());
            for (key, inner) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                objects(inner, &format!("{at}/{key}"), out);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                objects(inner, &format!("{at}/{index}"), out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What the checker says about keys.
fn of_keys(flow: &Value) -> bool {
    let said: Vec<Diagnostic> = match Bundle::from_text("flow.json", &flow.to_string()) {
        Ok(bundle) => bundle.check().diagnostics,
        Err(said) => said,
    };
    said.iter()
        .any(|said| ["RV0101", "RV0112"].contains(&said.code.as_str()))
}

#[test]
fn a_key_that_the_checker_does_not_know_is_refused_by_the_schema_wherever_it_stands() {
    let validator = validator();
    let (mut taken, mut tried) = (Vec::new(), 0);
    for (path, flow) in good_flows() {
        let mut places = Vec::new();
        objects(&flow, "", &mut places);
        for place in places {
            let mut changed = flow.clone();
            let map = changed.pointer_mut(&place).unwrap();
            map["not_a_key"] = Value::from(1);
            if of_keys(&changed) && !of_keys(&flow) {
                tried += 1;
                if validator.is_valid(&changed) {
                    taken.push(format!("{path}: {place}"));
                }
            }
        }
    }
    assert!(tried > 100, "{tried}");
    assert!(taken.is_empty(), "{}", taken.join("\n"));
}
