//! The rules of expressions, one table for each.

mod book;
mod jinja;
mod parsing;
mod templates;

use serde_json::{Value, json};

use super::*;

/// Names of a test: values, `gone` (a step that did not run), `steps` (a namespace).
struct World(Value);

impl Scope for World {
    fn lookup(&self, name: &str) -> Lookup {
        match name {
            "gone" | "lost" => Lookup::Absent { step: name.into() },
            "steps" => Lookup::Members,
            _ => self.0.get(name).map_or(Lookup::Unknown, |value| {
                Lookup::Value(Val::new(value.clone()))
            }),
        }
    }

    fn member(&self, _namespace: &str, key: &str) -> Lookup {
        match key {
            "draft" => Lookup::Value(Val::new(json!({ "state": "succeeded", "attempts": 2 }))),
            _ => Lookup::Unknown,
        }
    }
}

fn world() -> World {
    World(json!({
        "ok": true, "no": false, "nil": null, "n": 5, "x": 0.5, "name": "Ada", "empty": "",
        "list": [3, 1, 2], "obj": { "b": 1, "a": { "c": "deep" } },
        "rows": [{ "id": 1, "team": "a" }, { "id": 2, "team": "b" }, { "id": 3, "team": "a" }],
        "evil": "$(rm -rf /) it's",
    }))
}

fn eval(source: &str) -> Result<Value, String> {
    let expr = Expr::parse(source)
        .map_err(|error| format!("parse {}: {}", error.offset, error.message))?;
    expr.eval(&world(), &mut Draws::refuse())
        .map_err(|error| match error {
            EvalError::Absent { step } => format!("absent {step}"),
            EvalError::Failed {
                message, offset, ..
            } => format!("{offset}: {message}"),
        })
}

fn render(source: &str, mode: Mode) -> Result<String, String> {
    let template = Template::parse(source, mode)
        .map_err(|error| format!("parse {}: {}", error.offset, error.message))?;
    template
        .render(&world(), &mut Draws::refuse())
        .map_err(|error| match error {
            EvalError::Absent { step } => format!("absent {step}"),
            EvalError::Failed {
                message, offset, ..
            } => format!("{offset}: {message}"),
        })
}

fn table(cases: &[(&str, Result<Value, &str>)]) {
    for (source, expected) in cases {
        let expected = expected.clone().map_err(str::to_owned);
        assert_eq!(eval(source), expected, "{source}");
    }
}

#[test]
fn operators_work_on_values_of_one_kind_and_refuse_others() {
    table(&[
        ("n + 1", Ok(json!(6))),
        ("n / 2", Ok(json!(2.5))),
        ("n // 2", Ok(json!(2))),
        ("n % 3", Ok(json!(2))),
        ("2 ** 10", Ok(json!(1024))),
        ("-n", Ok(json!(-5))),
        ("name ~ n", Ok(json!("Ada5"))),
        ("name + '!'", Ok(json!("Ada!"))),
        ("list + [4]", Ok(json!([3, 1, 2, 4]))),
        ("name * 2", Ok(json!("AdaAda"))),
        (
            "name + n",
            Err("0: `+` does not take a string and an integer; `~` joins anything as text"),
        ),
        ("n / 0", Err("0: division by zero")),
        ("1 + nil", Err("0: `+` does not take an integer and null")),
        (
            "9223372036854775807 + 1",
            Ok(json!(9_223_372_036_854_775_808_u64)),
        ),
        (
            "18446744073709551615 + 1",
            Err("0: the result is too large for an integer"),
        ),
        ("n == 5.0", Ok(json!(true))),
        ("n > x", Ok(json!(true))),
        ("'0.4' > 0.5", Err("0: a string and a number have no order")),
        ("ok > no", Err("0: a boolean and a boolean have no order")),
        ("name == 5", Ok(json!(false))),
        ("1 < n < 9", Ok(json!(true))),
        ("1 < n < 3", Ok(json!(false))),
        ("2 in list", Ok(json!(true))),
        ("4 not in list", Ok(json!(true))),
        ("'d' in name", Ok(json!(true))),
        ("'b' in obj", Ok(json!(true))),
        ("list[0]", Ok(json!(3))),
        ("list[-1]", Ok(json!(2))),
        ("list[1:]", Ok(json!([1, 2]))),
        ("name[0]", Ok(json!("A"))),
        ("name[-1]", Ok(json!("a"))),
        ("(name ~ name)[3]", Ok(json!("A"))),
        ("name[:2]", Ok(json!("Ad"))),
        ("obj.a['c']", Ok(json!("deep"))),
        ("obj['a']['c']", Ok(json!("deep"))),
        ("obj[name | lower | first]", Ok(json!({ "c": "deep" }))),
        ("'y' if ok else 'n'", Ok(json!("y"))),
        ("{'a': 1, 'b': [n]}", Ok(json!({ "a": 1, "b": [5] }))),
        ("nil or name", Ok(json!("Ada"))),
        ("null", Ok(json!(null))),
        ("{{ n + 1 }}", Ok(json!(6))),
        ("  {{ list }}\n", Ok(json!([3, 1, 2]))),
        ("steps.draft.state", Ok(json!("succeeded"))),
        ("steps['draft'].attempts + 1", Ok(json!(3))),
        (
            "steps[name | replace('Ada', 'draft')].state",
            Ok(json!("succeeded")),
        ),
    ]);
}

