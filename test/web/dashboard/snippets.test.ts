import assert from "node:assert/strict";
import { execFile, spawnSync } from "node:child_process";
import { readFile, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { addressOf, bodyOf, type Example } from "../../../web/dashboard/playground/example.ts";
import { snippetsOf, type Snippet } from "../../../web/dashboard/playground/snippets.ts";
import { listen } from "../../support/listen.ts";
import { tempDir } from "../../support/temp-dir.ts";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../../..", import.meta.url));
const python = process.env["BERTH_TEST_PYTHON"] ?? "python3";
const canRun = (program: string, ...args: readonly string[]): boolean => spawnSync(program, args).status === 0;
const hasCurl = canRun("curl", "--version");
const hasPython = canRun(python, "--version");
const hasOpenAi = hasPython && canRun(python, "-c", "import openai");

/** What ends a text or begins a command in one of the three languages. */
const nasty = "it's \"quoted\", $(id) `id` $HOME \\ \\n !! ${x} %s {y} é 🚢 \t';--";
const sound = Buffer.from("RIFF0000WAVE");
const picture = Buffer.from("a picture");

interface Seen {
  readonly method: string;
  readonly path: string;
  readonly authorization: string;
  readonly body: string;
}

/** Has what only JSON and TypeScript write as they do: true, false and null. */
const schema = {
  type: "object",
  additionalProperties: false,
  properties: { [nasty]: { enum: [nasty, null, true, 1.5] } },
};
const tools = [{ type: "function", function: { name: "tide", parameters: schema } }];
const chat = { kind: "chat", model: "m", system: nasty, question: nasty, temperature: "0.5" } as const;
const called = [{ index: 0, id: "1", type: "function", function: { name: "tide", arguments: '{"a":1}' } }];

const answers: Readonly<Record<string, string | Buffer>> = {
  "/v1/chat/completions": JSON.stringify({
    choices: [{ index: 0, message: { role: "assistant", tool_calls: called } }],
  }),
  "/v1/embeddings": JSON.stringify({ object: "list", data: [{ index: 0, embedding: "AACAPwAAAEA=" }] }),
  "/v1/rerank": JSON.stringify({ results: [] }),
  "/v1/images/generations": JSON.stringify({ created: 1, data: [{ b64_json: picture.toString("base64") }] }),
  "/v1/audio/speech": sound,
  "/v1/audio/transcriptions": JSON.stringify({ text: "heard" }),
  "/api/slots": JSON.stringify({ object: "list", data: [] }),
};

const deltas = [{ content: "one " }, { content: "two" }, { tool_calls: called }];
const streamed = [
  ...deltas.map((delta) => JSON.stringify({ choices: [{ index: 0, delta }] })),
  JSON.stringify({ choices: [], usage: { completion_tokens: 2 } }),
  "[DONE]",
]
  .map((data) => `data: ${data}\n\n`)
  .join("");

describe("a snippet of the playground, as pasted", () => {
  let seen: Seen[] = [];
  let server: Server;
  let origin: string;
  before(async () => {
    // A DOUBLE of the gateway: it notes what comes and answers as the routes do.
    server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        const { method = "", url = "", headers } = request;
        const body = Buffer.concat(parts).toString("latin1");
        seen.push({ method, path: url, authorization: headers.authorization ?? "", body });
        const answer = answers[url.split("?", 1)[0] ?? ""] ?? "{}";
        const isStream = body.includes('"stream":true');
        const type = typeof answer === "string" ? "application/json" : "audio/mpeg";
        response.setHeader("content-type", isStream ? "text/event-stream" : type);
        response.end(isStream ? streamed : answer);
      });
    });
    origin = `http://127.0.0.1:${await listen(server)}`;
  });
  after(() => {
    server.closeAllConnections();
    server.close();
  });

  const examples = (): readonly Example[] => [
    { ...chat, stream: false, schema, tools },
    { ...chat, stream: true, schema: undefined, tools },
    { kind: "embeddings", model: "embed", input: [nasty, "two"] },
    { kind: "rerank", model: "embed", query: nasty, documents: [nasty, "two"] },
    { kind: "images", model: "img", prompt: nasty, size: "256x256" },
    { kind: "speech", model: "tts", input: nasty, voice: "af_heart" },
    { kind: "transcription", model: "stt", fileName: 'it\'s a "talk" \\ of $HOME.wav' },
    { kind: "raw", method: "PUT", url: new URL("/api/slots?a=[1-3]&b='", origin), body: JSON.stringify({ nasty }) },
    { kind: "raw", method: "GET", url: new URL("/api/slots", origin), body: undefined },
  ];

  const runIn = async (directory: string, { language, text }: Snippet): Promise<string> => {
    const env = { ...process.env, BERTH_TOKEN: "svc_secret", NODE_OPTIONS: "" };
    const options = { cwd: directory, env, timeout: 120_000 };
    if (language === "curl") return (await run("sh", ["-c", text], options)).stdout;
    const file = join(directory, language === "Python" ? "request.py" : "request.mts");
    await writeFile(file, text);
    const program = language === "Python" ? python : process.execPath;
    return (await run(program, [file], options)).stdout;
  };

  for (const language of ["curl", "TypeScript", "Python"] as const) {
    it(`sends what the page sends, in ${language}`, async (t) => {
      if (language === "curl" && !hasCurl) return t.skip("no curl is here");
      if (language === "Python" && !hasPython) return t.skip("no python3 is here");
      for (const example of examples()) {
        const snippet = snippetsOf(example, origin).find((each) => each.language === language);
        assert.ok(snippet !== undefined);
        if (language === "Python" && /openai/.test(snippet.needs) && !hasOpenAi) {
          t.diagnostic(`${example.kind}: not run, Python has no package openai here (BERTH_TEST_PYTHON names another)`);
          continue;
        }
        await using directory = await tempDir();
        await symlink(join(root, "node_modules"), join(directory.path, "node_modules"));
        if (example.kind === "transcription") await writeFile(join(directory.path, example.fileName), sound);
        seen = [];
        const output = await runIn(directory.path, snippet);
        const [sent, ...more] = seen;
        assert.ok(sent !== undefined, `${example.kind}: ${output}`);
        assert.deepEqual(more, []);
        assert.equal(sent.authorization, "Bearer svc_secret", example.kind);
        const text = Buffer.from(sent.body, "latin1").toString();
        if (example.kind === "raw") {
          assert.deepEqual([sent.method, sent.path], [example.method, example.url.pathname + example.url.search]);
          assert.equal(text, example.body ?? "");
          assert.match(output, /200/);
        } else if (example.kind === "transcription") {
          assert.ok(text.includes(sound.toString()) && /name="?model"?\r\n\r\nstt\r\n/.test(text), text);
          assert.match(output, /heard/);
        } else {
          const body: unknown = JSON.parse(text);
          // The SDKs ask for vectors in base64, and unpack them.
          assert.deepEqual(
            { encoding_format: "", ...Object(body) },
            { encoding_format: encodingOf(body), ...bodyOf(example) },
          );
          if (example.kind === "chat" && example.stream) assert.match(output, /one [^]*two[^]*tide/);
          if (example.kind === "chat") assert.match(output, /tide/);
          if (example.kind === "images") assert.deepEqual(await readFile(join(directory.path, "picture.png")), picture);
          if (example.kind === "speech") assert.deepEqual(await readFile(join(directory.path, "speech.mp3")), sound);
        }
      }
    });
  }

  it("writes true, false and null as Python does", () => {
    const python = snippetsOf({ ...chat, stream: true, schema, tools: undefined }, origin)[1]?.text ?? "";
    assert.match(python, /"additionalProperties": False, .*, None, True, 1\.5\]/);
    assert.match(python, /stream=True/);
  });

  it("never has a token in it", () => {
    for (const example of examples())
      for (const { text } of snippetsOf(example, origin)) assert.match(text, /BERTH_TOKEN/);
  });
});

function encodingOf(body: unknown): unknown {
  return typeof body === "object" && body !== null && "encoding_format" in body ? body.encoding_format : "";
}

it("a path of the playground stays on its own server", () => {
  const here = new URL("http://berth.local:8080/");
  assert.equal(addressOf("/v1/models?x=1", here).href, "http://berth.local:8080/v1/models?x=1");
  assert.equal(addressOf("/v1/models", new URL("https://h/berth/")).href, "https://h/berth/v1/models");
  assert.equal(addressOf("/\t/evil.example", here).origin, here.origin);
  for (const path of ["", "v1", "//evil.example/x", "/\\evil.example", "http://evil.example/", "javascript:1"])
    assert.throws(() => addressOf(path, here), /begins with one slash/, path);
});
