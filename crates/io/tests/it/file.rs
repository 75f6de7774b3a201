//! `file.*` in a folder.

use ravel_core::effect::{ErrorClass, Failure, Outcome};
use serde_json::{Value, json};

use crate::common::Bench;

fn bench() -> Bench {
    Bench::with(|config| {
        config.files_root = config.root.with_file_name("files");
        std::fs::create_dir(&config.files_root).unwrap();
    })
}

fn value(outcome: &Outcome) -> &Value {
    outcome.result.as_ref().unwrap().json()
}

#[test]
fn a_file_is_written_read_grown_listed_and_deleted() {
    let bench = bench();
    let call = |tool: &str, input: Value| bench.tool(tool, input);
    let done = |value: Value| Outcome::done(value.into());
    let path = "a/b.txt";
    assert_eq!(
        call("file.exists", json!({ "path": path })),
        done(json!({ "exists": false, "kind": null }))
    );
    assert_eq!(
        call("file.write", json!({ "path": path, "text": "one\n" })),
        done(json!({ "path": path, "bytes": 4 }))
    );
    assert_eq!(
        call("file.append", json!({ "path": path, "text": "two\n" })),
        done(json!({ "path": path, "bytes": 8 }))
    );
    assert_eq!(
        call("file.read", json!({ "path": path })),
        done(json!({ "text": "one\ntwo\n", "bytes": 8 }))
    );
    let entries = json!([
        { "path": "a", "kind": "folder", "bytes": 0 },
        { "path": "a/b.txt", "kind": "file", "bytes": 8 },
    ]);
    assert_eq!(
        call("file.list", json!({ "recursive": true })),
        done(json!({ "entries": entries }))
    );
    let found = call(
        "file.list",
        json!({ "recursive": true, "glob": "**/*.txt" }),
    );
    assert_eq!(value(&found)["entries"].as_array().unwrap().len(), 1);
    assert_eq!(
        call("file.delete", json!({ "path": path })),
        done(json!({ "deleted": true }))
    );
    assert_eq!(
        call("file.delete", json!({ "path": path })),
        done(json!({ "deleted": false }))
    );
}

#[test]
fn a_file_can_be_handed_on_as_a_value() {
    let bench = bench();
    bench.tool(
        "file.write",
        json!({ "path": "x.json", "json": { "a": 1 } }),
    );
    let read = bench.tool("file.read", json!({ "path": "x.json", "as": "file" }));
    let file = value(&read)["file"].clone();
    let copied = bench.tool("file.write", json!({ "path": "y.json", "file": file }));
    assert_eq!(value(&copied), &json!({ "path": "y.json", "bytes": 13 }));
    let read = bench.tool("file.read", json!({ "path": "y.json", "as": "json" }));
    assert_eq!(value(&read), &json!({ "json": { "a": 1 }, "bytes": 13 }));
    let read = bench.tool("file.read", json!({ "file": file }));
    assert_eq!(value(&read)["text"], "{\n  \"a\": 1\n}\n");
}

#[test]
fn what_leads_out_or_is_not_there_is_refused() {
    let bench = bench();
    let refused = |class, text: &str| Outcome::not_done(Failure::new(class, text));
    let missing = refused(ErrorClass::NotFound, "`no`: there is no such file");
    assert_eq!(bench.tool("file.read", json!({ "path": "no" })), missing);
    for (tool, input) in [
        ("file.read", json!({ "path": "../x" })),
        ("file.write", json!({ "path": "../x", "text": "" })),
        ("file.append", json!({ "path": "../x", "text": "" })),
        ("file.delete", json!({ "path": "../x" })),
        ("file.list", json!({ "path": "../x" })),
    ] {
        let text = "`../x`: it leads out of the folder of files";
        let outside =
            Outcome::not_done(Failure::new(ErrorClass::PolicyDenied, text).with_code("outside"));
        assert_eq!(bench.tool(tool, input), outside, "{tool}");
    }
}
