//! The rows: what is done to the engine in each, and how it goes on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::damage;
use crate::figures::Figures;
use crate::herd;
use crate::lab::Dice;
use crate::life::{Life, Process, pause};

/// Kills in one life: more begin another, so that logs stay as long as they are in use.
const KILLS_OF_A_LIFE_MAX: usize = 40;
/// Chains of steps that run beside each other.
const CHAINS: usize = 3;
/// Chains among which the kinds of effects are spread evenly.
const MIXED_CHAINS: usize = 5;
/// Children that are killed before the engine is stopped and its questions are answered.
const CHILDREN_A_STOP: usize = 3;
/// Steps for each kill: more than settle between two kills on average.
const STEPS_A_KILL: usize = 4;
/// Steps that are left after the last kill.
const STEPS_LEFT: usize = 6;
/// Longest time between the start of a process and a kill that meets its recovery, µs.
const RECOVERY_MAX_US: u64 = 200_000;
/// Longest life of a step's process, µs.
const LINGERS_US: u64 = 70_000;
/// Items of the step that commits much, and the text of each.
const BALLAST_ITEMS: usize = 150;
const BALLAST_BYTES: usize = 20_000;
/// Processes that want the same run at once.
const RACERS: usize = 3;
/// Size of the disk that is filled.
const DISK_BYTES: usize = 4 << 20;
/// Least and most space that is left on it.
const LEFT_BYTES: (u64, u64) = (4 << 10, 160 << 10);

/// A row of the matrix.
pub(crate) struct Row {
    /// Its name in the table.
    pub(crate) name: &'static str,
    /// The fact that its test states.
    pub(crate) fact: &'static str,
    /// Kills of the quick version.
    pub(crate) quick: usize,
    pub(crate) run: fn(usize, &mut Dice) -> Figures,
}

pub(crate) const ROWS: &[Row] = &[
    Row {
        name: "engine killed",
        fact: "a_killed_engine_repeats_and_loses_no_effect",
        quick: 6,
        run: engine_killed,
    },
    Row {
        name: "child killed",
        fact: "a_killed_child_of_a_step_is_repeated_where_it_may_be_and_asked_about_where_not",
        quick: 4,
        run: child_killed,
    },
    Row {
        name: "engine, supervisor and child killed at once",
        fact: "an_engine_that_is_killed_with_its_children_repeats_and_loses_no_effect",
        quick: 4,
        run: all_killed,
    },
    Row {
        name: "killed while it commits much",
        fact: "a_kill_between_big_commits_repeats_and_loses_no_effect",
        quick: 4,
        run: commits_killed,
    },
    Row {
        name: "killed again while it recovers",
        fact: "a_kill_during_recovery_repeats_and_loses_no_effect",
        quick: 6,
        run: recovery_killed,
    },
    Row {
        name: "one of two engines on a store killed",
        fact: "a_killed_engine_leaves_the_other_one_on_its_store_alone",
        quick: 4,
        run: one_of_two_killed,
    },
    Row {
        name: "engines race for one run",
        fact: "of_engines_that_race_for_a_run_one_gets_it",
        quick: 3,
        run: racing,
    },
    Row {
        name: "parked runs woken after a kill",
        fact: "parked_runs_that_are_woken_after_a_kill_have_each_effect_once",
        quick: 2,
        run: herd::row,
    },
    Row {
        name: "disk full, then freed",
        fact: "a_full_disk_stops_the_engine_and_nothing_is_lost_when_there_is_room_again",
        quick: 4,
        run: disk_full,
    },
    Row {
        name: "store read-only, then writable",
        fact: "a_read_only_store_is_refused_before_anything_happens",
        quick: 2,
        run: read_only,
    },
    Row {
        name: "database cut off",
        fact: "a_database_that_is_cut_off_is_refused_and_repaired_and_repeats_nothing_by_itself",
        quick: 2,
        run: |blows, dice| damage::row(blows, dice, damage::cut_off),
    },
    Row {
        name: "bit flipped in the database",
        fact: "a_flipped_bit_in_the_database_repeats_nothing_by_itself",
        quick: 2,
        run: |blows, dice| damage::row(blows, dice, damage::flip_in_database),
    },
    Row {
        name: "page of the database lost",
        fact: "a_lost_page_of_the_database_repeats_nothing_by_itself",
        quick: 2,
        run: |blows, dice| damage::row(blows, dice, damage::lose_page),
    },
    Row {
        name: "bit flipped in the write-ahead log",
        fact: "a_flipped_bit_in_the_write_ahead_log_repeats_nothing_by_itself",
        quick: 2,
        run: |blows, dice| damage::row(blows, dice, damage::flip_in_log),
    },
];

