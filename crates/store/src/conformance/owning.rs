//! Ownership: one owner, fencing, takeover.

use ravel_core::port::RunState;
use ravel_core::port_store::{Error, Inbox, Log, Message, Owner, Ownership, Store};

use super::{Cluster, append, batch, create, ending, owner, said, turns, write};

/// A commit under an older epoch, or by somebody who does not own the run, is refused and names the run.
pub fn an_old_epoch_is_fenced(cluster: &impl Cluster) {
    let first = cluster.process();
    write(&first, create("r1", "a", 1));
    write(&first, create("r2", "a", 1));
    first.release("r1", &owner("a")).expect("it is released");
    let second = cluster.process();
    let taken = second.claim("r1", "b").expect("it is free");
    assert_eq!(
        taken,
        Owner {
            token: "b".into(),
            epoch: 2
        }
    );
    let stale = first.commit(&batch([
        append("r2", &owner("a"), turns(2, 2)),
        append("r1", &owner("a"), turns(2, 2)),
    ]));
    assert_eq!(said(stale), "run r1 was taken over by another process");
    let foreign = second.commit(&batch([append("r2", &owner("b"), turns(2, 2))]));
    assert_eq!(said(foreign), "run r2 was taken over by another process");
    write(&second, append("r1", &taken, turns(2, 3)));
    write(&first, append("r2", &owner("a"), turns(2, 2)));
    assert_eq!(first.load("r1").expect("r1 is there"), turns(1, 3));
}

/// While the owner lives nobody else gets the run, in its own process neither.
pub fn a_live_owner_keeps_its_runs(cluster: &impl Cluster) {
    let first = cluster.process();
    write(&first, create("r1", "a", 1));
    let second = cluster.process();
    for process in [&first, &second] {
        let refused = process.claim("r1", "b").expect_err("it is held");
        assert!(
            matches!(&refused, Error::Held { run, by } if &**run == "r1" && by.contains("(a)")),
            "{refused}"
        );
    }
    assert_eq!(
        second.owner("r1").expect("it can be asked"),
        Some("a".into())
    );
    write(&first, append("r1", &owner("a"), turns(2, 2)));
}

/// The death of a process frees its runs; the new owner has a new epoch.
pub fn a_dead_owners_runs_are_free_at_once(cluster: &impl Cluster) {
    let first = cluster.process();
    write(&first, create("r1", "a", 1));
    drop(first);
    let second = cluster.process();
    assert_eq!(second.owner("r1").expect("it can be asked"), None);
    assert_eq!(
        second.unowned(0, 9).expect("it can be asked"),
        ["r1".into()]
    );
    let taken = second.claim("r1", "b").expect("the owner is dead");
    assert_eq!(
        taken,
        Owner {
            token: "b".into(),
            epoch: 2
        }
    );
    let third = cluster.process();
    assert_eq!(
        third.owner("r1").expect("it can be asked"),
        Some("b".into())
    );
    write(&second, append("r1", &taken, turns(2, 2)));
}

/// A released run is free, and its former owner is fenced.
pub fn a_released_run_is_free(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 1));
    store
        .release(
            "r1",
            &Owner {
                token: "a".into(),
                epoch: 7,
            },
        )
        .expect("another epoch's release does nothing");
    assert_eq!(
        store.owner("r1").expect("it can be asked"),
        Some("a".into())
    );
    store.release("r1", &owner("a")).expect("it is released");
    assert_eq!(store.owner("r1").expect("it can be asked"), None);
    let late = store.commit(&batch([append("r1", &owner("a"), turns(2, 2))]));
    assert_eq!(said(late), "run r1 was taken over by another process");
    let taken = store.claim("r1", "b").expect("it is free");
    store
        .release("r1", &owner("a"))
        .expect("a release that comes late does nothing");
    assert_eq!(
        store.owner("r1").expect("it can be asked"),
        Some("b".into())
    );
    write(&store, append("r1", &taken, turns(2, 2)));
}

/// An engine that stops gives all its runs up, and only its own.
pub fn all_runs_are_released_at_once(cluster: &impl Cluster) {
    let store = cluster.process();
    for (run, token) in [("r1", "a"), ("r2", "a"), ("r3", "b")] {
        write(&store, create(run, token, 1));
    }
    store.release_all("a").expect("they are released");
    let owners = ["r1", "r2", "r3"].map(|run| store.owner(run).expect("it can be asked"));
    assert_eq!(owners, [None, None, Some("b".into())]);
    let late = store.commit(&batch([append("r2", &owner("a"), turns(2, 2))]));
    assert_eq!(said(late), "run r2 was taken over by another process");
}

