//! `--park`: a run is left where only people, signals and clocks can go on, and nowhere else.

use serde_json::json;

use crate::lab::Lab;

fn lab(flow: &str) -> Lab {
    let lab = Lab::new();
    let world = lab.path().join("world").display().to_string();
    lab.write("parks.yaml", &flow.replace("WORLD", &world));
    lab
}

#[test]
fn a_pause_before_another_try_is_work_that_goes_on() {
    let lab = lab(r#"
ravel: 1
name: again
steps:
  a: { run: "echo x >> WORLD; [ $(wc -l < WORLD) -ge 2 ] && echo fine", effect: read, retry: { attempts: 2, backoff: 1s..1s, errors: [tool_error] } }
output: "{{ a.stdout | trim }}"
"#);
    let done = lab.ravel(&["run", "parks.yaml", "--park"]).expect(0);
    assert_eq!(
        (done.out.as_str(), lab.read("world")),
        ("fine\n", "x\nx\n".to_owned())
    );
}

#[test]
fn a_run_at_a_question_or_at_a_timer_is_left() {
    for step in [
        "{ human: { ask: 'Go?', form: { ok: boolean } } }",
        "{ human: { ask: 'Go?', form: { ok: boolean }, deadline: 10m, on_deadline: fail } }",
        "{ wait: 10m }",
    ] {
        let lab = lab(&format!("ravel: 1\nname: rests\nsteps:\n  a: {step}\n"));
        let done = lab
            .ravel(&["run", "parks.yaml", "--park", "--json"])
            .expect(4);
        assert_eq!(
            done.lines().pop().unwrap()["state"],
            json!("paused"),
            "{step}"
        );
    }
}

#[test]
fn a_pause_before_another_try_counts_behind_more_waits_than_a_summary_lists() {
    let lab = lab(r#"
ravel: 1
name: many
steps:
  asks:
    for_each: "{{ range(30) | list }}"
    as: n
    steps:
      ask: { human: { ask: "{{ n }}?", form: { ok: boolean } } }
  again: { run: "echo x >> WORLD; [ $(wc -l < WORLD) -ge 2 ]", effect: read, retry: { attempts: 2, backoff: 1s..1s, errors: [tool_error] } }
"#);
    lab.ravel(&["run", "parks.yaml", "--park"]).expect(4);
    assert_eq!(lab.read("world"), "x\nx\n");
}

#[test]
fn a_run_with_a_step_that_works_is_not_left_before_all_is_done_that_can_be() {
    let lab = lab(r#"
ravel: 1
name: both
steps:
  asks: { human: { ask: "Go?", form: { ok: boolean } } }
  one: { run: "sleep 0.5; echo one >> WORLD" }
  two: { run: "sleep 0.5; echo two >> WORLD", after: [one] }
"#);
    lab.ravel(&["run", "parks.yaml", "--park"]).expect(4);
    assert_eq!(lab.read("world"), "one\ntwo\n");
}
