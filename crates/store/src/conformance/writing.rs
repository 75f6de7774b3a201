//! Commits: order, atomicity, values, the hash chain.

use ravel_core::port::RunState;
use ravel_core::port_store::{Inbox, Listing, Log, Ownership};
use serde_json::{Value, json};

use super::{Cluster, append, batch, create, ending, owner, said, start, turn, turns, write};

/// What `load` gives is what was committed.
pub fn a_commit_is_read_back_whole_and_in_order(cluster: &impl Cluster) {
    let store = cluster.process();
    let mut commit = create("r1", "a", 0);
    commit.turns = vec![start("r1", "graph"), turn(2, json!("two"))];
    write(&store, commit);
    write(&store, append("r1", &owner("a"), turns(3, 5)));
    write(&store, append("r1", &owner("a"), Vec::new()));
    write(&store, append("r1", &owner("a"), turns(6, 6)));
    let mut expected = vec![start("r1", "graph"), turn(2, json!("two"))];
    expected.extend(turns(3, 6));
    assert_eq!(store.load("r1").expect("r1 is there"), expected);
    assert_eq!(
        cluster
            .process()
            .load("r1")
            .expect("another process sees it"),
        expected
    );
}

#[track_caller]
fn survives(cluster: &impl Cluster, values: &[Value]) {
    let store = cluster.process();
    write(&store, create("r1", "a", 0));
    let mut expected = Vec::new();
    for (number, value) in (1..).zip(values) {
        let turn = turn(number, value.clone());
        write(&store, append("r1", &owner("a"), vec![turn.clone()]));
        expected.push(turn);
    }
    let mut end = ending(append("r1", &owner("a"), Vec::new()), RunState::Succeeded);
    end.summary.output = values.last().cloned().map(Into::into);
    write(&store, end.clone());
    let other = cluster.process();
    assert!(
        other.load("r1").expect("r1 is there") == expected,
        "a value changed"
    );
    assert_eq!(
        other.verify("r1").expect("r1 is whole").turns,
        values.len() as u64
    );
    assert!(
        other.runs(&Default::default()).expect("it is listed") == [end.summary],
        "the output changed"
    );
}

/// Numbers, text and nulls come back as they were.
pub fn values_of_every_shape_survive(cluster: &impl Cluster) {
    survives(
        cluster,
        &[
            json!(null),
            json!([
                true,
                false,
                0,
                -1,
                1.5,
                u64::MAX,
                i64::MIN,
                0.1 + 0.2,
                1e300,
                5e-324,
                0.30000000000000004
            ]),
            json!({ "": "", "b": 1, "a": { "z": [], "y": {} }, "line\nbreak\r": "\u{0}\t\"\\/ é 🦀 \u{2028}" }),
        ],
    );
}

/// A user's `{"$blob": …}` is data.
pub fn users_keys_that_look_like_references_survive(cluster: &impl Cluster) {
    let hash = "0".repeat(64);
    let big = "x".repeat(40_000);
    survives(
        cluster,
        &[
            json!({ "$blob": hash, "bytes": 3 }),
            json!({ "$blob": 7 }),
            json!({ "$$blob": [{ "$blob": {} }], "$blob": null, "$$$blob": 1, "blob": 2, "$blobs": 3, "a$blob": 4 }),
            json!(["$blob", "$blob\":", { "big": big, "$blob": { "$blob": big } }]),
        ],
    );
}

/// Values above every threshold come back, also when they share parts or grow.
pub fn big_values_survive(cluster: &impl Cluster) {
    let big = |seed: usize| {
        (0..3_000)
            .map(|n| format!("{:x}", n * 7_919 + seed))
            .collect::<String>()
    };
    let mut list = Vec::new();
    let mut values = vec![
        json!(big(1)),
        json!({ "a": big(1), "b": { "c": big(2) }, "text\"": big(1) }),
    ];
    for step in 0..12 {
        list.push(json!({ "step": step, "text": &big(step)[..5_000] }));
        values.push(json!(list));
    }
    values.push(json!({ "history": list, "note": "🦀".repeat(5_000) }));
    list.remove(0);
    values.push(json!(list));
    survives(cluster, &values);
}

