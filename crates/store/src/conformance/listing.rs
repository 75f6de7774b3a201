//! What is listed.

use ravel_core::effect::{ErrorClass, Failure, Usage};
use ravel_core::port::{RunState, Summary};
use ravel_core::port_store::{Filter, Listing, Store};
use ravel_core::value::Val;
use serde_json::json;

use super::{Cluster, append, create, ending, owner, question, turns, write};

fn put(store: &impl Store, run: &str, created: u64, state: RunState, flow: &str) {
    let mut commit = ending(create(run, "a", 1), state);
    commit.summary.created = created;
    commit.summary.flow = flow.into();
    write(store, commit);
}

fn ids(runs: &[Summary]) -> Vec<&str> {
    runs.iter().map(|summary| &*summary.run).collect()
}

/// By the time of creation, then by the order of arrival.
pub fn runs_are_listed_newest_first(cluster: &impl Cluster) {
    let store = cluster.process();
    for (run, created) in [("b", 20), ("a", 10), ("d", 30), ("c", 30)] {
        put(&store, run, created, RunState::Running, "f");
    }
    let list = cluster
        .process()
        .runs(&Filter::default())
        .expect("they can be listed");
    assert_eq!(ids(&list), ["c", "d", "b", "a"]);
}

/// Every field of a filter narrows the list.
pub fn filters_choose_runs(cluster: &impl Cluster) {
    let store = cluster.process();
    put(&store, "0190-a", 10, RunState::Running, "f");
    put(&store, "0190-b", 20, RunState::Failed, "g");
    put(&store, "0191-c", 30, RunState::Waiting, "f");
    put(&store, "01%_d", 40, RunState::Succeeded, "f");
    let chosen = |filter: Filter| {
        let list = store.runs(&filter).expect("they can be listed");
        ids(&list)
            .into_iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let all = Filter::default;
    assert_eq!(
        chosen(Filter {
            states: vec![RunState::Failed, RunState::Running],
            ..all()
        }),
        ["0190-b", "0190-a"]
    );
    assert_eq!(
        chosen(Filter {
            flow: Some("f".into()),
            limit: 2,
            ..all()
        }),
        ["01%_d", "0191-c"]
    );
    assert_eq!(
        chosen(Filter {
            id_prefix: Some("0190".into()),
            ..all()
        }),
        ["0190-b", "0190-a"]
    );
    assert_eq!(
        chosen(Filter {
            id_prefix: Some("01%".into()),
            ..all()
        }),
        ["01%_d"]
    );
    assert_eq!(
        chosen(Filter {
            since: Some(20),
            flow: Some("f".into()),
            ..all()
        }),
        ["01%_d", "0191-c"]
    );
    assert_eq!(
        chosen(Filter {
            states: vec![RunState::Cancelled],
            ..all()
        }),
        [""; 0]
    );
}

/// All that a summary says is listed, and the latest one.
pub fn a_summary_is_listed_as_given(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("base", "a", 4));
    let mut commit = super::fork("r1", "a", ("base", 3), 4);
    let mut given = Summary {
        flow: "orders".into(),
        graph: "g1".into(),
        created: 3_000,
        updated: 3_001,
        wake_at: Some(9_000),
        usage: Usage {
            input_tokens: 1,
            cached_tokens: 2,
            output_tokens: 3,
            cost_microusd: 4,
        },
        start_key: Some("order-7".into()),
        forked_from: Some(("base".into(), 3)),
        waits: vec![Val::new(
            json!({ "on": "time", "path": "nap", "until": 9_000 }),
        )],
        ..super::summary("r1", RunState::Waiting)
    };
    commit.summary = given.clone();
    write(&store, commit);
    let newest = Filter {
        limit: 1,
        ..Filter::default()
    };
    let listed = || cluster.process().runs(&newest).expect("it is listed");
    assert_eq!(listed(), [given.clone()]);
    given.state = RunState::Failed;
    given.graph = "g2".into();
    given.updated = 5_000;
    given.wake_at = None;
    given.waits.clear();
    given.usage.output_tokens = 7;
    let detail = json!({ "status": 503 });
    given.error = Some(
        Failure::new(ErrorClass::Unavailable, "no answer")
            .with_code("http_503")
            .with_data(detail),
    );
    given.uncompensated = vec!["charge".into(), "ship".into()];
    let mut commit = append("r1", &owner("a"), turns(5, 5));
    commit.summary = given.clone();
    write(&store, commit);
    assert_eq!(listed(), [given]);
}

/// The same id replaces; closing removes; order is by the time of asking.
pub fn questions_are_replaced_and_closed(cluster: &impl Cluster) {
    let store = cluster.process();
    let mut commit = create("r1", "a", 1);
    commit.asked = vec![question("q2", "r1", 20), question("q1", "r1", 10)];
    write(&store, commit);
    let mut commit = create("r2", "a", 1);
    commit.asked = vec![question("q3", "r2", 15)];
    write(&store, commit);
    let listed = |run| {
        cluster
            .process()
            .questions(run)
            .expect("they can be listed")
    };
    let [q1, q2, q3] = [
        question("q1", "r1", 10),
        question("q2", "r1", 20),
        question("q3", "r2", 15),
    ];
    assert_eq!(listed(None), [q1.clone(), q3.clone(), q2.clone()]);
    assert_eq!(listed(Some("r1")), [q1, q2.clone()]);
    let mut commit = append("r1", &owner("a"), turns(2, 2));
    let mut escalated = question("q2", "r1", 20);
    escalated.to = None;
    escalated.until = None;
    escalated.ask = "Refund, really?".into();
    commit.asked = vec![escalated.clone()];
    commit.closed = vec!["q1".into(), "q9".into()];
    write(&store, commit);
    assert_eq!(listed(None), [q3, escalated]);
}
