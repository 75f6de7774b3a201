//! Where relative paths of a run's steps start: at the flow file's folder, wherever the run is taken up.

use serde_json::{Value, json};

use crate::lab::{Done, Lab, text};

const FLOW: &str = r#"
ravel: 1
name: folders
steps:
  - wrote: { tool: file.write, with: { path: out/word, text: "first" } }
  - added: { run: "printf %s -second >> out/word", cwd: . }
  - approve: { human: { ask: "Go on?", form: { ok: boolean } } }
  - more: { run: "printf %s -third >> out/word", cwd: ., after: [approve] }
  - read: { tool: file.read, with: { path: out/word } }
output: { word: "{{ read.text }}" }
"#;

/// Runs a command of the lab's store from another folder.
fn elsewhere(lab: &Lab, arguments: &[&str]) -> Done {
    let store = lab.path().join(".ravel/ravel.db").display().to_string();
    let mut all = vec!["--store", &store];
    all.extend(arguments);
    let mut command = lab.command(&all);
    command.current_dir(lab.path().join("other"));
    lab.going(command).end()
}

fn last_line(done: &Done) -> Value {
    done.lines().pop().unwrap()
}

/// A run of the flow in `flows/` that waits for its answer, begun in the folder above.
fn waiting(lab: &Lab) -> (String, String) {
    std::fs::create_dir(lab.path().join("other")).unwrap();
    lab.write("flows/folders.yaml", FLOW);
    let mut first = lab.start(&["run", "flows/folders.yaml", "--json"]);
    let asked = first.event("asked");
    first.kill();
    (text(&asked["run"]), text(&asked["question"]))
}

#[test]
fn a_run_works_in_the_folder_of_its_flow_wherever_it_is_taken_up() {
    let lab = Lab::new();
    let (run, question) = waiting(&lab);
    assert_eq!(lab.read("flows/out/word"), "first-second");

    elsewhere(&lab, &["answer", &question, "ok=yes"]).expect(0);
    let done = elsewhere(&lab, &["runs", "resume", &run, "--json"]).expect(0);
    assert_eq!(
        last_line(&done)["output"],
        json!({ "word": "first-second-third" })
    );

    let again = elsewhere(&lab, &["runs", "retry", &run, "--from", "more", "--json"]).expect(0);
    assert_eq!(
        last_line(&again)["output"],
        json!({ "word": "first-second-third-third" })
    );
    let mut left: Vec<_> = std::fs::read_dir(lab.path().join("other"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, Vec::<std::ffi::OsString>::new());
}

#[test]
fn a_folder_that_is_gone_is_named_and_no_other_one_is_taken() {
    let lab = Lab::new();
    let (run, question) = waiting(&lab);
    let folder = lab.path().canonicalize().unwrap().join("flows");
    std::fs::rename(&folder, lab.path().join("moved")).unwrap();
    elsewhere(&lab, &["answer", &question, "ok=yes"]).expect(0);
    let done = elsewhere(&lab, &["runs", "resume", &run, "--json"]);
    let message = format!(
        "`cwd`: .: {} is not there any more, where the relative paths of this run start; put it back, then resume or retry",
        folder.display()
    );
    let error = last_line(&done)["error"].clone();
    assert_eq!(
        json!({ "class": error["class"], "code": error["code"], "message": error["message"] }),
        json!({ "class": "not_found", "code": "folder_missing", "message": message })
    );
}

#[test]
fn what_a_list_shared_goes_with_the_success_of_its_run_and_stays_with_its_failure() {
    let lab = Lab::new();
    for (name, ending, code) in [("good", "true", 0), ("bad", "exit 1", 1)] {
        let flow = format!(
            "ravel: 1\nname: {name}\nsteps:\n  - one: {{ run: \"echo x > kept\" }}\n  - two: {{ run: \"test -f kept; {ending}\" }}\n"
        );
        lab.write(&format!("{name}.yaml"), &flow);
        lab.ravel(&["run", &format!("{name}.yaml")]).expect(code);
        let work = lab.path().join(".ravel/work/runs");
        let kept = std::fs::read_dir(work)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|run| {
                let steps = std::fs::read_dir(run.path()).unwrap().flatten();
                steps
                    .into_iter()
                    .any(|step| step.path().join("shared/kept").is_file())
            })
            .count();
        assert_eq!(kept, usize::from(code != 0), "{name}");
    }
}
