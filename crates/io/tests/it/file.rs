//! `file.*` in a folder.

use std::path::Path;

use ravel_core::effect::{ErrorClass, Failure, Outcome};
use ravel_core::port::{Job, Request};
use ravel_io::files::{Maker, Makers};
use serde_json::{Value, json};

use crate::common::{Bench, job, shell};

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

/// Reads a stored file whose content was tampered with, as a tool and as a process does.
fn read_lost(maker: Option<Maker>, tamper: impl Fn(&Path)) -> (String, [Outcome; 2]) {
    let makers = Makers::new(move |run, _| maker.clone().filter(|maker| *maker.run == *run));
    let bench = Bench::with(|config| config.makers = Some(makers));
    let file = bench
        .executor
        .files()
        .put("out.txt", "hello".as_bytes())
        .unwrap();
    let place = bench.executor.files().place(&file);
    tamper(&place);
    let read = bench.tool("file.read", json!({ "file": file.to_json() }));
    let run = bench.run(shell(&format!("cat '{}'", file.to_json())));
    let shown = format!("`out.txt` (BLAKE3 {}, 5 bytes)", file.hash);
    let shown = format!(
        "the stored file {shown}{{}}; put it back at {} from a copy, then resume or retry",
        place.display()
    );
    (shown, [read, run])
}

#[test]
fn a_stored_file_that_is_lost_is_named_with_its_hash_its_maker_and_the_way_out() {
    let run = "r1";
    let remove = |place: &Path| std::fs::remove_file(place).unwrap();
    let refused = |code: &str, text: String| {
        let failure = Failure::new(ErrorClass::NotFound, text).with_code(code);
        [
            Outcome::not_done(failure.clone()),
            Outcome::not_done(failure),
        ]
    };
    let (text, outcomes) = read_lost(None, remove);
    assert_eq!(
        outcomes,
        refused("stored_file_missing", text.replace("{}", " is missing"))
    );

    let step = Some(Maker {
        run: run.into(),
        step: Some("make".into()),
    });
    let (text, outcomes) = read_lost(step, remove);
    let made = format!(", which step `make` of run {run} made, is missing");
    let anew = format!("; or make it anew: `ravel runs retry {run} --from 'make'`");
    assert_eq!(
        outcomes,
        refused("stored_file_missing", text.replace("{}", &made) + &anew)
    );

    let (text, outcomes) = read_lost(
        Some(Maker {
            run: run.into(),
            step: None,
        }),
        remove,
    );
    let made = format!(", which came with the input of run {run}, is missing");
    assert_eq!(
        outcomes,
        refused("stored_file_missing", text.replace("{}", &made))
    );
}

#[test]
fn a_stored_file_that_has_other_bytes_is_never_read() {
    let (text, outcomes) = read_lost(None, |place| {
        std::fs::remove_file(place).unwrap();
        std::fs::write(place, "hullo").unwrap();
    });
    let text = text.replace("{}", " is not what was stored: its bytes have changed");
    let failure = Failure::new(ErrorClass::NotFound, text).with_code("stored_file_altered");
    let refused = Outcome::not_done(failure);
    assert_eq!(outcomes, [refused.clone(), refused]);
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
        let text = "`../x`: it leads out of the folder of the run (that of its flow file)";
        let outside =
            Outcome::not_done(Failure::new(ErrorClass::PolicyDenied, text).with_code("outside"));
        assert_eq!(bench.tool(tool, input), outside, "{tool}");
    }
}

#[test]
fn relative_paths_start_at_the_folder_of_the_job_and_name_it_when_it_is_gone() {
    let bench = bench();
    let folder = bench.dir.path().canonicalize().unwrap().join("flow");
    std::fs::create_dir(&folder).unwrap();
    let call = |tool: &str, input: Value| {
        bench.outcome(Job {
            folder: Some(folder.to_str().unwrap().into()),
            ..job(Request::Tool {
                name: tool.into(),
                input: input.into(),
            })
        })
    };
    let written = call("file.write", json!({ "path": "a", "text": "x" }));
    assert_eq!(
        written,
        Outcome::done(json!({ "path": "a", "bytes": 1 }).into())
    );
    assert_eq!(std::fs::read_to_string(folder.join("a")).unwrap(), "x");
    let listed = bench.tool("file.list", json!({}));
    assert_eq!(value(&listed), &json!({ "entries": [] }));

    std::fs::remove_dir_all(&folder).unwrap();
    let text = format!(
        "`a`: {} is not there any more, where the relative paths of this run start; put it back, then resume or retry",
        folder.display()
    );
    let gone = Failure::new(ErrorClass::NotFound, text).with_code("folder_missing");
    for (tool, input) in [
        ("file.write", json!({ "path": "a", "text": "x" })),
        ("file.exists", json!({ "path": "a" })),
        ("file.delete", json!({ "path": "a" })),
        ("file.list", json!({ "path": "a" })),
    ] {
        assert_eq!(call(tool, input), Outcome::not_done(gone.clone()), "{tool}");
    }
}