/// A final state gives the run up.
pub fn a_final_run_is_owned_by_nobody(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 1));
    write(
        &store,
        ending(append("r1", &owner("a"), turns(2, 2)), RunState::Failed),
    );
    assert_eq!(store.owner("r1").expect("it can be asked"), None);
    assert_eq!(store.unowned(u64::MAX, 9).expect("it can be asked"), []);
    let late = store.commit(&batch([append("r1", &owner("a"), turns(3, 3))]));
    assert_eq!(said(late), "run r1 was taken over by another process");
}

/// An owner that claims its own run gets a new epoch; its older commits are fenced.
pub fn a_token_may_claim_again(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 1));
    let again = store.claim("r1", "a").expect("it is its own");
    assert_eq!(
        again,
        Owner {
            token: "a".into(),
            epoch: 2
        }
    );
    let stale = store.commit(&batch([append("r1", &owner("a"), turns(2, 2))]));
    assert_eq!(said(stale), "run r1 was taken over by another process");
    write(&store, append("r1", &again, turns(2, 2)));
}

/// A run in a state, asleep until a time, created at a time, and released.
fn put(store: &impl Store, run: &str, created: u64, state: RunState, wake_at: Option<u64>) {
    let mut commit = ending(create(run, "a", 1), state);
    commit.summary.created = created;
    commit.summary.wake_at = wake_at;
    write(store, commit);
    store.release(run, &owner("a")).expect("it is released");
}

/// Running runs, due ones and ones with messages; oldest first.
pub fn unowned_runs_with_something_to_do_are_listed(cluster: &impl Cluster) {
    let store = cluster.process();
    put(&store, "running", 50, RunState::Running, None);
    put(&store, "cancelling", 40, RunState::Cancelling, Some(9_000));
    put(&store, "compensating", 30, RunState::Compensating, None);
    put(&store, "due", 20, RunState::Waiting, Some(500));
    put(&store, "later", 10, RunState::Waiting, Some(501));
    put(&store, "parked", 5, RunState::Waiting, None);
    put(&store, "called", 35, RunState::Waiting, None);
    put(&store, "over", 1, RunState::Succeeded, Some(1));
    write(&store, create("owned", "a", 1));
    for run in ["called", "running", "owned"] {
        store.post(run, 1, &Message::Pause).expect("it is there");
    }
    let unowned = |now, most| {
        let list = cluster
            .process()
            .unowned(now, most)
            .expect("it can be asked");
        list.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        unowned(500, 99),
        ["due", "compensating", "called", "cancelling", "running"]
    );
    assert_eq!(unowned(501, 2), ["later", "due"]);
    store.claim("due", "b").expect("it is free");
    assert_eq!(unowned(501, 2), ["later", "compensating"]);
}

/// The earliest wake-up that no living owner looks after.
pub fn the_next_wake_is_the_earliest_of_free_runs(cluster: &impl Cluster) {
    let store = cluster.process();
    assert_eq!(store.next_wake().expect("it can be asked"), None);
    put(&store, "over", 1, RunState::Cancelled, Some(100));
    put(&store, "parked", 1, RunState::Waiting, None);
    assert_eq!(store.next_wake().expect("it can be asked"), None);
    put(&store, "w1", 1, RunState::Waiting, Some(900));
    put(&store, "w2", 1, RunState::Waiting, Some(700));
    put(&store, "busy", 1, RunState::Running, Some(800));
    assert_eq!(store.next_wake().expect("it can be asked"), Some(700));
    store.claim("w2", "b").expect("it is free");
    assert_eq!(store.next_wake().expect("it can be asked"), Some(800));
    let taken = store.claim("busy", "b").expect("it is free");
    assert_eq!(store.next_wake().expect("it can be asked"), Some(900));
    let mut sleeps = append("busy", &taken, turns(2, 2));
    sleeps.summary.wake_at = Some(100);
    sleeps.summary.state = RunState::Waiting;
    write(&store, sleeps);
    store.release_all("b").expect("they are released");
    assert_eq!(store.next_wake().expect("it can be asked"), Some(100));
}
