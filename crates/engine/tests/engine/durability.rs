//! Output commit: what depends on a record leaves after the record is on disk.

use std::sync::{Arc, Mutex};

use ravel_core::port_store::Error;
use ravel_engine::{Engine, EngineError, FeedItem, Observer, Offer, Pending, Progress, StopReason};
use ravel_store::Memory;
use serde_json::json;

use super::support::{Rig, Seen, echo, flow, lock};

const MIXED: &str = "
ravel: 1
name: mixed
steps:
  look: { tool: t.look, with: { v: 1 }, effect: read }
  again: { tool: t.look, with: { v: '{{ look.v }}' }, effect: read }
  act: { tool: t.act, with: { v: '{{ again.v }}' }, effect: once }
  put: { tool: t.put, with: { v: '{{ act.v }}' }, effect: write }
output: '{{ put.v }}'
";

fn seen(path: &str, durable: bool) -> Seen {
    Seen {
        path: path.into(),
        attempt: 1,
        durable,
    }
}

#[test]
fn once_and_write_leave_after_their_start_is_on_disk_and_read_before() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(MIXED), json!({})));
    assert_eq!(process.ended(&run).unwrap().output, Some(json!(1).into()));
    assert_eq!(
        rig.world.seen(),
        [
            seen("look", false),
            seen("again", false),
            seen("act", true),
            seen("put", true)
        ]
    );
}

#[test]
fn a_chain_of_once_steps_costs_one_commit_a_step() {
    let rig = Rig::new(echo);
    let steps: String = (0..50)
        .map(|step| {
            format!("  - s{step}: {{ tool: t.act, with: {{ v: {step} }}, effect: once }}\n")
        })
        .collect();
    let yaml = format!("ravel: 1\nname: chain\nsteps:\n{steps}");
    let mut process = rig.engine();
    let run = process.start(rig.request(&flow(&yaml), json!({})));
    process.ended(&run).unwrap();
    // One for the start with the first attempt, one for each finish.
    assert_eq!(lock(&rig.durable).commits, 51);
}

#[test]
fn many_once_steps_in_flight_share_their_commits() {
    let rig = Rig::new(echo);
    let yaml = "
ravel: 1
name: wide
input: { items: [integer] }
steps:
  all:
    for_each: input.items
    steps:
      act: { tool: t.act, with: { v: '{{ item }}' }, effect: once }
";
    let mut process = rig.engine();
    let items: Vec<u32> = (0..200).collect();
    let run = process.start(rig.request(&flow(yaml), json!({ "items": items })));
    process.ended(&run).unwrap();
    assert_eq!(lock(&rig.durable).commits, 2);
}

/// Fails when it is shown a turn that the store does not have.
struct Strict {
    store: Memory,
    shown: Arc<Mutex<Vec<u64>>>,
}

impl Observer for Strict {
    fn offer(&mut self, item: FeedItem) -> Offer {
        use ravel_core::port_store::Log;
        if let FeedItem::Turns { run, turns } = item {
            let stored = self.store.load(&run).unwrap();
            for turn in turns.iter() {
                assert!(
                    stored.contains(turn),
                    "turn {} is shown before it is on disk",
                    turn.turn
                );
                lock(&self.shown).push(turn.turn);
            }
        }
        Offer::Taken
    }
}

#[test]
fn observers_see_turns_of_the_durable_prefix_each_once_and_in_order() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let shown = Arc::<Mutex<Vec<u64>>>::default();
    process.engine.observe(
        None,
        Box::new(Strict {
            store: rig.memory.another(),
            shown: Arc::clone(&shown),
        }),
    );
    let run = process.start(rig.request(&flow(MIXED), json!({})));
    process.ended(&run).unwrap();
    let last = rig.log(&run).last().unwrap().turn;
    assert_eq!(*lock(&shown), (1..=last).collect::<Vec<_>>());
}

#[test]
fn nothing_is_acknowledged_when_the_disk_is_full() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let first = process.start(rig.request(&flow(MIXED), json!({})));
    process.ended(&first).unwrap();
    *lock(&process.spy.refuse) = Some(Error::Full {
        message: "0 bytes left".into(),
    });
    let (then, pending) = Pending::new();
    process
        .engine
        .start_then(rig.request(&flow(MIXED), json!({})), then);
    let why = StopReason::Full {
        message: "0 bytes left".into(),
    };
    assert_eq!(process.drive(), Progress::Stopped(why.clone()));
    assert_eq!(pending.poll().unwrap(), Err(EngineError::Stopped { why }));
    assert_eq!(
        rig.outcome(&first).0,
        "succeeded",
        "what was acknowledged is kept"
    );
    let acted = rig
        .world
        .paths()
        .iter()
        .filter(|path| *path == "act")
        .count();
    assert_eq!(acted, 1, "no once step of the second run left");
}

#[test]
fn a_second_start_under_a_key_gives_the_first_run() {
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let flow = flow(MIXED);
    let request = || {
        let mut request = rig.request(&flow, json!({}));
        request.start_key = Some("order-7".into());
        request
    };
    // Two in one commit, then one when the first is over, then one from another process.
    let (one, two) = (
        process.engine.begin(request()),
        process.engine.begin(request()),
    );
    process.drive();
    let first = one.poll().unwrap().unwrap();
    assert_eq!(two.poll().unwrap().unwrap(), first);
    assert_eq!(process.start(request()), first);
    let mut other = rig.engine();
    assert_eq!(other.start(request()), first);
    assert_eq!(rig.world.paths(), ["look", "again", "act", "put"]);
}

#[test]
fn an_input_that_does_not_fit_is_refused_and_leaves_nothing() {
    use ravel_core::port_store::{Filter, Listing};
    let rig = Rig::new(echo);
    let mut process = rig.engine();
    let flow = flow(
        "ravel: 1\nname: typed\ninput: { n: integer }\nsteps:\n  a: { set: '{{ input.n }}' }\n",
    );
    let request = rig.request(&flow, json!({ "n": "seven" }));
    let refused = process.call(|engine, then| engine.start_then(request, then));
    assert!(
        matches!(refused, Err(EngineError::Rejected { ref code, .. }) if code == "invalid_input"),
        "{refused:?}"
    );
    assert_eq!(rig.memory.runs(&Filter::default()).unwrap(), []);
    assert_eq!(process.driver.status().counters.live, 0);
}

#[test]
fn an_engine_with_its_own_thread_runs_a_flow_to_its_end() {
    let rig = Rig::new(echo);
    let (config, _) = rig.config(None);
    let engine = Engine::open(config).unwrap();
    let run = engine.start(rig.request(&flow(MIXED), json!({}))).unwrap();
    assert_eq!(engine.wait(&run).unwrap().output, Some(json!(1).into()));
    engine.shut_down(false);
    assert_eq!(engine.join(), Some(StopReason::Shutdown));
    assert_eq!(
        engine.wait(&run),
        Err(EngineError::Stopped {
            why: StopReason::Shutdown
        })
    );
}
