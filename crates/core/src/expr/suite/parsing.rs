//! What parsing finds: mistakes with their places, references with their guards, shapes.

use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::world;

type Mistake<'a> = (&'a str, usize, &'a str, Option<&'a str>);

fn mistakes(parse: impl Fn(&str) -> Option<SyntaxError>, cases: &[Mistake<'_>]) {
    for (source, offset, message, hint) in cases {
        let error = parse(source).unwrap_or_else(|| panic!("no mistake found in {source}"));
        assert_eq!(
            (error.offset, error.message.as_str(), error.hint.as_deref()),
            (*offset, *message, *hint),
            "{source}"
        );
    }
}

#[test]
fn mistakes_in_expressions_are_found_at_parse() {
    mistakes(
        |source| Expr::parse(source).err(),
        &[
            ("", 0, "the expression is empty", None),
            ("  ", 0, "the expression is empty", None),
            (
                "a.b | lenght",
                6,
                "there is no filter `lenght`",
                Some("did you mean `length`?"),
            ),
            ("a | frobnicate", 4, "there is no filter `frobnicate`", None),
            (
                "a | groupby('x')",
                4,
                "there is no filter `groupby`",
                Some("use `group_by`, which gives `{key, items}`"),
            ),
            (
                "a is definde",
                5,
                "there is no test `definde`",
                Some("did you mean `defined`?"),
            ),
            (
                "a is divisibleby",
                5,
                "the test `divisibleby` takes one argument, not 0",
                None,
            ),
            (
                "rnage(3)",
                0,
                "there is no function `rnage`",
                Some("did you mean `range`?"),
            ),
            (
                "upper(a)",
                0,
                "there is no function `upper`",
                Some("`upper` is a filter: write `value | upper`"),
            ),
            ("1 + debug()", 4, "there is no function `debug`", None),
            (
                "a.items()",
                0,
                "values have no methods, so no `.items()`",
                Some("write it as a filter: `value | items`"),
            ),
            (
                "a.startswith('x')",
                0,
                "values have no methods, so no `.startswith()`",
                Some("use the test `is startingwith`"),
            ),
            (
                "a | map('uper')",
                8,
                "there is no filter `uper`",
                Some("did you mean `upper`?"),
            ),
            (
                "a | select('evne')",
                11,
                "there is no test `evne`",
                Some("did you mean `even`?"),
            ),
            (
                "a | sort(revers=true)",
                16,
                "`sort` has no parameter `revers`",
                Some("did you mean `reverse`?"),
            ),
            (
                "a | join(',', 'x', 'y')",
                19,
                "`join` takes at most 2 arguments",
                None,
            ),
            ("a | take", 4, "`take` needs `count`", None),
            ("range()", 0, "`range` needs `start`", None),
            ("f(*a)", 0, "there is no function `f`", None),
            (
                "a | put(**b)",
                4,
                "`*` and `**` do not spread arguments here",
                None,
            ),
            (
                "a +",
                2,
                "unexpected end of input, expected expression",
                None,
            ),
            ("a b", 2, "unexpected input after expression", None),
            (
                "{{ a }} {{ b }}",
                0,
                "this is text, not one expression",
                Some("write the bare expression, or one `{{ }}` around the whole"),
            ),
        ],
    );
}

#[test]
fn mistakes_in_templates_are_found_at_parse() {
    mistakes(
        |source| Template::parse(source, Mode::Text).err(),
        &[
            (
                "text {{ a | uper }}",
                12,
                "there is no filter `uper`",
                Some("did you mean `upper`?"),
            ),
            (
                "{% include 'x' %}",
                3,
                "unknown statement include",
                Some("for, if, set, with, filter, raw, break and continue are"),
            ),
            (
                "{% macro f() %}{% endmacro %}",
                3,
                "`{% macro %}` is not supported",
                Some("for, if, set, with, filter, raw, break and continue are"),
            ),
            (
                "{% for a in b %}{{ loop.idx }}{% endfor %}",
                19,
                "`loop` has no field `idx`",
                None,
            ),
            (
                "{% for a in b %}{{ loop.indx }}{% endfor %}",
                19,
                "`loop` has no field `indx`",
                Some("did you mean `index`?"),
            ),
            (
                "{% for a in b %}{{ loop }}{% endfor %}",
                19,
                "`loop` has no value as a whole",
                Some("read a field, as `loop.index`"),
            ),
            (
                "{% set ns.x = 1 %}",
                10,
                "`ns` is not a variable of this template",
                Some("begin with `{% set ns = namespace() %}`"),
            ),
        ],
    );
    for unclosed in [
        "{% if a %}",
        "{% for a in b %}",
        "{{ a",
        "{% set x %}",
        "{# a",
    ] {
        assert!(Template::parse(unclosed, Mode::Text).is_err(), "{unclosed}");
    }
}

fn refs(source: &str) -> Vec<String> {
    let expr = Expr::parse(source).unwrap();
    expr.refs().iter().map(show).collect()
}

fn show(reference: &Ref) -> String {
    format!("{reference}{}", if reference.guarded { "?" } else { "" })
}

#[test]
fn references_are_the_dotted_paths_with_their_guards() {
    let cases: &[(&str, &[&str])] = &[
        ("classify.team == 'x'", &["classify.team"]),
        ("a.b[0]['c'].d", &["a.b[0].c.d"]),
        ("a[b.c].d", &["a", "b.c"]),
        ("range(n) | length", &["n"]),
        ("a.x | default(b.y)", &["a.x?", "b.y"]),
        ("a.x is defined and a.y > b.z", &["a.x?", "a.y?", "b.z"]),
        ("a is not defined or a.y", &["a?", "a.y?"]),
        ("a.y if a is defined else b", &["a?", "a.y?", "b"]),
        ("first_of(a.x, b.x)", &["a.x?", "b.x?"]),
        ("(a.x > 1) | default(true)", &["a.x"]),
        ("(a.x if c else 1) | default(true)", &["c", "a.x?"]),
        ("not (a is undefined) and a.v", &["a?", "a.v?"]),
        ("[a, {'k': b}, c | upper]", &["a", "b", "c"]),
        ("1 < a < b", &["a", "b"]),
    ];
    for (source, expected) in cases {
        assert_eq!(refs(source), *expected, "{source}");
    }
}

#[test]
fn a_template_s_own_variables_are_no_references() {
    let source = "{% for d in docs if d.ok %}{{ d.x }}{{ loop.index }}{% endfor %}{{ d }}\
                  {% set s = a.b %}{{ s }}{% if c is defined %}{{ c.v }}{% else %}{{ c.w }}{% endif %}\
                  {% with q = e.f %}{{ q }}{% endwith %}{{ q }}";
    let template = Template::parse(source, Mode::Text).unwrap();
    let shown: Vec<_> = template.refs().iter().map(show).collect();
    assert_eq!(
        shown,
        ["docs", "d", "a.b?", "c?", "c.v?", "c.w", "e.f?", "q"]
    );
    let spans: Vec<_> = template
        .refs()
        .iter()
        .map(|found| &source[found.at.clone()])
        .collect();
    assert_eq!(spans, ["docs", "d", "a.b", "c", "c.v", "c.w", "e.f", "q"]);
}

#[test]
fn a_shape_tells_what_an_expression_gives() {
    let cases = [
        ("a > 1", ValueKind::Boolean),
        ("not a", ValueKind::Boolean),
        ("a is defined and b == 2", ValueKind::Boolean),
        ("a and b == 2", ValueKind::Any),
        ("a | default(false)", ValueKind::Any),
        ("'x' if a else 'y'", ValueKind::String),
        ("a | length", ValueKind::Integer),
        ("a ~ b", ValueKind::String),
        ("[a]", ValueKind::List),
        ("{'a': 1}", ValueKind::Object),
        ("-3", ValueKind::Integer),
        ("now()", ValueKind::String),
        ("1 + 2", ValueKind::Number),
        ("a.b", ValueKind::Any),
    ];
    for (source, kind) in cases {
        assert_eq!(
            Expr::parse(source).unwrap().shape().kind(),
            kind,
            "{source}"
        );
    }
    let shape = Expr::parse("a.team == 'x' and b not in [1] and c")
        .unwrap()
        .shape();
    let Form::All(parts) = &shape.form else {
        panic!("not a conjunction: {shape:?}");
    };
    assert_eq!(
        parts.iter().map(|part| part.at.clone()).collect::<Vec<_>>(),
        [0..13, 18..30, 35..36]
    );
    let Form::Compare {
        op: CompareOp::Equal,
        left,
        right,
    } = &parts[0].form
    else {
        panic!("not a comparison: {shape:?}");
    };
    assert!(matches!(&left.form, Form::Path(found) if found.to_string() == "a.team"));
    assert_eq!(right.form, Form::Literal(json!("x")));
    assert!(matches!(
        &parts[1].form,
        Form::Compare {
            op: CompareOp::NotIn,
            ..
        }
    ));
}

#[test]
fn only_kinds_that_fit_are_comparable() {
    use CompareOp::{Equal, In, Less};
    assert!(comparable(Equal, ValueKind::Integer, ValueKind::Number));
    assert!(comparable(Equal, ValueKind::String, ValueKind::Null));
    assert!(!comparable(Equal, ValueKind::String, ValueKind::Integer));
    assert!(!comparable(Less, ValueKind::String, ValueKind::Number));
    assert!(!comparable(Less, ValueKind::Boolean, ValueKind::Boolean));
    assert!(comparable(In, ValueKind::Integer, ValueKind::List));
    assert!(!comparable(In, ValueKind::Integer, ValueKind::String));
    assert!(comparable(Less, ValueKind::Any, ValueKind::Number));
}

#[test]
fn sources_that_could_exhaust_the_stack_are_refused() {
    let deep = [
        format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000)),
        "1+".repeat(5_000) + "1",
        "a".to_owned() + &"|trim".repeat(5_000),
        "not ".repeat(1_500) + "a",
        "-".repeat(1_500) + "1",
        "[".repeat(5_000),
        "a".to_owned() + &".b".repeat(3_000),
        "x".repeat(SOURCE_BYTES_MAX + 1),
    ];
    for source in &deep {
        assert!(Expr::parse(source).is_err(), "{}", &source[..20]);
    }
    for block in [
        "{% if a %}",
        "{% for a in b %}",
        "{% with %}",
        "{% set x %}",
        "{% filter trim %}",
    ] {
        assert!(
            Template::parse(&block.repeat(5_000), Mode::Text).is_err(),
            "{block}"
        );
    }
    let elifs = format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(5_000));
    assert!(Template::parse(&elifs, Mode::Text).is_err());
    let many = "{% set x = 1 %}{% if x %}{% elif x %}{% endif %}".repeat(3_000);
    assert!(Template::parse(&many, Mode::Text).is_ok());
}

