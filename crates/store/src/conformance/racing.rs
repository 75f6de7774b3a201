//! Threads and processes at once: one of them wins whole.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ravel_core::port::RunState;
use ravel_core::port_store::{Error, Filter, Listing, Log, Ownership};

use super::{Cluster, append, batch, create, ending, fork, owner, turns, write};

/// Competitors of a race.
const PROCESSES: usize = 4;
/// Rounds of a race.
const ROUNDS: u64 = 20;

/// Of many that claim a free run, one gets it and the others learn who.
pub fn only_one_of_many_claims_wins(cluster: &impl Cluster) {
    let store = cluster.process();
    write(&store, create("r1", "dead", 1));
    store.release("r1", &owner("dead")).expect("it is released");
    let barrier = Barrier::new(PROCESSES);
    let winners: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..PROCESSES)
            .map(|number| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let process = cluster.process();
                    barrier.wait();
                    let claimed = process.claim("r1", &format!("t{number}"));
                    barrier.wait();
                    (claimed, process)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    let won = winners
        .iter()
        .filter(|(claimed, _)| claimed.is_ok())
        .count();
    let held = winners
        .iter()
        .filter(|(claimed, _)| matches!(claimed, Err(Error::Held { .. })))
        .count();
    assert_eq!((won, held), (1, PROCESSES - 1));
}

/// Of many that start under one key, one starts.
pub fn only_one_of_many_creates_wins(cluster: &impl Cluster) {
    let barrier = Barrier::new(PROCESSES);
    thread::scope(|scope| {
        for number in 0..PROCESSES {
            let barrier = &barrier;
            scope.spawn(move || {
                let process = cluster.process();
                barrier.wait();
                for round in 0..ROUNDS {
                    let mut commit =
                        create(&format!("r{round}-{number}"), &format!("t{number}"), 1);
                    commit.summary.start_key = Some(format!("k{round}").into());
                    match process.commit(&batch([commit])) {
                        Ok(()) | Err(Error::Exists { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let store = cluster.process();
    let runs = store.runs(&Filter::default()).expect("they can be listed");
    assert_eq!(runs.len() as u64, ROUNDS);
    for run in runs {
        let key = run.start_key.expect("each has one");
        assert_eq!(
            store.by_start_key(&key).expect("it can be read"),
            Some(run.run)
        );
    }
}

/// A fork either has its whole prefix for good, or is told that there is no such run.
pub fn a_fork_and_retention_do_not_mix(cluster: &impl Cluster) {
    let store = cluster.process();
    for round in 0..ROUNDS {
        let (base, name) = (format!("base{round}"), format!("fork{round}"));
        write(&store, ending(create(&base, "a", 3), RunState::Succeeded));
        let barrier = Barrier::new(2);
        let forked = thread::scope(|scope| {
            let collector = scope.spawn(|| {
                let process = cluster.process();
                barrier.wait();
                process.collect(9_000, 0, false).expect("retention works")
            });
            let process = cluster.process();
            barrier.wait();
            let forked = process.commit(&batch([fork(&name, "b", (&base, 2), 4)]));
            collector.join().expect("no panic");
            forked
        });
        match forked {
            Ok(()) => assert_eq!(
                store.load(&name).expect("its prefix is pinned"),
                turns(1, 4)
            ),
            Err(error) => {
                assert_eq!(error.to_string(), format!("there is no run {base}"));
                assert!(store.load(&name).is_err());
            }
        }
    }
}

/// A claim either has its run for good, or is told that there is no such run.
pub fn a_claim_and_retention_do_not_mix(cluster: &impl Cluster) {
    let store = cluster.process();
    for round in 0..ROUNDS {
        let run = format!("r{round}");
        write(&store, ending(create(&run, "a", 2), RunState::Failed));
        let barrier = Barrier::new(2);
        let process = cluster.process();
        let (claimed, removed) = thread::scope(|scope| {
            let collector = scope.spawn(|| {
                let process = cluster.process();
                barrier.wait();
                process
                    .collect(9_000, 0, false)
                    .expect("retention works")
                    .runs
            });
            barrier.wait();
            let claimed = process.claim(&run, &format!("t{round}"));
            (claimed, collector.join().expect("no panic"))
        });
        match claimed {
            Ok(_) => {
                assert!(removed.is_empty(), "a claimed run was removed");
                assert_eq!(store.load(&run).expect("it stays"), turns(1, 2));
            }
            Err(error) => {
                assert_eq!(error.to_string(), format!("there is no run {run}"));
                assert_eq!(removed, [run.into()]);
            }
        }
        drop(process);
        store.collect(9_000, 0, false).expect("retention works");
    }
}

/// A reader sees all runs of a batch at the same turn, never half of it.
pub fn readers_see_whole_commits(cluster: &impl Cluster) {
    let writer = cluster.process();
    write(&writer, create("r1", "a", 0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let reader = cluster.process();
            while !done.load(Ordering::Acquire) {
                let count = reader.load("r1").expect("r1 is there").len() as u64;
                assert_eq!(count % 3, 0, "a commit adds three turns");
            }
        });
        for round in 0..ROUNDS {
            write(
                &writer,
                append("r1", &owner("a"), turns(round * 3 + 1, round * 3 + 3)),
            );
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(
        writer.load("r1").expect("r1 is there"),
        turns(1, ROUNDS * 3)
    );
}

/// Several processes write their own runs to one store; nothing is lost or mixed.
pub fn commits_of_many_processes_interleave(cluster: &impl Cluster) {
    thread::scope(|scope| {
        for number in 0..PROCESSES {
            scope.spawn(move || {
                let process = cluster.process();
                let (run, token) = (format!("r{number}"), format!("t{number}"));
                write(&process, create(&run, &token, 1));
                for round in 2..=ROUNDS {
                    write(&process, append(&run, &owner(&token), turns(round, round)));
                }
            });
        }
    });
    let store = cluster.process();
    for number in 0..PROCESSES {
        assert_eq!(
            store.load(&format!("r{number}")).expect("it is there"),
            turns(1, ROUNDS)
        );
        assert_eq!(
            store
                .verify(&format!("r{number}"))
                .expect("it is whole")
                .turns,
            ROUNDS
        );
    }
}
