//! Many runs at once: parked by the thousand, killed, woken, killed again.
//!
//! The binary has no server, so this row runs the engine that is in it in a process of the harness: the same store, the same
//! executors, owning every run that nobody owns. Everything else is the binary's: questions are listed, explained and
//! answered by it.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ravel_core::graph::Graph;
use ravel_core::lang::Bundle;
use ravel_core::port::RunState;
use ravel_core::port_store::{Filter, Inbox as _, Listing as _, Message};
use ravel_core::run::{SharedTerms, Terms};
use ravel_core::value::Val;
use ravel_engine::{Config, Engine, Graphs, Limits, StartRequest, SystemClock};
use ravel_io::LocalExecutor;
use ravel_store::Sqlite;
use serde_json::json;

use crate::figures::{Figures, print};
use crate::lab::{Dice, text};
use crate::life::{Life, pause};
use crate::world::{Class, Effect, Way};

/// What makes this program the process that serves.
pub(crate) const FLAG: &str = "--herd";
/// Runs for each kill.
const RUNS_A_KILL: usize = 50;
/// Starts that are on their way at once.
const STARTS_AT_ONCE: usize = 500;
/// From the start of a herd to the time at which the first run wakes up: all are parked by then, and how much later the
/// next one does.
const PARKED_MS: u64 = 1_500;
const PARKED_US_A_RUN: u64 = 1_500;
const APART_MS: usize = 10;
/// Between two looks at what is left.
const BEAT: Duration = Duration::from_millis(20);
/// The longest that a herd may take to wake up.
const PATIENCE: Duration = Duration::from_secs(120);
/// Questions for which `runs why` is read, and that the binary answers.
const WHY_READ_MAX: usize = 10;

/// All runs have one graph.
struct One(Arc<Graph>);

impl Graphs for One {
    fn graph(&self, _hash: &str) -> Result<Arc<Graph>, String> {
        Ok(self.0.clone())
    }
}

/// The process that serves: starts so many runs, then goes on with all until nothing but people can.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let [store, flow, count, wake] = arguments else {
        return ExitCode::FAILURE;
    };
    let flow = std::fs::read_to_string(flow).unwrap();
    let bundle = Bundle::from_text("herd.yaml", &flow).unwrap();
    let graph = Arc::new(bundle.compile().unwrap());
    let text: Arc<str> = serde_json::to_string(&bundle).unwrap().into();
    let store = Arc::new(Sqlite::open(store).unwrap());
    let work = store.path().parent().unwrap().join("work");
    let executor = LocalExecutor::new(ravel_io::Config::new(work).unwrap()).unwrap();
    let engine = Engine::open(Config {
        store: store.clone(),
        executor: Arc::new(executor),
        clock: Arc::new(SystemClock::new()),
        graphs: Arc::new(One(graph.clone())),
        limits: Limits::default(),
        serve: true,
    })
    .unwrap();
    let wake: Timestamp = wake.parse().unwrap();
    let all: Vec<usize> = (0..count.parse().unwrap()).collect();
    for some in all.chunks(STARTS_AT_ONCE) {
        let terms: SharedTerms = Terms::default().into();
        let begin = |number: &usize| {
            let wake = wake + Duration::from_millis((number * APART_MS) as u64);
            engine.begin(StartRequest {
                graph: graph.clone(),
                bundle: text.clone(),
                input: Val::new(json!({"n": number, "wake": wake.to_string()})),
                terms: terms.clone(),
                start_key: None,
                run: Some(id(*number)),
            })
        };
        let begun: Vec<_> = some.iter().map(begin).collect();
        begun
            .into_iter()
            .for_each(|start| drop(start.wait().unwrap()));
    }
    print("parked\n");
    loop {
        let runs = store.runs(&Filter::default()).unwrap();
        let live = || runs.iter().filter(|run| !run.state.is_final());
        let asked = store.questions(None).unwrap().len();
        // An answer that waits to be taken in is something to do.
        if live().count() == asked && live().all(|run| store.waiting(&run.run).unwrap().is_empty())
        {
            print("at rest\n");
            return ExitCode::SUCCESS;
        }
        std::thread::sleep(BEAT);
    }
}

/// Such an id begins others: 1 and 10.
fn id(number: usize) -> Arc<str> {
    format!("herd-{number}").into()
}

const fn effect(number: usize) -> Effect {
    Effect {
        index: number,
        class: Class::Once,
        way: Way::Http,
    }
}

/// A herd, its store and the flow of its runs.
struct Herd {
    life: Life,
    flow: PathBuf,
    count: usize,
    wake: Timestamp,
}

