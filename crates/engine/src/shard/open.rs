//! Runs that come into memory: resumed, adopted, forked, or back from being parked.
//!
//! Recovery: the log is folded, `Recovered(epoch)` records the attempts that are lost, messages that came while nobody
//! was there and timers that became due are merged **by time** (an answer given before its deadline counts, also when
//! both are in the past), and then what must be under way is.

use std::sync::Arc;

use ravel_core::effect::Millis;
use ravel_core::event::Input;

use super::Shard;
use super::live::{Live, Place, Told, Waking, in_order_of_time};
use super::route::handle;
use crate::error::EngineError;
use crate::message::{Answer, Ending, Letter, Opened, Out, RunKey, Sender, Ticket, Wish};

impl Shard {
    pub(super) fn resume(&mut self, ticket: Option<Ticket>, run: Arc<str>, out: &mut Vec<Out>) {
        if let Some(stopping) = &self.stopping {
            let why = stopping.why.clone();
            out.extend(ticket.map(|ticket| Out::Answer {
                ticket,
                answer: Err(EngineError::Stopped { why }),
            }));
            return;
        }
        let key = if let Some(key) = self.by_id.get(&run).copied() {
            if matches!(self.place(key), Place::Parked(_)) && ticket.is_some() {
                self.wake(key, out);
            }
            key
        } else {
            let key = self.admit(
                Arc::clone(&run),
                Place::Waking(Box::new(Waking::new(Arc::clone(&run), None))),
            );
            out.push(Out::Open {
                key,
                run,
                owner: None,
            });
            key
        };
        if let Some(ticket) = ticket {
            self.tell(key, Told::Run(ticket), out);
        }
    }

    /// Asks for a parked run to be brought back.
    pub(super) fn wake(&mut self, key: RunKey, out: &mut Vec<Out>) {
        let Place::Parked(parked) = self.place(key) else {
            return;
        };
        let (run, owner) = (Arc::clone(&parked.run), parked.owner.clone());
        let start_key = parked.start_key.take();
        self.replace(
            key,
            Place::Waking(Box::new(Waking::new(Arc::clone(&run), start_key))),
        );
        out.push(Out::Open {
            key,
            run,
            owner: Some(owner),
        });
    }

    pub(super) fn opened(
        &mut self,
        now: Millis,
        key: RunKey,
        opened: Result<Box<Opened>, EngineError>,
        out: &mut Vec<Out>,
    ) {
        if self.tenant(key.slot) != Some(key) || !matches!(self.place(key), Place::Waking(_)) {
            return;
        }
        let opened = match opened {
            Ok(opened) => *opened,
            Err(why) => {
                self.drop_run(key, &why, out);
                return;
            }
        };
        let Opened {
            run,
            owner,
            claimed,
            start_key,
            rows,
        } = opened;
        let mut live = Live::new(run, owner, now);
        live.created = true;
        live.open = live
            .run
            .questions()
            .into_iter()
            .map(|question| question.id)
            .collect();
        let Place::Waking(waking) = self.replace(key, Place::Live(Box::new(live))) else {
            return;
        };
        if let Some(live) = self.live_mut(key) {
            live.start_key = if claimed {
                start_key
            } else {
                waking.start_key.clone()
            };
        }
        if self.end_if_over(key, &waking.resumed, out) {
            return;
        }
        // Rows that were seen while the run was on its way are among `rows`, or come again.
        let (letters, local): (Vec<_>, Vec<_>) = waking
            .letters
            .into_iter()
            .partition(|(sender, _, _)| matches!(sender, Sender::Row(_)));
        let rows = with_rows_seen(rows, letters);
        if let Some(live) = self.live_mut(key) {
            live.last_row = rows.iter().map(|letter| letter.row).max().unwrap_or(0);
            live.pending
                .told
                .extend(waking.resumed.into_iter().map(Told::Run));
        }
        if claimed {
            self.recover(now, key, rows, out);
        } else {
            self.rejoin(now, key, rows, out);
        }
        self.tell_if_nothing_waits(key, out);
        for (sender, _, wish) in local {
            self.take_in(now, key, sender, wish, out);
        }
        for ticket in waking.paused {
            self.begin_pause(now, key, Sender::Caller(ticket), out);
        }
        self.rest_if_quiet(now, key);
    }

    /// Nothing had to be recorded: whoever waits for the run to be here is told now.
    fn tell_if_nothing_waits(&mut self, key: RunKey, out: &mut Vec<Out>) {
        let Some(live) = self
            .live_mut(key)
            .filter(|live| live.pending.turns.is_empty())
        else {
            return;
        };
        for told in std::mem::take(&mut live.pending.told) {
            self.tell(key, told, out);
        }
    }

    /// A run that was over already has nothing to resume.
    fn end_if_over(&mut self, key: RunKey, resumed: &[Ticket], out: &mut Vec<Out>) -> bool {
        let Some(live) = self.live_mut(key) else {
            return true;
        };
        if !live.run.is_final() {
            return false;
        }
        let mut summary = live.run.summary();
        summary.start_key.clone_from(&live.start_key);
        let run = Arc::clone(live.run.id());
        let answers = resumed
            .iter()
            .map(|ticket| (*ticket, Ok(Answer::Run(Arc::clone(&run)))));
        out.extend(answers.map(|(ticket, answer)| Out::Answer { ticket, answer }));
        self.end(key, Ending::Final(Box::new(summary)), out);
        true
    }