#[test]
fn long_lines_and_long_texts_parse() {
    let wide = format!("{}{{{{ n }}}}", "é ".repeat(100_000));
    let tall = format!("{}{{{{ n }}}}", "x\n".repeat(100_000));
    for source in [wide, tall] {
        let template = Template::parse(&source, Mode::Text).unwrap();
        assert_eq!(template.refs()[0].at, source.len() - 4..source.len() - 3);
        assert!(
            template
                .render(&world(), &mut Draws::refuse())
                .unwrap()
                .ends_with('5')
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pieces of the language in any order parse to a tree or to a mistake inside the source, and evaluate to a
    /// value or an error, the same each time.
    #[test]
    fn no_source_panics(
        pieces in proptest::collection::vec(
            prop_oneof![
                Just("a"), Just("list"), Just("obj.a"), Just("gone.x"), Just("name"), Just("n"), Just("1"), Just("2.5"),
                Just("'é'"), Just("("), Just(")"), Just("["), Just("]"), Just("{"), Just("}"), Just(","), Just(":"),
                Just("."), Just("|"), Just("+"), Just("-"), Just("*"), Just("/"), Just("//"), Just("%"), Just("**"),
                Just("~"), Just("=="), Just("<"), Just("in"), Just("not"), Just("and"), Just("or"), Just("is"),
                Just("defined"), Just("if"), Just("else"), Just("default"), Just("length"), Just("sort"), Just("first"),
                Just("{{"), Just("}}"), Just("{%"), Just("%}"), Just("for"), Just("set"), Just("endfor"), Just("x"),
                Just("="), Just("endset"), Just("endif"), Just("\n"), Just("🦀"), Just("loop.index"), Just("range(3)"),
            ],
            0..24,
        ),
        tags in any::<bool>(),
    ) {
        let source = if tags { format!("{{{{ {} }}}}", pieces.join(" ")) } else { pieces.join(" ") };
        match Expr::parse(&source) {
            Ok(expr) => {
                let run = || expr.eval(&world(), &mut Draws::refuse());
                prop_assert_eq!(run(), run());
                let _ = expr.eval_bool(&world(), &mut Draws::refuse());
                let _ = expr.shape();
            }
            Err(error) => prop_assert!(error.offset + error.length <= source.len()),
        }
        for mode in [Mode::Text, Mode::Shell, Mode::Url] {
            match Template::parse(&source, mode) {
                Ok(template) => {
                    let _ = (template.render(&world(), &mut Draws::refuse()), template.shapes(), template.hand_quoted());
                }
                Err(error) => prop_assert!(error.offset + error.length <= source.len()),
            }
        }
    }
}

#[test]
fn signs_of_other_languages_get_the_jinja_word_as_hint() {
    let hint = |source: &str| Expr::parse(source).unwrap_err().hint;
    for (source, expected) in [
        ("a && b", "write `and`"),
        ("a || b", "write `or`"),
        (
            "n > {{ a }}",
            "write the bare expression, or one `{{ }}` around the whole",
        ),
        ("!a", "write `not`"),
        ("a ? b : c", "write `a if condition else b`"),
    ] {
        assert_eq!(hint(source).as_deref(), Some(expected), "{source}");
    }
}

#[test]
fn the_deepest_expression_that_parses_also_evaluates() {
    let depth = lower::DEPTH_MAX - 2;
    // The parser counts each bracket twice.
    let list = format!("{}1{}", "[".repeat(depth / 2), "]".repeat(depth / 2));
    let sum = "1 + ".repeat(depth) + "1";
    for source in [list, sum, "not ".repeat(depth) + "ok"] {
        let expr = Expr::parse(&source).unwrap();
        assert!(expr.eval(&world(), &mut Draws::refuse()).is_ok());
        assert_eq!(expr.shape(), expr.shape());
    }
    let blocks = format!(
        "{}x{}",
        "{% if ok %}".repeat(BLOCK_DEPTH_MAX),
        "{% endif %}".repeat(BLOCK_DEPTH_MAX)
    );
    assert_eq!(super::render(&blocks, Mode::Text), Ok("x".to_owned()));
}
