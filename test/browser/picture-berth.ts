import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { firstAnswer, firstModel } from "../../hack/first-model.ts";
import { writeTinyModel } from "../../hack/tiny-model.ts";
import { isRecord } from "../../src/lib/record.ts";
import { startProvider } from "../doubles/provider.ts";
import { startBerth, type RunningBerth } from "../support/berth.ts";
import { until } from "../support/until.ts";

/** A Berth for pictures: slots on the embedded engine and on a DOUBLE, a failed one, a group, a provider, and callers. */

const wordCount = `Read the file **line by line**, so that its size does not matter:

\`\`\`python
from collections import Counter

def count_words(path: str) -> Counter[str]:
    words: Counter[str] = Counter()
    with open(path, encoding="utf-8") as file:
        for line in file:
            words.update(line.lower().split())
    return words
\`\`\`

1. \`split()\` without an argument takes any white space.
2. \`Counter.most_common(10)\` then gives the **ten** most frequent words.
`;

const backups = `Three questions decide it:

- How much work may be lost? That is the time between two backups.
- How long may a restore take? Try it once, and write the time down.
- Who else can read the copy? Encrypt it, and keep the key elsewhere.
`;

/** Streams an answer that was written by hand; of \`max_tokens\` pieces at most. */
const program = `
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
const answers = ${JSON.stringify([wordCount, backups].map((answer) => answer.match(/\S*\s+/g) ?? []))};
const event = (delta) => "data: " + JSON.stringify({ id: "1", object: "chat.completion.chunk", model: "m", choices: [{ index: 0, delta }] }) + "\\n\\n";
createServer(async (request, response) => {
  if (request.method === "GET") return response.end("ok");
  const asked = JSON.parse(await text(request));
  const pieces = answers[/backup/i.test(JSON.stringify(asked.messages.at(-1))) ? 1 : 0].slice(0, asked.max_tokens ?? 500);
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(event({ reasoning_content: "A large file must not be read at once." }));
  let next = 0;
  const timer = setInterval(() => {
    if (next < pieces.length) return response.write(event({ content: pieces[next++] }));
    clearInterval(timer);
    response.end("data: [DONE]\\n\\n");
  }, 40);
  response.once("close", () => clearInterval(timer));
}).listen(Number(process.env.PORT), process.env.HOST);
`;

export interface PictureBerth extends AsyncDisposable {
  readonly berth: RunningBerth;
  /** The steps of 5 s since the first request. */
  steps(): Promise<number>;
}

/** Starts it, and calls its slots until it is disposed of. */
export async function pictureBerth(): Promise<PictureBerth> {
  await using stack = new AsyncDisposableStack();
  const provider = stack.use(await startProvider({ models: ["big", "big-mini"], tokenMs: 400 }));
  const berth = stack.use(
    await startBerth({ prepare: (directories) => prepare({ ...directories, providerUrl: provider.baseUrl }) }),
  );
  for (const name of ["primary", "embed", "coder"]) await berth.state(name, "ready", "idle", "serving");
  await until("the memory is measured", async () => (await berth.slot("primary"))["memory"] !== null);
  await until("the provider's models are known", async () =>
    JSON.stringify(await berth.get("/v1/models")).includes("acme/big-mini"),
  );
  await fetch(`${berth.url}/api/install/complete`, { method: "POST" });
  const stopping = new AbortController();
  const calling = callers(berth.url, stopping.signal);
  stack.defer(async () => {
    stopping.abort();
    await calling;
  });
  const owned = stack.move();
  return {
    berth,
    async steps() {
      const traffic = await berth.get("/api/traffic?minutes=15");
      const series = isRecord(traffic) && Array.isArray(traffic["series"]) ? traffic["series"] : [];
      const lengths = series.map((each: unknown) => {
        const requests = isRecord(each) && Array.isArray(each["requests"]) ? each["requests"] : [];
        const first = requests.findIndex((count) => count > 0);
        return first === -1 ? 0 : requests.length - first;
      });
      return Math.max(0, ...lengths);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function prepare(at: { configDir: string; modelsDir: string; providerUrl: string }): Promise<void> {
  await writeTinyModel(join(at.modelsDir, "tiny.gguf"), { ...firstModel, name: "tiny" });
  await writeTinyModel(join(at.modelsDir, "tiny-embed.gguf"), { embedding: true });
  const double = join(at.modelsDir, "double.mjs");
  await writeFile(double, program);
  const command = `engine = "custom"\ncommand = ${JSON.stringify([process.execPath, double])}\n`;
  const inGroup = `group = "desk"\nresources.memory_bytes = ${600 * 1024 ** 2}\n`;
  const files = {
    "slots/primary.toml": '# The model that answers chats.\naliases = ["gpt-4o"]\n\n[model]\ndefault = "tiny"\n',
    "slots/embed.toml": '[model]\ndefault = "tiny-embed"\n',
    "slots/coder.toml": `aliases = ["code"]\n${inGroup}${command}`,
    "slots/writer.toml": `load = "onDemand"\n${inGroup}${command}`,
    "slots/scout.toml": '[model]\ndefault = "scout-8b"\n',
    "groups/desk.toml": `[budget]\nmemory_bytes = ${2 * 1024 ** 3}\n`,
    "upstreams/acme.yaml": `baseUrl: ${at.providerUrl}\nauth:\n  type: none\ndiscover:\n  prefix: acme/\n`,
  };
  for (const [file, text] of Object.entries(files)) {
    await mkdir(join(at.configDir, file, ".."), { recursive: true });
    await writeFile(join(at.configDir, file), text);
  }
}

/** The engines set the pace: three callers, each of which asks anew once it has its answer. */
async function callers(url: string, signal: AbortSignal): Promise<void> {
  const post = async (path: string, body: Readonly<Record<string, unknown>>): Promise<void> => {
    const init = {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    };
    await fetch(url + path, init)
      .then((answer) => answer.text())
      .catch(() => "");
  };
  const chat = (model: string, content: string, tokens: number): Promise<void> =>
    post("/v1/chat/completions", { model, stream: true, max_tokens: tokens, messages: [{ role: "user", content }] });
  const repeat = async (round: (count: number) => Promise<void>): Promise<void> => {
    for (let count = 0; !signal.aborted; count += 1) await round(count);
  };
  await Promise.all([
    repeat(async (count) => {
      await chat("coder", "Count the words of a large file.", 20 + ((count * 17) % 60));
      if ((count * count) % 41 === 5) await chat("scout", "Which of these is newer?", 10);
    }),
    repeat(async (count) => {
      await chat("acme/big", "Hello", 20);
      // More of them at some times than at others.
      const wave = Math.max(0, Math.round(1.5 + 1.5 * Math.sin(count / 23) + Math.sin(count / 3)));
      await Promise.all(Array.from({ length: wave }, () => chat("primary", firstAnswer, 80)));
    }),
    repeat(async (count) => {
      await chat("code", "Plan the backups.", 30 + ((count * 11) % 40));
      await post("/v1/embeddings", { model: "embed", input: "a sentence" });
    }),
  ]);
}