/// Spreads kills over lives.
fn lives(kills: usize, dice: &mut Dice, live: impl Fn(usize, &mut Dice) -> Figures) -> Figures {
    let mut all = Figures::default();
    let mut left = kills;
    while left > 0 {
        let now = left.min(KILLS_OF_A_LIFE_MAX);
        all.merge(live(now, dice));
        left -= now;
    }
    all
}

const fn steps(kills: usize) -> usize {
    kills * STEPS_A_KILL + STEPS_LEFT
}

fn engine_killed(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let flow = life.flow(steps(kills), CHAINS);
        life.killed(flow, kills, dice, &Life::kill_somewhere);
        life.end()
    })
}

/// The process of a step that lives now, and its supervisor.
fn family(life: &Life) -> Vec<u32> {
    let Some(pid) = life.world.last_process() else {
        return Vec::new();
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat
        .rsplit_once(") ")
        .filter(|(_, rest)| !rest.starts_with(['Z', 'X']))
        .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
    // An orphan belongs to init, or to whoever stands in for it: never to be killed.
    let comes_from_us = |parent: &u32| {
        std::fs::read_to_string(format!("/proc/{parent}/cmdline"))
            .is_ok_and(|line| line.contains("ravel"))
    };
    match parent.filter(comes_from_us) {
        Some(parent) => vec![pid, parent],
        None => Vec::new(),
    }
}

fn kill(pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    // One that has ended meanwhile is no failure.
    let _ = Command::new("kill")
        .arg("-KILL")
        .args(pids)
        .stderr(Stdio::null())
        .status();
}

fn child_killed(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let flow = life.flow_with(steps(kills), MIXED_CHAINS, true, "");
        let mut left = kills;
        let mut killed = None;
        while left > 0 {
            let mut process = life.process(flow);
            let stop_at = left.saturating_sub(CHILDREN_A_STOP);
            while left > stop_at && !process.is_over {
                life.let_go(&mut process, 1);
                pause(dice, LINGERS_US);
                // One that was killed may still be seen.
                let child = family(&life).first().copied();
                if let Some(child) = child.filter(|child| killed != Some(*child)) {
                    kill(&[child]);
                    killed = Some(child);
                    left -= 1;
                    life.figures.kills += 1;
                }
            }
            if !process.is_over {
                // As Ctrl-C does: what was asked meanwhile is answered before it goes on.
                process.going.signal("INT");
                life.let_go(&mut process, u64::MAX);
            }
            drop(process.going.end());
            life.answer(flow);
            if life.is_over(flow) {
                break;
            }
        }
        life.end()
    })
}

fn all_killed(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let flow = life.flow_with(steps(kills), CHAINS, true, "");
        life.killed(flow, kills, dice, &|life, mut process, dice| {
            life.let_go(&mut process, dice.below(3));
            pause(dice, LINGERS_US);
            kill(&family(life));
            process.going.kill();
            life.figures.kills += 1;
        });
        life.end()
    })
}

fn commits_killed(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let text = "abcdefghij".repeat(BALLAST_BYTES / 10);
        let ballast = format!(
            "  ballast: {{ for_each: \"{{{{ range({BALLAST_ITEMS}) | list }}}}\", parallel: 8, steps: {{ \
             one: {{ tool: debug.echo, with: {{ text: \"{{{{ item }}}} {text}\" }} }} }} }}\n"
        );
        let flow = life.flow_with(steps(kills), CHAINS, false, &ballast);
        life.killed(flow, kills, dice, &|life, mut process, dice| {
            life.let_go(&mut process, 1 + dice.below(20));
            pause(dice, 2_000);
            process.going.kill();
            life.figures.kills += 1;
        });
        life.end()
    })
}

fn recovery_killed(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let flow = life.flow(steps(kills), CHAINS);
        let process = life.process(flow);
        life.kill_somewhere(process, dice);
        let again = |life: &mut Life, mut process: Process, dice: &mut Dice| {
            if dice.below(3) == 0 {
                // Something new is under way for the next recovery.
                return life.kill_somewhere(process, dice);
            }
            pause(dice, RECOVERY_MAX_US);
            process.going.kill();
            life.figures.kills += 1;
        };
        life.killed(flow, kills.saturating_sub(1), dice, &again);
        life.end()
    })
}

fn one_of_two_killed(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let flows = [0, 1].map(|_| life.flow(steps(kills), CHAINS));
        let mut processes = flows.map(|flow| Some(life.process(flow)));
        for _ in 0..kills {
            let victim = usize::try_from(dice.below(2)).unwrap();
            let process = processes[victim].take();
            let process = process.unwrap_or_else(|| life.process(victim));
            life.kill_somewhere(process, dice);
            life.answer(flows[victim]);
            if !life.is_over(victim) {
                processes[victim] = Some(life.process(victim));
            }
        }
        for mut process in processes.into_iter().flatten() {
            life.let_go(&mut process, u64::MAX);
            let done = process.going.end();
            assert!([0, 4].contains(&done.code), "{done:?}");
        }
        flows.iter().for_each(|flow| life.answer(*flow));
        life.end()
    })
}

