//! Forks: prefixes that are shared, not copied.

use ravel_core::port_store::Log;

use super::{Cluster, append, batch, create, fork, owner, said, turns, write};

/// A fork's log is the prefix and its own turns.
pub fn a_fork_continues_a_prefix(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 2));
    write(&store, append("r1", &owner("a"), turns(3, 6)));
    write(&store, fork("r2", "a", ("r1", 4), 5));
    write(&store, append("r2", &owner("a"), turns(6, 7)));
    write(&store, fork("whole", "a", ("r1", 6), 6));
    assert_eq!(store.load("r2").expect("r2 is there"), turns(1, 7));
    assert_eq!(store.load("whole").expect("it is there"), turns(1, 6));
    assert_eq!(
        store.verify("whole").expect("it is whole"),
        store.verify("r1").expect("it is whole")
    );
    write(&store, append("r1", &owner("a"), turns(7, 7)));
    assert_eq!(
        store.verify("r2").expect("it is whole"),
        store.verify("r1").expect("it is whole")
    );
    let refused = store.commit(&batch([append("r2", &owner("a"), turns(7, 7))]));
    assert_eq!(said(refused), "run r2 expected turn 8 and was given 7");
}

/// Generations of forks, also from a turn that a fork inherited.
pub fn forks_of_forks_share_prefixes(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("g0", "a", 10));
    write(&store, fork("g1", "a", ("g0", 6), 8));
    write(&store, fork("g2", "a", ("g1", 7), 9));
    write(&store, fork("g3", "a", ("g2", 3), 4));
    write(&store, fork("g4", "a", ("g3", 4), 5));
    write(&store, fork("g5", "a", ("g4", 6 - 2), 4));
    write(&store, fork("g6", "a", ("g2", 6), 6));
    let other = cluster.process();
    for (run, last) in [
        ("g0", 10),
        ("g1", 8),
        ("g2", 9),
        ("g3", 4),
        ("g4", 5),
        ("g5", 4),
        ("g6", 6),
    ] {
        assert_eq!(
            other.load(run).expect("it is there"),
            turns(1, last),
            "{run}"
        );
        assert_eq!(other.verify(run).expect("it is whole").turns, last, "{run}");
    }
    write(&store, append("g5", &owner("a"), turns(5, 9)));
    let heads = ["g2", "g5"].map(|run| other.verify(run).expect("it is whole").head);
    assert_eq!(heads[0], heads[1], "equal logs have equal heads");
}

/// The turn that a fork starts from must exist.
pub fn a_fork_needs_its_turn(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 3));
    assert_eq!(
        said(store.commit(&batch([fork("r2", "a", ("r1", 4), 5)]))),
        "run r1 expected turn 3 and was given 4"
    );
    assert_eq!(
        said(store.commit(&batch([fork("r2", "a", ("r0", 1), 2)]))),
        "there is no run r0"
    );
    let mut late = fork("r2", "a", ("r1", 2), 3);
    late.turns = turns(4, 4);
    assert_eq!(
        said(store.commit(&batch([late]))),
        "run r2 expected turn 3 and was given 4"
    );
    assert_eq!(said(store.load("r2")), "there is no run r2");
}

/// What a fork does is not seen in its base, nor the other way round.
pub fn a_fork_does_not_change_its_base(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "a", 3));
    write(&store, fork("r2", "b", ("r1", 2), 5));
    assert_eq!(store.load("r1").expect("it is there"), turns(1, 3));
    write(&store, append("r1", &owner("a"), turns(4, 4)));
    assert_eq!(store.load("r2").expect("it is there"), turns(1, 5));
}
