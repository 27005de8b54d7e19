import { keyNames } from "../key-names.ts";
import { bodyOf, paths, type Example } from "./example.ts";

export interface Snippet {
  readonly language: "curl" | "Python" | "TypeScript";
  /** What must be installed, and how the text is run. */
  readonly needs: string;
  readonly text: string;
}

/**
 * The same request as programs send it, ready to be pasted. `origin`: of the server, such as `http://localhost:8080`, with the path that it may be below. The
 * token is never written out: each program reads BERTH_TOKEN from its environment.
 */
export function snippetsOf(example: Example, origin: string): readonly Snippet[] {
  const hasSdk = example.kind !== "raw" && example.kind !== "rerank";
  return [
    { language: "curl", needs: "curl 7.76 or later, in a shell", text: curl(example, origin) },
    {
      language: "Python",
      needs: hasSdk ? "pip install openai; python3 request.py" : "nothing but Python: python3 request.py",
      text: hasSdk ? pythonSdk(example, origin) : pythonAlone(example, origin),
    },
    {
      language: "TypeScript",
      needs: hasSdk ? "npm install openai; Node 24: node request.mts" : "nothing but Node 24: node request.mts",
      text: hasSdk ? typeScriptSdk(example, origin) : typeScriptAlone(example, origin),
    },
  ];
}

type WithSdk = Exclude<Example, { readonly kind: "raw" | "rerank" }>;
type Alone = Extract<Example, { readonly kind: "raw" | "rerank" }>;

function curl(example: Example, origin: string): string {
  const authorization = keyNames.curl;
  if (example.kind === "raw") {
    const { method, url, body } = example;
    const head = `curl -sS -i --globoff${method === "GET" ? "" : ` -X ${method}`} ${quoted(url.href)}`;
    return lines([head, authorization, ...(body === undefined ? [] : [jsonType, `-d ${quoted(body)}`])]);
  }
  const at = quoted(`${origin}${paths[example.kind]}`);
  if (example.kind === "transcription") {
    const { model, fileName } = example;
    const file = `file=@"${fileName.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
    return lines([`curl -sS ${at}`, authorization, `-F ${quoted(file)}`, `--form-string ${quoted(`model=${model}`)}`]);
  }
  const data = `-d ${quoted(JSON.stringify(bodyOf(example)))}`;
  if (example.kind === "speech")
    return lines([`curl -sS --fail-with-body ${at}`, authorization, jsonType, data, "-o speech.mp3"]);
  if (example.kind === "images") {
    const parts = [`curl -sS --fail-with-body ${at}`, authorization, jsonType, data, "-o picture.json"];
    const unpack = `sed -E 's/.*"b64_json": *"([^"]*)".*/\\1/' picture.json | base64 -d > picture.png`;
    return `${lines(parts)} &&\n${unpack}`;
  }
  const isStream = example.kind === "chat" && example.stream;
  return lines([`curl -sS${isStream ? "N" : ""} ${at}`, authorization, jsonType, data]);
}

const jsonType = "-H 'content-type: application/json'";

function lines(parts: readonly string[]): string {
  return parts.join(" \\\n  ");
}

/** For a POSIX shell: nothing has a meaning between single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** JSON is also TypeScript, and its texts and numbers are also Python. */
const literal = (value: unknown): string => JSON.stringify(value);

function pythonLiteral(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value !== "object") return literal(value);
  return `{${Object.entries(Object(value))
    .map(([name, each]) => `${literal(name)}: ${pythonLiteral(each)}`)
    .join(", ")}}`;
}

/** The fields of a request, a line each: arguments of a call in Python, of an object in TypeScript. */
function fieldsOf(example: WithSdk, written: (name: string, value: unknown) => string): string {
  const fields = example.kind === "transcription" ? { model: example.model } : bodyOf(example);
  return Object.entries(fields)
    .map(([name, value]) => written(name, value))
    .join(", ");
}

function pythonSdk(example: WithSdk, origin: string): string {
  const imports = example.kind === "images" ? "import base64\nimport os" : "import os";
  const head = `${imports}
from openai import OpenAI

client = OpenAI(base_url=${literal(`${origin}/v1`)}, api_key=${keyNames.python})
`;
  const fields = fieldsOf(example, (name, value) => `${name}=${pythonLiteral(value)}`);
  switch (example.kind) {
    case "chat":
      return head + pythonChat(example, `client.chat.completions.create(${fields})`);
    case "embeddings":
      return `${head}answer = client.embeddings.create(${fields})
for item in answer.data:
    print(item.index, len(item.embedding), item.embedding[:4])
`;
    case "images":
      return `${head}answer = client.images.generate(${fields})
with open("picture.png", "wb") as file:
    file.write(base64.b64decode(answer.data[0].b64_json))
print("picture.png")
`;
    case "speech":
      return `${head}client.audio.speech.create(${fields}).write_to_file("speech.mp3")
print("speech.mp3")
`;
    case "transcription":
      return `${head}with open(${literal(example.fileName)}, "rb") as file:
    answer = client.audio.transcriptions.create(${fields}, file=file)
print(answer.text)
`;
    default:
      return example satisfies never;
  }
}

type ChatExample = Extract<Example, { readonly kind: "chat" }>;

function pythonChat({ stream, tools }: ChatExample, made: string): string {
  const says = (message: string): string =>
    tools === undefined ? `${message}.content` : `${message}.tool_calls or ${message}.content`;
  if (!stream) return `answer = ${made}\nprint(${says("answer.choices[0].message")})\n`;
  return `for chunk in ${made}:
    for choice in chunk.choices:
        print(${says("choice.delta")} or "", end="", flush=True)
print()
`;
}

function typeScriptChat({ stream, tools }: ChatExample, made: string): string {
  if (!stream)
    return `const answer = ${made};
const message = answer.choices[0]?.message;
console.log(${tools === undefined ? "message?.content" : "message?.tool_calls ?? message?.content"});
`;
  const calls = tools === undefined ? "" : "\n  if (delta?.tool_calls) console.log(JSON.stringify(delta.tool_calls));";
  return `for await (const { choices } of ${made}) {
  const delta = choices[0]?.delta;${calls}
  process.stdout.write(delta?.content ?? "");
}
console.log();
`;
}

function pythonAlone(example: Alone, origin: string): string {
  const { method, url, body } = requestOf(example, origin);
  const data = body === undefined ? "" : `\n    data=${literal(body)}.encode(),`;
  return `import os
import urllib.error
import urllib.request

request = urllib.request.Request(
    ${literal(url)},
    method=${literal(method)},${data}
    headers={
        "authorization": "Bearer " + (${keyNames.python}),
        "content-type": "application/json",
    },
)
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status)
print(answer.read().decode(errors="replace"))
`;
}

function typeScriptSdk(example: WithSdk, origin: string): string {
  const files = {
    chat: "",
    embeddings: "",
    images: 'import { writeFile } from "node:fs/promises";\n',
    speech: 'import { writeFile } from "node:fs/promises";\n',
    transcription: 'import { createReadStream } from "node:fs";\n',
  }[example.kind];
  const head = `${files}import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${literal(`${origin}/v1`)}, apiKey: ${keyNames.javascript} });
