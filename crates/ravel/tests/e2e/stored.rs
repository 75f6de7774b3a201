//! Stored files whose content is not there any more.

use serde_json::{Value, json};

use crate::lab::{Lab, text};

const FLOW: &str = r#"
ravel: 1
name: report
steps:
  make: { run: "printf hello > out.txt", files: { report: out.txt } }
  ok: { human: { ask: Well?, form: { ok: boolean } } }
  read: { tool: file.read, with: { file: "{{ make.files.report }}" }, after: [ok] }
output: "{{ read.text }}"
"#;

/// A run that made a file and asks before it reads it: the run, the file value, and where the content lies.
fn parked(lab: &Lab) -> (String, Value, std::path::PathBuf) {
    lab.write("report.yaml", FLOW);
    lab.ravel(&["run", "report.yaml", "--park"]).expect(4);
    let run = text(&lab.newest()["id"]);
    let shown = lab
        .ravel(&["runs", "show", &run, "--json"])
        .expect(0)
        .json();
    let steps = shown["steps"].as_array().unwrap();
    let make = steps.iter().find(|step| step["path"] == "make").unwrap();
    let file = make["value"]["files"]["report"].clone();
    let place = lab
        .path()
        .join(".ravel/work/files")
        .join(text(&file["$file"]));
    (run, file, place)
}

fn check(lab: &Lab, name: &str) -> (i32, Vec<Value>) {
    let done = lab.ravel(&["doctor", "--json", "--offline"]);
    let checks = done.json()["checks"].as_array().unwrap().clone();
    let named = |check: &Value| text(&check["name"]).starts_with(name);
    (done.code, checks.into_iter().filter(named).collect())
}

#[test]
fn a_step_that_reads_a_lost_file_says_which_who_made_it_and_what_to_do() {
    let lab = Lab::new();
    let (run, file, place) = parked(&lab);
    std::fs::remove_file(&place).unwrap();
    let id = text(&lab.questions()[0]["id"]);
    lab.ravel(&["answer", &id, "ok=true"]).expect(0);
    let failed = lab.ravel(&["runs", "resume", &run, "--json"]).expect(1);
    let place = place.canonicalize().unwrap_or(place);
    let said = format!(
        "the stored file `out.txt` (BLAKE3 {}, 5 bytes), which step `make` of run {run} made, is missing; put it back at {} \
         from a copy, then resume or retry; or make it anew: `ravel runs retry {run} --from 'make'`",
        text(&file["$file"]),
        place.display()
    );
    let error = failed.lines().pop().unwrap()["error"].clone();
    assert_eq!(
        (&error["class"], &error["code"], &error["message"]),
        (
            &json!("not_found"),
            &json!("stored_file_missing"),
            &json!(said)
        )
    );
    let anew = lab
        .shell(&format!("ravel runs retry {run} --from 'make' --park"))
        .expect(4);
    assert!(place.exists(), "{}", anew.err);
}

#[test]
fn doctor_counts_files_that_are_lost_and_export_lists_them() {
    let lab = Lab::new();
    let (run, file, place) = parked(&lab);
    let hash = text(&file["$file"]);
    let (code, checks) = check(&lab, "files ");
    assert_eq!((code, &checks[0]["found"]), (0, &json!("1 file verified")));
    let exported = |lost: Value| {
        let done = lab.ravel(&["runs", "export", &run]).expect(0);
        let listed = json!([{"$file": hash, "name": "out.txt", "bytes": 5, "step": "make", "path": place, "lost": lost}]);
        assert_eq!(done.json()["files"], listed);
        done.err
    };
    let left_out = format!(
        "the content of 1 stored file is not in it: keep a copy of {}; `files` names them\n",
        place.parent().unwrap().display()
    );
    assert_eq!(exported(Value::Null), left_out);

    std::fs::remove_file(&place).unwrap();
    std::fs::write(&place, "hullo").unwrap();
    let (code, checks) = check(&lab, "files ");
    let found = format!(
        "1 of 1 file cannot be had: `out.txt` ({hash}, from make of run {run}) is not what was stored: its bytes have changed"
    );
    assert_eq!((code, &checks[0]["found"]), (1, &json!(found)));
    let lost = "it: keep";
    let left_out = left_out.replace(
        lost,
        "it (1 cannot be had any more: `ravel doctor` names them): keep",
    );
    assert_eq!(
        exported(json!("is not what was stored: its bytes have changed")),
        left_out
    );
}