/// Depth is no reason to lose a value.
pub fn deep_values_survive(cluster: &impl Cluster) {
    let deep = |depth| {
        (0..depth).fold(json!(1), |inner, level| {
            if level % 2 == 0 {
                json!([inner])
            } else {
                json!({ "k": inner })
            }
        })
    };
    survives(
        cluster,
        &[
            deep(60),
            deep(100),
            deep(127),
            deep(400),
            json!([deep(300), { "$blob": deep(300) }]),
        ],
    );
}

/// Creating twice is refused and changes nothing.
pub fn a_created_run_must_not_exist(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 2));
    assert_eq!(
        said(store.commit(&batch([create("r1", "a", 3)]))),
        "run r1 exists already"
    );
    assert_eq!(
        said(cluster.process().commit(&batch([create("r1", "b", 3)]))),
        "run r1 exists already"
    );
    assert_eq!(store.load("r1").expect("it is there"), turns(1, 2));
}

/// A second start under a key finds the first run.
pub fn a_start_key_belongs_to_one_run(cluster: &impl Cluster) {
    let store = cluster.process();
    let keyed = |run: &str, key: &str| {
        let mut commit = create(run, "a", 1);
        commit.summary.start_key = Some(key.into());
        commit
    };
    write(&store, keyed("r1", "order-7"));
    assert_eq!(
        said(store.commit(&batch([keyed("r2", "order-7")]))),
        "run r1 exists already"
    );
    assert_eq!(said(store.load("r2")), "there is no run r2");
    write(&store, keyed("r3", "order-8"));
    let found = |key| store.by_start_key(key).expect("keys can be read");
    assert_eq!(
        [found("order-7"), found("order-8"), found("order-9")],
        [Some("r1".into()), Some("r3".into()), None]
    );
}

/// Retention does not make a start key free again.
pub fn a_start_key_outlives_its_run(cluster: &impl Cluster) {
    let store = cluster.process();
    let mut commit = ending(create("r1", "a", 1), RunState::Succeeded);
    commit.summary.start_key = Some("order-7".into());
    write(&store, commit.clone());
    store.collect(u64::MAX, 0, false).expect("retention works");
    assert_eq!(
        store.by_start_key("order-7").expect("keys can be read"),
        Some("r1".into())
    );
    commit.run = "r2".into();
    assert_eq!(
        said(store.commit(&batch([commit]))),
        "run r1 exists already"
    );
}

/// One batch cannot create a run, or use a start key, twice.
pub fn a_batch_creates_a_run_once(cluster: &impl Cluster) {
    let store = cluster.process();
    assert_eq!(
        said(store.commit(&batch([create("r1", "a", 1), create("r1", "a", 1)]))),
        "run r1 exists already"
    );
    let mut first = create("r2", "a", 1);
    first.summary.start_key = Some("k".into());
    let mut second = create("r3", "a", 1);
    second.summary.start_key = Some("k".into());
    assert_eq!(
        said(store.commit(&batch([first, second]))),
        "run r2 exists already"
    );
    assert_eq!(
        store.runs(&Default::default()).expect("runs can be listed"),
        []
    );
}

/// A turn that does not follow the last one is refused.
pub fn turns_must_be_contiguous(cluster: &impl Cluster) {
    let store = cluster.process();
    assert_eq!(
        said(store.commit(&batch([append("r1", &owner("a"), turns(1, 1))]))),
        "there is no run r1"
    );
    let mut late = create("r1", "a", 0);
    late.turns = turns(2, 2);
    assert_eq!(
        said(store.commit(&batch([late]))),
        "run r1 expected turn 1 and was given 2"
    );
    write(&store, create("r1", "a", 3));
    let again = store.commit(&batch([append("r1", &owner("a"), turns(3, 4))]));
    assert_eq!(said(again), "run r1 expected turn 4 and was given 3");
    let mut hole = turns(4, 4);
    hole.extend(turns(6, 6));
    let hole = store.commit(&batch([append("r1", &owner("a"), hole)]));
    assert_eq!(said(hole), "run r1 expected turn 5 and was given 6");
    write(&store, append("r1", &owner("a"), turns(4, 4)));
    assert_eq!(store.load("r1").expect("r1 is there"), turns(1, 4));
}