fn racing(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let flow = life.flow(steps(kills), CHAINS);
        for _ in 0..kills {
            let racers: Vec<Process> = (0..RACERS).map(|_| life.process(flow)).collect();
            pause(dice, RECOVERY_MAX_US);
            for racer in racers {
                pause(dice, RECOVERY_MAX_US);
                racer.going.signal("KILL");
                let done = racer.going.end();
                life.figures.kills += 1;
                // Whoever did not get the run has ended by itself; -1 was killed.
                assert!([-1, 0, 4, 7].contains(&done.code), "{done:?}");
            }
            life.answer(flow);
            if life.is_over(flow) {
                break;
            }
        }
        life.end()
    })
}

/// A disk of its own, of memory. Gone when it is dropped.
struct Disk {
    path: PathBuf,
}

impl Disk {
    /// `None` where this process may not mount.
    fn new(folder: &Path) -> Option<Self> {
        let path = folder.join("disk");
        std::fs::create_dir(&path).unwrap();
        let size = format!("size={DISK_BYTES}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(&path)
            .stderr(Stdio::null())
            .status();
        let disk = mounted.is_ok_and(|status| status.success());
        disk.then_some(Self { path })
    }

    fn remount(&self, mode: &str) {
        let mode = format!("remount,{mode}");
        let done = Command::new("mount")
            .args(["-o", &mode])
            .arg(&self.path)
            .status();
        assert!(done.unwrap().success());
    }

    /// Fills the disk and leaves about so much.
    fn fill(&self, left: u64) {
        let path = self.path.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        let block = [0_u8; 4096];
        let mut filled = 0;
        while std::io::Write::write_all(&mut file, &block).is_ok() {
            filled += 4096_u64;
        }
        file.set_len(filled.saturating_sub(left)).unwrap();
    }

    fn empty(&self) {
        let _ = std::fs::remove_file(self.path.join("filler"));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

/// What a row says that needs a disk of its own and may not have one.
fn no_disk() -> Figures {
    Figures {
        note: "skipped: this user may not mount a disk".to_owned(),
        ..Figures::default()
    }
}

/// Keeps the store of a life on a disk; what processes write stays outside, so that only the store meets its end.
fn on_a_disk(life: &mut Life) -> Option<Disk> {
    let disk = Disk::new(&life.lab.path())?;
    let work = life.lab.path().join("outside");
    std::fs::create_dir(&work).unwrap();
    std::os::unix::fs::symlink(&work, disk.path.join("work")).unwrap();
    life.store_at(disk.path.join("ravel.db"));
    Some(disk)
}

fn disk_full(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let Some(disk) = on_a_disk(&mut life) else {
            return no_disk();
        };
        let flow = life.flow(steps(kills), CHAINS);
        let process = life.process(flow);
        life.kill_somewhere(process, dice);
        life.answer(flow);
        let mut tries = kills * 2;
        while life.figures.kills <= kills && tries > 0 {
            tries -= 1;
            disk.fill(LEFT_BYTES.0 + dice.below(LEFT_BYTES.1));
            let mut process = life.process(flow);
            life.let_go(&mut process, u64::MAX);
            let done = process.going.end();
            disk.empty();
            if done.code == 5 {
                life.figures.kills += 1;
                let said = ["no space left", "no space is left"];
                let is_said = said.iter().any(|text| done.err.contains(text));
                assert!(is_said, "{}", done.err);
            } else {
                assert!([0, 4].contains(&done.code), "{done:?}");
            }
            life.answer(flow);
            if life.is_over(flow) {
                break;
            }
        }
        life.end()
    })
}

fn read_only(kills: usize, dice: &mut Dice) -> Figures {
    lives(kills, dice, |kills, dice| {
        let mut life = Life::new();
        let Some(disk) = on_a_disk(&mut life) else {
            return no_disk();
        };
        let flow = life.flow(steps(kills), CHAINS);
        for _ in 0..kills {
            let process = life.process(flow);
            life.kill_somewhere(process, dice);
            life.answer(flow);
            let Some(run) = life.run_of(flow) else {
                continue;
            };
            disk.remount("ro");
            let before = life.world.counts();
            for command in [
                &["runs", "resume", &run][..],
                &["runs"],
                &["runs", "why", &run],
            ] {
                let refused = life.ravel(command).expect(5);
                let said = "is on a file system that is mounted read-only";
                assert!(refused.err.contains(said), "{}", refused.err);
            }
            assert_eq!(life.world.counts(), before);
            disk.remount("rw");
        }
        life.end()
    })
}
