//! Messages of people and other programs, and time's passing for a run.

use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::event::Input;
use ravel_core::port_store::Reply;

use super::Shard;
use super::live::{Place, Told};
use crate::error::EngineError;
use crate::limits::Limits;
use crate::message::{Out, RunKey, Sender, Wish};

impl Shard {
    pub(super) fn posted(
        &mut self,
        now: Millis,
        from: Sender,
        run: Arc<str>,
        at: Millis,
        wish: Wish,
        out: &mut Vec<Out>,
    ) {
        let Some(key) = self.by_id.get(&run).copied() else {
            // A row of a run that is not here stays for its owner.
            if let Sender::Caller(ticket) = from {
                out.push(Out::Answer {
                    ticket,
                    answer: Err(EngineError::UnknownRun { run }),
                });
            }
            return;
        };
        if matches!(self.place(key), Place::Parked(_)) {
            self.wake(key, out);
        }
        let most = self.limits.waking_messages;
        match self.place(key) {
            Place::Live(live) => {
                if let Sender::Row(row) = from {
                    if row <= live.last_row {
                        return;
                    }
                    live.last_row = row;
                }
                self.take_in(now, key, from, wish, out);
            }
            Place::Waking(waking) if waking.letters.len() < Limits::count(most) => {
                waking.letters.push((from, at, wish));
            }
            // A row that does not fit now is read again when the run is opened.
            Place::Waking(_) => {
                if let Sender::Caller(ticket) = from {
                    let answer = Err(EngineError::Overloaded {
                        limit: "waking_messages",
                        value: most,
                    });
                    out.push(Out::Answer { ticket, answer });
                }
            }
            Place::Parked(_) | Place::Vacant => {}
        }
    }

    /// A live run takes a message in.
    pub(super) fn take_in(
        &mut self,
        now: Millis,
        key: RunKey,
        from: Sender,
        wish: Wish,
        out: &mut Vec<Out>,
    ) {
        let reply = match wish {
            Wish::Pause => {
                self.begin_pause(now, key, from, out);
                return;
            }
            Wish::Refused { code, message } => Reply::Rejected { code, message },
            Wish::Input(input) => self.reply_of(now, key, *input, out),
        };
        self.reply(key, from, reply, out);
    }

    /// What the run says to an input.
    pub(super) fn reply_of(
        &mut self,
        now: Millis,
        key: RunKey,
        input: Input,
        out: &mut Vec<Out>,
    ) -> Reply {
        match self.apply(now, key, input, out) {
            Ok(Some(turn)) => Reply::Accepted { turn },
            // Nothing to record: the same message came before.
            Ok(None) => Reply::Accepted {
                turn: self.live_mut(key).map_or(0, |live| live.run.last_turn()),
            },
            Err(reject) => Reply::Rejected {
                code: reject.code.to_owned(),
                message: reject.message,
            },
        }
    }

    /// Sends a reply when what it rests on is on disk.
    pub(super) fn reply(&mut self, key: RunKey, to: Sender, reply: Reply, out: &mut Vec<Out>) {
        match to {
            Sender::Caller(ticket) => self.tell(key, Told::Reply(ticket, reply), out),
            Sender::Row(row) => {
                let Some(live) = self.live_mut(key) else {
                    return;
                };
                if live.pending.turns.is_empty() {
                    self.settles.push((row, reply));
                } else {
                    live.pending.taken.push((row, reply));
                }
            }
        }
    }
}
