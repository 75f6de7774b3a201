//! The world outside of the engine: a server that counts requests by their `Idempotency-Key`, and files that processes
//! write lines to. Nothing that the engine says about its own effects is asked here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::lab::eventually;

/// Between the moment at which a request has taken effect and its answer: kills fall there.
const ANSWER_DELAY: Duration = Duration::from_millis(2);

/// What may be repeated, as the flow says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Once,
    Write,
    Read,
}

/// How an effect leaves the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Http,
    Process,
}

/// One step of a flow of effects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub(crate) index: usize,
    pub(crate) class: Class,
    pub(crate) way: Way,
}

impl Effect {
    /// The effect of a step: requests and processes in turn, each in the three classes.
    pub(crate) const fn of(index: usize) -> Self {
        let class = match index / 2 % 3 {
            0 => Class::Once,
            1 => Class::Write,
            _ => Class::Read,
        };
        let way = if index.is_multiple_of(2) {
            Way::Http
        } else {
            Way::Process
        };
        Self { index, class, way }
    }

    pub(crate) fn name(&self) -> String {
        format!("s{}", self.index)
    }

    /// What a person says that saw it happen.
    pub(crate) fn value(&self) -> Value {
        match self.way {
            Way::Http => json!({"status": 200, "headers": {}}),
            Way::Process => json!({"code": 0, "stdout": "", "stderr": "", "files": {}}),
        }
    }
}

/// How often an effect was seen.
#[derive(Clone, Debug, Default)]
struct Seen {
    times: usize,
    keys: BTreeSet<String>,
}

/// What the server knows. A connection that is open may still bring something.
#[derive(Debug, Default)]
struct Served {
    seen: BTreeMap<String, Seen>,
    open: usize,
}

/// Servers, one a flow, and a file. Names of effects are unique in a world.
pub(crate) struct World {
    servers: Vec<Server>,
    file: PathBuf,
}

struct Server {
    served: Arc<Mutex<Served>>,
    address: SocketAddr,
}

/// Sums over the effects of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// A `once` that was seen again, or a `write` under a second key.
    pub(crate) duplicated: usize,
    /// An effect that was not seen, of a step that succeeded.
    pub(crate) lost: usize,
    /// A `write` under its key, or a `read`, again: allowed.
    pub(crate) repeated: usize,
}

impl Server {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::<Mutex<Served>>::default();
        let state = served.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                state.lock().unwrap().open += 1;
                let state = state.clone();
                std::thread::spawn(move || {
                    // A client that is killed cuts its connection: that ends it, and nothing else.
                    let _ = serve(&stream, &state);
                    state.lock().unwrap().open -= 1;
                });
            }
        });
        Self { served, address }
    }
}

impl World {
    /// A world whose files are in this folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            servers: Vec::new(),
            file: folder.join("world"),
        }
    }

    /// Opens a server for another flow.
    pub(crate) fn open(&mut self) {
        self.servers.push(Server::new());
    }

    /// The address of the newest server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.servers.last().unwrap().address
    }

    /// The step that has this effect, on the newest server, as YAML without its name. A process that lingers can be
    /// killed before and after its effect; what may be repeated is then repeated.
    pub(crate) fn step(&self, effect: Effect, after: &str, lingers: bool) -> String {
        let Effect { class, way, .. } = effect;
        let name = effect.name();
        let (word, tool) = match class {
            Class::Once => ("once", "http.post"),
            Class::Write => ("write", "http.put"),
            Class::Read => ("read", "http.get"),
        };
        let what = match way {
            Way::Http => {
                let url = format!("http://{}/{name}", self.address());
                format!("tool: {tool}, with: {{ url: \"{url}\" }}")
            }
            Way::Process => {
                let file = self.file.display();
                // One write to a file that is appended to: lines of two processes never mix.
                let line = format!("echo {name} $RAVEL_KEY >> {file}");
                let script = if lingers {
                    format!("echo $$ >> {file}.pids; sleep 0.03; {line}; sleep 0.03")
                } else {
                    line
                };
                let retry = match class {
                    Class::Once => "",
                    Class::Write | Class::Read => {
                        ", retry: { attempts: 20, backoff: 1ms..5ms, errors: [crashed] }"
                    }
                };
                format!("run: \"{script}\", effect: {word}{retry}")
            }
        };
        format!("{{ {after}{what} }}")
    }

    /// The process that a lingering step began last.
    pub(crate) fn last_process(&self) -> Option<u32> {
        let mut path = self.file.clone().into_os_string();
        path.push(".pids");
        let pids = std::fs::read_to_string(path).unwrap_or_default();
        pids.lines().last().and_then(|pid| pid.parse().ok())
    }

    /// Waits until what was sent to a flow's server has arrived: its processes are gone.
    pub(crate) fn settle(&self, flow: usize) {
        eventually("the server is at rest", || {
            self.servers[flow].served.lock().unwrap().open == 0
        });
    }

    fn all(&self) -> BTreeMap<String, Seen> {
        let mut all: BTreeMap<String, Seen> = BTreeMap::new();
        for server in &self.servers {
            all.extend(server.served.lock().unwrap().seen.clone());
        }
        let lines = std::fs::read_to_string(&self.file).unwrap_or_default();
        for line in lines.lines() {
            let (name, key) = line.split_once(' ').unwrap_or((line, ""));
            let seen = all.entry(name.to_owned()).or_default();
            seen.times += 1;
            seen.keys.insert(key.to_owned());
        }
        all
    }

    /// True when this effect was seen.
    pub(crate) fn has(&self, effect: Effect) -> bool {
        self.all().contains_key(&effect.name())
    }

    /// How often each effect was seen, for comparing before and after.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let all = self.all().into_iter();
        all.map(|(name, seen)| (name, seen.times)).collect()
    }

    /// Adds up what was seen of these effects, each of a step that succeeded.
    pub(crate) fn account(&self, effects: impl Iterator<Item = Effect>) -> Account {
        (0..self.servers.len()).for_each(|flow| self.settle(flow));
        let all = self.all();
        let mut account = Account::default();
        for effect in effects {
            let Some(seen) = all.get(&effect.name()) else {
                account.lost += 1;
                continue;
            };
            let again = seen.times - 1;
            let keys_again = seen.keys.len() - 1;
            match effect.class {
                Class::Once => account.duplicated += again,
                Class::Write => {
                    account.duplicated += keys_again;
                    account.repeated += again - keys_again;
                }
                Class::Read => account.repeated += again,
            }
        }
        account
    }
}

/// Takes requests off a connection: each takes effect when it is whole, and is answered a little later.
fn serve(stream: &TcpStream, state: &Mutex<Served>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let name = path.trim_start_matches('/').to_owned();
        let (mut key, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (header, value) = line.split_once(':').unwrap_or((line, ""));
            match header.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.trim().to_owned(),
                "content-length" => length = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        {
            let mut served = state.lock().unwrap();
            let seen = served.seen.entry(name).or_default();
            seen.times += 1;
            seen.keys.insert(key);
        }
        std::thread::sleep(ANSWER_DELAY);
        let mut out = stream;
        out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
    }
}