/// One bad run, and nothing of the batch is written.
pub fn a_batch_is_all_or_nothing(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 1));
    let message = store
        .post("r1", 5, &ravel_core::port_store::Message::Pause)
        .expect("r1 is there");
    let mut good = append("r1", &owner("a"), turns(2, 3));
    good.asked = vec![super::question("q1", "r1", 9)];
    good.taken = vec![(message, ravel_core::port_store::Reply::Accepted { turn: 2 })];
    good.summary.state = RunState::Waiting;
    let bad = append("r2", &owner("a"), turns(1, 1));
    assert_eq!(
        said(store.commit(&batch([good.clone(), create("r3", "a", 2), bad]))),
        "there is no run r2"
    );
    assert_eq!(store.load("r1").expect("r1 is there"), turns(1, 1));
    assert_eq!(said(store.load("r3")), "there is no run r3");
    assert_eq!(store.questions(None).expect("questions can be listed"), []);
    assert_eq!(store.reply(message).expect("the message is there"), None);
    assert_eq!(
        store.runs(&Default::default()).expect("listed"),
        [super::summary("r1", RunState::Running)]
    );
    write(&store, good);
    assert_eq!(store.load("r1").expect("r1 is there"), turns(1, 3));
}

/// Every question about a run that is not there says so.
pub fn an_unknown_run_is_said(cluster: &impl Cluster) {
    let store = cluster.process();
    let answers = [
        said(store.load("r9")),
        said(store.verify("r9")),
        said(store.claim("r9", "a")),
        said(store.owner("r9")),
        said(store.post("r9", 0, &ravel_core::port_store::Message::Pause)),
        said(store.commit(&batch([super::fork("r1", "a", ("r9", 1), 1)]))),
    ];
    assert_eq!(answers.map(|text| text == "there is no run r9"), [true; 6]);
    assert_eq!(said(store.reply(7)), "there is no message 7");
    assert_eq!(store.waiting("r9").expect("nothing waits there"), []);
    assert_eq!(
        store.questions(Some("r9")).expect("nothing is asked there"),
        []
    );
}

/// A bundle is found by its hash; putting it again changes nothing.
pub fn bundles_are_kept_by_hash(cluster: &impl Cluster) {
    let store = cluster.process();
    assert_eq!(said(store.bundle("h1")), "there is no bundle h1");
    store.put_bundle("h1", "{\"a\":1}").expect("it is kept");
    store
        .put_bundle("h1", "{\"a\":1}")
        .expect("it is there already");
    store.put_bundle("h2", "").expect("an empty text is a text");
    let other = cluster.process();
    assert_eq!(other.bundle("h1").expect("it is there"), "{\"a\":1}");
    assert_eq!(other.bundle("h2").expect("it is there"), "");
}

/// The head tells logs apart, and does not depend on how turns were grouped into commits.
pub fn the_chain_depends_on_every_turn(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 3));
    write(&store, create("r2", "a", 1));
    write(&store, append("r2", &owner("a"), turns(2, 2)));
    write(&store, append("r2", &owner("a"), turns(3, 3)));
    let mut other = create("r3", "a", 3);
    other.turns[0].at = 7;
    write(&store, other);
    let head = |run| store.verify(run).expect("it is whole");
    assert_eq!(head("r1"), head("r2"));
    assert_eq!((head("r1").turns, head("r1").head.len()), (3, 64));
    assert_ne!(head("r1").head, head("r3").head);
    write(&store, append("r1", &owner("a"), turns(4, 4)));
    assert_ne!(head("r1").head, head("r2").head);
}