`;
  const fields = fieldsOf(example, (name, value) => `${name}: ${literal(value)}`);
  switch (example.kind) {
    case "chat":
      return head + typeScriptChat(example, `await client.chat.completions.create({ ${fields} })`);
    case "embeddings":
      return `${head}const answer = await client.embeddings.create({ ${fields} });
for (const { index, embedding } of answer.data) console.log(index, embedding.length, embedding.slice(0, 4));
`;
    case "images":
      return `${head}const answer = await client.images.generate({ ${fields} });
await writeFile("picture.png", Buffer.from(answer.data?.[0]?.b64_json ?? "", "base64"));
console.log("picture.png");
`;
    case "speech":
      return `${head}const answer = await client.audio.speech.create({ ${fields} });
await writeFile("speech.mp3", Buffer.from(await answer.arrayBuffer()));
console.log("speech.mp3");
`;
    case "transcription":
      return `${head}const file = createReadStream(${literal(example.fileName)});
const answer = await client.audio.transcriptions.create({ ${fields}, file });
console.log(answer.text);
`;
    default:
      return example satisfies never;
  }
}

function typeScriptAlone(example: Alone, origin: string): string {
  const { method, url, body } = requestOf(example, origin);
  const data = body === undefined ? "" : `\n  body: ${literal(body)},`;
  return `const response = await fetch(${literal(url)}, {
  method: ${literal(method)},
  headers: {
    authorization: \`Bearer \${${keyNames.javascript}}\`,
    "content-type": "application/json",
  },${data}
});
console.log(response.status);
console.log(await response.text());
`;
}

function requestOf(example: Alone, origin: string): { method: string; url: string; body: string | undefined } {
  if (example.kind === "raw") return { ...example, url: example.url.href };
  return { method: "POST", url: `${origin}${paths.rerank}`, body: JSON.stringify(bodyOf(example)) };
}