impl Herd {
    fn new(count: usize) -> Self {
        let mut life = Life::new();
        life.world.open();
        std::fs::create_dir(life.lab.path().join(".ravel")).unwrap();
        let parked = Duration::from_millis(PARKED_MS)
            + Duration::from_micros(PARKED_US_A_RUN * count as u64);
        let address = life.world.address();
        let flow = format!(
            "ravel: 1\nname: herd\ninput: {{ n: integer, wake: string }}\nsteps:\n  - nap: {{ wait: {{ until: \"{{{{ input.wake }}}}\" }} }}\n  \
             - post: {{ tool: http.post, with: {{ url: \"http://{address}/s{{{{ input.n }}}}\" }}, effect: once }}\n"
        );
        life.lab.write("herd.yaml", &flow);
        life.figures.steps = count;
        Self {
            flow: life.lab.path().join("herd.yaml"),
            life,
            count,
            wake: Timestamp::now() + parked,
        }
    }

    fn process(&self, starts: usize) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .arg(FLAG)
            .arg(self.store())
            .arg(&self.flow)
            .arg(starts.to_string())
            .arg(self.wake.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn store(&self) -> PathBuf {
        self.life.lab.path().join(".ravel/ravel.db")
    }

    fn seen(&self) -> usize {
        self.life.world.counts().len()
    }

    /// Waits until so many effects were seen, or the process has ended.
    fn until_seen(&self, process: &mut Child, wanted: usize) {
        let began = Instant::now();
        while self.seen() < wanted && process.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "{} of {wanted}", self.seen());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self, mut process: Child) {
        let _ = process.kill();
        let _ = process.wait();
        self.life.figures.kills += 1;
    }

    /// Answers every question as whoever looks at the server: the first ones by the binary, the others as it does.
    fn answer(&mut self) -> bool {
        let store = Sqlite::open(self.store()).unwrap();
        let life = &mut self.life;
        life.world.settle(0);
        let listed = life.ravel(&["answer", "--list", "--json"]).expect(0).json();
        let questions = listed["questions"].as_array().unwrap().clone();
        for (place, question) in questions.iter().enumerate() {
            let run = text(&question["run"]);
            life.figures.uncertain += 1;
            if place < WHY_READ_MAX {
                let why = life.ravel(&["runs", "why", &run]).expect(0).out;
                let named = why.contains("post: is uncertain: it may or may not have happened.");
                life.figures.unnamed += usize::from(!named);
            }
            let effect = effect(run["herd-".len()..].parse().unwrap());
            let answer = if life.world.has(effect) {
                json!({"happened": true, "output": effect.value()})
            } else {
                json!({"not_done": "retry"})
            };
            let id = text(&question["id"]);
            if place < WHY_READ_MAX {
                let value = answer.to_string();
                life.ravel(&["answer", &id, "--json-value", &value])
                    .expect(0);
            } else {
                let message = Message::Answer {
                    question: id.into(),
                    value: Val::new(answer),
                    by: None,
                };
                store.post(&run, 0, &message).unwrap();
            }
        }
        !questions.is_empty()
    }
}

pub(crate) fn row(kills: usize, dice: &mut Dice) -> Figures {
    let mut herd = Herd::new(kills * RUNS_A_KILL);
    let mut parked = herd.process(herd.count);
    let mut line = String::new();
    let mut lines = BufReader::new(parked.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "parked\n");
    herd.kill(parked);
    for kill in 1..kills {
        let before = herd.seen();
        let began = Instant::now();
        let mut process = herd.process(0);
        herd.life.figures.restarts += 1;
        herd.until_seen(&mut process, before + 1);
        // The first one waits for the clock.
        if kill > 1 && herd.seen() > before {
            herd.life.figures.recoveries.push(began.elapsed());
        }
        let more = usize::try_from(dice.below(RUNS_A_KILL as u64)).unwrap();
        herd.until_seen(&mut process, before + more);
        pause(dice, 3_000);
        herd.kill(process);
    }
    loop {
        let process = herd.process(0);
        herd.life.figures.restarts += 1;
        let output = process.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        if !herd.answer() {
            break;
        }
    }
    let store = Sqlite::open(herd.store()).unwrap();
    let mut others = store.runs(&Filter::default()).unwrap();
    others.retain(|run| run.state != RunState::Succeeded);
    assert_eq!(others, []);
    let account = herd.life.world.account((0..herd.count).map(effect));
    herd.life.figures.add(account);
    herd.life.figures
}
