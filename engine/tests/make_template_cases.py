#!/usr/bin/env python3
"""Renders small templates with Jinja2, set up as transformers sets it up, into data/template_cases.json.

Needs `pip install jinja2`; run it from anywhere. The templates are this project's own, one per thing that
published chat templates do; the expected text is Jinja2's.
"""
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

CLOCK = 1_753_000_000
NOW = datetime.datetime.fromtimestamp(CLOCK, datetime.timezone.utc)

INPUT = {
    "messages": [
        {"role": "system", "content": "Be brief.\n"},
        {"role": "user", "content": "  Où est <Paris> & \"Rome\"?\t\n"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"type": "function", "function": {"name": "map", "arguments": {"zoom": 1.0, "at": [48.85, 2.35], "items": True}}}
            ],
        },
        {"role": "tool", "name": "map", "content": "{\"ok\": true}"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nThere.  "},
        {"role": "user", "content": [{"type": "text", "text": "Merci"}, {"type": "image"}]},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "map",
                "description": "Zeigt 'Orte' — 日本 \u0001 \U0001f600 \\ /",
                "parameters": {"type": "object", "properties": {"zoom": {"type": "number", "enum": [1, 0.5, 1e-05, 1e16, 1.5e300, -0.0]}, "at": {"items": {}, "keys": []}}, "required": ["at"]},
            },
        }
    ],
    "add_generation_prompt": True,
    "extra": {"enable_thinking": False, "none": None, "number": 3, "half": 0.5},
}