    /// A run under a new owner: see the module.
    pub(super) fn recover(
        &mut self,
        now: Millis,
        key: RunKey,
        rows: Vec<Letter>,
        out: &mut Vec<Out>,
    ) {
        let rows = in_order_of_time(rows, now);
        let Some(live) = self.live_mut(key) else {
            return;
        };
        let epoch = live.owner.epoch;
        // The run's own time never goes back, so what is merged must not be behind the record of the recovery. Nothing
        // starts in that past: an attempt's timeout counts from when it really leaves.
        let at = rows.first().map_or(now, |letter| letter.at);
        let merges = !rows.is_empty();
        live.run.set_hold(merges);
        if !self.apply_quietly(at, key, Input::Recovered { epoch }, out) {
            return;
        }
        for letter in rows {
            self.tick_quietly_until(letter.at, key, out);
            self.take_in_quietly(letter, now, key, out);
        }
        if merges {
            if let Some(live) = self.live_mut(key) {
                live.run.set_hold(false);
            }
            if !self.apply_quietly(now, key, Input::Recovered { epoch }, out) {
                return;
            }
        }
        self.carry_on(now, key, out);
        self.tick_if_due(now, key);
    }

    /// Puts under way what must be: nothing of the run is yet.
    pub(super) fn carry_on(&mut self, now: Millis, key: RunKey, out: &mut Vec<Out>) {
        let Some(live) = self.live_mut(key) else {
            return;
        };
        for command in live.run.outstanding() {
            self.command(now, key, command, out);
        }
    }

    /// A run that comes back from being parked under the same owner: nothing was lost.
    fn rejoin(&mut self, now: Millis, key: RunKey, rows: Vec<Letter>, out: &mut Vec<Out>) {
        self.carry_on(now, key, out);
        for letter in in_order_of_time(rows, now) {
            if self
                .live_mut(key)
                .and_then(|live| live.run.wake_at())
                .is_some_and(|at| at < letter.at)
            {
                self.work.push_back((key, Input::Tick));
                self.drain_work(letter.at, out);
            }
            self.take_in(letter.at, key, Sender::Row(letter.row), letter.wish, out);
        }
        self.tick_if_due(now, key);
    }

    fn tick_if_due(&mut self, now: Millis, key: RunKey) {
        if self
            .live_mut(key)
            .and_then(|live| live.run.wake_at())
            .is_some_and(|at| at <= now)
        {
            self.work.push_back((key, Input::Tick));
        }
    }

    /// Fires the timers that became due before `until`, each at its own time.
    fn tick_quietly_until(&mut self, until: Millis, key: RunKey, out: &mut Vec<Out>) {
        let mut last = None;
        while let Some(at) = self.live_mut(key).and_then(|live| live.run.wake_at())
            && at < until
            && last < Some(at)
        {
            last = Some(at);
            if !self.apply_quietly(at, key, Input::Tick, out) {
                return;
            }
        }
    }

    /// Records an input. Its commands are not carried out: `outstanding` says them when all is merged. False: the run
    /// is gone.
    fn apply_quietly(&mut self, at: Millis, key: RunKey, input: Input, out: &mut Vec<Out>) -> bool {
        let Some(live) = self.live_mut(key) else {
            return false;
        };
        match handle(&mut live.run, at, input) {
            Ok(handled) => {
                self.record(at, key, handled.turn);
                true
            }
            Err(reject) => {
                let run = Arc::clone(live.run.id());
                let message = format!("it refused its recovery: {}", reject.message);
                self.drop_run(key, &EngineError::Broken { run, message }, out);
                false
            }
        }
    }

    fn take_in_quietly(&mut self, letter: Letter, now: Millis, key: RunKey, out: &mut Vec<Out>) {
        let Letter { row, at, wish } = letter;
        let Wish::Input(input) = wish else {
            self.take_in(now, key, Sender::Row(row), wish, out);
            return;
        };
        let Some(live) = self.live_mut(key) else {
            return;
        };
        let reply = match handle(&mut live.run, at, *input) {
            Ok(handled) => {
                let turn = live.run.last_turn();
                self.record(at, key, handled.turn);
                ravel_core::port_store::Reply::Accepted { turn }
            }
            Err(reject) => ravel_core::port_store::Reply::Rejected {
                code: reject.code.to_owned(),
                message: reject.message,
            },
        };
        self.reply(key, Sender::Row(row), reply, out);
    }
}

/// Rows from the store and rows seen meanwhile, each once.
fn with_rows_seen(mut rows: Vec<Letter>, seen: Vec<(Sender, Millis, Wish)>) -> Vec<Letter> {
    for (sender, at, wish) in seen {
        let Sender::Row(row) = sender else { continue };
        if rows.iter().all(|letter| letter.row != row) {
            rows.push(Letter { row, at, wish });
        }
    }
    rows
}