#[test]
fn what_is_not_there_is_an_error_with_its_place_unless_guarded() {
    table(&[
        ("obj.z", Err("0: the object has no field `z`")),
        (
            "obj.a.cc",
            Err("0: the object has no field `cc`; it has `c`"),
        ),
        ("1 + obj.z", Err("4: the object has no field `z`")),
        ("obj.z == 1", Err("0: the object has no field `z`")),
        ("name.first", Err("0: a string has no field `first`")),
        (
            "name[3]",
            Err("0: the string has 3 characters, so none at 3"),
        ),
        ("nil.x", Err("0: null has no field `x`")),
        ("list[7]", Err("0: the list has 3 items, so none at 7")),
        ("nobody", Err("0: `nobody` is not known here")),
        (
            "steps.nobody.state",
            Err("0: `steps.nobody` is not known here"),
        ),
        (
            "steps",
            Err("0: `steps` has no value as a whole: read one of its members"),
        ),
        ("obj.z is defined", Ok(json!(false))),
        ("obj.z.y.w is defined", Ok(json!(false))),
        ("obj.z is undefined", Ok(json!(true))),
        ("obj.z is not defined", Ok(json!(true))),
        ("obj.z.y | default(7)", Ok(json!(7))),
        ("nil | default(7)", Ok(json!(null))),
        ("nil | default(7, true)", Ok(json!(7))),
        ("first_of(obj.z, obj.b)", Ok(json!(1))),
        (
            "first_of(obj.z, obj.y)",
            Err("16: the object has no field `y`"),
        ),
        ("[] | first", Err("0: `first`: the list is empty")),
        ("[] | first | default('none')", Ok(json!("none"))),
        (
            "'x' if no",
            Err("0: the condition is false and there is no `else`"),
        ),
    ]);
}

#[test]
fn an_unguarded_use_of_an_absent_step_names_the_step_and_short_circuits_are_right() {
    table(&[
        ("gone", Err("absent gone")),
        ("gone.a.b > 0", Err("absent gone")),
        ("not gone.ok", Err("absent gone")),
        ("[gone.v] | length", Err("absent gone")),
        ("gone.v | length | default(1)", Err("absent gone")),
        ("(gone.v > 1) | default(true)", Err("absent gone")),
        ("gone is defined", Ok(json!(false))),
        ("gone.a.b is defined", Ok(json!(false))),
        ("gone is defined and gone.ok", Ok(json!(false))),
        ("gone is undefined or gone.ok", Ok(json!(true))),
        ("ok or gone.ok", Ok(json!(true))),
        ("no or gone.ok", Err("absent gone")),
        ("gone.v | default(3)", Ok(json!(3))),
        ("gone.v | default(lost.v)", Err("absent lost")),
        ("gone.v | default(lost.v) | default(4)", Ok(json!(4))),
        ("(gone.v if ok else 1) | default(2)", Ok(json!(2))),
        ("first_of(gone.t, lost.t, name)", Ok(json!("Ada"))),
        ("gone.t | first_of(name)", Ok(json!("Ada"))),
        ("first_of(gone.t, lost.t)", Err("absent lost")),
        ("gone is none", Err("absent gone")),
        ("{'a': gone.x}", Err("absent gone")),
    ]);
    assert_eq!(
        render("a {{ gone.x }}", Mode::Text),
        Err("absent gone".to_owned())
    );
    assert_eq!(
        render(
            "{% if gone is defined %}{{ gone.x }}{% else %}-{% endif %}",
            Mode::Text
        ),
        Ok("-".to_owned())
    );
    assert_eq!(
        render(
            "{% set y = gone %}{{ y | default(1) }}{{ y.z | default(2) }}",
            Mode::Text
        ),
        Ok("12".to_owned())
    );
    assert_eq!(
        render("{% set y = gone %}{{ y | default(1) }}{{ y }}", Mode::Text),
        Err("absent gone".to_owned())
    );
}

