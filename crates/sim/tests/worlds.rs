//! Some worlds, every time; more with `ravel-sim run`.

use ravel_sim::{Case, Profile, Small, explore, simulate};

/// Worlds of the usual test run.
const SEEDS: u64 = 250;

#[test]
fn no_promise_is_broken_in_the_first_worlds() {
    for seed in 0..SEEDS {
        if let Err(violation) = simulate(&Case::random(seed)) {
            panic!("seed {seed}: {violation}\n(ravel-sim shrink {seed})");
        }
    }
}

#[test]
fn a_seed_lives_the_same_world_twice() {
    for seed in 0..20 {
        let case = Case::random(seed);
        let lives =
            [simulate(&case), simulate(&case)].map(|history| history.map(|history| history.hash()));
        assert_eq!(lives[0], lives[1], "seed {seed}");
    }
}

#[test]
fn a_case_survives_being_written_and_read() {
    for seed in 0..50 {
        let case = Case::random(seed);
        let text = serde_json::to_string(&case).expect("cases are plain data");
        let read: Case = serde_json::from_str(&text).expect("a written case reads");
        assert_eq!(read, case);
    }
}

/// Worlds that once broke a promise, as `ravel-sim shrink` printed them.
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");

#[test]
fn worlds_that_once_broke_a_promise_keep_it() {
    let mut lived = 0;
    for entry in std::fs::read_dir(CASES).expect("the folder of cases is there") {
        let path = entry.expect("its entries are readable").path();
        let text = std::fs::read_to_string(&path).expect("a case is a text");
        let case: Case = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Err(violation) = simulate(&case) {
            panic!("{}: {violation}\n(ravel-sim play {0})", path.display());
        }
        lived += 1;
    }
    assert!(lived > 0, "no case in {CASES}");
}

#[test]
fn every_small_graph_of_two_steps_keeps_every_promise() {
    let one = Profile::ALL.map(|profile| (1, profile));
    for (steps, profile) in one.into_iter().chain([(2, Profile::Read)]) {
        for small in Small::all(steps) {
            if let Err(what) = explore(&small, profile) {
                panic!("{what}");
            }
        }
    }
}

#[test]
fn small_graphs_are_counted_once_whatever_their_steps_are_called() {
    let counts = [1, 2, 3].map(|steps| Small::all(steps).len());
    assert_eq!(counts, [1, 5, 51]);
}
