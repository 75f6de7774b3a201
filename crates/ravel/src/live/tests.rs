//! The live tree of one run at several sizes and moments.

use ravel_core::event::Topic;
use serde_json::json;

use super::{Frame, rows, settled_line};
use crate::output::Paint;
use crate::view::{Question, RunView, State, Step};

const START: u64 = 1_000_000;

fn step(path: &str, kind: &'static str, parent: Option<usize>, state: State) -> Step {
    Step {
        path: path.to_owned(),
        name: path.rsplit('/').next().unwrap_or(path).to_owned(),
        kind,
        parent,
        children: Vec::new(),
        state,
        attempts: 1,
        opened: (state != State::Pending).then_some(START),
        settled: state.is_settled().then_some(START + 1_234),
        tokens: 0,
        microusd: 0,
        note: None,
        items: None,
        text: None,
    }
}

fn view(steps: Vec<Step>) -> RunView {
    let mut view = RunView {
        id: "0193aaaa".into(),
        flow: "triage".into(),
        started: Some(START),
        steps,
        ..RunView::default()
    };
    for index in 0..view.steps.len() {
        if let Some(parent) = view.steps[index].parent {
            view.steps[parent].children.push(index);
        }
    }
    view
}

fn triage() -> RunView {
    let mut steps = vec![
        step("", "flow", None, State::Running),
        step("classify", "model", Some(0), State::Succeeded),
        step("notes", "for_each", Some(0), State::Running),
    ];
    steps[1].tokens = 812;
    steps[1].microusd = 12_300;
    steps[2].items = Some(5);
    for index in 0..4 {
        let state = [
            State::Succeeded,
            State::Failed,
            State::Running,
            State::Running,
        ][index];
        let parent = steps.len();
        steps.push(step(&format!("notes[{index}]"), "item", Some(2), state));
        let mut summary = step(
            &format!("notes[{index}]/summary"),
            "model",
            Some(parent),
            state,
        );
        summary.text = (index == 2).then(|| "The customer asks for a ref".to_owned());
        summary.note = (index == 1).then(|| "timeout: the model took too long".to_owned());
        steps.push(summary);
    }
    steps.push(step("approve", "human", Some(0), State::Waiting));
    steps.push(step("refund", "tool", Some(0), State::Pending));
    let mut view = view(steps);
    view.questions.push(Question {
        id: "q-77".into(),
        path: "approve".into(),
        ask: "Refund 12?".into(),
        form: json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}),
        topic: Topic::Human,
        output: None,
        until: Some(START + 65_000),
    });
    view
}

fn frame(width: usize, height: usize) -> Frame {
    Frame {
        paint: Paint::new(false),
        unicode: true,
        width,
        height,
        now: START + 5_000,
        beat: 0,
        whole: false,
    }
}

fn drawn(view: &RunView, frame: Frame) -> String {
    let lines = rows(view, frame);
    for line in &lines {
        let width = unicode_width::UnicodeWidthStr::width(line.as_str());
        assert!(width <= frame.width, "{width} columns: {line}");
    }
    lines.join("\n")
}

#[test]
fn a_run_under_way() {
    insta::assert_snapshot!(drawn(&triage(), frame(80, 30)));
}

#[test]
fn a_run_under_way_on_a_small_terminal() {
    insta::assert_snapshot!(drawn(&triage(), frame(50, 12)));
}

#[test]
fn a_run_in_ascii() {
    insta::assert_snapshot!(drawn(
        &triage(),
        Frame {
            unicode: false,
            ..frame(80, 30)
        }
    ));
}

#[test]
fn the_last_frame_is_whole() {
    insta::assert_snapshot!(drawn(
        &triage(),
        Frame {
            whole: true,
            ..frame(80, 8)
        }
    ));
}

#[test]
fn a_long_list_gives_way_at_both_ends() {
    let mut steps = vec![step("", "flow", None, State::Running)];
    for index in 0..60 {
        let state = match index {
            0..30 => State::Succeeded,
            30 => State::Running,
            _ => State::Pending,
        };
        steps.push(step(&format!("s{index}"), "run", Some(0), state));
    }
    let text = drawn(&view(steps), frame(60, 12));
    assert!(text.lines().count() <= 12, "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn settled_steps_are_one_line_each() {
    let view = triage();
    let lines: Vec<String> = (1..view.steps.len())
        .filter(|index| view.steps[*index].state.is_settled())
        .map(|index| settled_line(&view, index, Paint::new(false), true))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}
