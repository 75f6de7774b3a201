//! Questions, signals, cancels: from this process, from others, and while nobody is there.

use std::sync::Arc;

use ravel_core::port_store::{Inbox, Listing, Message, Reply};
use serde_json::{Value, json};

use super::support::{Process, Rig, T0, echo, flow};

const TWO: &str = "
ravel: 1
name: two_questions
steps:
  one: { human: { ask: 'first?', form: { ok: boolean }, deadline: 10m, on_deadline: fail } }
  two: { human: { ask: 'second?', form: { ok: boolean }, deadline: 20m, on_deadline: fail } }
output: { one: '{{ one.ok }}', two: '{{ two.ok }}' }
";

fn question(rig: &Rig, run: &str, path: &str) -> Arc<str> {
    let open = rig.memory.questions(Some(run)).unwrap();
    let found = open.iter().find(|question| &*question.path == path);
    Arc::clone(
        &found
            .unwrap_or_else(|| panic!("`{path}` asks nothing: {open:?}"))
            .id,
    )
}

fn answer(question: &Arc<str>, value: Value) -> Message {
    Message::Answer {
        question: Arc::clone(question),
        value: value.into(),
        by: Some("ann".into()),
    }
}

fn asking(rig: &Rig) -> (Process, Arc<str>) {
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(TWO), json!({})));
    (process, run)
}

#[test]
fn two_questions_are_listed_and_answered_in_any_order_each_once() {
    let rig = Rig::new(echo);
    let (mut process, run) = asking(&rig);
    let (one, two) = (question(&rig, &run, "one"), question(&rig, &run, "two"));
    assert_ne!(one, two);
    assert!(matches!(
        process.post(&run, answer(&two, json!({ "ok": true }))),
        Ok(Reply::Accepted { .. })
    ));
    assert_eq!(
        rig.memory.questions(Some(&run)).unwrap().len(),
        1,
        "an answered question is off the list"
    );
    assert!(matches!(
        process.post(&run, answer(&one, json!({ "ok": "perhaps" }))),
        Ok(Reply::Rejected { .. })
    ));
    assert!(matches!(
        process.post(&run, answer(&two, json!({ "ok": false }))),
        Ok(Reply::Rejected { .. })
    ));
    assert!(matches!(
        process.post(&run, answer(&one, json!({ "ok": false }))),
        Ok(Reply::Accepted { .. })
    ));
    assert_eq!(
        process.ended(&run).unwrap().output,
        Some(json!({ "one": false, "two": true }).into())
    );
}

#[test]
fn an_answer_of_another_process_reaches_the_owner_and_its_reply_comes_back() {
    let rig = Rig::new(echo);
    let (mut process, run) = asking(&rig);
    let mut other = rig.engine();
    let mut replies = Vec::new();
    for path in ["two", "one"] {
        let question = question(&rig, &run, path);
        let (then, pending) = ravel_engine::Pending::new();
        other
            .engine
            .post_then(&run, answer(&question, json!({ "ok": true })), then);
        other.drive();
        process.drive();
        other.drive();
        replies.push(pending.poll().expect("the reply is there").unwrap());
    }
    assert!(
        replies
            .iter()
            .all(|reply| matches!(reply, Reply::Accepted { .. })),
        "{replies:?}"
    );
    assert_eq!(
        other.ended(&run).unwrap().output,
        Some(json!({ "one": true, "two": true }).into())
    );
}

#[test]
fn an_answer_before_its_deadline_counts_although_nobody_was_there() {
    let rig = Rig::new(echo);
    let (process, run) = asking(&rig);
    drop(process);
    let (one, two) = (question(&rig, &run, "one"), question(&rig, &run, "two"));
    // `one` is answered in time; `two` after its deadline of 20 minutes. The engine comes back after an hour.
    rig.memory
        .post(&run, T0 + 5 * 60_000, &answer(&one, json!({ "ok": true })))
        .unwrap();
    let late = rig
        .memory
        .post(&run, T0 + 25 * 60_000, &answer(&two, json!({ "ok": true })))
        .unwrap();
    rig.clock.advance(60 * 60_000);
    let mut process = rig.engine();
    process.resume(&run).unwrap();
    let ended = process.ended(&run).unwrap();
    assert_eq!(
        ended.error.map(|error| (error.class.name(), error.step)),
        Some(("deadline", Some("two".into())))
    );
    let states = rig.outcome(&run).1;
    assert_eq!(
        (&*states["one"].0, &*states["two"].0),
        ("succeeded", "failed")
    );
    assert!(matches!(
        rig.memory.reply(late).unwrap(),
        Some(Reply::Rejected { .. })
    ));
}

#[test]
fn a_deadline_passes_while_the_run_waits() {
    let rig = Rig::new(echo);
    let (mut process, run) = asking(&rig);
    rig.clock.advance(10 * 60_000);
    process.drive();
    assert_eq!(
        process.ended(&run).unwrap().error.unwrap().class.name(),
        "deadline"
    );
}

#[test]
fn a_signal_that_comes_before_its_wait_is_kept() {
    let rig = Rig::new(echo);
    let yaml = "
ravel: 1
name: signals
signals: { go: { n: integer } }
steps:
  - pause: { wait: 1h }
  - take: { wait: { signal: go } }
output: '{{ take.n }}'
";
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(yaml), json!({})));
    let signal = || Message::Signal {
        name: "go".into(),
        value: json!({ "n": 7 }).into(),
        id: Some("m1".into()),
    };
    assert!(matches!(
        process.post(&run, signal()),
        Ok(Reply::Accepted { .. })
    ));
    assert!(
        matches!(process.post(&run, signal()), Ok(Reply::Accepted { .. })),
        "the same message again changes nothing"
    );
    rig.clock.advance(3_600_000);
    process.drive();
    assert_eq!(process.ended(&run).unwrap().output, Some(json!(7).into()));
}

#[test]
fn a_cancel_for_a_run_that_nobody_owns_waits_for_whoever_resumes_it() {
    let rig = Rig::new(echo);
    let (process, run) = asking(&rig);
    drop(process);
    rig.memory
        .post(
            &run,
            T0 + 1,
            &Message::Cancel {
                path: None,
                by: Some("ann".into()),
                reason: None,
            },
        )
        .unwrap();
    let mut process = rig.engine();
    process.resume(&run).unwrap();
    assert_eq!(process.ended(&run).unwrap().state.name(), "cancelled");
}

#[test]
fn messages_that_came_while_nobody_was_there_are_taken_in_order_of_their_time() {
    let rig = Rig::new(echo);
    let (process, run) = asking(&rig);
    drop(process);
    let one = question(&rig, &run, "one");
    // Written in this order, sent in the other: the earlier one counts.
    let later = rig
        .memory
        .post(&run, T0 + 2_000, &answer(&one, json!({ "ok": false })))
        .unwrap();
    let earlier = rig
        .memory
        .post(&run, T0 + 1_000, &answer(&one, json!({ "ok": true })))
        .unwrap();
    rig.clock.advance(10_000);
    let mut process = rig.engine();
    process.resume(&run).unwrap();
    assert!(matches!(
        rig.memory.reply(earlier).unwrap(),
        Some(Reply::Accepted { .. })
    ));
    assert!(matches!(
        rig.memory.reply(later).unwrap(),
        Some(Reply::Rejected { .. })
    ));
    assert_eq!(
        rig.outcome(&run).1["one"].1,
        Some(json!({ "ok": true }).into())
    );
}
