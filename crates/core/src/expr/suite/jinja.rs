//! Where our rules are Jinja's, minijinja's own evaluator is the judge.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value as Jinja};

use super::super::*;
use super::{render, world};

fn judge(source: &str) -> String {
    let mut environment = Environment::new();
    let mut syntax = SyntaxConfig::builder();
    syntax
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true);
    environment.set_syntax(syntax.build().unwrap());
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
        .render_str(source, Jinja::from(Serde(&world().0)))
        .unwrap()
}

#[test]
fn blanks_loops_variables_and_common_filters_are_jinja_s() {
    let sources = [
        "  {% if ok %}\n  a\n  {% endif %}\n b\n\n",
        "{% if ok -%}   a   {%- endif %}  {{- name -}}  b",
        "a\n{%- for i in list %}\n\t{{ i }}\n{% endfor -%}\n z",
        "{# note #}\nx{#- note -#}  y\n",
        "{% raw %}{{ a }}{% endraw %}\n{{ '{{' }}",
        "{%+ if ok %}x{% endif %}\n  {%+ if ok %}y{%+ endif %}\n",
        "{% for i in [1, 2, 3] %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth0 }} {% endfor %}",
        "{% for i in list %}{% for j in list %}{{ i * j }},{% endfor %};{% endfor %}",
        "{% for i in list if i > 1 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% else %}-{% endfor %}",
        "{% for i in [] %}x{% else %}empty{% endfor %}",
        "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
        "{% set x = 1 %}{% if ok %}{% set x = 2 %}{% endif %}{{ x }}",
        "{% set x = 1 %}{% with x = 2 %}{{ x }}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}",
        "{% set ns = namespace(a=1) %}{% for i in list %}{% set ns.a = ns.a * 2 %}{% endfor %}{{ ns.a }}",
        "{% set t %}  {{ name }}  {% endset %}[{{ t }}]",
        "{% filter upper %}{{ name }} {% if ok %}x{% endif %}{% endfilter %}",
        "{% for i in list %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% if loop.last %}!{% endif %}{% endfor %}",
        "{% for i in list %}{{ i }}{% break %}{% endfor %}",
        "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 }} {{ -2 ** 2 }} {{ 1 - 2 - 3 }}",
        "{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 2 * 3 ~ 4 }}",
        "{{ not ok or ok }}{{ not (ok or ok) }}{{ no or not no and ok }}",
        "{{ 'yes' if n > 3 and not no else 'no' }} {{ 'a' if no else 'b' if no else 'c' }}",
        "{{ 'a' in name }}{{ 3 in list }}{{ 3 not in list }}{{ 'b' in obj }}{{ 'z' in obj }}",
        "{{ list[1] }}{{ list[-1] }}{{ name[0] }}{{ name[1:] }}{{ name[-2:] }}{{ name[:-1] }}{{ name[::2] }}",
        "{{ name | upper | lower | capitalize }} {{ 'a b' | title }} {{ ' x ' | trim }} {{ 'aab' | replace('a', 'b') }}",
        "{{ list | sort | join }} {{ list | sort(reverse=true) | join('-') }} {{ list | length }} {{ list | sum }}",
        "{{ list | first }}{{ list | last }}{{ list | min }}{{ list | max }}{{ list | reverse | join }}",
        "{{ rows | map(attribute='id') | join(',') }} {{ rows | selectattr('team', 'eq', 'a') | length }}",
        "{{ ['b', 'A', 'a', 'B'] | sort | join }} {{ ['b', 'A', 'a', 'B'] | unique | join }}",
        "{{ [1, 2, 3, 4] | select('even') | join }} {{ [1, 2, 3, 4] | reject('gt', 2) | join }}",
        "{{ '1,2,3' | split(',') | last }} {{ 'a b' | split | first }} {{ 3.7 | int }} {{ '7' | int + 1 }}",
        "{{ -3 | abs }} {{ 2.345 | round(2) }} {{ 3.5 | round }}",
        "{% for k, v in {'z': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}",
        "{% for k in {'z': 1, 'a': 2} %}{{ k }}{% endfor %}",
        "{{ nil | default('x', true) }} {{ '' or name }} {{ (name and n) + 1 }}",
    ];
    for source in sources {
        // Version 3 prints Python's words where we print JSON's.
        let expected = judge(source)
            .replace("True", "true")
            .replace("False", "false");
        assert_eq!(render(source, Mode::Text), Ok(expected), "{source}");
    }
}