TEMPLATES = {
    "chatml": "{% for message in messages if message.content is string %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "whitespace of blocks": "a\n  {% if true %}  \n  b\n  {% endif %}\n\tc {% if true %} d {% endif %} e\n",
    "whitespace control": "a  {%- if true -%}  \n  b  {%- endif +%}\n c {{- ' d ' -}}  e\n\n",
    "comments and lines": "a\n  {# gone #}\nb {#- gone -#} c\n{# first\nsecond #}\nd\n",
    "no trailing newline": "a\n",
    "two trailing newlines": "a\n\n",
    "raw": "{% raw %}{{ x }}{% endraw %}|{{ '{{' }}",
    "namespace": "{% set ns = namespace(found=false, n=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.found = true %}{% set ns.n = ns.n + 1 %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.n }}",
    "scope of set in a loop": "{% set x = 1 %}{% for i in range(3) %}{% set x = i %}{% endfor %}{{ x }}",
    "break and continue": "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }},{% endfor %}",
    "loop variables": "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
    "loop neighbours": "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}>{{ loop.nextitem.role if not loop.last else '-' }} {% endfor %}",
    "for else": "{% for m in [] %}x{% else %}none{% endfor %}",
    "unpacking": "{% for key, value in tools[0].function.items() %}{{ key }}={{ value is mapping }};{% endfor %}",
    "tojson": "{{ tools | tojson }}",
    "tojson indented": "{{ tools[0] | tojson(indent=4) }}|{{ [] | tojson(indent=2) }}{{ {} | tojson(indent=2) }}",
    "tojson separators and order": "{{ tools[0].function | tojson(separators=(',', ':'), sort_keys=true) }}",
    "tojson as ascii": "{{ messages[1].content | tojson(ensure_ascii=true) }}",
    "tojson of scalars": "{{ none | tojson }} {{ true | tojson }} {{ 1 | tojson }} {{ 2.0 | tojson }} {{ 'a\"b' | tojson }} {{ {1: 2, 'b': [none]} | tojson }}",
    "items that are keys": "{{ messages[2].tool_calls[0].function.arguments['items'] }} {% for k, v in messages[2].tool_calls[0].function.arguments.items() %}{{ k }}:{{ v }} {% endfor %}",
    "dict methods": "{{ tools[0].get('type') }} {{ tools[0].get('nope') }} {{ tools[0].get('nope', 'x') }} {{ tools[0].keys() | list }} {{ tools[0].function.parameters.required }}",
    "str methods": "{{ messages[1].content.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'Ab'.upper() }}{{ 'Ab'.lower() }}|{{ 'a b'.title() }}|{{ 'ab'.startswith('a') }}{{ 'ab'.endswith(('x', 'b')) }}|{{ 'abab'.replace('a', 'c', 1) }}|{{ 'abc'.find('c') }}",
    "split": "{{ messages[4].content.split('</think>')[-1].lstrip('\n') }}|{{ 'a,b,c'.split(',', 1) }}|{{ ' a  b '.split() }}|{{ ''.split(',') }}|{{ 'a\nb'.splitlines() }}",
    "slices": "{{ messages[::-1][0].role }} {{ messages[1:] | length }} {{ 'abcdef'[1:-1] }} {{ 'abc'[-1] }} {{ messages[-2].role }}",
    "string operators": "{{ 'a' ~ 1 ~ none ~ true ~ 1.5 }} {{ 'a' * 3 }} {{ 'b' in 'abc' }} {{ 'x' not in ['y'] }} {{ 'a' 'b' }}",
    "numbers": "{{ 7 // 2 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 1 + 1.0 }} {{ half }} {{ number | string + 'x' }}",
    "values as text": "{{ none }} {{ true }} {{ [1, 'a', none, true, 0.5] }} {{ {'k': 'v', 'n': [1]} }} {{ ('a', 1) }} {{ \"it's\" }} {{ [\"it's\"] }}",
    "comparisons and logic": "{{ 1 < 2 and not none }} {{ none or 'x' }} {{ '' and 1 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ 1 if none else 2 }}",
    "tests": "{{ x is defined }} {{ none is none }} {{ none is defined }} {{ tools is iterable }} {{ none is iterable }} {{ 'a' is string }} {{ {} is mapping }} {{ [] is sequence }} {{ 1 is number }} {{ true is boolean }} {{ false is false }} {{ 2 is even }} {{ 'a' is iterable }}",
    "undefined": "[{{ nothing }}] {{ nothing is undefined }} {{ messages[0].nothing is defined }} {{ nothing | default('d') }} {{ none | default('d', true) }} {% for x in nothing %}x{% endfor %}",
    "filters": "{{ [3, 1, 2] | sort | join(', ') }} {{ messages | map(attribute='role') | unique | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('content', 'none') | list | length }} {{ ' a ' | trim }} {{ 'ab' | upper | first }} {{ [1, 2] | last }} {{ {'b': 1, 'a': 2} | dictsort }} {{ 'abc' | length }} {{ '3' | int + 1 }} {{ 'a\nb' | indent(2) }} {{ 'a' | capitalize }} {{ [1, 2] | sum }} {{ [1, 2] | reverse | list }} {{ 'aXa' | replace('a', 'b') }}",
    "macros": "{% macro show(x, y='d', n=2) -%}\n  ({{ x }}-{{ y }}-{{ n }})\n{%- endmacro %}{{ show(1) }}{{ show(1, n=3) }}{{ show('a', 'b') | upper }}",
    "recursive macro": "{% macro depth(n) %}{% if n > 0 %}<{{ depth(n - 1) }}>{% endif %}{% endmacro %}{{ depth(5) }}",
    "call block": "{% macro wrap() %}[{{ caller() }}]{% endmacro %}{% call wrap() %}in{% endcall %}",
    "set block": "{% set text %}a{{ number }}{% endset %}{{ text }}{{ text | length }}",
    "filter block": "{% filter upper %}abc{% endfilter %}",
    "with": "{% with x = 1, y = 2 %}{{ x + y }}{% endwith %}{{ x is defined }}",
    "generation": "{% for m in messages %}{%- if m.role == 'assistant' %}\n  {% generation %}\n  {{ m.content }}\n  {%- endgeneration %}\n{%- endif %}\n{% endfor %}",
    "strftime": "{{ strftime_now('%d %b %Y') }}|{{ strftime_now('%A %a %B %m %y %j') }}|{{ strftime_now('%H:%M:%S %I %p %F %T %e %%') }}|{{ strftime_now('%-d/%-m %-H') }}",
    "strftime where defined": "{% if strftime_now is defined %}{{ strftime_now('%Y-%m-%d') }}{% else %}none{% endif %}",
    "special tokens": "{{ bos_token }}x{{ eos_token }}",
    "extra variables": "{% if enable_thinking is defined and enable_thinking is false %}off{% endif %}",
    "tools or none": "{% if tools is not none and tools | length > 0 %}{{ tools[0]['function']['name'] }}{% endif %}{% if documents %}d{% endif %}",
    "raising": "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}",
    "str.format": "{{ '{}-{name}'.format(1, name='n') }} {{ '%s:%d' | format('a', 2) }}",
    "long literal": "{{ 'line one\\nline \\u00e9' }}",
    "inline if without else": "[{{ 'x' if false }}]",
    "nested access": "{{ messages[5].content[0].text }}{{ messages[5]['content'][1]['type'] }}{{ messages[5].content | length }}",
    "content parts": "{% for part in messages[5].content %}{% if part.type == 'text' %}{{ part.text }}{% elif part['type'] == 'image' %}<image>{% endif %}{% endfor %}",
}


class Generation(jinja2.ext.Extension):
    """Transformers' block around the assistant's words, without the bookkeeping."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("said"), [], [], body).set_lineno(line)

    def said(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def case(environment, name, template):
    context = {key: INPUT[key] for key in ("messages", "tools", "add_generation_prompt")} | INPUT["extra"]
    found = {"name": name, "template": template}
    try:
        text = environment.from_string(template).render(bos_token="<s>", eos_token="</s>", documents=None, **context)
        return found | {"text": text}
    except jinja2.exceptions.TemplateError as error:
        return found | {"raises": str(error)}


def main():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    cases = [case(environment, name, template) for name, template in TEMPLATES.items()]
    document = {"jinja2": jinja2.__version__, "clock": CLOCK, "input": INPUT, "cases": cases}
    path = pathlib.Path(__file__).parent / "data" / "template_cases.json"
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
