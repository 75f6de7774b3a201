//! The rules of texts and of values with texts in them.

use serde_json::json;

use super::super::*;
use super::{render, world};

fn texts(mode: Mode, cases: &[(&str, Result<&str, &str>)]) {
    for (source, expected) in cases {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(render(source, mode), expected, "{source}");
    }
}

#[test]
fn values_in_text_are_json_except_texts() {
    texts(
        Mode::Text,
        &[
            ("plain", Ok("plain")),
            ("", Ok("")),
            ("ends with a newline\n", Ok("ends with a newline\n")),
            ("{{ name }}\n", Ok("Ada\n")),
            ("Hi {{ name }}!", Ok("Hi Ada!")),
            (
                "{{ list }} {{ obj }}",
                Ok(r#"[3,1,2] {"b":1,"a":{"c":"deep"}}"#),
            ),
            (
                "{{ ok }} {{ nil }} {{ 2.0 }} {{ n / 2 }} {{ n }}",
                Ok("true null 2.0 2.5 5"),
            ),
            ("{{ evil }}", Ok("$(rm -rf /) it's")),
            ("a{# gone #}b", Ok("ab")),
            ("{% raw %}{{ x }}{% endraw %}", Ok("{{ x }}")),
            ("{{ obj.z }}", Err("3: the object has no field `z`")),
            ("é {{ obj.z }}", Err("6: the object has no field `z`")),
        ],
    );
}

#[test]
fn statements_are_jinja_s_with_trimmed_blocks() {
    texts(
        Mode::Text,
        &[
            ("{% for i in list %}{{ i }},{% endfor %}", Ok("3,1,2,")),
            (
                "a\n{% for i in list %}\n- {{ i }}\n{% endfor %}\nb",
                Ok("a\n- 3\n- 1\n- 2\nb"),
            ),
            ("a\n   {% if ok %}\nyes\n   {% endif %}\nb", Ok("a\nyes\nb")),
            (
                "{% for k in obj %}{{ k }}={{ obj[k] }};{% endfor %}",
                Ok(r#"b=1;a={"c":"deep"};"#),
            ),
            ("{% for k, v in obj | items %}{{ k }}{% endfor %}", Ok("ba")),
            (
                "{% for r in rows if r.team == 'a' %}{{ r.id }}{% endfor %}",
                Ok("13"),
            ),
            (
                "{% for r in rows if r.team == 'z' %}x{% else %}none{% endfor %}",
                Ok("none"),
            ),
            (
                "{% for i in list %}{{ loop.index }}/{{ loop.length }}{{ '' if loop.last else ' ' }}{% endfor %}",
                Ok("1/3 2/3 3/3"),
            ),
            (
                "{% for i in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
                Ok("aba"),
            ),
            (
                "{% for i in list %}{{ loop.previtem | default('-') }}{{ loop.nextitem | default('-') }} {% endfor %}",
                Ok("-1 32 1- "),
            ),
            (
                "{% for i in [1,2] %}{% for j in [1,2] %}{{ loop.depth }}{{ loop.index }} {% endfor %}{{ loop.index }};{% endfor %}",
                Ok("21 22 1;21 22 2;"),
            ),
            (
                "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
                Ok("02"),
            ),
            ("{% set x = n + 1 %}{{ x }}", Ok("6")),
            ("{% set a, b = [1, 2] %}{{ a }}{{ b }}", Ok("12")),
            ("{% set a, b = [1] %}", Err("14: 2 names for a list of 1")),
            (
                "{% set x = 0 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
                Ok("3 1 2 0"),
            ),
            (
                "{% set ns = namespace(sum=0) %}{% for i in list %}{% set ns.sum = ns.sum + i %}{% endfor %}{{ ns.sum }}",
                Ok("6"),
            ),
            (
                "{% set t %}<{{ name }}>{% endset %}{{ t | upper }}",
                Ok("<ADA>"),
            ),
            (
                "{% set t | trim | upper %} {{ name }} {% endset %}{{ t }}",
                Ok("ADA"),
            ),
            (
                "{% filter upper | replace('A', 'o') %}{{ name }}{% endfilter %}",
                Ok("oDo"),
            ),
            (
                "{% with x = 1, y = n %}{{ x }}{{ y }}{% endwith %}",
                Ok("15"),
            ),
            (
                "{% if no %}1{% elif list %}2{% else %}3{% endif %}",
                Ok("2"),
            ),
            (
                "{% if no %}{% set q = 1 %}{% endif %}{{ q }}",
                Err("40: `q` was not set"),
            ),
            (
                "{% for i in name %}{% endfor %}",
                Err("12: `for` goes over a list or an object, not a string"),
            ),
            (
                "{% for i in nil %}{% endfor %}",
                Err("12: `for` goes over a list or an object, not null"),
            ),
        ],
    );
}

#[test]
fn every_value_in_shell_text_is_quoted() {
    texts(
        Mode::Shell,
        &[
            ("echo {{ name }}", Ok("echo 'Ada'")),
            ("echo {{ evil }}", Ok(r"echo '$(rm -rf /) it'\''s'")),
            ("echo {{ empty }}", Ok("echo ''")),
            (
                "echo {{ list }} {{ ['a b', 'c'] }} {{ [] }}",
                Ok("echo 3 1 2 'a b' 'c' "),
            ),
            ("echo {{ obj }}", Ok(r#"echo '{"b":1,"a":{"c":"deep"}}'"#)),
            ("echo {{ n }} {{ ok }} {{ nil }}", Ok("echo 5 true null")),
            ("{{ 'ls -l' | raw_shell }} {{ name }}", Ok("ls -l 'Ada'")),
            (
                "{% set x %}a {{ name }}{% endset %}echo {{ x }}",
                Ok("echo 'a Ada'"),
            ),
            (
                "{% for i in ['a', 'b'] %}touch {{ i }}; {% endfor %}",
                Ok("touch 'a'; touch 'b'; "),
            ),
            (
                "echo {{ name | raw_shell | upper }}",
                Err("parse 15: `raw_shell` must be the last filter of a `{{ }}`"),
            ),
            (
                r#"echo {{ "a\u0000b" }}"#,
                Err("8: a shell word cannot hold a NUL character"),
            ),
        ],
    );
    assert_eq!(
        render("{{ name | raw_shell }}", Mode::Text),
        Err("parse 10: `raw_shell` is for shell text only".to_owned())
    );
}

#[test]
fn parts_of_a_url_are_encoded_but_not_its_base() {
    texts(
        Mode::Url,
        &[
            (
                "https://h/{{ 'a/b?c' }}?q={{ 'x y&z' }}",
                Ok("https://h/a%2Fb%3Fc?q=x%20y%26z"),
            ),
            ("{{ 'https://h/x?y=1' }}/{{ n }}", Ok("https://h/x?y=1/5")),
            ("https://h/{{ 'ü' }}", Ok("https://h/%C3%BC")),
            (
                "https://h/{{ '..' }}/x",
                Err("13: \"..\" cannot be a part of a URL"),
            ),
            (
                "https://h/{{ list }}",
                Err("13: a list cannot be a part of a URL"),
            ),
            (
                "https://h/{{ nil }}",
                Err("13: null cannot be a part of a URL"),
            ),
        ],
    );
}

#[test]
fn values_that_stand_inside_shell_quotes_are_found() {
    let found = |source: &str| {
        let template = Template::parse(source, Mode::Shell).unwrap();
        let found = template.hand_quoted().into_iter();
        found
            .map(|quoted| (source[quoted.at].to_owned(), quoted.inside))
            .collect::<Vec<_>>()
    };
    let one = |name: &str, quote| vec![(name.to_owned(), quote)];
    assert_eq!(found("echo {{ a }}"), vec![]);
    assert_eq!(found("echo '{{ a }}'"), one("a", Quote::Single));
    assert_eq!(
        found("echo \"hello {{ a.b }}!\""),
        one("a.b", Quote::Double)
    );
    assert_eq!(found("echo '{{ a | raw_shell }}'"), vec![]);
    assert_eq!(found("echo 'x' {{ a }} \"y\" {{ b }}"), vec![]);
    assert_eq!(found("echo it\\'s {{ a }}"), vec![]);
    assert_eq!(found("# don't\necho {{ a }}"), vec![]);
    assert_eq!(found("echo a#b' {{ a }}'"), one("a", Quote::Single));
    assert_eq!(found("x=\"$(cat {{ a }})\" {{ b }}"), vec![]);
    assert_eq!(
        found("x=\"$(cat '{{ a }}') {{ b }}\""),
        vec![
            ("a".to_owned(), Quote::Single),
            ("b".to_owned(), Quote::Double)
        ]
    );
    assert_eq!(
        found("cat <<EOF\n{{ a }}\nEOF\necho {{ b }}"),
        one("a", Quote::HereDocument)
    );
    assert_eq!(
        found("cat <<-'END' | wc\n\tit's {{ a }}\n\tEND\necho {{ b }}"),
        one("a", Quote::HereDocument)
    );
    assert_eq!(found("cat <<< {{ a }}"), vec![]);
    assert_eq!(
        found("echo hello # {{ a }}\necho {{ b }}"),
        one("a", Quote::Comment)
    );
    assert_eq!(found("echo \\{{ a }} {{ b }}"), one("a", Quote::Backslash));
    assert_eq!(found("echo \\\\{{ a }}"), vec![]);
    assert_eq!(
        found("echo $(( {{ a }} + (1) )) {{ b }}"),
        one("a", Quote::Arithmetic)
    );
    assert_eq!(
        found("echo \"$(( {{ a }} ))\" {{ b }}"),
        one("a", Quote::Arithmetic)
    );
    assert_eq!(found("echo $((1<<2))\necho {{ a }}"), vec![]);
    assert_eq!(found("echo $( (echo {{ a }}) )"), vec![]);
    assert_eq!(
        found("{% if ok %}echo '{{ a }}'{% endif %} {{ b }}"),
        one("a", Quote::Single)
    );
}

#[test]
fn a_leaf_that_is_one_tag_keeps_its_type() {
    let value = json!({
        "n": "{{ n }}", "list": " {{ list }} ", "text": "n is {{ n }}", "two": "{{ n }}{{ n }}",
        "raw": { "literal": "{{ n }}" }, "deep": [{ "x": "{{ obj.a }}" }, 1, "plain"], "flag": true,
        "lit": { "literal": 1, "other": "{{ n }}" },
    });
    let template = ValueTemplate::parse(&value, Mode::Text).unwrap();
    assert_eq!(
        template.eval(&world(), &mut Draws::refuse()).unwrap(),
        json!({
            "n": 5, "list": [3, 1, 2], "text": "n is 5", "two": "55",
            "raw": "{{ n }}", "deep": [{ "x": { "c": "deep" } }, 1, "plain"], "flag": true,
            "lit": { "literal": 1, "other": 5 },
        })
    );
    let pointers: Vec<_> = template
        .leaves()
        .iter()
        .map(|leaf| leaf.pointer.as_str())
        .collect();
    assert_eq!(
        pointers,
        ["/n", "/list", "/text", "/two", "/deep/0/x", "/lit/other"]
    );
    assert_eq!(template.refs().len(), 7);
}

#[test]
fn a_text_of_one_tag_keeps_the_blanks_around_it() {
    let value = json!({
        "line": "{{ name }}\n", "indented": "  {{ name }}", "both": "\n{{ name | upper }}\t\n",
        "list": "{{ list }}\n", "number": " {{ n }} ", "null": "{{ nil }}\n", "flag": "{{ ok }}\n",
        "chosen": "{{ name if ok else n }}\n", "trimmed": "\n{{- name -}}\n", "guarded": "{{ nix | default('-') }}\n",
    });
    let template = ValueTemplate::parse(&value, Mode::Text).unwrap();
    assert_eq!(
        template.eval(&world(), &mut Draws::refuse()).unwrap(),
        json!({
            "line": "Ada\n", "indented": "  Ada", "both": "\nADA\t\n",
            "list": [3, 1, 2], "number": 5, "null": null, "flag": true,
            "chosen": "Ada\n", "trimmed": "Ada", "guarded": "-\n",
        })
    );
    let whole = ValueTemplate::parse(&json!("{{ name }}\n"), Mode::Text).unwrap();
    let value = whole.eval_val(&world(), &mut Draws::refuse()).unwrap();
    assert_eq!(value.json(), &json!("Ada\n"));
    assert_eq!(whole.as_reference(), None);
    let condition = Expr::parse(" {{ ok }}\n").unwrap();
    assert_eq!(
        condition.eval_bool(&world(), &mut Draws::refuse()),
        Ok(true)
    );
}

#[test]
fn a_value_s_mistakes_come_all_at_once_with_their_pointers() {
    let value = json!({ "a/b": ["{{ n | uper }}"], "c": "{% if %}", "ok": "{{ n }}" });
    let errors = ValueTemplate::parse(&value, Mode::Text).unwrap_err();
    let found: Vec<_> = errors
        .iter()
        .map(|error| (error.pointer.as_str(), error.error.offset))
        .collect();
    assert_eq!(found, [("/a~1b/0", 7), ("/c", 6)]);
    let value = ValueTemplate::parse(&json!({ "a": ["{{ obj.z }}"] }), Mode::Text).unwrap();
    assert_eq!(
        value.eval(&world(), &mut Draws::refuse()),
        Err(EvalError::Failed {
            message: "the object has no field `z`".to_owned(),
            offset: 3,
            pointer: "/a/0".to_owned()
        })
    );
}

#[test]
fn a_value_that_is_one_path_is_a_reference() {
    let reference = |value| {
        let template = ValueTemplate::parse(&value, Mode::Text).unwrap();
        template.as_reference().map(Ref::to_string)
    };
    assert_eq!(
        reference(json!("{{ draft.items[0].text }}")),
        Some("draft.items[0].text".to_owned())
    );
    assert_eq!(reference(json!("{{ draft.text | upper }}")), None);
    assert_eq!(reference(json!("{{ draft.text }}!")), None);
    assert_eq!(reference(json!(["{{ draft.text }}"])), None);
    assert_eq!(reference(json!("draft.text")), None);
}
