import type { SlotView } from "../../src/api/management/views.ts";
import { token } from "../shared/api.ts";
import { keyNames } from "./key-names.ts";

interface ClientLines {
  readonly name: string;
  readonly text: string;
}

/** A request as a line for a shell, with the key that this Berth asks for. */
export function curlTo(address: string, body: string): string {
  const key = token.value === undefined ? "" : ` ${keyNames.curl}`;
  const quoted = body.replaceAll("'", String.raw`'\''`);
  return `curl ${address}${key} -H 'content-type: application/json' \\\n  -d '${quoted}'`;
}

/**
 * The lines that a person pastes into a client to reach a slot that chats, by the address that this page has. Where the
 * page itself has a token, a client needs one too.
 */
export function linesFor(
  { name, capabilities }: Pick<SlotView, "name" | "capabilities">,
  v1: string,
): readonly ClientLines[] {
  if (!capabilities.some((each) => each === "chat")) return [{ name: "Address", text: `${v1}\nmodel: ${name}` }];
  const isAsked = token.value !== undefined;
  const key = isAsked ? "svc_…" : "none";
  const body = `{"model":"${name}","messages":[{"role":"user","content":"Hello"}]}`;
  return [
    { name: "curl", text: curlTo(`${v1}/chat/completions`, body) },
    {
      name: "Python",
      text: `${isAsked ? "import os\n" : ""}from openai import OpenAI\n\nclient = OpenAI(base_url="${v1}", api_key=${isAsked ? keyNames.python : '"none"'})\nanswer = client.chat.completions.create(\n    model="${name}", messages=[{"role": "user", "content": "Hello"}]\n)\nprint(answer.choices[0].message.content)`,
    },
    {
      name: "JavaScript",
      text: `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${v1}", apiKey: ${isAsked ? keyNames.javascript : '"none"'} });\nconst answer = await client.chat.completions.create({\n  model: "${name}",\n  messages: [{ role: "user", content: "Hello" }],\n});\nconsole.log(answer.choices[0].message.content);`,
    },
    { name: "Open WebUI", text: `OPENAI_API_BASE_URL=${v1}\nOPENAI_API_KEY=${key}` },
    {
      name: "Continue",
      text: `models:\n  - name: ${name}\n    provider: openai\n    model: ${name}\n    apiBase: ${v1}\n    apiKey: ${key}`,
    },
  ];
}
