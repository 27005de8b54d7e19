"""Records how Python's jinja2 renders the chat templates that llama.cpp collects, for test/embedded/templates.test.ts.

usage: python3 hack/chat-templates.py ~/.cache/berth/llama-server/*/templates >test/embedded/templates.json
Needs jinja2 from PyPI. Hashes alone are recorded: the templates are not ours. The set-up is that of transformers
(apply_chat_template) without tools; variables that a chat does not have are not set.
"""

import datetime
import hashlib
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


chats = [
    [{"role": "user", "content": "hi"}],
    [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hello"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
]
# Noon: the same day in every time zone.
today = datetime.datetime(2026, 7, 26, 12)
environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
environment.filters["tojson"] = lambda value, indent=None, **_: json.dumps(value, ensure_ascii=False, indent=indent)
environment.globals.update(raise_exception=refuse, strftime_now=today.strftime)


def render(source, messages):
    try:
        text = environment.from_string(source).render(
            messages=messages, add_generation_prompt=True, bos_token="<s>", eos_token="</s>"
        )
    except jinja2.exceptions.TemplateError:
        return "refused"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


files = sorted(pathlib.Path(sys.argv[1]).glob("*.jinja"))
results = {file.name: [render(file.read_text(), chat) for chat in chats] for file in files}
json.dump({"chats": chats, "results": results}, sys.stdout, indent=2)
print()
