import { writeTinyModel } from "../../hack/tiny-model.ts";

/** Tools as Hermes and Qwen models are taught them; both engines read the format off such a template. */
const hermesTemplate = `{%- if tools %}system: You may call functions. <tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
Answer a call with <tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>
{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}tool: <tool_response>
{{ message.content }}
</tool_response>
{% else %}{{ message.role }}:
{{ message.content }}
{%- if message.tool_calls %}
{%- for call in message.tool_calls %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}
{%- endif %}
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}assistant:
{% endif %}`;

/** The answer of the model to any request: one call of a tool. */
export const scriptedCall = { name: "get_weather", arguments: { city: "here" } };

/** A real model file whose weights make it call a tool, whatever the prompt is. */
export async function writeToolCaller(path: string): Promise<void> {
  const says = [
    "<tool_call>",
    "\n{",
    '"name"',
    ': "',
    "get_weather",
    '", ',
    '"arguments"',
    ": {",
    '"city":',
    ' "here"',
    "}}",
    "\n</tool_call>",
  ];
  await writeTinyModel(path, { name: "tool-caller", says, chatTemplate: hermesTemplate });
}

/** A real model file that answers any chat with "Greetings!", and is shown little of it: the prompts of coding clients are long. */
export async function writeGreeter(path: string): Promise<void> {
  const chatTemplate = hermesTemplate
    .replace("in tools %}", "in tools[:1] %}")
    .replace("in messages %}", "in messages[-1:] %}");
  await writeTinyModel(path, { name: "greeter", says: ["Greetings", "!"], chatTemplate, contextLength: 65_536 });
}
