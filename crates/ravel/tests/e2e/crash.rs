//! `kill -9` at 200 seeded instants of a 300-step flow, and the world after it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::{Dice, Lab, sorted_lines, text};

/// Steps whose effect is a line in a file: most in process, some as processes of their own.
const STEPS: usize = 300;
/// Every so many steps is a process.
const PROCESS_EVERY: usize = 30;
/// Chains that run beside each other.
const CHAINS: usize = 2;
const KILLS: usize = 200;
/// Longest time between an event and the kill, µs: kills fall into the middle of steps, commits and starts.
const DELAY_MAX_US: u64 = 4_000;
/// Most steps whose settling is awaited between a start and its kill: 1 on average, so that 200 kills fall into one run.
const SETTLED_MAX: u64 = 2;

/// Chains of `once` steps: each waits for the one before it in its chain.
///
/// Each chain has a file of its own: `file.append` says how large the file is, which must not depend on the other chain.
fn flow(folder: &str) -> String {
    let mut text = String::from("ravel: 1\nname: lines\nsteps:\n");
    for index in 0..STEPS {
        let after = if index < CHAINS {
            String::new()
        } else {
            format!("after: [s{}], ", index - CHAINS)
        };
        let file = world(index % CHAINS);
        let what = if index % PROCESS_EVERY == PROCESS_EVERY - 1 {
            format!("run: \"echo line-{index} >> {folder}/{file}\"")
        } else {
            format!(
                "tool: file.append, with: {{ path: {file}, text: \"line-{index}\\n\" }}, effect: once"
            )
        };
        text.push_str(&format!("  s{index}: {{ {after}{what} }}\n"));
    }
    text.push_str("output: { done: true }\n");
    text
}

/// The file of a chain.
fn world(chain: usize) -> String {
    format!("world{chain}")
}

/// The lines of all chains, sorted.
fn lines(lab: &Lab) -> Vec<String> {
    let mut lines: Vec<String> = (0..CHAINS)
        .flat_map(|chain| sorted_lines(&lab.path().join(world(chain))))
        .collect();
    lines.sort();
    lines
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("lines.yaml", &flow(&lab.path().display().to_string()));
    lab
}

/// Questions for which `runs why` is read, too: it says the same each time.
const WHY_READ_MAX: usize = 20;

/// What an honest person answers about each `once` that may have happened: they look into the file. Steps with the same
/// answer are answered together.
fn answer_truthfully(lab: &Lab, values: &dyn Fn(&str) -> Value, asked: &mut usize) {
    let questions = lab.questions();
    if questions.is_empty() {
        return;
    }
    *asked += questions.len();
    let why = (*asked <= WHY_READ_MAX).then(|| lab.ravel(&["runs", "why", "last"]).expect(0).out);
    let lines: BTreeSet<String> = lines(lab).into_iter().collect();
    let mut answers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for question in questions {
        let path = text(&question["path"]);
        if let Some(why) = &why {
            assert!(
                why.contains(&format!(
                    "{path}: is uncertain: it may or may not have happened."
                )),
                "{why}"
            );
        }
        let answer = if lines.contains(&path.replace('s', "line-")) {
            json!({"happened": true, "output": values(&path)})
        } else {
            json!({"not_done": "retry"})
        };
        answers.entry(answer.to_string()).or_default().push(path);
    }
    for (answer, paths) in answers {
        let glob = format!("{{{}}}", paths.join(","));
        lab.ravel(&["answer", "--all", &glob, "--json-value", &answer])
            .expect(0);
    }
}

/// One process: lets it settle a few steps, then kills it in the middle of whatever comes. True when the run was over.
fn kill_one(lab: &Lab, first: bool, dice: &mut Dice, settled: &mut BTreeSet<String>) -> bool {
    let mut process = if first {
        lab.start(&["run", "lines.yaml", "--json"])
    } else {
        lab.start(&["runs", "resume", "last", "--json", "--park"])
    };
    let enough = dice.below(SETTLED_MAX + 1);
    let mut seen = 0;
    let mut over = false;
    while seen < enough {
        let Some(event) = process.until(|_| true) else {
            break;
        };
        over |= event["output"]["done"] == true;
        if event["type"] == "settled" && event["path"] != "" {
            let path = text(&event["path"]);
            assert!(settled.insert(path.clone()), "{path} settled twice");
            seen += 1;
        } else if event["type"].is_null() {
            // The result: parked, or over.
            break;
        }
    }
    std::thread::sleep(Duration::from_micros(dice.below(DELAY_MAX_US)));
    process.kill();
    over
}

#[test]
fn two_hundred_kills_leave_every_line_exactly_once() {
    let calm = lab();
    calm.ravel(&["run", "lines.yaml", "-q"]).expect(0);
    let expected = calm.outcome("last");
    let value = |path: &str| {
        let found = expected.iter().find(|(known, _, _)| known == path).unwrap();
        found.2.clone()
    };

    let lab = lab();
    let mut dice = Dice(0x5eed);
    let mut settled: BTreeSet<String> = BTreeSet::new();
    let (mut kills, mut asked) = (0, 0);
    while kills < KILLS {
        let over = kill_one(&lab, kills == 0, &mut dice, &mut settled);
        assert!(!over, "the run was over after {kills} kills");
        if kills == 0 && lab.newest().is_null() {
            // Killed before the start was acknowledged: nothing happened, begin again.
            assert_eq!(lines(&lab), Vec::<String>::new());
            continue;
        }
        kills += 1;
        answer_truthfully(&lab, &value, &mut asked);
    }
    assert!(asked > 0, "no kill fell between a start and its end");
    // The end, undisturbed.
    loop {
        let done = lab.ravel(&["runs", "resume", "last", "--park", "-q"]);
        if done.code == 0 {
            break;
        }
        done.expect(4);
        answer_truthfully(&lab, &value, &mut asked);
    }
    assert_eq!(lines(&lab), lines(&calm));
    let outcome = lab.outcome("last");
    assert_eq!(outcome.len(), expected.len());
    let differing: Vec<_> = outcome
        .into_iter()
        .zip(expected.clone())
        .filter(|(one, other)| one != other)
        .collect();
    assert_eq!(differing, []);
    assert_eq!(
        lab.ravel(&["replay", "last", "--json"]).expect(0).json()["ok"],
        true
    );
}
