//! What expressions cost: `cargo run --release -p ravel-core --example expr_cost`.
#![expect(clippy::print_stdout, reason = "its output is its purpose")]
#![expect(
    clippy::disallowed_methods,
    reason = "it measures time; the core does not"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use ravel_core::expr::{Draws, Expr, Lookup, Mode, Scope, Template, ValueTemplate};
use ravel_core::value::Val;
use serde_json::{Value, json};

/// Steps of a flow by name, as a run's scope holds them.
struct Steps(Vec<(Arc<str>, Val)>);

impl Scope for Steps {
    fn lookup(&self, name: &str) -> Lookup {
        let found = self.0.iter().find(|(known, _)| **known == *name);
        found.map_or(Lookup::Unknown, |(_, value)| Lookup::Value(value.clone()))
    }
}

const ROUNDS: u32 = 20_000;
const REPEATS: u32 = 10;

/// The best of several repeats, because the machine is shared.
fn measure(name: &str, mut body: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..REPEATS {
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| body());
        best = best.min(start.elapsed().as_secs_f64() / f64::from(ROUNDS));
    }
    println!("{:9.3} µs  {name}", best * 1e6);
}

fn steps() -> Steps {
    let docs = (0..10_000).map(|id| json!({ "id": id, "text": "some text" }));
    let docs: Vec<Value> = docs.collect();
    Steps(vec![
        ("input".into(), Val::new(json!({ "docs": docs }))),
        (
            "classify".into(),
            Val::new(json!({ "team": "billing", "urgency": 4, "sure": true })),
        ),
        (
            "draft".into(),
            Val::new(json!({ "reply": "Dear Ada", "refund": 12.5 })),
        ),
        (
            "rows".into(),
            Val::new(json!([{ "id": 2, "team": "a" }, { "id": 1, "team": "b" }])),
        ),
    ])
}

fn main() {
    let scope = steps();
    for source in [
        "classify.team",
        "classify.sure",
        "classify.team == 'billing'",
        "classify.sure and draft.refund > 0 and classify.urgency >= 3",
        "input.docs[9999].id == 1",
        "draft.refund | default(0) > 10",
        "rows | sort_by('id') | map(attribute='team') | join(', ')",
        "input.docs | length",
    ] {
        let expr = Expr::parse(source).expect("the source is right");
        measure(source, || {
            black_box(
                expr.eval(&scope, &mut Draws::refuse())
                    .expect("it has a value"),
            );
        });
    }
    let text = "Which team owns this?\n{{ draft.reply }}\nRefund {{ draft.refund }} for {{ classify.team }}.";
    let template = Template::parse(text, Mode::Text).expect("the text is right");
    measure("a prompt with three values", || {
        black_box(
            template
                .render(&scope, &mut Draws::refuse())
                .expect("it renders"),
        );
    });
    let value = json!({
        "ticket": "{{ classify.team }}",
        "amount": "{{ draft.refund }}",
        "note": "for {{ draft.reply }}",
    });
    let value = ValueTemplate::parse(&value, Mode::Text).expect("the value is right");
    measure("a tool's arguments, three leaves", || {
        black_box(
            value
                .eval(&scope, &mut Draws::refuse())
                .expect("it has a value"),
        );
    });
    measure("parse classify.team == 'billing'", || {
        black_box(Expr::parse("classify.team == 'billing'").expect("the source is right"));
    });
    measure("parse the prompt", || {
        black_box(Template::parse(text, Mode::Text).expect("the text is right"));
    });
}
