//! Damage to a store between a kill and its resume. Whatever it is, nothing is repeated that may not be: the run goes on,
//! or it is refused, repaired, and goes on or waits for a person.

use std::path::{Path, PathBuf};

use crate::figures::Figures;
use crate::lab::Dice;
use crate::life::Life;

/// Steps of a damaged run, and the most that settle before it is killed.
const STEPS: usize = 14;
const SETTLED_MAX: u64 = 10;
/// A page of the database, the header of its log and that of a frame.
const PAGE: usize = 4096;
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Exit codes of commands that refuse a damaged store: trouble, not found, damaged.
const REFUSALS: [i32; 3] = [5, 6, 8];

/// How the runs on damaged stores went on.
#[derive(Default)]
struct Ways {
    unharmed: usize,
    repaired: usize,
    stopped: usize,
}

/// A row: a life for each blow.
pub(crate) fn row(blows: usize, dice: &mut Dice, blow: fn(&Path, &mut Dice)) -> Figures {
    let mut all = Figures::default();
    let mut ways = Ways::default();
    for _ in 0..blows {
        all.merge(life(dice, blow, &mut ways));
    }
    all.note = format!(
        "{} went on unharmed, {} were refused and repaired without loss, {} were refused, repaired and left to a person",
        ways.unharmed, ways.repaired, ways.stopped
    );
    all
}

fn life(dice: &mut Dice, blow: fn(&Path, &mut Dice), ways: &mut Ways) -> Figures {
    let mut life = Life::new();
    let flow = life.flow(STEPS, 2);
    let mut process = life.process(flow);
    life.let_go(&mut process, 2 + dice.below(SETTLED_MAX));
    process.going.kill();
    let run = life.run_of(flow).expect("a step has settled");
    let store = life.lab.path().join(".ravel/ravel.db");
    life.world.settle(flow);
    blow(&store, dice);
    life.figures.kills += 1;
    let Err(refused) = life.try_finish(flow) else {
        ways.unharmed += 1;
        return life.count_seen(flow);
    };
    assert!(REFUSALS.contains(&refused.code), "{refused:?}");
    let before = life.world.counts();
    let repair = life.ravel(&["doctor", "--repair", "--json"]);
    if repair.code == 5 && repair.err.contains("nothing of a store can be read in") {
        ways.stopped += 1;
        return life.count_seen(flow);
    }
    assert!([0, 8].contains(&repair.code), "{refused:?}: {repair:?}");
    assert_eq!(repair.json()["repaired"], true, "{refused:?}");
    if repair.code == 0 {
        ways.repaired += 1;
        if let Err(refused) = life.try_finish(flow) {
            panic!("{refused:?}");
        }
        return life.count_seen(flow);
    }
    ways.stopped += 1;
    let resumed = life.ravel(&["runs", "resume", &run, "--park"]);
    assert!([6, 8].contains(&resumed.code), "{resumed:?}");
    assert_eq!(life.world.counts(), before, "nothing goes on by itself");
    if resumed.code == 8 {
        life.ravel(&["runs", "cancel", &run]).expect(0);
        assert_eq!(life.state(&run), "cancelled");
    }
    life.count_seen(flow)
}

/// Empties the log into the database, as the last process does that ends cleanly.
fn checkpoint(store: &Path) {
    let database = rusqlite::Connection::open(store).unwrap();
    let emptied = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    emptied.unwrap();
}

fn below(dice: &mut Dice, bound: usize) -> usize {
    usize::try_from(dice.below(bound as u64)).unwrap()
}

fn flip(path: &Path, at: usize, dice: &mut Dice) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1 << dice.below(8);
    std::fs::write(path, bytes).unwrap();
}

/// The file ends at any byte.
pub(crate) fn cut_off(store: &Path, dice: &mut Dice) {
    checkpoint(store);
    let bytes = std::fs::read(store).unwrap();
    let left = below(dice, bytes.len());
    std::fs::write(store, &bytes[..left]).unwrap();
}

/// One bit of any page.
pub(crate) fn flip_in_database(store: &Path, dice: &mut Dice) {
    checkpoint(store);
    let bytes = std::fs::metadata(store).unwrap().len();
    let at = dice.below(bytes);
    flip(store, usize::try_from(at).unwrap(), dice);
}

/// One page reads as zeros: the first one, which holds the header, as often as any other.
pub(crate) fn lose_page(store: &Path, dice: &mut Dice) {
    checkpoint(store);
    let mut bytes = std::fs::read(store).unwrap();
    let page = below(dice, bytes.len() / PAGE);
    bytes[page * PAGE..(page + 1) * PAGE].fill(0);
    std::fs::write(store, bytes).unwrap();
}

/// One bit of the log before its last commit: what the last one lost looks like a power cut, which nobody can tell from it.
pub(crate) fn flip_in_log(store: &Path, dice: &mut Dice) {
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let bytes = std::fs::read(&log).unwrap_or_default();
    let step = FRAME_HEADER + PAGE;
    let salt = |at: usize| bytes[at..at + 8].to_vec();
    let commits: Vec<usize> = (LOG_HEADER..)
        .step_by(step)
        .take_while(|at| at + step <= bytes.len() && salt(at + 8) == salt(16))
        .filter(|at| bytes[at + 4..at + 8] != [0; 4])
        .collect();
    match commits.as_slice() {
        [.., second_last, _] => {
            let at = below(dice, second_last + step);
            flip(&log, at, dice);
        }
        _ => flip_in_database(store, dice),
    }
}
