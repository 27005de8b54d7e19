import type { SlotView } from "../../src/api/management/views.ts";

interface ClientLines {
  readonly name: string;
  readonly text: string;
}

/** The lines that a person pastes into a client to reach a slot that chats, by the address that this page has. */
export function linesFor(
  { name, capabilities }: Pick<SlotView, "name" | "capabilities">,
  v1: string,
): readonly ClientLines[] {
  if (!capabilities.some((each) => each === "chat")) return [{ name: "Address", text: `${v1}\nmodel: ${name}` }];
  return [
    {
      name: "curl",
      text: `curl ${v1}/chat/completions -H 'content-type: application/json' \\\n  -d '{"model":"${name}","messages":[{"role":"user","content":"Hello"}]}'`,
    },
    {
      name: "Python",
      text: `from openai import OpenAI\n\nclient = OpenAI(base_url="${v1}", api_key="none")\nanswer = client.chat.completions.create(\n    model="${name}", messages=[{"role": "user", "content": "Hello"}]\n)\nprint(answer.choices[0].message.content)`,
    },
    {
      name: "JavaScript",
      text: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${v1}", apiKey: "none" });\nconst answer = await client.chat.completions.create({\n  model: "${name}",\n  messages: [{ role: "user", content: "Hello" }],\n});\nconsole.log(answer.choices[0].message.content);`,
    },
    { name: "Open WebUI", text: `OPENAI_API_BASE_URL=${v1}\nOPENAI_API_KEY=none` },
    {
      name: "Continue",
      text: `models:\n  - name: ${name}\n    provider: openai\n    model: ${name}\n    apiBase: ${v1}\n    apiKey: none`,
    },
  ];
}
