//! Flows that pass the checker, and flows that do not, each with everything that is said about it.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![expect(clippy::disallowed_methods, reason = "the flows under test are files")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use ravel_core::effect::Effect;
use ravel_core::lang::{
    ArgumentRule, Bundle, Catalog, PricedModels, Severity, TextLimits, ToolInfo, codes,
};
use ravel_core::types::Type;

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

/// One tool and two models, for pages that need to know some.
fn catalog() -> Catalog {
    let get = ToolInfo {
        input: Type::fields([
            ("url", Type::string(), true),
            ("headers", Type::object(), false),
        ]),
        output: Type::any(),
        effect: Effect::Read,
        rule: ArgumentRule::default(),
    };
    Catalog {
        tools: Some(IndexMap::from([("http.get".to_owned(), get)])),
        models: Some(vec!["fast".to_owned(), "strong".to_owned()]),
        providers: Some(vec!["openai".to_owned(), "ollama".to_owned()]),
        priced: Some(PricedModels {
            names: BTreeSet::from(["fast".to_owned(), "ollama/own".to_owned()]),
            others: false,
        }),
        ..Catalog::default()
    }
}

#[test]
fn the_examples_of_every_page_are_true() {
    let mut wrong = Vec::new();
    for entry in codes::TABLE {
        let blocks: Vec<&str> = entry
            .page
            .split("```yaml\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap())
            .collect();
        assert_eq!(
            blocks.len(),
            2,
            "{} has a bad and a good example",
            entry.code
        );
        let knows_tools = ["RV0501", "RV0502", "RV0504"].contains(&entry.code.to_string().as_str());
        let said: Vec<Vec<(String, Severity, String)>> = blocks
            .iter()
            .map(|block| {
                let files = BTreeMap::from([
                    ("flow.yaml".to_owned(), (*block).to_owned()),
                    ("prompts/hello.md".to_owned(), "Say hello.".to_owned()),
                ]);
                let bundle = Bundle::load(
                    "flow.yaml",
                    &files,
                    knows_tools.then(catalog),
                    &TextLimits::default(),
                );
                let diagnostics = match bundle {
                    Ok(bundle) => bundle.check().diagnostics,
                    Err(diagnostics) => diagnostics,
                };
                diagnostics
                    .into_iter()
                    .map(|found| (found.code, found.severity, found.message))
                    .collect()
            })
            .collect();
        let code = entry.code.to_string();
        if !said[0].iter().any(|(found, ..)| *found == code) {
            wrong.push(format!("{code}: the bad example gives {:?}", said[0]));
        }
        if let Some(found) = said[1]
            .iter()
            .find(|(found, severity, _)| *severity == Severity::Error || *found == code)
        {
            wrong.push(format!("{code}: the good example gives {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_stored_bundle_compiles_to_the_graph_of_its_files() {
    for (path, bundle) in flows("good") {
        let bundle = bundle.unwrap();
        let stored: Bundle =
            serde_json::from_str(&serde_json::to_string(&bundle).unwrap()).unwrap();
        let (fresh, again) = (bundle.compile().unwrap(), stored.compile().unwrap());
        assert_eq!(fresh.hash, again.hash, "{path}");
        assert_eq!(shape(&fresh), shape(&again), "{path}");
    }
}

/// What the run state machine sees of a graph, without places.
fn shape(graph: &ravel_core::graph::Graph) -> Vec<String> {
    let steps = graph.steps.iter().map(|step| {
        format!(
            "{} {} {:?} {:?} {:?} {}",
            step.name,
            step.kind.name(),
            step.deps,
            step.outer,
            step.leaf,
            step.fingerprint
        )
    });
    steps
        .chain(
            graph
                .bodies
                .iter()
                .map(|body| format!("{:?} {:?} {}", body.steps, body.dependents, body.list)),
        )
        .collect()
}

#[test]
fn places_of_diagnostics_are_told_as_json_too() {
    let bundle = Bundle::from_text("flow.yaml", "steps:\n  a: { set: \"{{ nope }}\" }\n").unwrap();
    let diagnostics = bundle.compile().unwrap_err();
    assert_eq!(
        serde_json::to_value(&diagnostics).unwrap(),
        serde_json::json!([{
            "code": "RV0103", "severity": "error", "message": "there is no step or name `nope` here", "file": "flow.yaml",
            "line": 2, "column": 17, "end_line": 2, "end_column": 21,
        }])
    );
}

#[test]
fn tools_and_models_of_the_catalog_type_the_steps() {
    let text = r#"
steps:
  a: { tool: http.get, with: { url: 5, query: x } }
  b: { tool: http.get }
  c: { tool: http.got, with: { url: x } }
  d: { model: fst, prompt: Hi }
  e: { model: openai/anything, prompt: Hi, retry: { errors: [timeout] } }
"#;
    let files = BTreeMap::from([("flow.yaml".to_owned(), text.to_owned())]);
    let bundle =
        Bundle::load("flow.yaml", &files, Some(catalog()), &TextLimits::default()).unwrap();
    let said: Vec<String> = bundle
        .check()
        .diagnostics
        .into_iter()
        .map(|found| {
            format!(
                "{}:{} {} {:?}",
                found.line, found.code, found.message, found.hint
            )
        })
        .collect();
    assert_eq!(
        said,
        [
            "3:RV0306 `url`: 5 is not a string None",
            "3:RV0305 `http.get` takes no `query` Some(\"the fields are `url` and `headers`\")",
            "4:RV0305 `http.get` is called without arguments: the field `url` is missing Some(\"hand them in: `with: { … }`\")",
            "5:RV0501 there is no tool `http.got` Some(\"did you mean `http.get`?\")",
            "6:RV0502 there is no model `fst` Some(\"did you mean `fast`?\")",
        ]
    );
}

/// What the checker says with the catalog at hand: line, code, message.
fn said_with_catalog(text: &str) -> Vec<String> {
    let files = BTreeMap::from([("flow.yaml".to_owned(), text.to_owned())]);
    let bundle =
        Bundle::load("flow.yaml", &files, Some(catalog()), &TextLimits::default()).unwrap();
    let diagnostics = bundle.check().diagnostics.into_iter();
    diagnostics
        .map(|found| format!("{}:{} {}", found.line, found.code, found.message))
        .collect()
}

#[test]
fn a_provider_that_nobody_knows_is_told() {
    let text = "
steps:
  a: { model: openia/gpt, prompt: Hi }
  b: { model: openai/gpt, prompt: Hi }
";
    assert_eq!(
        said_with_catalog(text),
        ["3:RV0502 there is no provider `openia`"]
    );
}

#[test]
fn a_model_without_a_price_is_told_wherever_a_budget_of_money_covers_it() {
    let text = "
steps:
  free: { model: strong, prompt: Hi }
  known: { model: fast, budget: { usd: 1 }, prompt: Hi }
  own: { model: ollama/own, budget: { usd: 1 }, prompt: Hi }
  tokens: { model: strong, budget: { tokens: 10k }, prompt: Hi }
  group:
    budget: { usd: 1 }
    steps:
      inside: { model: strong, prompt: Hi }
      other: { model: fast, prompt: Hi, fallback: { model: ollama/other } }
      undone: { tool: http.get, with: { url: x }, compensate: { model: strong, prompt: Undo } }
    output: 1
  call: { flow: sub, budget: { usd: 1 } }
  own_budget: { flow: metered, budget: { tokens: 10k } }
flows:
  sub: { steps: { deeper: { flow: deep } } }
  deep: { steps: { ask: { model: strong, prompt: Hi } } }
  metered: { budget: { usd: 1 }, steps: { ask: { model: strong, prompt: Hi } } }
";
    let unpriced = |line: usize, model: &str| {
        format!(
            "{line}:RV0504 a budget in dollars cannot be kept here: the price of model `{model}` is not known"
        )
    };
    assert_eq!(
        said_with_catalog(text),
        [
            unpriced(10, "strong"),
            unpriced(11, "ollama/other"),
            unpriced(18, "strong")
        ]
    );
}

#[test]
fn a_flow_on_one_long_line_is_quoted_in_pieces_with_its_column() {
    let padding = "ä".repeat(3000);
    let text = format!(
        "{{\"steps\": {{\"a\": {{\"set\": \"{padding}\"}}, \"b\": {{\"set\": \"{{{{ nope }}}}\"}}}}}}"
    );
    let bundle = Bundle::from_text("flow.json", &text).unwrap();
    let diagnostics = bundle.compile().unwrap_err();
    let expected = text[..text.find("nope").unwrap()].chars().count() + 1;
    assert_eq!((diagnostics[0].line, diagnostics[0].column), (1, expected));
    let rendered = diagnostics[0].render(false);
    assert!(
        rendered.contains(&format!("flow.json:1:{expected}")),
        "{rendered}"
    );
    assert!(rendered.len() < 2_000, "{rendered}");
}

#[test]
fn the_flows_of_the_examples_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files = BTreeMap::new();
    collect(&root, &root, &mut files);
    let mut problems = Vec::new();
    for path in files.keys().filter(|path| path.ends_with(".yaml")) {
        let diagnostics = match Bundle::load(path, &files, None, &TextLimits::default()) {
            Ok(bundle) => bundle.check().diagnostics,
            Err(diagnostics) => diagnostics,
        };
        if !diagnostics.is_empty() {
            problems.push(format!("== {path}\n{}", rendered(&diagnostics)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_report_tells_the_first_problems_and_counts_the_others() {
    let steps: String = (0..300)
        .map(|step| format!("  s{step}: {{ set: \"{{{{ nope }}}}\" }}\n"))
        .collect();
    // Warnings that come first do not push an error out.
    let text = format!("steps:\n  w: {{ set: 1, retry: 2 }}\n{steps}");
    let diagnostics = Bundle::from_text("flow.yaml", &text)
        .unwrap()
        .compile()
        .unwrap_err();
    let said: Vec<(usize, &str)> = diagnostics
        .iter()
        .map(|found| (found.line, found.message.as_str()))
        .collect();
    let plain = "there is no step or name `nope` here";
    let mut expected: Vec<(usize, &str)> = (3..203).map(|line| (line, plain)).collect();
    let last = format!("{plain}; and 101 more, which are not shown");
    expected[199].1 = &last;
    assert_eq!(said, expected);
}