#[test]
fn a_condition_is_a_boolean_at_every_depth() {
    let condition = |source: &str| {
        let expr = Expr::parse(source).unwrap();
        expr.eval_bool(&world(), &mut Draws::refuse())
            .map_err(|error| error.to_string())
    };
    assert_eq!(condition("ok"), Ok(true));
    assert_eq!(condition("n > 1 and not no"), Ok(true));
    assert_eq!(condition("{{ ok }}"), Ok(true));
    let refused = |kind: &str| Err(format!("a condition must be true or false, not {kind}"));
    assert_eq!(condition("n"), refused("an integer"));
    assert_eq!(condition("name | upper"), refused("a string"));
    assert_eq!(condition("nil"), refused("null"));
    let inner = |kind: &str| Err(format!("a condition needs a boolean here, not {kind}"));
    assert_eq!(condition("not name"), inner("a string"));
    assert_eq!(condition("ok and n"), inner("an integer"));
    assert_eq!(condition("list or ok"), inner("a list"));
    assert_eq!(condition("ok if n else no"), inner("an integer"));
}

#[test]
fn draws_are_made_in_the_order_of_evaluation_and_only_where_they_are_needed() {
    let expr = Expr::parse("{'id': uuid(), 'at': now(), 'r': random() if ok else uuid()}").unwrap();
    let mut source = SeededDraws::new(1_700_000_000_000, b"seed");
    let mut live = Draws::live(&mut source);
    let value = expr.eval(&world(), &mut live).unwrap();
    assert_eq!(value["at"], "2023-11-14T22:13:20.000Z");
    let recorded = live.into_recorded();
    assert_eq!(
        recorded,
        [&value["id"], &value["at"], &value["r"]].map(|value| Val::new(value.clone()))
    );
    assert_eq!(expr.eval(&world(), &mut Draws::replay(recorded)), Ok(value));
    assert_eq!(
        eval("now()"),
        Err("0: now() is not available here".to_owned())
    );
}

#[test]
fn an_evaluation_ends_within_its_fuel() {
    let limits = Limits {
        fuel: 1_000,
        output_bytes: 100,
    };
    let eval = |source: &str| {
        let expr = Expr::parse(source).unwrap().with_limits(limits);
        expr.eval(&world(), &mut Draws::refuse())
            .map_err(|error| error.to_string())
    };
    let spent = Err("the expression takes more than 1000 operations".to_owned());
    assert_eq!(eval("range(10000)"), spent);
    assert_eq!(eval("range(9223372036854775807)"), spent);
    assert_eq!(eval("'ab' * 1000"), spent);
    assert_eq!(eval("'ab' * 9223372036854775807"), spent);
    assert_eq!(eval("list * 1000"), spent);
    assert_eq!(eval("('x' * 900) | replace('x', 'y' * 900)"), spent);
    assert_eq!(eval("(range(300) | map('put', 'a', 1)) | length"), {
        Err("`map`: expected an object, got an integer".to_owned())
    });
    for huge in [
        "'%999999999d' | format(1)",
        "'a' | indent(999999999, true)",
        "[1] | slice(999999999)",
    ] {
        assert!(eval(huge).is_err(), "{huge}");
    }
    assert_eq!(eval("range(3)"), Ok(json!([0, 1, 2])));
    let render = |source: &str| {
        let template = Template::parse(source, Mode::Text)
            .unwrap()
            .with_limits(limits);
        template
            .render(&world(), &mut Draws::refuse())
            .map_err(|error| error.to_string())
    };
    let doubling = "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
    assert_eq!(
        render(doubling),
        Err("the expression takes more than 1000 operations".to_owned())
    );
    let loops = "{% for a in range(40) %}{% for b in range(40) %}{% endfor %}{% endfor %}";
    assert_eq!(
        render(loops),
        Err("the expression takes more than 1000 operations".to_owned())
    );
    let long = "{% for a in range(40) %}abc{% endfor %}";
    assert_eq!(
        render(long),
        Err("the text is longer than 100 bytes".to_owned())
    );
}

#[test]
fn a_value_that_could_not_be_read_again_is_not_made() {
    let deep =
        "{% set ns = namespace(x=1) %}{% for i in range(200) %}{% set ns.x = [ns.x] %}{% endfor %}";
    let refused = Err("68: the value is nested deeper than 100 levels".to_owned());
    assert_eq!(render(deep, Mode::Text), refused);
}

#[test]
fn a_whole_value_is_handed_on_without_a_copy() {
    struct One(Val);
    impl Scope for One {
        fn lookup(&self, _name: &str) -> Lookup {
            Lookup::Value(self.0.clone())
        }
    }
    let scope = One(Val::new(json!({ "big": [1, 2, 3] })));
    let value = Expr::parse("x")
        .unwrap()
        .eval_val(&scope, &mut Draws::refuse())
        .unwrap();
    assert!(value.same(&scope.0));
    let value = ValueTemplate::parse(&json!("{{ x }}"), Mode::Text).unwrap();
    assert!(
        value
            .eval_val(&scope, &mut Draws::refuse())
            .unwrap()
            .same(&scope.0)
    );
    let constant = ValueTemplate::parse(&json!({ "a": [1, "b"] }), Mode::Text).unwrap();
    let held = constant.literal().unwrap();
    assert!(
        constant
            .eval_val(&scope, &mut Draws::refuse())
            .unwrap()
            .same(held)
    );
}
